"""When one of many GPUs is an outlier: a stated, robust rule, so that a few odd ones do not move what they are held against.

The centre is the median of all, the spread the median of the distances from it (MAD), times 1.4826 so that it estimates a
standard deviation where the values are normal (Rousseeuw and Croux, Alternatives to the Median Absolute Deviation, 1993). A value
is an outlier where it lies further from the centre than 3.5 such spreads (Iglewicz and Hoaglin, How to Detect and Handle
Outliers, 1993) and further than 5 % of it: alike GPUs have spreads so small that 3.5 of them mean nothing to anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner.stats import median

FLOOR: Final = 0.05
"""The least distance, as a share of the median, that makes an outlier."""
MADS: Final = 3.5
SCALE: Final = 1.4826
"""What makes the MAD of normal values their standard deviation: 1 / the third quartile of the standard normal distribution."""
FEWEST: Final = 3
"""Values without which nobody can say which one is odd."""


@dataclass(frozen=True, slots=True)
class Centre:
    """The median of a fleet's values, and how far from it one may lie: both in the values' unit."""

    median: float
    limit: float
    count: int

    @property
    def can_tell(self) -> bool:
        """Whether there are enough values to say which one is odd."""
        return self.count >= FEWEST

    def is_outlier(self, value: float) -> bool:
        """Whether a value lies too far from the median; never where there are too few values to say which one is odd."""
        return self.can_tell and abs(value - self.median) > self.limit

    def is_apart(self, value: float) -> bool:
        """Whether a value is an outlier, or one of two that lie further apart than the floor."""
        return self.is_outlier(value) or (self.count == 2 and 2 * abs(value - self.median) > FLOOR * self.median)


def centre_of(values: Sequence[float]) -> Centre:
    """Return the centre of at least one value."""
    middle = median(values)
    spread = SCALE * median([abs(value - middle) for value in values])
    return Centre(middle, max(FLOOR * abs(middle), MADS * spread), len(values))
