"""The fleet view: the same case on many GPUs, held against the fleet's median; read from the tables of their runs, row by row."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from runner.fleet_rule import Centre, centre_of
from runner.rows import Row
from runner.stats import median

Word = Literal["ok", "outlier", "undecided"]
_KEPT: Final = (
    "run_id",
    "experiment",
    "scenario",
    "case_id",
    "status",
    "flags",
    "device",
    "device_kind",
    "host",
    "gpu_uuid",
    "pci_bus_id",
)


@dataclass(frozen=True, slots=True)
class Value:
    """One case on one GPU: its row of summary.csv without what the fleet does not need; `value` in ms, None where it has none."""

    row: Row
    metric: str
    value: float | None


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU among the others: how many of its cases are outliers, and the median deviation of all its cases in percent."""

    run_id: str
    where: tuple[str, str, str]
    cases: int
    outliers: int
    deviation_percent: float | None
    worst: str
    verdict: Word


@dataclass(frozen=True, slots=True)
class FleetView:
    """All cases of all GPUs, and the GPUs."""

    rows: tuple[Row, ...]
    gpus: tuple[GpuView, ...]

    @property
    def outliers(self) -> list[GpuView]:
        """The GPUs that are outliers in at least one case."""
        return [gpu for gpu in self.gpus if gpu.verdict == "outlier"]


def values_of(summary: Path, metrics: dict[str, str]) -> Iterator[Value]:
    """Yield the cases of one GPU's summary.csv that were asked for; `metrics` gives the compared column of each scenario."""
    with summary.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] != "excluded":
                metric = metrics[row["scenario"]]
                cell = row.get(metric) if row["status"] == "ok" else ""
                yield Value({name: row[name] for name in _KEPT}, metric, float(cell) if cell else None)


def view_of(values: Iterable[Value]) -> FleetView:
    """Hold each value against those of the same case on the other GPUs."""
    by_case: dict[str, list[Value]] = {}
    for value in values:
        by_case.setdefault(str(value.row["case_id"]), []).append(value)
    rows = [row for same in by_case.values() for row in _judged(same)]
    by_run: dict[str, list[Row]] = {}
    for row in rows:
        by_run.setdefault(str(row["run_id"]), []).append(row)
    return FleetView(tuple(rows), tuple(_gpu(_where(own), own) for own in by_run.values()))


def _where(rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return which GPU a run's rows are of; those of cases that it did not come to name none."""
    named = next((row for row in rows if row["gpu_uuid"]), rows[0])
    return str(named["host"]), str(named["gpu_uuid"]), str(named["pci_bus_id"])


def _judged(same: Sequence[Value]) -> Iterator[Row]:
    known = [each.value for each in same if each.value is not None]
    centre = centre_of(known) if known else None
    for each in same:
        cells: Row = {"compared": each.metric, "gpus": len(known), "fleet_verdict": _verdict(each.value, centre)}
        yield {**each.row, **cells, **(_figures(each.value, centre) if centre is not None else {})}


def _verdict(value: float | None, centre: Centre | None) -> Word:
    if value is None or centre is None or not centre.can_tell:
        return "undecided"
    return "outlier" if centre.is_outlier(value) else "ok"


def _figures(value: float | None, centre: Centre) -> dict[str, float]:
    if not centre.median:
        return {"fleet_median": centre.median}
    own = {} if value is None else {"fleet_value": value, "deviation_percent": 100 * (value / centre.median - 1)}
    return {**own, "fleet_median": centre.median, "limit_percent": 100 * centre.limit / centre.median}


def _gpu(where: tuple[str, str, str], rows: Sequence[Row]) -> GpuView:
    known = [(float(deviation), row) for row in rows if isinstance(deviation := row.get("deviation_percent"), float)]
    words = [str(row["fleet_verdict"]) for row in rows]
    far, worst = max(known, key=lambda each: abs(each[0]), default=(0.0, None))
    told = "" if worst is None else f"{worst['scenario']} {worst['case_id']} {far:+.1f} %"
    verdict: Word = "outlier" if "outlier" in words else "ok" if "ok" in words else "undecided"
    middle = median([deviation for deviation, _ in known]) if known else None
    return GpuView(str(rows[0]["run_id"]), where, len(rows), words.count("outlier"), middle, told, verdict)
