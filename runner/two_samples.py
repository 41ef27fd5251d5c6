"""Pure numbers: how two samples of times compare, without assuming anything of their distributions.

The samples of A and of B are taken as independent draws. All rests on Mann and Whitney's U, the number of pairs in which the
value of B is the larger one (H. B. Mann and D. R. Whitney, Annals of Mathematical Statistics 18, 1947), and on the interval that
Hodges and Lehmann derive from it (Annals of Mathematical Statistics 34, 1963), for ratios instead of differences.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from runner.stats import TWO_SIDED_5_PERCENT, median, median_interval, quantile

MOST_VALUES: Final = 200
"""Of more values so many evenly spaced quantiles stand for all: the answer is then more careful than it need be."""
EXACT_PAIRS: Final = 2_500
"""Up to so many pairs the distribution of U is exact, beyond it is taken as normal."""
TAIL: Final = 0.025
"""What an interval of 95 % leaves out at either end."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as large B is as A; `low` and `high` are its 95 % interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None

    def ends(self) -> tuple[float, float]:
        """Return the interval, of a ratio without one the value itself twice."""
        return (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one case, all above 0 and at least one; `exact` ones are the same by construction, so one stands for all."""

    values: tuple[float, ...]
    exact: bool = False

    @classmethod
    def of(cls, values: Sequence[float], *, exact: bool = False) -> Times:
        """Return sorted times, of very many the quantiles that stand for them; raises ValueError for none, or any not above 0."""
        ordered = sorted(values)
        if not ordered or not ordered[0] > 0 or not math.isfinite(ordered[-1]):
            raise ValueError(f"{len(ordered)} values, or some that are not above 0, cannot be compared by their ratio")
        if exact:
            return cls((median(ordered),), exact=True)
        if len(ordered) > MOST_VALUES:
            ordered = [quantile(ordered, place / (MOST_VALUES - 1)) for place in range(MOST_VALUES)]
        return cls(tuple(ordered))


def ratio_of(a: Times, b: Times) -> Ratio:
    """Return the ratio of B to A: the median of the ratios of every value of B to every value of A, and its 95 % interval.

    The interval reaches from the k-th smallest to the k-th largest of these ratios, k being the largest with P(U <= k - 1) <=
    0.025 if both have one distribution. Where one side is exact it is that of the other's median (`median_interval`); too few
    values, and two exact sides, have none.
    """
    ratios = sorted(theirs / mine for theirs in b.values for mine in a.values)
    value = median(ratios)
    if a.exact and b.exact:
        return Ratio(value)
    if a.exact or b.exact:
        ends = median_interval(ratios)
        return Ratio(value) if ends is None else Ratio(value, *ends)
    rank = _rank(len(a.values), len(b.values))
    return Ratio(value, ratios[rank - 1], ratios[-rank]) if rank else Ratio(value)


def chance_of_more(a: Times, b: Times, factor: float) -> float:
    """Return the chance (p, one-sided) of samples like these if B took at most `factor` times as long as A.

    It is P(U >= u) of the pairs in which B is above factor times A; ties count against. With one exact side it is that of the
    sign test, of two exact sides 0 or 1.
    """
    bounds = [factor * mine for mine in a.values]
    above = sum(bisect_right(b.values, bound) for bound in bounds)
    count = len(a.values) * len(b.values) - above
    if a.exact and b.exact:
        return 0.0 if count else 1.0
    if a.exact or b.exact:
        trials = len(a.values) * len(b.values)
        ways: int = sum(math.comb(trials, each) for each in range(count, trials + 1))
        return float(ways / 2**trials)
    return _at_least(count, len(a.values), len(b.values))


def holm(chances: Sequence[float]) -> list[float]:
    """Return p values corrected for being many, in their order: the chance that any true hypothesis is rejected stays below each.

    Holm's step-down method: the i-th smallest of n is multiplied by n - i + 1, and none is below one before it (S. Holm,
    Scandinavian Journal of Statistics 6, 1979). It holds however the tests depend on each other.
    """
    corrected = [0.0] * len(chances)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        worst = max(worst, min(1.0, (len(chances) - rank) * chances[place]))
        corrected[place] = worst
    return corrected


def _at_least(count: int, first: int, second: int) -> float:
    """Return P(U >= count) for samples of these sizes from one distribution."""
    pairs = first * second
    if pairs <= EXACT_PAIRS:
        return _below(first, second)[pairs - count] if count <= pairs else 0.0
    deviation = math.sqrt(pairs * (first + second + 1) / 12)
    return math.erfc((count - 0.5 - pairs / 2) / deviation / math.sqrt(2)) / 2


def _rank(first: int, second: int) -> int:
    """Return k of `ratio_of`, 0 where even the extremes are too likely."""
    pairs = first * second
    if pairs <= EXACT_PAIRS:
        return bisect_right(_below(first, second), TAIL)
    return max(0, math.floor(pairs / 2 - 0.5 - TWO_SIDED_5_PERCENT * math.sqrt(pairs * (first + second + 1) / 12)) + 1)


@lru_cache(maxsize=256)
def _below(first: int, second: int) -> tuple[float, ...]:
    """Return P(U <= u) for each u from 0 to first * second, exactly.

    The number of orders with U = u is the coefficient of q^u in the Gaussian binomial coefficient (first + second over first):
    the product of (1 - q^(second + i)) / (1 - q^i) for i from 1 to first.
    """
    size = first * second + 1
    orders = [1] + [0] * (size - 1)
    for factor in range(1, first + 1):
        for place in range(size - 1, second + factor - 1, -1):
            orders[place] -= orders[place - second - factor]
        for place in range(factor, size):
            orders[place] += orders[place - factor]
    total, running, below = math.comb(first + second, first), 0, []
    for each in orders:
        running += each
        below.append(running / total)
    return tuple(below)
