"""What a speedup consists of: how much of it is overlap, how much the rest, and which part of the work limits the pipeline."""

from __future__ import annotations

from typing import Final

from runner.report.cases import number_of, short_name, shown
from runner.rows import Row
from runner.units import digits

SAME: Final = 0.02
"""Times that differ by no more than this share are called equal: runs of one file differ by as much."""
_SET_UP: Final = ("buffer", "pages", "staging", "staging_threads", "staging_lanes", "allocate", "submit", "chunk_bytes")
"""What two pipelines may differ in besides their schedule; the twin has all of it as the case itself."""
_PARTS: Final = {
    "the host's own copies": ("leg_host_in_ms", "leg_host_out_ms"),
    "the copy to the device": ("leg_h2d_ms",),
    "the copy to the host": ("leg_d2h_ms",),
    "the kernel": ("leg_kernel_ms",),
}


def gain_sentences(best: Row, baseline: Row | None) -> list[str]:
    """Say what the speedup of a pipeline over its baseline consists of, and what limits it; nothing of a case without a twin.

    The twin does the same work from the same buffers one chunk at a time, so `twin_ms / median_wall_ms` is what overlap gives.
    """
    wall, twin = number_of(best, "median_wall_ms"), number_of(best, "twin_ms")
    if not wall or not twin:
        return []
    others = set_up_differences(best, baseline) if baseline is not None else []
    rest = f" The rest comes from what the two differ in besides: {', '.join(others)}." if others else ""
    return [f"{_overlap(wall, twin)}{rest}", *limit_sentences(best)]


def limit_sentences(row: Row) -> list[str]:
    """Say which part of a pipeline takes longest by itself, which overlap cannot shorten; nothing where it is not known."""
    wall, bound = number_of(row, "median_wall_ms"), number_of(row, "bound_full_ms")
    times = {name: sum(number_of(row, leg) or 0.0 for leg in legs) for name, legs in _PARTS.items()}
    slowest = max(times, key=lambda name: times[name])
    if not wall or not bound or not times[slowest]:
        return []
    if bound_above_twin(row):
        return [
            f"What limits it cannot be told: {slowest} took {digits(times[slowest])} ms when measured alone, more than all of it "
            f"one chunk at a time ({digits(number_of(row, 'twin_ms') or 0.0)} ms)."
        ]
    return [f"What limits it most is {slowest}: measured alone {digits(times[slowest])} ms of its {digits(wall)} ms."]


def bound_above_twin(row: Row) -> bool:
    """Whether what overlap could reach at best is longer than the same work without any: the parts alone took too long."""
    bound, twin = number_of(row, "bound_full_ms"), number_of(row, "twin_ms")
    return bound is not None and twin is not None and bound >= twin


def set_up_differences(one: Row, other: Row) -> list[str]:
    """Return what one pipeline is set up with otherwise than the other: `buffer pinned instead of pageable`."""
    names = [name for name in _SET_UP if name in one and name in other and one[name] != other[name]]
    return [f"{short_name(name)} {shown(name, one[name])} instead of {shown(name, other[name])}" for name in names]


def _overlap(wall_ms: float, twin_ms: float) -> str:
    told = f"the same work from the same buffers, one chunk at a time, takes {digits(twin_ms)} ms"
    if abs(twin_ms / wall_ms - 1) <= SAME:
        return f"None of it comes from overlap: {told}."
    if twin_ms < wall_ms:
        return f"None of it comes from overlap, which costs time here: {told}."
    return f"Overlap itself gives {digits(twin_ms / wall_ms, 3)} times: {told}."
