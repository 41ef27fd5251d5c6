"""Whole runs of a few scenarios on the frozen simulated device, for tests that want a row rather than a Plan."""

from __future__ import annotations

from pathlib import Path

from runner.device.contract import DeviceFacts
from runner.flow import RunOutcome, run_experiment
from runner.forecast import Forecast
from runner.measure.result import CaseResult
from runner.spec.load import LoadedExperiment, load_experiment

HEADER = """
name: small
question: What does one row say?
device: simulated:test
measure: {warmup: 1, samples: 2}
scenarios:
"""


class Silent:
    """Listens and says nothing."""

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None: ...

    def foreseen(self, forecast: Forecast) -> None: ...

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None: ...

    def finished(self, outcome: RunOutcome) -> None: ...


def run(tmp_path: Path, scenarios: str, device: str | None = None) -> RunOutcome:
    """Run `scenarios`, lines of YAML indented by two blanks, on the test profile or another device."""
    path = tmp_path / "small.yaml"
    path.write_text(HEADER + scenarios)
    return run_experiment(load_experiment(path), device=device, out=tmp_path / "out", max_cases=100, watcher=Silent())
