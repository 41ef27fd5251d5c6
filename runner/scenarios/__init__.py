"""Scenario kinds: one file a kind, each with its YAML model, its Plan and its figures. A new kind is its file and a line here."""

from typing import Final

from runner.scenarios.access import InPlace
from runner.scenarios.allocation import Allocation
from runner.scenarios.base import Scenario
from runner.scenarios.blocking import Blocking
from runner.scenarios.concurrency import Concurrency
from runner.scenarios.hazard import Hazard
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.pressure import Pressure
from runner.scenarios.submission import Submission
from runner.scenarios.transfer import Transfer

SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "transfer": Transfer,
    "pipeline": Pipeline,
    "concurrency": Concurrency,
    "blocking": Blocking,
    "submission": Submission,
    "allocation": Allocation,
    "access": InPlace,
    "hazard": Hazard,
    "pressure": Pressure,
}
