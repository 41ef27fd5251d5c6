"""How often to play: when a case is warm, when it has samples enough, and in which order the cases of a round take turns.

All of it is pure; times are milliseconds by the clock that gives a case its rate, in the order in which they were taken.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

from runner.measure.result import StopWord
from runner.spec.experiment import Measure
from runner.stats import interval_percent

WARM_SHARE: Final = 0.05
"""How much two warm-ups in a row may differ, as a share of the shorter one, for a case to count as warm."""
LEAST_SAMPLES: Final = 10
"""Samples before an interval can end a case: the first few are close together by chance too often."""
LOOKS: Final = 20
"""The interval is looked at whenever the samples have become 1 / LOOKS more: each look sorts all of them."""
SEED: Final = 20261129
"""Seed of the order in rounds, fixed so that a run can be done again in the same order."""


def is_warm(times: Sequence[float], measure: Measure) -> bool:
    """Return whether a case with these warm-ups is warm: at least `warmup` of them, and the last two alike or no more allowed.

    With `warmup: 0` it always is. A case that its clock does not time (NaN) cannot be compared, so the least number is enough.
    """
    if len(times) < measure.warmup:
        return False
    if len(times) >= measure.most_warmups() or math.isnan(times[-1]):
        return True
    return len(times) > 1 and _alike(times[-2], times[-1])


def stop_of(times: Sequence[float], seconds: float, measure: Measure) -> StopWord | None:
    """Return why a case has enough samples after `seconds` of plays, None where it has not.

    An interval that was looked at until it was narrow is somewhat too narrow, since stretches that happen to be quiet end a case
    sooner; the narrower it is asked to be, the less so (Anscombe, "Large-sample theory of sequential estimation", 1952).
    """
    until = measure.until
    if until is None:
        return "samples" if len(times) >= measure.samples else None
    capped: StopWord | None = None
    if len(times) >= until.samples:
        capped = "cap_samples"
    elif seconds >= until.seconds:
        capped = "cap_seconds"
    if len(times) >= LEAST_SAMPLES and (capped or len(times) % max(1, len(times) // LOOKS) == 0):
        width = interval_percent([time for time in times if math.isfinite(time)])
        if width is not None and width <= until.ci_percent:
            return "interval"
    return capped


def order_of(count: int, number: int) -> list[int]:
    """Return the order in which `count` cases are played in round `number`: a permutation that only these two decide."""
    order = list(range(count))
    random.Random(SEED + number).shuffle(order)
    return order


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= WARM_SHARE * min(one, other)
