"""What a device is given to do: the cases of a run that have no result yet, and all that was learnt before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.expand import Case
from runner.measure.listener import NOBODY, Listener
from runner.measure.sentinel import Sentinel
from runner.spec.experiment import Measure


@dataclass(slots=True)
class Work:
    """The cases to measure, and how.

    `sentinel` has the readings of the run so far and gets the others, `medians` are those of companions that are known.
    `listener` hears of every step; `most_pinned` is the limit of page-locked memory in bytes, None for the usual one.
    `workers` is how many processes share the cases of a simulated device, None for as many as are worth it. `more` says that
    the same device shall do more work after this; `bare` is as in `runner.measure.companions`.
    """

    cases: Sequence[Case]
    measure: Measure
    sentinel: Sentinel = field(default_factory=Sentinel)
    listener: Listener = NOBODY
    medians: dict[str, float | None] = field(default_factory=dict)
    most_pinned: int | None = None
    workers: int | None = None
    more: bool = False
    bare: bool = False
