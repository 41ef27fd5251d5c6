"""A run as a comparison needs it: every case with what identifies it, and the raw times of the figure that it is compared by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runner.columns import AXES, TIMES, own_columns
from runner.errors import InputError, UsageError
from runner.scenarios import SCENARIOS
from runner.scenarios.base import Cell
from runner.spec.load import load_experiment
from runner.two_samples import Times
from runner.units import format_size

if TYPE_CHECKING:
    import pandas as pd

    from runner.results import Results

TIME_UNITS: Final = ("ms", "us")
SETTINGS: Final[Mapping[str, str]] = {"placement": "where thread and memory were kept", "wait": "how threads wait"}
"""Columns of how a run was made, each with what it says."""
SENTINEL_METRIC: Final = "event_ms"
_ROLES: Final = ("sample", "engine")
"""Whose plays count: the samples, and for what only recorded plays have, those."""


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """One case of a run: `cells` are its axes and other fields by column, `times` is None where it has no number.

    `metric` names the figure whose samples `times` are, in `unit`. `row` is its place in summary.csv, from 0.
    """

    case_id: str
    scenario: str
    row: int
    cells: Mapping[str, Cell]
    status: str
    reason: str
    flags: str
    metric: str
    unit: str
    times: Times | None

    def identity(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what the case is by its scenario and these columns, as text."""
        return (self.scenario, *("" if (cell := self.cells.get(name)) is None else str(cell) for name in columns))


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run: `cases` by case_id in the order of its grid, `sentinel` the times of its fixed small copy (ms), None without.

    `columns` are those of its tables that say what a case is, `settings` the values of SETTINGS that it has (joined by commas).
    `foreign_rows` counts rows of other runs in its table, which are left out, `doubts` are those of reading it.
    """

    run_id: str
    folder: Path
    experiment: str
    device: str
    device_kind: str
    started: str
    manifest: Mapping[str, Any]
    columns: tuple[str, ...]
    cases: Mapping[str, ComparedCase]
    sentinel: Times | None
    settings: Mapping[str, str]
    foreign_rows: int = 0
    doubts: tuple[str, ...] = ()


def compared_run(results: Results, metric: str | None = None) -> ComparedRun:
    """Return a run by its results; `metric` is a time of `runner.columns.TIMES`, None for each case's own.

    A case's own is the time by `measure.clock`, else by the clock of its kind. Raises UsageError for a metric that is no time.
    """
    if metric is not None and (metric not in TIMES or TIMES[metric][0] not in TIME_UNITS):
        times = ", ".join(name for name, (unit, _) in TIMES.items() if unit in TIME_UNITS)
        raise UsageError(f"{metric!r} is no time that a sample can have; allowed: {times}")
    clock = None if metric else _clock_of(results)
    run_id = str(results.manifest.get("run_id") or _first(results.summary, "run_id") or results.folder.name)
    summary, samples = _of_run(results.summary, run_id), _of_run(results.samples, run_id)
    raw = _raw_times(samples)
    columns = tuple(column.name for column in (*AXES, *own_columns()) if column.name in summary)
    cases = {}
    for place, row in enumerate(_rows(summary, ("case_id", "scenario", "status", "reason", "flags", "stopped_by", *columns))):
        case_id = str(row["case_id"])
        own = metric or f"{clock or _clock_of_kind(row)}_ms"
        values = raw.get((case_id, own), []) if row["status"] == "ok" else []
        cases[case_id] = ComparedCase(
            case_id,
            str(row["scenario"]),
            place,
            {name: row[name] for name in columns if row[name] is not None},
            str(row["status"] or ""),
            str(row["reason"] or ""),
            str(row["flags"] or ""),
            own,
            TIMES[own][0],
            times_or_none(values, exact=row.get("stopped_by") == "deterministic"),
        )
    device = results.manifest.get("device") or {}
    return ComparedRun(
        run_id=run_id,
        folder=results.folder,
        experiment=str(results.manifest.get("experiment") or _first(summary, "experiment")),
        device=str(device.get("name") or _first(summary, "device")),
        device_kind=str(device.get("kind") or _first(summary, "device_kind")),
        started=str(results.manifest.get("started_utc") or ""),
        manifest=results.manifest,
        columns=columns,
        cases=cases,
        sentinel=times_or_none(_sentinel(samples)),
        settings={name: ", ".join(sorted({str(each) for each in summary[name] if each})) for name in SETTINGS if name in summary},
        foreign_rows=len(results.summary) - len(summary),
        doubts=results.doubts,
    )


def times_or_none(values: Sequence[float], *, exact: bool = False) -> Times | None:
    """Return values as times; None where there are none, or where one is not above 0."""
    good = [value for value in values if math.isfinite(value)]
    return Times.of(good, exact=exact) if good and min(good) > 0 else None


def label_of(case: ComparedCase, varying: Sequence[str]) -> str:
    """Say which case it is: its scenario, and what it has in the columns that vary."""
    texts = []
    for name in varying:
        cell = case.cells.get(name)
        if cell is not None and cell != "":
            # A word such as pinned says by itself what it is of.
            texts.append(cell if isinstance(cell, str) else f"{name.removesuffix('_bytes')} {_shown(name, cell)}")
    return " ".join([case.scenario, *texts])


def varying_columns(run: ComparedRun) -> Mapping[str, tuple[str, ...]]:
    """Return for each scenario of a run the columns that have more than one value among its cases, none that repeats another."""
    seen: dict[str, dict[str, list[Cell]]] = {}
    for case in run.cases.values():
        found = seen.setdefault(case.scenario, {})
        for name in run.columns:
            found.setdefault(name, []).append(case.cells.get(name))
    varying: dict[str, tuple[str, ...]] = {}
    for scenario, found in seen.items():
        distinct = {tuple(cells): name for name, cells in reversed(found.items()) if len(set(cells)) > 1}
        varying[scenario] = tuple(reversed(distinct.values()))
    return varying


def _shown(column: str, cell: Cell) -> str:
    return format_size(cell) if column.endswith("_bytes") and isinstance(cell, int) else str(cell)


def _clock_of(results: Results) -> str | None:
    """Return the clock that the run's file asked for; None where it asked for none, or is of a version that cannot be read."""
    path = results.folder / "experiment.yaml"
    try:
        return load_experiment(str(path), list(results.manifest.get("overrides") or [])).experiment.measure.clock
    except (InputError, OSError):
        return None


def _clock_of_kind(row: Mapping[str, Cell]) -> str:
    model = SCENARIOS.get(str(row.get("kind")))
    return "wall" if model is None else model.CLOCK


def _raw_times(samples: pd.DataFrame) -> Mapping[tuple[str, str], list[float]]:
    """Return the raw values of each case and time: of its samples, or where these have none of its recorded plays."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {role: {} for role in _ROLES}
    times = [name for name, (unit, _) in TIMES.items() if unit in TIME_UNITS and name in samples and samples[name].notna().any()]
    for row in _rows(samples[samples["role"].isin(_ROLES)], ("case_id", "role", *times)):
        kept = found[str(row["role"])]
        for name in times:
            value = row[name]
            if isinstance(value, int | float):
                kept.setdefault((str(row["case_id"]), name), []).append(float(value))
    return {**found["engine"], **found["sample"]}


def _of_run(table: pd.DataFrame, run_id: str) -> pd.DataFrame:
    """Return the rows of a run: somebody may have put tables under each other."""
    return table[table["run_id"] == run_id] if "run_id" in table else table


def _sentinel(samples: pd.DataFrame) -> list[float]:
    own = samples[samples["role"] == "sentinel"]
    return [float(value) for value in own[SENTINEL_METRIC].dropna()] if SENTINEL_METRIC in own else []


def _first(table: pd.DataFrame, column: str) -> str:
    return str(table[column].iloc[0]) if column in table and len(table) else ""


def _rows(table: pd.DataFrame, columns: Sequence[str]) -> Iterator[dict[str, Cell]]:
    """Yield the rows of a table as plain cells; a missing number is None, a column that the table lacks is left out."""
    names = [name for name in columns if name in table]
    plain = [table[name].astype(object).where(table[name].notna(), None).tolist() for name in names]
    for cells in zip(*plain, strict=True):
        yield dict(zip(names, cells, strict=True))
