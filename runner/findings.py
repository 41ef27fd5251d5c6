"""What one case, one pair of cases or one trend says of a claim: the steps of `runner.verdicts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from runner import trends
from runner.figures import Figure, unit_of_axis, units
from runner.measure.result import CaseResult, Status
from runner.rows import Row
from runner.spec.clauses import (
    Bounds,
    Clause,
    ExponentClause,
    LowestClause,
    OrderClause,
    RatioClause,
    SameClause,
    TextClause,
    ThresholdClause,
    ValueClause,
    place_text,
)
from runner.stats import spread
from runner.units import format_size

Word = Literal["confirmed", "refuted", "undecided"]

NOT_TRIED: Final[tuple[Status, ...]] = ("excluded", "skipped", "unsupported", "not_run")
"""Statuses of cases of which nothing can be said, not even how they ended."""
_COUNT: Final = "corrupt_bytes"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one case, pair or trend says of a claim.

    `nearness` orders findings of one word, the worst first: the figure's distance from the nearest bound, negative where refuted.
    """

    word: Word
    reason: str
    figure: Figure | None = None
    nearness: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
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

    def trouble(self, metric: str = "") -> str:
        """Say why the case has no number of this name, empty where it has.

        How many bytes were wrong is known of a corrupt case, too, and of no case that an error ended before they were counted.
        """
        case, status, reason = self.result.case, self.result.status, self.result.reason
        named = f"case {case.case_id} of {case.scenario}"
        if metric == _COUNT and status in ("ok", "corrupt"):
            uncounted = status == "ok" and bool(reason)
            return f"{named} ended before its bytes were counted: {reason}" if uncounted else ""
        return "" if status == "ok" else f"{named} is {status}: {reason}"


def quotient(above: Figure, below: Figure) -> Figure | None:
    """Return the ratio of two figures with an interval from the ends of theirs, which is wider than it need be.

    None where the figure below the line may be zero.
    """
    (low, high), (least, most) = above.ends(), below.ends()
    if least <= 0:
        return None
    known = above.low is not None or below.low is not None
    return Figure(above.value / below.value, *((low / most, high / least) if known else (None, None)))


def paired(measured: Measured, metric: str, other_metric: str, factor: float) -> Figure | None:
    """Return the median of the ratios of two figures of the same samples, with its own interval: what varies in both cancels out.

    None where the figures are not of samples, or one below the line is zero.
    """
    samples = [sample.figures for sample in measured.result.samples if sample.role == "sample"]
    if not all(figures.get(metric) is not None and figures.get(other_metric) for figures in samples):
        return None
    ratios = [figures[metric] / (figures[other_metric] * factor) for figures in samples]
    of = spread(ratios, deterministic=measured.result.deterministic)
    return None if of.median is None else Figure(of.median, of.ci_low, of.ci_high)


def within(bounds: Bounds, figure: Figure, reason: str, deterministic: bool) -> Finding:
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


def threshold_finding(clause: ThresholdClause, points: Sequence[trends.Point], told: str, deterministic: bool) -> Finding:
    """Judge where the condition begins to hold; its interval reaches over the places where it is not decided."""
    figure = trends.threshold(points, clause.holds)
    if figure is not None:
        return within(clause.threshold, figure, told, deterministic or figure.low is not None)
    largest = points[-1].place
    limits = clause.threshold.limits()
    reached = any(word in limits and limits[word] <= largest for word in ("at_most", "below"))
    reason = f"the condition does not hold at the largest, {place_text(largest, unit_of(clause))}; {told}"
    return Finding("refuted" if reached else "undecided", reason)


def text_finding(measured: Measured, clause: TextClause) -> Finding:
    """Judge a text cell; how a case ended can be told of every case that was tried, the rest only of one that went well.

    A case that went wrong for another reason than the one claimed tells nothing of that one: it may not have come so far.
    """
    status = measured.result.status
    if status in NOT_TRIED or (clause.cell == "memory_actual" and status != "ok"):
        return Finding("undecided", measured.trouble())
    cell = str(measured.row.get(clause.cell) or "")
    told = f"{clause.cell} of {measured.label()} is {cell or 'empty'}"
    more = f": {measured.result.reason}" if clause.cell == "status" and measured.result.reason else ""
    if clause.says in cell:
        return Finding("confirmed", told + more)
    if clause.cell == "reason" and status != "ok":
        return Finding("undecided", measured.trouble())
    return Finding("refuted", told + more)


def limit_of(clause: Clause) -> str:
    """Return what a clause claims, in words."""
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
            return f"{clause.threshold.text(unit_of(clause))}, where {clause.metric} is {clause.holds.text()}"
        case LowestClause():
            return clause.lowest.text(unit_of(clause))
        case TextClause():
            return f"{clause.cell} says {clause.says}"
        case _:
            raise TypeError(f"{type(clause).__name__} has no limit")


def unit_of(clause: Clause) -> str:
    """Return the unit of a verdict's figure; a ratio, an exponent and a text have none."""
    if isinstance(clause, ValueClause):
        return units().get(clause.metric, "")
    return unit_of_axis(clause.over) if isinstance(clause, ThresholdClause | LowestClause) else ""
