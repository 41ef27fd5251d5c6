"""Finished runs of the simulated device for the tests of calibration and of predictions."""

from __future__ import annotations

from pathlib import Path

from runner.flow import run_experiment
from runner.observed import ObservedRun, read_observed
from runner.spec.load import load_experiment
from tests.scenarios.runs import Silent


def observed(text: str, folder: Path, device: str | None = None) -> ObservedRun:
    """Run a file's text in a folder, on its own device or another, and read the run back."""
    path = folder / "asked.yaml"
    path.write_text(text, encoding="utf-8")
    outcome = run_experiment(load_experiment(path), device=device, out=folder, max_cases=1000, watcher=Silent())
    return read_observed(outcome.folder)
