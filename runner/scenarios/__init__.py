"""Scenario kinds: one file a kind, each with its YAML model, its Plan and its figures. A new kind is its file and a line here."""

from typing import Final

from runner.scenarios.base import Scenario
from runner.scenarios.hazard import Hazard
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.pressure import Pressure
from runner.scenarios.transfer import Transfer

SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "transfer": Transfer,
    "pipeline": Pipeline,
    "hazard": Hazard,
    "pressure": Pressure,
}
