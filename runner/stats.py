"""Pure numbers: what is said of a list of samples. No pandas, no rounding; every cell that cannot be known is None."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

SMALLEST_SPREAD: Final = 3
"""Below this many samples percentiles say nothing, so they are left empty."""
LONGEST_TREND: Final = 200
TWO_SIDED_5_PERCENT: Final = 1.959964
"""The quantile of the normal distribution beyond which, on either side, lie 5 % together."""
CONFIDENCE: Final = (95, 100)
"""Confidence of the interval of the median, as a fraction of whole numbers so that its ranks are exact."""
FAR_OUT: Final = 3
"""Interquartile ranges beyond the quartiles at which a value counts as an outlier (Tukey's "far out")."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of one figure over `count` samples, in the unit of the samples; None where the samples are too few.

    `p05` and `p95` are quantiles by `quantile`, `ci_low` and `ci_high` the 95 % interval of the median by `median_interval`.
    """

    count: int
    median: float | None = None
    minimum: float | None = None
    p05: float | None = None
    p95: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


def spread(values: Sequence[float], *, deterministic: bool = False) -> Spread:
    """Return the statistics of `values`; `deterministic` ones, all the same by construction, get no interval.

    Values that are no number (NaN, infinite) are left out and not counted.
    """
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return Spread(0)
    wide = len(ordered) >= SMALLEST_SPREAD
    interval = None if deterministic else median_interval(ordered)
    return Spread(
        count=len(ordered),
        median=median(ordered),
        minimum=ordered[0],
        p05=quantile(ordered, 0.05) if wide else None,
        p95=quantile(ordered, 0.95) if wide else None,
        ci_low=interval[0] if interval else None,
        ci_high=interval[1] if interval else None,
    )


def median(values: Sequence[float]) -> float:
    """Return the middle value, of an even number the mean of the two middle ones; raises ValueError for no values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("the median of no values is not defined")
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return ordered[middle - 1] + (ordered[middle] - ordered[middle - 1]) / 2


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return the quantile at `fraction` (0 … 1) by linear interpolation between order statistics.

    This is definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50 (1996),
    which NumPy and spreadsheets (PERCENTILE.INC) use too. Raises ValueError for no values or a fraction out of range.
    """
    ordered = sorted(values)
    if not ordered or not 0 <= fraction <= 1:
        raise ValueError(f"the quantile at {fraction} of {len(ordered)} values is not defined")
    place = (len(ordered) - 1) * fraction
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median, None for fewer than 6 values, which cannot give one.

    The interval reaches from the k-th smallest to the k-th largest value, with the largest k for which at most 5 % of samples
    miss the true median: 2 * P(B <= k - 1) <= 0.05 for B binomial of n trials at 1/2. It assumes independent samples and
    nothing of their distribution (the interval of the sign test: Conover, "Practical Nonparametric Statistics", 3rd edition,
    section 3.2).
    """
    rank = _interval_rank(len(values))
    if rank == 0:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


def interval_percent(values: Sequence[float]) -> float | None:
    """Return how wide the 95 % interval of the median is, in percent of the median.

    None for fewer than 6 values and for a median of 0.
    """
    interval = median_interval(values)
    middle = median(values) if values else 0.0
    return 100 * (interval[1] - interval[0]) / abs(middle) if interval and middle else None


def drift(values: Sequence[float]) -> float | None:
    """Return how values taken one after another changed: median of the last third / median of the first third - 1.

    A third has a third of the values, rounded down. None for fewer than 6 values, where a third is no more than one of them, and
    where the first third has the median 0.
    """
    third = len(values) // 3
    if third < 2:
        return None
    first = median(values[:third])
    return median(values[-third:]) / first - 1 if first else None


def has_trend(values: Sequence[float]) -> bool:
    """Whether values taken one after another rise or fall as a whole: Mann and Kendall's test, two-sided, at 5 %.

    S is the number of pairs that rise less those that fall; without a trend it has mean 0 and variance n (n - 1) (2 n + 5) / 18,
    and is taken as normal, one step nearer to 0 (H. B. Mann, Nonparametric tests against trend, Econometrica 13, 1945; M. G.
    Kendall, Rank Correlation Methods). False for fewer than 6 values. Of many values it is the medians of LONGEST_TREND
    stretches that are compared, since pairs grow with the square.
    """
    step = -(-len(values) // LONGEST_TREND)
    points = values if step <= 1 else [median(values[begin : begin + step]) for begin in range(0, len(values), step)]
    count = len(points)
    if count < 6:
        return False
    rising = sum((later > earlier) - (later < earlier) for earlier, later in itertools.combinations(points, 2))
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return (abs(rising) - 1) / deviation > TWO_SIDED_5_PERCENT


def outliers(values: Sequence[float]) -> int | None:
    """Return how many values lie more than 3 interquartile ranges below the first or above the third quartile.

    These are Tukey's "far out" values ("Exploratory Data Analysis", 1977, section 2D), with quartiles by `quantile`. None for
    fewer than 6 values, whose quartiles say nothing of a tail.
    """
    if len(values) < 6:
        return None
    low, high = quantile(values, 0.25), quantile(values, 0.75)
    reach = FAR_OUT * (high - low)
    return sum(not low - reach <= value <= high + reach for value in values)


@lru_cache(maxsize=1024)
def _interval_rank(count: int) -> int:
    """Return k of `median_interval` for `count` values, 0 where there is none; exact, in whole numbers."""
    sure, of = CONFIDENCE
    allowed = (of - sure) * 2**count
    rank, term, total = 0, 1, 1
    while 2 * of * total <= allowed:
        term = term * (count - rank) // (rank + 1)
        total += term
        rank += 1
    return rank
