"""Judging what a file expects of its own results: confirmed, refuted, or undecided and why.

A claim about several cases is confirmed where all of them confirm it, refuted where one refutes it. A figure's interval decides:
it lies within the bounds, or beyond one of them, or the verdict is undecided. Figures of a simulated device have no interval,
since they have no noise, and decide alone; so do those of too few samples, which the reason then says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner import trends
from runner.figures import Figure, factor_between, figure_of, unit_of_axis
from runner.findings import (
    Finding,
    Measured,
    Word,
    limit_of,
    paired,
    quotient,
    text_finding,
    threshold_finding,
    unit_of,
    within,
)
from runner.measure.result import CaseResult
from runner.rows import RunInfo, summary_rows
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
from runner.units import digits

_WORST_FIRST: Final[tuple[Word, ...]] = ("refuted", "undecided", "confirmed")
_SHORT_UNITS: Final = {"10^9 bytes/s": "GB/s", "2^30 bytes/s": "GiB/s"}
_BARE: Final = re.compile(r"\b(at least|at most|above|below) (\d+(?:\.\d+)?)(?![\w.])")
"""A bound of a limit that is a number without a unit."""
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
        return place_text(value, unit) if unit == "bytes" else digits(value)

    behind = f" {short}" if short else ""
    told = "" if figure is None else written(figure) + behind
    return told, "" if low is None or high is None else f"{written(low)} … {written(high)}{behind}"


def limit_text(limit: str, unit: str) -> str:
    """Write a limit with the unit of its figure where its numbers have none: `at most 10 ms`, `at least 512MiB`.

    What follows a comma is a condition on another figure, and stays as it is.
    """
    first, comma, rest = limit.partition(",")
    return f"{_BARE.sub(lambda found: f'{found[1]} {measured_text(float(found[2]), None, None, unit)[0]}', first)}{comma}{rest}"


def judge(experiment: Experiment, results: Sequence[CaseResult], run: RunInfo) -> list[Verdict]:
    """Judge every expectation of a file by the results of its cases, in the order of the file."""
    if not experiment.expect:
        return []
    rows = summary_rows(run, results)
    judging = _Judging([Measured(result, row) for result, row in zip(results, rows, strict=True)], run)
    return [judging.verdict(clause) for clause in experiment.expect]


@dataclass(slots=True)
class _Judging:
    """The cases of a run, and how each form of clause is judged by them."""

    cases: list[Measured]
    run: RunInfo

    def verdict(self, clause: Clause) -> Verdict:
        """Judge one clause: of all its findings the worst, and of those alike the one nearest to a bound."""
        findings = [Finding("undecided", clause.cases_gone)] if clause.cases_gone else self._findings(clause)
        worst = min(findings, key=lambda finding: (_WORST_FIRST.index(finding.word), finding.nearness))
        alike = sum(finding.word == worst.word for finding in findings)
        many = f"{alike} of {len(findings)} are {worst.word}, the least clear or worst: " if len(findings) > 1 else ""
        figure = worst.figure
        value, low, high = (None, None, None) if figure is None else (figure.value, figure.low, figure.high)
        return Verdict(
            clause.claim,
            worst.word,
            value,
            low,
            high,
            limit_of(clause),
            many + worst.reason,
            clause.source,
            clause.FORM,
            unit_of(clause),
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
                found = [text_finding(each, clause) for each in self._selected(clause.of)]
            case _:
                raise TypeError(f"{type(clause).__name__} has no judge")
        return found or [Finding("undecided", "no case matches the selections")]

    def _selected(self, selection: Selection) -> list[Measured]:
        """Return the cases of a selection; excluded ones were not asked for."""
        return [
            each
            for each in self.cases
            if each.result.status != "excluded" and selection.selects(each.result.case.scenario, each.result.case.model)
        ]

    def _figure(self, measured: Measured, metric: str) -> Figure | None:
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

    def _pair(self, one: Measured, other: Measured, metric: str, other_metric: str, bounds: Bounds) -> Finding:
        """Judge the ratio of two figures, of two cases or of one."""
        if trouble := one.trouble(metric) or other.trouble(other_metric):
            return Finding("undecided", trouble)
        above, below = self._figure(one, metric), self._figure(other, other_metric)
        if above is None or below is None:
            lacking = f"{metric} of {one.label()}" if above is None else f"{other_metric} of {other.label()}"
            return Finding("undecided", f"{lacking} was not measured")
        named = f"{other_metric} " if metric != other_metric else ""
        told = f"{metric} {digits(above.value, 6)} of {one.label()} against {named}{digits(below.value, 6)} of {other.label()}"
        factor = factor_between(metric, other_metric) or 1.0
        figure = paired(one, metric, other_metric, factor) if one is other else None
        if figure is None:
            figure = quotient(above, below.scaled(factor))
        if figure is None:
            return Finding("undecided", f"{told}: the figure below the line may be zero")
        return within(bounds, figure, told, one.result.deterministic)

    def _value(self, measured: Measured, clause: ValueClause) -> Finding:
        if trouble := measured.trouble(clause.metric):
            return Finding("undecided", trouble)
        figure = self._figure(measured, clause.metric)
        if figure is None:
            return Finding("undecided", f"{clause.metric} of {measured.label()} was not measured")
        told = f"{clause.metric} {digits(figure.value, 6)} of {measured.label()}"
        return within(clause.value, figure, told, measured.result.deterministic)

    def _groups(self, of: Selection, over: str) -> list[list[Measured]]:
        """Return the cases of a selection, those together that differ in the axis `over` alone."""
        groups: dict[str, list[Measured]] = {}
        for each in self._selected(of):
            others = {name: value for name, value in each.result.case.axes.items() if name != over and name not in of.fields()}
            groups.setdefault(repr(others), []).append(each)
        return list(groups.values())

    def _trend(self, group: Sequence[Measured], clause: ExponentClause | ThresholdClause | LowestClause) -> Finding:
        """Judge the figures of a group along an axis."""
        points: list[trends.Point] = []
        for each in sorted(group, key=lambda each: float(value_at(each.result.case.model, clause.over))):
            figure = self._figure(each, clause.metric)
            if trouble := each.trouble(clause.metric):
                return Finding("undecided", trouble)
            if figure is None:
                return Finding("undecided", f"{clause.metric} of {each.label()} was not measured")
            points.append(trends.Point(float(value_at(each.result.case.model, clause.over)), figure))
        unit = unit_of_axis(clause.over)
        told = ", ".join(f"{place_text(point.place, unit)}: {digits(point.figure.value)}" for point in points[:_MOST_POINTS])
        told = f"{clause.metric} by {clause.over}: {told}{', …' if len(points) > _MOST_POINTS else ''}"
        deterministic = group[0].result.deterministic
        if isinstance(clause, ThresholdClause):
            return threshold_finding(clause, points, told, deterministic)
        if isinstance(clause, LowestClause):
            return within(clause.lowest, trends.lowest(points), told, deterministic)
        slope = trends.exponent(points)
        if slope is None:
            return Finding("undecided", f"an exponent needs three places and figures above 0; {told}")
        return within(clause.exponent, slope, told, deterministic)
