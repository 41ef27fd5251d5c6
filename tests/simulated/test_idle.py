"""How long engines and lanes of a staged ring stand idle beside the bound, and that no wait is longer than it must be."""

from __future__ import annotations

from typing import Literal

import pytest

from runner.device.contract import Trace
from runner.device.simulated import Profile
from runner.plan import Copy, HostWait, Plan, Record
from runner.scenarios.pipeline import Compute, Pipeline
from runner.timeline import rows_of, timeline_of
from tests.simulated.profiles import MS, MS_BYTES, play, with_values

CHUNKS = 8
Way = Literal["round_trip", "upload", "download"]


def staged(way: Way, *, passes: int = 1, **more: object) -> Pipeline:
    """Return a ring of 8 chunks, each 1 ms on a link and for one pass of the kernel, and 2 ms for each copy of the host."""
    fields: dict[str, object] = {
        "kind": "pipeline",
        "schedule": "overlapped",
        "staging": "copy",
        "direction": way,
        "total": CHUNKS * MS_BYTES,
        "chunk": MS_BYTES,
        "compute": Compute(passes=passes),
    }
    return Pipeline.model_validate(fields | more)


def wall_ns(plan: Plan, trace: Trace) -> int:
    """Return the time from the first mark to the last."""
    marks = [ns for ns in trace.host_ns if ns is not None]
    return max(marks) - min(marks)


def idle_ms(profile: Profile, case: Pipeline) -> tuple[float, dict[str, float]]:
    """Return the wall time of a play, and for how much of it each engine and lane did nothing; waiting is doing nothing."""
    plan = case.plan()
    trace = play(profile, plan)
    wall = wall_ns(plan, trace)
    idle = {
        row.name: (wall - sum(span.end_ns - span.begin_ns for span in row.spans if span.work != "wait")) / MS
        for row in rows_of(plan, timeline_of(plan, trace))
        if row.group != "stream"
    }
    return wall / MS, idle


@pytest.mark.parametrize(
    ("way", "slots", "passes", "wall_ms", "lane_idle_ms"),
    [
        # The host copies 16 times 2 ms. With three slots it never waits: the bound itself.
        ("round_trip", 3, 1, 32, 0),
        # Two slots: each chunk is back 3 ms after it was filled, and for 2 of them the host fills the other.
        ("round_trip", 2, 1, 34, 2),
        # One slot: nothing hides, the host waits 3 ms for each chunk.
        ("round_trip", 1, 1, 56, 24),
        # One way the host copies 8 times 2 ms. A slot is free when its upload is done, whatever the kernel still does: at the end
        # one upload and one kernel are left.
        ("upload", 2, 1, 18, 2),
        ("upload", 3, 1, 18, 2),
        # One slot: the host waits 1 ms for each upload, and never for a kernel but the last.
        ("upload", 1, 1, 25, 9),
        # Kernels of 3 ms: with two slots they alone take 24 ms, and the first comes after 2 ms of the host and 1 of its upload.
        ("upload", 2, 3, 27, 11),
        # On one stream the next upload waits for the kernel: 2 ms of the host, then 8 times 1 and 3.
        ("upload", 1, 3, 34, 18),
        # Downloads begin with a kernel and a download, and then the host copies without a pause.
        ("download", 3, 1, 18, 2),
        ("download", 2, 1, 18, 2),
        # One slot: the kernel of the next chunk runs meanwhile, its download does not: 1 ms first, 1 each.
        ("download", 1, 1, 25, 9),
        ("download", 2, 3, 27, 11),
        ("download", 1, 3, 34, 18),
    ],
)
def test_wall_time_and_idle_time_of_a_staged_ring(
    ideal: Profile, way: Way, slots: int, passes: int, wall_ms: float, lane_idle_ms: float
) -> None:
    wall, idle = idle_ms(ideal, staged(way, streams=slots, passes=passes))
    assert wall == wall_ms
    engines = {"h2d": CHUNKS, "compute": CHUNKS * passes, "d2h": CHUNKS}
    if way != "round_trip":
        del engines["d2h" if way == "upload" else "h2d"]
    assert idle == {name: wall_ms - busy for name, busy in engines.items()} | {"lane 0": lane_idle_ms}


@pytest.mark.parametrize("way", ["round_trip", "upload", "download"])
def test_with_slots_enough_the_bound_is_missed_by_one_chunk_and_the_calls(round_numbers: Profile, way: Way) -> None:
    """The host is the slowest: 2 ms a copy. What is not hidden is one chunk's way, and calls and waits of 1 us each."""
    wall, idle = idle_ms(round_numbers, staged(way, streams=4))
    copies = 2 * CHUNKS if way == "round_trip" else CHUNKS
    assert 2 * copies <= wall <= 2 * copies + (0 if way == "round_trip" else 2) + 0.1
    assert idle["lane 0"] == pytest.approx(wall - 2 * copies)


@pytest.mark.parametrize("engines", [1, 2])
@pytest.mark.parametrize("issue", ["depth_first", "breadth_first"])
@pytest.mark.parametrize("passes", [1, 4])
@pytest.mark.parametrize(
    "ring",
    [
        {"streams": 1},
        {"streams": 3},
        {"streams": 2, "slots": 5},
        {"streams": 3, "slots": 5, "layout": "per_engine"},
        {"streams": 6, "staging_lanes": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["round_trip", "upload", "download"])
def test_no_lane_waits_for_a_slot_while_another_of_its_own_is_ready(
    ideal: Profile, way: Way, ring: dict[str, object], passes: int, issue: str, engines: int
) -> None:
    """The last chunk is short, so that it is through sooner than one that was issued before might be."""
    if "layout" in ring and way != "round_trip":
        ring = ring | {"streams": 2}
    plan = staged(way, passes=passes, issue=issue, total=7 * MS_BYTES + MS_BYTES // 10, **ring).plan()
    trace = play(with_values(ideal, copy_engines=engines), plan)
    ends = {(each.lane, each.index): each.end_ns for each in trace.activities if each.engine != "host"}
    waits = 0
    for lane, operations in enumerate(plan.lanes):
        last_copy: dict[int, int] = {}
        ready_ns: dict[int, int] = {}
        waited_for = {operation.event for operation in operations if isinstance(operation, HostWait)}
        for index, operation in enumerate(operations):
            if isinstance(operation, Copy):
                last_copy[operation.stream] = ends[lane, index]
            elif isinstance(operation, Record) and operation.event in waited_for:
                ready_ns[operation.event] = last_copy[operation.stream]
            elif isinstance(operation, HostWait):
                waits += 1
                assert ready_ns.pop(operation.event) <= min(ready_ns.values(), default=10**12)
    assert waits == 8, "each chunk is waited for once"
