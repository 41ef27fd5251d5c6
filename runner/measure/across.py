"""Judging the cases of a run by each other: what no case can tell of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from runner.fleet_rule import centre_of
from runner.measure.result import CaseResult
from runner.measure.sentinel import medians_ms
from runner.scenarios.base import Clock
from runner.stats import median, median_interval

DRIFT_SHARE: Final = 0.05
"""How much two readings of the sentinel may differ, as a share of the shorter one, before what lies between them is doubtful."""
GROWTH_TOLERANCE: Final = 0.05
"""How much less time a larger size may take; less than that may be the noise of a machine that no interval shows."""
SIZES: Final = frozenset({"size", "total"})
"""The axes that say how much is moved."""


def judged(results: Sequence[CaseResult], readings: Sequence[CaseResult], clock: Clock | None) -> list[CaseResult]:
    """Return the results in their order with the flags that only the whole run can give.

    `readings` are those of the sentinel: `drift` is on what was measured between two that differ by more than 5 %. `clock` is the
    file's, None where each kind's own counts: `time_not_growing` and `implausible` are on a case that took longer than one that
    differs from it only by a larger size, where their intervals do not overlap and the medians are more than 5 % apart.
    `unequal_gpu` is on what was measured on a GPU whose sentinel lies apart from that of others that shared the grid.
    """
    doubts: list[set[str]] = [set() for _ in results]
    drifting, unequal = _drifting_blocks(readings), _unequal_gpus(readings)
    for place, result in enumerate(results):
        if result.block in drifting and result.samples:
            doubts[place].add("drift")
        if result.where.get("gpu_uuid") in unequal and result.samples:
            doubts[place].add("unequal_gpu")
    for place in _not_growing(results, clock):
        doubts[place] |= {"time_not_growing", "implausible"}
    return [
        replace(result, flags=tuple(sorted({*result.flags, *more}))) if more else result
        for result, more in zip(results, doubts, strict=True)
    ]


def _drifting_blocks(readings: Sequence[CaseResult]) -> set[int]:
    """Return the numbers of the readings after which the next one of the same GPU differs too much."""
    by_gpu: dict[str, list[tuple[int, float | None]]] = {}
    for number, (reading, time_ms) in enumerate(zip(readings, medians_ms(readings), strict=True)):
        by_gpu.setdefault(reading.where.get("gpu_uuid", ""), []).append((number, time_ms))
    return {
        number
        for own in by_gpu.values()
        for (number, before), (_, after) in pairwise(own)
        if before and after and abs(after - before) > DRIFT_SHARE * min(before, after)
    }


def _unequal_gpus(readings: Sequence[CaseResult]) -> set[str]:
    """Return the UUIDs of the GPUs whose readings lie apart from those of the others, by `runner.fleet_rule`."""
    by_gpu: dict[str, list[float]] = {}
    for reading, time_ms in zip(readings, medians_ms(readings), strict=True):
        if time_ms is not None and reading.where:
            by_gpu.setdefault(reading.where["gpu_uuid"], []).append(time_ms)
    if len(by_gpu) < 2:
        return set()
    own = {uuid: median(times) for uuid, times in by_gpu.items()}
    centre = centre_of(list(own.values()))
    return {uuid for uuid, time_ms in own.items() if centre.is_apart(time_ms)}


def _not_growing(results: Sequence[CaseResult], clock: Clock | None) -> Iterator[int]:
    """Yield the places of cases that took longer than the next larger size of the same scenario and the same other axes."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, result in enumerate(results):
        axes = result.case.axes
        if result.status == "ok" and not result.deterministic and result.case.model.RATED and SIZES & axes.keys():
            others = {name: value for name, value in axes.items() if name not in SIZES}
            groups.setdefault((result.case.scenario, repr(others)), []).append(place)
    for places in groups.values():
        places.sort(key=lambda place: results[place].case.model.payload_bytes())
        for smaller, larger in pairwise(places):
            if _longer(_times_ms(results[smaller], clock), _times_ms(results[larger], clock)):
                yield smaller


def _times_ms(result: CaseResult, clock: Clock | None) -> list[float]:
    name = f"{clock or result.case.model.CLOCK}_ms"
    return [sample.figures[name] for sample in result.samples if sample.role == "sample" and name in sample.figures]


def _longer(these: Sequence[float], those: Sequence[float]) -> bool:
    """Whether the median of these times is longer than that of those, beyond their intervals and the tolerance."""
    mine, theirs = median_interval(these), median_interval(those)
    if mine is None or theirs is None:
        return False
    return mine[0] > theirs[1] and median(these) > median(those) * (1 + GROWTH_TOLERANCE)
