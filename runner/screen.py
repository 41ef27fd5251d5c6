"""What a person sees of a run or a plan, as lines of text and tables; `runner.cli` prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from runner.alignment import left_aligned, right_aligned
from runner.device.contract import DeviceFacts
from runner.expand import Case
from runner.flow import RunOutcome
from runner.measure.result import FLAGS, CaseResult
from runner.measure.spent import measuring_share
from runner.pricing import Price
from runner.rows import Row, RunInfo, each_summary_row
from runner.scenarios.base import Cell, Clock
from runner.spec.load import LoadedExperiment
from runner.stats import median
from runner.units import about_size, digits, format_seconds, format_size
from runner.verdicts import Verdict, measured_text

MOST_ROWS: Final = 40
"""Rows of a table on the screen; the rest is in the CSV file."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table before it is drawn: headers, rows of text, and a note below for what is not shown."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def drawn(self, width: int) -> Table | Text:
        """Return the table for a terminal of `width` columns; numbers stand at the right.

        Where it does not fit it is plain lines, each wrapped by itself: in columns of three letters nobody reads a word.
        """
        columns = self._columns()
        if sum(max(map(len, column)) for column in columns) + 3 * len(self.headers) + 1 > width:
            return Text("\n".join(self.lines()))
        table = Table(box=box.SIMPLE_HEAD, caption=self.note or None, caption_justify="left")
        for header, *_ in columns:
            table.add_column(header, overflow="fold")
        for row in zip(*(column[1:] for column in columns), strict=True):
            table.add_row(*map(Text, row))
        return table

    def lines(self) -> list[str]:
        """Return the table as aligned plain text."""
        lines = ["  ".join(row).rstrip() for row in zip(*self._columns(), strict=True)]
        return [*lines, *([self.note] if self.note else [])]

    def _columns(self) -> list[list[str]]:
        """Return each column, its header first, padded: numbers stand at the right."""
        columns = [[header, *(row[place] for row in self.rows)] for place, header in enumerate(self.headers)]
        return [right_aligned(column) if _is_numeric(column[1:]) else left_aligned(column) for column in columns]


def _is_numeric(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(cell[0].isdigit() for cell in filled)


def opening_lines(loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> list[str]:
    """Say what begins: on a simulated device that first, then the question and how many cases."""
    measure = loaded.experiment.measure
    profile = facts.name.removeprefix("simulated:")
    simulated = [f"SIMULATED: every number below is computed from the profile {profile}, none is measured on a GPU."]
    plays = f"{_count(measure.warmup, 'warm-up')} and {_count(measure.samples, 'sample')}"
    if measure.until is not None:
        plays = (
            f"{_count(measure.warmup, 'warm-up')}, then samples until the interval of the median is "
            f"{measure.until.ci_percent:g} % wide, at most {measure.until.samples:,} or {measure.until.seconds:g} s"
        )
    return [
        *(simulated if facts.kind == "simulated" else []),
        *([note] if note else []),
        f"{loaded.experiment.name}: {loaded.experiment.question}",
        f"{_count(total, 'case')} on {facts.name}, each {plays}",
    ]


def case_line(result: CaseResult, done: int, total: int, seconds_left: float) -> str:
    """Say in one line how a case ended."""
    name = " ".join([result.case.scenario, *_axis_texts(result.case)])
    clock = f"{result.case.model.CLOCK}_ms"
    times = [sample.figures[clock] for sample in result.samples if sample.role == "sample" and clock in sample.figures]
    said = f"{digits(median(times))} ms" if result.status == "ok" and times else f"{result.status}: {result.reason}".rstrip(": ")
    left = f" (about {format_seconds(seconds_left)} left)" if done < total and seconds_left >= 1 else ""
    return f"[{done}/{total}] {name}: {said}{left}"


def closing_lines(outcome: RunOutcome, rows: Sequence[Row]) -> list[str]:
    """Say what came out: what the flags mean, the speedup, the verdicts, what went wrong, and where the files are.

    `rows` are of `rows_of`.
    """
    baseline = outcome.loaded.experiment.baseline
    return [
        *flag_lines(outcome.results),
        *([speedup_sentence(rows, outcome.results, baseline, outcome.loaded.experiment.measure.clock)] if baseline else []),
        *map(verdict_line, outcome.verdicts),
        *outcome.answers,
        *trouble_lines(outcome.results),
        f"The tables are in {outcome.folder}/ (summary.csv, samples.csv, columns.csv).",
        spent_sentence(outcome.spent, measured=outcome.facts.kind == "cuda"),
    ]


def spent_sentence(spent: Mapping[str, float], *, measured: bool) -> str:
    """Say how long a run took, and of one that `measured` how much of that it did so; `spent` is by `runner.measure.spent`."""
    whole, checking = format_seconds(sum(spent.values())), format_seconds(spent["verification"])
    share = f"; the timed plays have {measuring_share(spent):.0%} of the rest" if measured else ""
    return f"It took {whole}, checking the data {checking} of that{share}."


def verdict_line(verdict: Verdict) -> str:
    """Say in one line what came of a claim: the verdict, the measured figure with its interval, the limit, and the reason."""
    figure, interval = measured_text(verdict.figure, verdict.low, verdict.high, verdict.unit)
    told = f"{figure} ({interval})" if interval else figure
    measured = f": {told}, expected {verdict.limit}" if told else ""
    return f"{verdict.verdict}: {verdict.claim}{measured} ({verdict.reason})"


def rows_of(outcome: RunOutcome) -> list[Row]:
    """Return the rows of summary.csv, of each only the cells that are not empty: most are.

    Beyond those that are shown they are needed only where one of all is looked for, the best speedup.
    """
    experiment, facts = outcome.loaded.experiment, outcome.facts
    run = RunInfo(
        outcome.run_id,
        experiment.name,
        facts.name,
        facts.kind,
        experiment.baseline,
        experiment.measure.clock,
        facts.link_gb_per_s,
    )
    results = outcome.results if experiment.baseline else outcome.results[:MOST_ROWS]
    return [{name: cell for name, cell in row.items() if cell is not None} for row in each_summary_row(run, results)]


def summary_grid(outcome: RunOutcome, rows: Sequence[Row]) -> Grid:
    """Return the summary: a row a case with the axes that vary, the median and its interval, the rate and the speedup.

    `rows` are of `rows_of`. A column without any value is left out, as are rows beyond MOST_ROWS.
    """
    axes = varying_axes([result.case for result in outcome.results])
    clocks = [outcome.loaded.experiment.measure.clock or result.case.model.CLOCK for result in outcome.results]
    several = len(set(clocks)) > 1
    ms = "median ms" if several else f"median {next(iter(clocks), 'wall')} ms"
    headers = ("scenario", *(_header(axis) for axis in axes), ms, "clock", "95 % interval", "GB/s", "speedup", "status")
    drawn = []
    for row, result, by in zip(rows[:MOST_ROWS], outcome.results, clocks, strict=False):
        clock = f"{by}_ms"
        drawn.append(
            (
                result.case.scenario,
                *(_shown(axis, row.get(axis)) for axis in axes),
                _number(row.get(f"median_{clock}")),
                by if several else "",
                _interval(row.get(f"ci_low_{clock}"), row.get(f"ci_high_{clock}")),
                _number(row.get("gb_per_s")),
                _number(row.get("speedup")),
                " ".join([result.status, *result.flags]),
            )
        )
    hidden = len(outcome.results) - len(drawn)
    return _without_empty_columns(Grid(headers, tuple(drawn), f"... and {hidden:,} more in summary.csv" if hidden else ""))


def speedup_sentence(rows: Sequence[Row], results: Sequence[CaseResult], baseline: str, clock: Clock | None = None) -> str:
    """Say the speedup of the best case of the other scenarios, or why there is none; `clock` is the file's."""
    found = [(speedup, row, result.case) for row, result in zip(rows, results, strict=True) if (speedup := _other(row, baseline))]
    if not found:
        return f"No case can be compared with the baseline {baseline}."
    speedup, row, case = max(found, key=lambda each: each[0])
    mine = row[f"median_{clock or case.model.CLOCK}_ms"]
    assert isinstance(mine, float), "a speedup stands on a median"
    name = " ".join([case.scenario, *([f"({', '.join(texts)})"] if (texts := _axis_texts(case)) else [])])
    low, high, gain = row.get("ci_low_speedup"), row.get("ci_high_speedup"), digits(speedup, 3)
    bounds = f" (interval {_number(low)} to {_number(high)})" if low is not None and high is not None else ""
    if isinstance(low, float) and isinstance(high, float) and low <= 1 <= high:
        return f"No difference is seen between the best case, {name}, and {baseline}: {gain} times as fast{bounds}."
    if gain == "1":
        return f"{name} is the best and no faster: {digits(mine)} ms against {digits(mine * speedup)} ms of {baseline}{bounds}."
    verb = "is the best" if speedup > 1 else "is the best and still slower"
    return f"{name} {verb}: {digits(mine)} ms against {digits(mine * speedup)} ms of {baseline}, {gain} times as fast{bounds}."


def flag_lines(results: Sequence[CaseResult]) -> list[str]:
    """Say of each flag of the cases what it means, the most frequent first."""
    flags = Counter(flag for result in results for flag in result.flags)
    return [f"{flag}, {count:,} of {_count(len(results), 'case')}: {FLAGS[flag]}." for flag, count in flags.most_common()]


def trouble_lines(results: Sequence[CaseResult]) -> list[str]:
    """Say, once for each reason, which cases gave no number; excluded ones were not asked for."""
    reasons: dict[tuple[str, str], int] = {}
    for result in results:
        if result.status not in ("ok", "excluded"):
            reasons[result.status, result.reason] = reasons.get((result.status, result.reason), 0) + 1
    lines = [f"{_count(count, 'case')} {status}: {reason}" for (status, reason), count in reasons.items()]
    return lines if len(lines) <= 10 else [*lines[:10], f"... and {len(lines) - 10} other reasons in summary.csv"]


def price_lines(loaded: LoadedExperiment, price: Price) -> list[str]:
    """Say what a run would do and cost: scenarios in words, cases, bytes, memory, time."""
    lines = [f"{loaded.experiment.name}: {loaded.experiment.question}", ""]
    for scenario in price.scenarios:
        lines.append(f"{scenario.name}: {_count(scenario.cases, 'case')}; the first would {scenario.description}.")
        lines.extend(f"  {_count(count, 'case')} excluded: {because}" for because, count in scenario.excluded.items())
    demand = price.demand
    guess = f"by {price.profile}" + (f" from {price.priced} of the cases" if price.priced < price.total - price.excluded else "")
    return [
        *lines,
        "",
        f"{_count(price.total, 'case')}, {price.excluded:,} of them excluded; {_count(price.plays, 'play')} with warm-ups",
        f"{about_size(price.payload_bytes)} of payload in all",
        f"memory at the peak: {about_size(demand.pageable_bytes)} pageable, {about_size(demand.pinned_bytes)} pinned, "
        f"{about_size(demand.device_bytes)} on the device",
        *(
            f"{_count(count, 'case')} of {price.priced:,} looked at would be skipped: {why}"
            for why, count in price.skipped.items()
        ),
        f"estimated time: {format_seconds(price.seconds)} on a real GPU ({guess}; no promise); a simulated run only computes it",
    ]


def price_grid(price: Price) -> Grid:
    """Return the first cases of the grid with every field that varies among them or is an axis."""
    cells = [case.model.columns() for case in price.shown]
    axes = varying_axes(price.shown)
    rows = tuple(
        (case.case_id, case.scenario, *(_exact(axis, row.get(axis)) for axis in axes), case.excluded)
        for case, row in zip(price.shown, cells, strict=True)
    )
    hidden = price.total - len(rows)
    grid = Grid(("case_id", "scenario", *axes, "excluded"), rows, f"... and {hidden:,} more" if hidden else "")
    return _without_empty_columns(grid)


def varying_axes(cases: Iterable[Case]) -> list[str]:
    """Return the columns of the axes that have more than one value among the cases, in the order of the file."""
    seen: dict[str, set[Cell]] = {}
    for case in cases:
        cells = case.model.columns()
        for column in _columns_of(case.axes, cells):
            seen.setdefault(column, set()).add(cells.get(column))
    return [axis for axis, values in seen.items() if len(values) > 1]


def _without_empty_columns(grid: Grid) -> Grid:
    kept = [place for place in range(len(grid.headers)) if any(row[place] for row in grid.rows)]
    rows = tuple(tuple(row[place] for place in kept) for row in grid.rows)
    return Grid(tuple(grid.headers[place] for place in kept), rows, grid.note)


def _columns_of(axes: Iterable[str], cells: Row) -> list[str]:
    """Return the columns in which axes stand: one each, of an axis of mappings one for each of their keys."""
    columns: list[str] = []
    for name in (axis.replace(".", "_") for axis in axes):
        own = [each for each in (f"{name}_bytes", name) if each in cells]
        columns += own[:1] or [column for column in cells if column.startswith(f"{name}_")] or [name]
    return columns


def _axis_texts(case: Case) -> list[str]:
    cells = case.model.columns()
    columns = _columns_of(case.axes, cells)
    return [f"{_header(column)} {shown}" for column in columns if (shown := _shown(column, cells.get(column)))]


def _header(column: str) -> str:
    return column.removesuffix("_bytes")


def _shown(column: str, cell: Cell) -> str:
    if isinstance(cell, int) and column.endswith("_bytes"):
        return format_size(cell)
    return "" if cell is None else str(cell)


def _exact(column: str, cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) and column.endswith("_bytes") else _shown(column, cell)


def _other(row: Row, baseline: str) -> float | None:
    speedup = row.get("speedup")
    return float(speedup) if isinstance(speedup, int | float) and row["scenario"] != baseline else None


def _number(cell: Cell) -> str:
    return digits(cell) if isinstance(cell, int | float) else ""


def _interval(low: Cell, high: Cell) -> str:
    return "" if low is None or high is None else f"{_number(low)} … {_number(high)}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
