"""Judging what a file expects of its own results: confirmed, refuted, or undecided and why.

A claim about several cases is confirmed where all of them confirm it, refuted where one refutes it. A figure's interval decides:
it lies within the bounds, or beyond one of them, or the verdict is undecided. Figures of a simulated device have no interval,
since they have no noise, and decide alone; so do those of too few samples, which the reason then says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from runner import trends
from runner.figures import Figure, factor_between, figure_of, unit_of_axis, units
from runner.measure.result import CaseResult, Status
from runner.rows import Row, RunInfo, summary_rows
from runner.spec.clauses import (
    Bounds,
    Clause,
    ExponentClause,
    LowestClause,
    OrderClause,
    RatioClause,
    SameClause,
    Selection,
    TextClause,
    ThresholdClause,
    ValueClause,
    joined,
    place_text,
)
from runner.spec.experiment import Experiment
from runner.spec.fields import value_at
from runner.stats import spread
from runner.units import format_size

Word = Literal["confirmed", "refuted", "undecided"]

NOT_TRIED: Final[tuple[Status, ...]] = ("excluded", "skipped", "unsupported", "not_run")
"""Statuses of cases of which nothing can be said, not even how they ended."""
_WORST_FIRST: Final[tuple[Word, ...]] = ("refuted", "undecided", "confirmed")
_SHORT_UNITS: Final = {"10^9 bytes/s": "GB/s", "2^30 bytes/s": "GiB/s"}
_MOST_POINTS: Final = 8
"""Points of a trend that a reason spells out."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim judged.

    `figure` is the measured figure, `low` and `high` its interval (None: none), `unit` that of all three, `limit` what was
    claimed, `source` the sentence that the claim is from, `form` the form of the expectation.
    """

    claim: str
    verdict: Word
    figure: float | None
    low: float | None
    high: float | None
    limit: str
    reason: str
    source: str = ""
    form: str = ""
    unit: str = ""


def measured_text(figure: float | None, low: float | None, high: float | None, unit: str) -> tuple[str, str]:
    """Write a figure and its interval with their unit, each empty where there is none: `2MiB`, `1.235 ms`, `1 … 1.5 ms`."""
    short = "" if unit == "bytes" else _SHORT_UNITS.get(unit, unit)

    def written(value: float) -> str:
        return place_text(value, unit) if unit == "bytes" else f"{value:.4g}"

    behind = f" {short}" if short else ""
    told = "" if figure is None else written(figure) + behind
    return told, "" if low is None or high is None else f"{written(low)} … {written(high)}{behind}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one case, pair or trend says of a claim; `nearness` is the distance of its figure from the nearest bound."""

    word: Word
    reason: str
    figure: Figure | None = None
    nearness: float = 0.0


@dataclass(frozen=True, slots=True)
class _Measured:
    """One case with its row of summary.csv."""

    result: CaseResult
    row: Row

    def label(self) -> str:
        """Say which case it is, by the axes that its scenario has."""
        case = self.result.case
        cells = case.model.columns()
        texts = []
        for name, value in case.axes.items():
            shown = format_size(value) if f"{name}_bytes" in cells else cells.get(name, value)
            texts.append(f"{name} {shown}")
        return f"{case.scenario} ({', '.join(texts)})" if texts else case.scenario

    def trouble(self) -> str:
        """Say why the case has no number, empty where it has."""
        case, status = self.result.case, self.result.status
        return "" if status == "ok" else f"case {case.case_id} of {case.scenario} is {status}: {self.result.reason}"


def judge(experiment: Experiment, results: Sequence[CaseResult], run: RunInfo) -> list[Verdict]:
    """Judge every expectation of a file by the results of its cases, in the order of the file."""
    if not experiment.expect:
        return []
    rows = summary_rows(run, results)
    judging = _Judging([_Measured(result, row) for result, row in zip(results, rows, strict=True)], run)
    return [judging.verdict(clause) for clause in experiment.expect]


@dataclass(slots=True)
class _Judging:
    """The cases of a run, and how each form of clause is judged by them."""

    cases: list[_Measured]
    run: RunInfo

    def verdict(self, clause: Clause) -> Verdict:
        """Judge one clause: of all its findings the worst, and of those alike the one nearest to a bound."""
        findings = self._findings(clause)
        worst = min(findings, key=lambda finding: (_WORST_FIRST.index(finding.word), finding.nearness))
        alike = sum(finding.word == worst.word for finding in findings)
        many = f"{alike} of {len(findings)} are {worst.word}, the least clear or worst: " if len(findings) > 1 else ""
        figure = worst.figure or Figure(float("nan"))
        return Verdict(
            clause.claim,
            worst.word,
            None if worst.figure is None else figure.value,
            figure.low,
            figure.high,
            _limit_of(clause),
            many + worst.reason,
            clause.source,
            clause.FORM,
            _unit_of(clause),
        )

    def _findings(self, clause: Clause) -> list[Finding]:
        match clause:
            case RatioClause():
                other = clause.against_metric or clause.metric
                found = self._pairs(clause.of, clause.against, clause.metric, other, clause.ratio)
            case SameClause():
                found = self._pairs(clause.of, clause.against, clause.metric, clause.metric, clause.ratio)
            case OrderClause():
                neighbours = zip(clause.order, clause.order[1:], strict=False)
                below = Bounds(below=1)
                found = [
                    finding
                    for lesser, greater in neighbours
                    for finding in self._pairs(lesser, greater, clause.metric, clause.metric, below)
                ]
            case ValueClause():
                found = [self._value(each, clause) for each in self._selected(clause.of)]
            case ExponentClause() | ThresholdClause() | LowestClause():
                found = [self._trend(group, clause) for group in self._groups(clause.of, clause.over)]
            case TextClause():
                found = [_text(each, clause) for each in self._selected(clause.of)]
            case _:
                raise TypeError(f"{type(clause).__name__} has no judge")
        return found or [Finding("undecided", "no case matches the selections")]

    def _selected(self, selection: Selection) -> list[_Measured]:
        """Return the cases of a selection; excluded ones were not asked for."""
        return [
            each
            for each in self.cases
            if each.result.status != "excluded" and selection.selects(each.result.case.scenario, each.result.case.model)
        ]

    def _figure(self, measured: _Measured, metric: str) -> Figure | None:
        return figure_of(measured.row, metric, self.run.clock or measured.result.case.model.CLOCK)

    def _pairs(self, of: Selection, against: Selection, metric: str, other_metric: str, bounds: Bounds) -> list[Finding]:
        fixed = {**of.fields(), **against.fields()}
        others = self._selected(against)
        return [
            self._pair(one, other, metric, other_metric, bounds)
            for one in self._selected(of)
            for other in others
            if joined(one.result.case.axes, other.result.case.axes, fixed)
        ] or [Finding("undecided", "no two cases match the selections")]

    def _pair(self, one: _Measured, other: _Measured, metric: str, other_metric: str, bounds: Bounds) -> Finding:
        """Judge the ratio of two figures, of two cases or of one."""
        if trouble := one.trouble() or other.trouble():
            return Finding("undecided", trouble)
        above, below = self._figure(one, metric), self._figure(other, other_metric)
        if above is None or below is None:
            lacking = f"{metric} of {one.label()}" if above is None else f"{other_metric} of {other.label()}"
            return Finding("undecided", f"{lacking} was not measured")
        named = f"{other_metric} " if metric != other_metric else ""
        told = f"{metric} {above.value:.6g} of {one.label()} against {named}{below.value:.6g} of {other.label()}"
        factor = factor_between(metric, other_metric) or 1.0
        figure = _paired(one, metric, other_metric, factor) if one is other else None
        if figure is None:
            figure = _quotient(above, below.scaled(factor))
        if figure is None:
            return Finding("undecided", f"{told}: the figure below the line may be zero")
        return _within(bounds, figure, told, one.result.deterministic)

    def _value(self, measured: _Measured, clause: ValueClause) -> Finding:
        if trouble := measured.trouble():
            return Finding("undecided", trouble)
        figure = self._figure(measured, clause.metric)
        if figure is None:
            return Finding("undecided", f"{clause.metric} of {measured.label()} was not measured")
        told = f"{clause.metric} {figure.value:.6g} of {measured.label()}"
        return _within(clause.value, figure, told, measured.result.deterministic)

    def _groups(self, of: Selection, over: str) -> list[list[_Measured]]:
        """Return the cases of a selection, those together that differ in the axis `over` (and what moves with it) alone."""
        groups: dict[str, list[_Measured]] = {}
        for each in self._selected(of):
            others = {name: value for name, value in each.result.case.axes.items() if name != over and name not in of.fields()}
            groups.setdefault(repr(others), []).append(each)
        return list(groups.values())

    def _trend(self, group: Sequence[_Measured], clause: ExponentClause | ThresholdClause | LowestClause) -> Finding:
        """Judge the figures of a group along an axis."""
        points: list[trends.Point] = []
        for each in sorted(group, key=lambda each: float(value_at(each.result.case.model, clause.over))):
            figure = self._figure(each, clause.metric)
            if trouble := each.trouble():
                return Finding("undecided", trouble)
            if figure is None:
                return Finding("undecided", f"{clause.metric} of {each.label()} was not measured")
            points.append(trends.Point(float(value_at(each.result.case.model, clause.over)), figure))
        unit = unit_of_axis(clause.over)
        told = ", ".join(f"{place_text(point.place, unit)}: {point.figure.value:.4g}" for point in points[:_MOST_POINTS])
        told = f"{clause.metric} by {clause.over}: {told}{', …' if len(points) > _MOST_POINTS else ''}"
        deterministic = group[0].result.deterministic
        if isinstance(clause, ThresholdClause):
            return _threshold(clause, points, told, deterministic)
        if isinstance(clause, LowestClause):
            return _within(clause.lowest, trends.lowest(points), told, deterministic)
        slope = trends.exponent(points)
        if slope is None:
            return Finding("undecided", f"an exponent needs three places and figures above 0; {told}")
        return _within(clause.exponent, slope, told, deterministic)


def _quotient(above: Figure, below: Figure) -> Figure | None:
    """Return the ratio of two figures with an interval from the ends of theirs, which is wider than it need be.

    None where the figure below the line may be zero.
    """
    (low, high), (least, most) = above.ends(), below.ends()
    if least <= 0:
        return None
    known = above.low is not None or below.low is not None
    return Figure(above.value / below.value, *((low / most, high / least) if known else (None, None)))


def _paired(measured: _Measured, metric: str, other_metric: str, factor: float) -> Figure | None:
    """Return the median of the ratios of two figures of the same samples, with its own interval: what varies in both cancels out.

    None where the figures are not of samples, or one below the line is zero.
    """
    samples = [sample.figures for sample in measured.result.samples if sample.role == "sample"]
    if not all(figures.get(metric) is not None and figures.get(other_metric) for figures in samples):
        return None
    ratios = [figures[metric] / (figures[other_metric] * factor) for figures in samples]
    of = spread(ratios, deterministic=measured.result.deterministic)
    return None if of.median is None else Figure(of.median, of.ci_low, of.ci_high)


def _within(bounds: Bounds, figure: Figure, reason: str, deterministic: bool) -> Finding:
    """Judge a figure by its interval, where it has one, else by itself."""
    low, high = figure.ends()
    nearness = min(abs(figure.value - limit) for limit in bounds.limits().values())
    if figure.low is None and not deterministic:
        reason += "; no interval"
    if bounds.holds(low) and bounds.holds(high):
        return Finding("confirmed", reason, figure, nearness)
    if bounds.misses(low, high):
        return Finding("refuted", reason, figure, -nearness)
    return Finding("undecided", f"{reason}; the interval straddles the limit", figure, nearness)


def _threshold(clause: ThresholdClause, points: Sequence[trends.Point], told: str, deterministic: bool) -> Finding:
    """Judge where the condition begins to hold; its interval reaches over the places where it is not decided."""
    figure = trends.threshold(points, clause.holds)
    if figure is not None:
        return _within(clause.threshold, figure, told, deterministic or figure.low is not None)
    largest = points[-1].place
    limits = clause.threshold.limits()
    reached = any(word in limits and limits[word] <= largest for word in ("at_most", "below"))
    reason = f"the condition does not hold at the largest, {place_text(largest, _unit_of(clause))}; {told}"
    return Finding("refuted" if reached else "undecided", reason)


def _text(measured: _Measured, clause: TextClause) -> Finding:
    """Judge a text cell; how a case ended can be told of every case that was tried, the rest only of one that went well."""
    status = measured.result.status
    if status in NOT_TRIED or (clause.cell == "memory_actual" and status != "ok"):
        return Finding("undecided", measured.trouble())
    cell = str(measured.row.get(clause.cell) or "")
    told = f"{clause.cell} of {measured.label()} is {cell or 'empty'}"
    more = f": {measured.result.reason}" if clause.cell == "status" and measured.result.reason else ""
    return Finding("confirmed" if clause.says in cell else "refuted", told + more)


def _limit_of(clause: Clause) -> str:
    match clause:
        case RatioClause() | SameClause():
            return clause.ratio.text()
        case OrderClause():
            return "each below the next"
        case ValueClause():
            return clause.value.text()
        case ExponentClause():
            return clause.exponent.text()
        case ThresholdClause():
            return f"{clause.threshold.text(_unit_of(clause))}, where {clause.metric} is {clause.holds.text()}"
        case LowestClause():
            return clause.lowest.text(_unit_of(clause))
        case TextClause():
            return f"{clause.cell} says {clause.says}"
        case _:
            raise TypeError(f"{type(clause).__name__} has no limit")


def _unit_of(clause: Clause) -> str:
    """Return the unit of a verdict's figure; a ratio, an exponent and a text have none."""
    if isinstance(clause, ValueClause):
        return units().get(clause.metric, "")
    return unit_of_axis(clause.over) if isinstance(clause, ThresholdClause | LowestClause) else ""
