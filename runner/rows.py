"""The rows of the tables as plain mappings from column name to cell: every figure is derived here, from raw samples."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from runner.columns import TIMES
from runner.expand import Case
from runner.measure.engine import figures_of
from runner.measure.result import CaseResult
from runner.scenarios.base import Cell, Clock
from runner.stats import Spread, drift, interval_percent, median, outliers, spread

if TYPE_CHECKING:
    from runner.verdicts import Verdict  # which judges by these rows

Row = Mapping[str, Cell]

NO_SPREAD: Final = Spread(0)
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes for the begin of a formula; the wide forms are, where Chinese or Japanese is written."""
_GIB_PER_GB: Final = 10**9 / 2**30


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What all rows of a run have in common.

    `baseline` is the scenario that speedups refer to, None where there is none. `clock` gives the rates; where it is None each
    kind's own does. `link_gb_per_s` is the limit of the device's link in one direction, None where it is unknown. `placement` and
    `wait` are where the thread and its memory were kept and how it waited, empty on a simulated device.
    """

    run_id: str
    experiment: str
    device: str
    device_kind: str
    baseline: str | None = None
    clock: Clock | None = None
    link_gb_per_s: float | None = None
    placement: str = ""
    wait: str = ""


def summary_rows(run: RunInfo, results: Sequence[CaseResult]) -> list[Row]:
    """Return one row a case, in the order of the results, with the columns of `summary_columns`; absent cells are empty."""
    return list(each_summary_row(run, results))


def each_summary_row(run: RunInfo, results: Sequence[CaseResult]) -> Iterator[Row]:
    """Yield the rows of `summary_rows` one by one: a row takes several times the memory of the result that it tells."""
    baseline = _Baseline(run.baseline, results, run.clock)
    for result in results:
        spread_of = _spreads(result)
        yield (
            _lead(run, result)
            | {**result.where}
            | {
                "placement": run.placement,
                "wait": run.wait,
                "memory_actual": result.memory_actual,
                "host_copier": result.host_copier,
                "timeline_source": result.timeline_source if result.samples else None,
                "corrupt_bytes": _corrupt_bytes(result),
            }
            | _sampling(result, run.clock or result.case.model.CLOCK)
            | _statistics(spread_of)
            | (_rates(result, spread_of, run) if result.status == "ok" else {})
            | (dict(result.derived) if result.status == "ok" else {})
            | baseline.speedup_of(result, spread_of)
        )


def _corrupt_bytes(result: CaseResult) -> int | None:
    """Return how many bytes were wrong; None where none was compared: nothing ran, or a fault ended the play first."""
    faulted = bool(result.reason) and any(sample.figures.get("faulted") for sample in result.samples)
    return result.corrupt_bytes if result.corrupt_bytes or (result.samples and not faulted) else None


def sample_rows(run: RunInfo, results: Iterable[CaseResult]) -> Iterator[Row]:
    """Yield one row a play, warm-ups too, with the columns of `sample_columns`."""
    for result in results:
        lead = _lead(run, result) | {**result.where}
        for sample in (*result.companions, *result.samples):
            taken: dict[str, Cell] = {"role": sample.role, "sample": sample.index, "round": sample.round, "order": sample.order}
            yield lead | taken | {"block": result.block} | dict(sample.figures)


def case_rows(run: RunInfo, cases: Iterable[Case]) -> Iterator[Row]:
    """Yield one row a case of the grid, with the columns of `case_columns`."""
    for case in cases:
        yield {"run_id": run.run_id, "experiment": run.experiment, **_of_case(case), "excluded": case.excluded}


def verdict_rows(run: RunInfo, verdicts: Iterable[Verdict]) -> Iterator[Row]:
    """Yield one row an expectation of the file, with the columns of `verdict_columns`."""
    for verdict in verdicts:
        yield {
            "run_id": run.run_id,
            "experiment": run.experiment,
            "device": run.device,
            "device_kind": run.device_kind,
            **asdict(verdict),
        }


def number(cell: Cell) -> int | float | None:
    """Return what a numeric cell holds: a whole number as it is, another with 15 significant digits, None for no number.

    Raises TypeError for text and for a truth value.
    """
    if type(cell) is float:  # most are, and the other questions take longer than the answer
        return float(f"{cell:.15g}") if math.isfinite(cell) else None
    if cell is None or cell == "":
        return None
    if isinstance(cell, bool | str):
        raise TypeError(f"{cell!r} is no number, but its column holds numbers")
    if isinstance(cell, int):
        return cell
    return float(f"{cell:.15g}") if math.isfinite(cell) else None


@lru_cache(maxsize=1024, typed=True)
def text(cell: Cell) -> str:
    """Return what a text cell holds: one line, none that a spreadsheet takes for a formula; empty for None.

    Control characters become blanks, and a text that would start a formula (= + - @) gets an apostrophe before it.
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    line = str(cell)
    if not line.isprintable():
        line = "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in line)
    line = line.strip()
    return f"'{line}" if line.startswith(FORMULA_STARTS) else line


def _lead(run: RunInfo, result: CaseResult) -> dict[str, Cell]:
    return {
        "run_id": run.run_id,
        "experiment": run.experiment,
        **_of_case(result.case),
        "status": result.status,
        "reason": result.reason,
        "flags": " ".join(result.flags),
        "device": run.device,
        "device_kind": run.device_kind,
    }


def _of_case(case: Case) -> dict[str, Cell]:
    return {"scenario": case.scenario, "case_id": case.case_id, **case.model.columns()}


def _spreads(result: CaseResult) -> dict[str, Spread]:
    present = {name for sample in result.samples for name in sample.figures}
    # Most figures belong to other kinds: looking for their values would take longer than all else of a row.
    return _NO_SPREADS | {name: _spread_of(result, name) for name in TIMES if name in present}


def _spread_of(result: CaseResult, name: str) -> Spread:
    return spread(figures_of(result.samples, name), deterministic=result.deterministic)


def _sampling(result: CaseResult, clock: Clock) -> dict[str, Cell]:
    """Return how a case was sampled, and what its samples say of the machine rather than of the case."""
    cells: dict[str, Cell] = {
        "samples": sum(sample.role == "sample" for sample in result.samples),
        "warmups": sum(sample.role == "warmup" for sample in result.samples) if result.samples else None,
        "stopped_by": result.stopped_by,
        "block": result.block,
    }
    name = f"{clock}_ms"
    played = [sample for sample in result.samples if name in sample.figures]
    times = [sample.figures[name] for sample in played if sample.role == "sample"]
    if times and not result.deterministic:
        width, middle = interval_percent(times), median(times)
        cells |= {
            "noise_percent": None if width is None else width / 2,
            "drift": drift(times),
            "outliers": outliers(times),
            "first_over_median": played[0].figures[name] / middle if middle else None,
        }
    return cells


def _statistics(spreads: Mapping[str, Spread]) -> dict[str, Cell]:
    cells = dict(_NO_STATISTICS)
    for name, of in spreads.items():
        if of.count:
            cells |= _statistics_of(name, of)
    return cells


def _statistics_of(name: str, of: Spread) -> dict[str, Cell]:
    return {
        f"median_{name}": of.median,
        f"min_{name}": of.minimum,
        f"p05_{name}": of.p05,
        f"p95_{name}": of.p95,
        f"ci_low_{name}": of.ci_low,
        f"ci_high_{name}": of.ci_high,
    }


_NO_SPREADS: Final = dict.fromkeys(TIMES, NO_SPREAD)
_NO_STATISTICS: Final = {column: cell for name in TIMES for column, cell in _statistics_of(name, NO_SPREAD).items()}


def _rates(result: CaseResult, spreads: Mapping[str, Spread], run: RunInfo) -> dict[str, Cell]:
    model = result.case.model
    if not model.RATED:
        return {}
    rate = _gb_per_s(model.payload_bytes(), spreads[f"{run.clock or model.CLOCK}_ms"].median)
    cells: dict[str, Cell] = {"gb_per_s": rate, "gib_per_s": None if rate is None else rate * _GIB_PER_GB}
    if run.link_gb_per_s and model.ways():
        cells["link_gb_per_s"] = run.link_gb_per_s
        cells["share_of_link"] = rate / (run.link_gb_per_s * model.ways()) if rate is not None and model.ways() else None
    cells |= {f"{direction}_bytes": size for direction, size in model.link_bytes().items()}
    for direction, size in model.direction_bytes().items():
        cells[f"{direction}_gb_per_s"] = _gb_per_s(size, spreads[f"{direction}_event_ms"].median)
    return cells


def _gb_per_s(size: int, ms: float | None) -> float | None:
    return size / ms / 1e6 if size and ms is not None and ms > 0 else None


class _Baseline:
    """The cases of the scenario that speedups refer to, joined with others on the axes that both have, by equal values."""

    def __init__(self, scenario: str | None, results: Sequence[CaseResult], clock: Clock | None) -> None:
        self._clock = clock
        self._mine = [result for result in results if scenario and result.case.scenario == scenario]
        self._joined: dict[tuple[str, ...], dict[Hashable, list[CaseResult]]] = {}
        self._spreads: dict[int, Spread] = {}  # by identity: `_mine` keeps the results alive

    def speedup_of(self, result: CaseResult, spreads: Mapping[str, Spread]) -> dict[str, Cell]:
        """Return the cells of a case's speedup; none without exactly one sound case to compare with."""
        axes = _shared_axes(result.case, self._mine)
        if axes not in self._joined:
            self._joined[axes] = _by_values(self._mine, axes)
        found = self._joined[axes].get(_values(result.case, axes), [])
        if len(found) != 1 or found[0].status != "ok" or result.status != "ok":
            return {}
        (other,) = found
        if _payload(other.case) != _payload(result.case):
            return {}
        name = f"{self._clock or result.case.model.CLOCK}_ms"
        if other is result:
            return _speedup(spreads[name], spreads[name], itself=True)
        if id(other) not in self._spreads:
            self._spreads[id(other)] = _spread_of(other, name)
        return _speedup(self._spreads[id(other)], spreads[name], itself=False)


def _speedup(baseline: Spread, own: Spread, *, itself: bool) -> dict[str, Cell]:
    """Return the ratio of two medians and an interval of it, from the ends of theirs; the case itself has no interval."""
    cells: dict[str, Cell] = {}
    if baseline.median is not None and own.median:
        cells["speedup"] = baseline.median / own.median
        if not itself and baseline.ci_low is not None and baseline.ci_high is not None and own.ci_low and own.ci_high:
            cells |= {"ci_low_speedup": baseline.ci_low / own.ci_high, "ci_high_speedup": baseline.ci_high / own.ci_low}
    return cells


def _payload(case: Case) -> tuple[str, int]:
    """Return what a speedup needs to be the same on both sides; else it tells of the work and not of the way."""
    return case.model.kind, case.model.payload_bytes()


def _shared_axes(case: Case, baseline: Sequence[CaseResult]) -> tuple[str, ...]:
    return tuple(axis for axis in case.axes if axis in baseline[0].case.axes) if baseline else ()


def _by_values(baseline: Sequence[CaseResult], axes: tuple[str, ...]) -> dict[Hashable, list[CaseResult]]:
    found: dict[Hashable, list[CaseResult]] = {}
    for result in baseline:
        if result.status != "excluded":
            found.setdefault(_values(result.case, axes), []).append(result)
    return found


def _values(case: Case, axes: tuple[str, ...]) -> Hashable:
    return tuple(repr(case.axes[axis]) for axis in axes)
