"""What a figure does along an axis: the exponent with which it grows, and the place from which on a condition holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner.figures import Figure
from runner.spec.clauses import Bounds

FEWEST_PLACES: Final = 3
"""Two places always lie on a line, so they tell nothing of whether there is one."""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure at a place of an axis; the place is in the unit of the axis."""

    place: float
    figure: Figure


def exponent(points: Sequence[Point]) -> Figure | None:
    """Return the slope of ln(figure) against ln(place) by least squares on the medians; None where it is not defined.

    b = sum((x - mean x) * y) / sum((x - mean x)^2) (Draper and Smith, "Applied Regression Analysis", 3rd edition, section 1.2) is
    a weighted sum of the y, so it is least where each y of a positive weight is at the lower end of its interval and each of a
    negative weight at the upper one (interval arithmetic: Moore, "Interval Analysis", 1966). That interval is wider than a 95 %
    one need be. There is none where no point has one.
    """
    if any(point.place <= 0 or point.figure.value <= 0 for point in points):
        return None
    x = [math.log(point.place) for point in points]
    if len(set(x)) < FEWEST_PLACES:
        return None
    middle = sum(x) / len(x)
    square = sum((each - middle) ** 2 for each in x)
    weights = [(each - middle) / square for each in x]
    slope = sum(weight * math.log(point.figure.value) for weight, point in zip(weights, points, strict=True))
    ends = [point.figure.ends() for point in points]
    if all(point.figure.low is None for point in points) or any(low <= 0 for low, _ in ends):
        return Figure(slope)
    logs = [(math.log(low), math.log(high)) for low, high in ends]
    least = sum(min(weight * low, weight * high) for weight, (low, high) in zip(weights, logs, strict=True))
    most = sum(max(weight * low, weight * high) for weight, (low, high) in zip(weights, logs, strict=True))
    return Figure(slope, least, most)


def threshold(points: Sequence[Point], condition: Bounds) -> Figure | None:
    """Return the smallest place from which on the condition holds at every place; None where it fails at the largest one.

    `points` ascend. Medians give the place. Its interval reaches from where the condition may hold to where it surely does, by
    the intervals of the figures; its upper end is infinite where even the largest place is not sure.
    """
    place = _begin([condition.holds(point.figure.value) for point in points], points)
    if math.isinf(place):
        return None
    if all(point.figure.low is None for point in points):
        return Figure(place)
    ends = [point.figure.ends() for point in points]
    possible = _begin([not condition.misses(low, high) for low, high in ends], points)
    sure = _begin([condition.holds(low) and condition.holds(high) for low, high in ends], points)
    return Figure(place, possible, sure)


def lowest(points: Sequence[Point]) -> Figure:
    """Return the place of the lowest figure; its interval spans the places that may be the lowest by their figures' intervals.

    `points` ascend and are not empty. A place may be the lowest where its interval begins below the least upper end of all.
    """
    best = min(points, key=lambda point: point.figure.value)
    if all(point.figure.low is None for point in points):
        return Figure(best.place)
    least = min(point.figure.ends()[1] for point in points)
    possible = [point.place for point in points if point.figure.ends()[0] <= least]
    return Figure(best.place, min(possible), max(possible))


def _begin(answers: Sequence[bool], points: Sequence[Point]) -> float:
    """Return the first place of the run of true answers at the end, infinity where the last one is false."""
    place = math.inf
    for answer, point in zip(reversed(answers), reversed(points), strict=True):
        if not answer:
            break
        place = point.place
    return place
