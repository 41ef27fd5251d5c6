"""What a pipeline is held against: its serialized twin, its legs, and the bounds that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from runner.errors import CaseFailed
from runner.scenarios.base import Known, Scenario
from runner.scenarios.legs import Leg, Part
from runner.scenarios.pipeline_slots import turn_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.memory import BufferKind
    from runner.scenarios.pipeline import Pipeline

HOST_PARTS: Final = ("host_in", "host_out")
LEG_SLOTS: Final = 3
"""Buffers that the chunks of a leg take turns on, as many as the ring of the example has: a leg is measured once for each size
and buffer, not once for each number of slots.
"""
HOST_LEG_SLOTS: Final = 2
"""Stagers in each lane of a leg of the host's copies: the fewest with which a ring overlaps. The fewer there are, the more of
them stays in the caches, and no more than the ring has may be held against it.
"""


def companions_of(pipeline: Pipeline) -> dict[str, Scenario]:
    """Return the legs of a pipeline and, of an overlapped one, the same work one chunk at a time.

    While its work is still a ratio, only the legs are there that make a number of it: a copy and one pass of the kernel.
    """
    if pipeline.compute.passes is None:
        return {"leg_h2d": _leg(pipeline, "h2d"), "leg_d2h": _leg(pipeline, "d2h"), "leg_kernel": _leg(pipeline, "kernel")}
    companions: dict[str, Scenario] = {f"leg_{part}": _leg(pipeline, part) for part in _parts(pipeline)}
    if pipeline.schedule == "overlapped":
        companions["twin"] = twin_of(pipeline)
    return companions


def resolve(pipeline: Pipeline, known: Known) -> Pipeline:
    """Return a pipeline whose work is a number of passes: its kernels take `ratio` times as long as the copies of one direction.

    Raises CaseFailed where the copies or the kernel could not be measured.
    """
    ratio = pipeline.compute.ratio
    if pipeline.compute.passes is not None or ratio is None:
        return pipeline
    copies = [known.times_ms[name] for name in ("leg_h2d", "leg_d2h") if name in known.times_ms]
    kernel = known.times_ms.get("leg_kernel")
    if not copies or not kernel:
        raise CaseFailed("a ratio of compute needs the times of the copies and of the kernel, and they could not be measured")
    passes = round(ratio * max(copies) / kernel)
    return pipeline.model_copy(update={"compute": pipeline.compute.model_copy(update={"passes": passes})})


def twin_of(pipeline: Pipeline) -> Pipeline:
    """Return the same work on the same buffers with one chunk under way at a time, handed over in the same way where that can be.

    The twin of a graph is a graph on one stream. That of batches goes by calls: one chunk at a time leaves nothing to batch. That
    of lanes of one thread each keeps two for the copier's sake, of which the second has no slot.
    """
    lanes = min(pipeline.staging_lanes, 2) if pipeline.staging_threads == 1 else 1
    alone = {"streams": 1, "slots": None, "issue": "depth_first", "layout": "per_slot", "staging_lanes": lanes}
    if pipeline.submit != "graph":
        alone |= {"schedule": "serialized", "submit": "calls"}
    return pipeline.model_copy(update=alone)


def derive(pipeline: Pipeline, known: Known, median_ms: float, figures_ms: Mapping[str, float]) -> dict[str, float]:
    """Return legs, bounds, `overlap_efficiency` and `hidden_fraction` (their formulas stand in `runner.columns`).

    `figures_ms` are the medians of the case's own figures. Bounds need every leg: where one could not be measured they are
    missing.
    """
    legs = {name.removeprefix("leg_"): time for name, time in known.times_ms.items() if name.startswith("leg_")}
    figures = {f"leg_{part}_ms": time for part, time in legs.items()}
    twin = known.times_ms.get("twin")
    if twin is not None:
        figures["twin_ms"] = twin
    if legs.keys() == set(_parts(pipeline)):
        figures |= _bounds(legs, sum(figures_ms.get(name, 0.0) for name in _unhidden(pipeline)))
        none, full = figures["bound_none_ms"], figures["bound_full_ms"]
        if none > full and (twin is None or twin > full):
            figures["hidden_fraction"] = min(1.0, max(0.0, 1 - (median_ms - full) / (none - full)))
        if twin is not None and twin > full and pipeline.chunks() > 1:
            figures["overlap_efficiency"] = (twin - median_ms) / (twin - full)
    return figures


def _unhidden(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the figures of what stands before or behind all chunks inside the timing, where nothing can hide it."""
    if pipeline.staging != "register":
        return ()
    return ("register_ms", "unregister_ms", *(("instantiate_ms",) if pipeline.submit == "graph" else ()))


def _bounds(legs: dict[str, float], unhidden_ms: float) -> dict[str, float]:
    host = sum(legs.get(part, 0.0) for part in HOST_PARTS)
    up, down, kernel = (legs.get(part, 0.0) for part in ("h2d", "d2h", "kernel"))
    return {
        "bound_none_ms": sum(legs.values()) + unhidden_ms,
        "bound_one_way_ms": max(host, up + down, kernel) + unhidden_ms,
        "bound_full_ms": max(host, up, down, kernel) + unhidden_ms,
    }


def _parts(pipeline: Pipeline) -> list[Part]:
    parts: list[Part] = ["kernel"] if pipeline.compute.passes else []
    if pipeline.direction != "download":
        parts.insert(0, "h2d")
    if pipeline.direction != "upload":
        parts.append("d2h")
    if pipeline.staging == "copy":
        if "h2d" in parts:
            parts.insert(0, "host_in")
        if "d2h" in parts:
            parts.append("host_out")
    return parts


def _leg(pipeline: Pipeline, part: Part) -> Leg:
    """Return one leg, described by no more than what changes its time, so that cases share it."""
    staged = pipeline.staging == "copy"
    ratio = pipeline.output_of(1) if part in ("d2h", "host_out") else 1
    host = part in HOST_PARTS
    lanes = pipeline.staging_lanes if host else 1
    batch = turn_of(pipeline) if pipeline.submit == "batch" and part in ("h2d", "d2h") else 0
    stagers = lanes * max(1, min(pipeline.ring_slots() // lanes, HOST_LEG_SLOTS))
    slots = stagers if host else max(LEG_SLOTS, batch)
    return Leg(
        part=part,
        # The kernel never sees the host's buffer, and data that are registered in place are copied as registered memory.
        buffer="pinned" if part == "kernel" else cast("BufferKind", pipeline.handed()),
        pages="normal" if part == "kernel" or staged else pipeline.pages,
        staged=staged and part != "kernel",
        total=int(pipeline.total * ratio),
        chunk=int(pipeline.chunk * ratio),
        slots=1 if part == "kernel" else slots,
        passes=(pipeline.compute.passes or 1) if part == "kernel" else 1,
        threads=pipeline.staging_threads if host else 1,
        lanes=lanes,
        captured=pipeline.submit == "graph",
        batch=batch,
    )
