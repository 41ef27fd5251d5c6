"""A finished run as cases with what was measured of each: what calibration fits to and predictions are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runner.errors import InputError
from runner.expand import Case, expand
from runner.results import read_results
from runner.spec.load import LoadedExperiment, load_experiment

_MEDIAN: Final = "median_"
_LEG: Final = "leg_"


@dataclass(frozen=True, slots=True)
class Observation:
    """One case that went well: `figures` are its medians by their own names (`wall_ms`, `call_us`) and its legs (`leg_h2d_ms`).

    `spreads` are half the distances from the 5th to the 95th percentile over the median, of each figure that has them, and `lows`
    the 5th percentiles.
    """

    case: Case
    figures: Mapping[str, float]
    spreads: Mapping[str, float]
    lows: Mapping[str, float]
    flags: str


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """A run: its experiment as it was run, its manifest, and its cases that went well."""

    folder: Path
    loaded: LoadedExperiment
    manifest: Mapping[str, Any]
    observations: tuple[Observation, ...]

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return str(self.manifest.get("run_id", ""))

    @property
    def device(self) -> str:
        """Return the device's name."""
        return self.environment("name")

    @property
    def simulated_by(self) -> str:
        """Return the profile by which it was simulated, empty for a measured run."""
        return self.device.partition("simulated:")[2]

    def environment(self, name: str) -> str:
        """Return a fact that the manifest tells of the device, such as its driver; empty where it does not."""
        return str(self._described().get(name) or "")

    def _described(self) -> Mapping[str, Any]:
        described = self.manifest.get("device")
        return described if isinstance(described, Mapping) else {}


def read_observed(path: str | Path) -> ObservedRun:
    """Read a run's folder, or the newest run of an experiment's folder.

    Raises InputError where there is no run, or one whose experiment does not lie beside its tables (a run of several files).
    """
    results = read_results(path)
    file = results.folder / "experiment.yaml"
    if not file.is_file():
        raise InputError(
            f"{results.folder} holds no experiment.yaml, so its cases cannot be played again; give a run of one file"
        )
    loaded = load_experiment(file, [str(each) for each in results.manifest.get("overrides", ())])
    rows = {str(row["case_id"]): row for row in results.summary.to_dict("records")}
    observations = tuple(
        _observation(case, rows[case.case_id])
        for case in expand(loaded)
        if case.case_id in rows and rows[case.case_id]["status"] == "ok"
    )
    return ObservedRun(results.folder, loaded, results.manifest, observations)


def _observation(case: Case, row: Mapping[Any, Any]) -> Observation:
    numbers = {str(name): float(value) for name, value in row.items() if _is_number(value)}
    figures = {name.removeprefix(_MEDIAN): value for name, value in numbers.items() if name.startswith((_MEDIAN, _LEG))}
    spreads = {
        name: (numbers[f"p95_{name}"] - numbers[f"p05_{name}"]) / 2 / median
        for name, median in figures.items()
        if median > 0 and f"p05_{name}" in numbers and f"p95_{name}" in numbers
    }
    lows = {name: numbers[f"p05_{name}"] for name in figures if f"p05_{name}" in numbers}
    return Observation(case, figures, spreads, lows, str(row.get("flags") or ""))


def _is_number(value: object) -> bool:
    """Whether a cell holds a number: the marker of a missing one is no float, and a NaN is not itself."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
