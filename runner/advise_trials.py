"""Trying settings on the device itself: from the best by its profile on to better ones beside it, each played twice, alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from runner.advise_job import Setting
from runner.advise_search import Search
from runner.execution.bench import Bench
from runner.execution.work import Work
from runner.expand import Case, expand
from runner.measure.result import CaseResult
from runner.spec.experiment import Measure
from runner.spec.load import LoadedExperiment

PLAYS: Final = Measure(warmup=0, samples=2)
"""How a setting is tried. The quicker of two plays lay within 12 % of the median that a whole case gave, in nine of ten rings of
an H200."""
MOST_TRIED: Final = 16
"""Settings that are tried at most: on an H200 each takes a quarter of a second where 256 MiB go there and back."""
MOST_AT_ONCE: Final = 7
WORTH_ON: Final = 0.97
"""From a setting that takes at most this share of the time of the one before, it is worth to go on."""

Measured = Callable[[Sequence[Setting]], Sequence[float]]
"""Gives the time of each setting in ms, inf of one that could not be played."""


def tried(search: Search, begins: Sequence[Setting], measured: Measured, most: int = MOST_TRIED) -> dict[Setting, float]:
    """Try the settings with which to begin, then those around the best one, and go on from there while that gains.

    Returns the times of all that were tried in ms, of `most` at most.
    """
    times = dict(zip(begins, measured(begins), strict=True))
    while len(times) < most:
        best = min(times, key=times.__getitem__)
        others = [each for each in search.around(best) if each not in times][: min(MOST_AT_ONCE, most - len(times))]
        if not others or times[best] == math.inf:
            break
        found = dict(zip(others, measured(others), strict=True))
        times |= found
        if min(found.values()) > WORTH_ON * times[best]:
            break
    return times


def measured_on(bench: Bench, loaded: Callable[[Mapping[str, Setting]], LoadedExperiment]) -> Measured:
    """Return what tries settings on a device that is open; `loaded` makes an experiment of named settings."""

    def measured(settings: Sequence[Setting]) -> list[float]:
        named = {f"tried_{number}": setting for number, setting in enumerate(settings)}
        cases: list[Case] = list(expand(loaded(named)))
        results = {ended.result.case.scenario: ended.result for ended in bench.sweep(Work(cases, PLAYS, more=True, bare=True))}
        return [_least_ms(results.get(name)) for name in named]

    return measured


def _least_ms(result: CaseResult | None) -> float:
    """Return the shortest wall time of a case in ms: much can make a play longer, nothing shorter."""
    if result is None or result.status != "ok":
        return math.inf
    return min((sample.figures.get("wall_ms", math.inf) for sample in result.samples), default=math.inf)
