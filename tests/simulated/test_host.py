"""Host lanes: what calls cost, which copies hold their caller, page faults, allocation, and ends that never come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.device.simulated import Profile, SimulatedDevice
from runner.errors import CaseFailed, CaseUnsupported, DmalabError, PlanError
from runner.memory import DEVICE
from runner.plan import (
    Alloc,
    Barrier,
    Buffer,
    Copy,
    Drain,
    Expect,
    Free,
    Gate,
    HostAccess,
    HostCopy,
    HostWait,
    Launch,
    Mark,
    Operation,
    Plan,
    Record,
    Register,
    Release,
    StreamWait,
    Unregister,
)
from tests import plans
from tests.plans import DATA, plan_of
from tests.simulated.profiles import MS, MS_BYTES, play, span_ns, with_values

SMALL, LARGE = 1_000_000, 1_000_001
"""The largest size whose pageable upload returns early in profile `test`, and the next."""


def behind_work(size: int, direction: str) -> Plan:
    """A pageable copy behind 10 ms of kernels in its stream; marks 0 and 1 around the call, mark 2 at the end."""
    buffers = [Buffer("host", "pageable", size), Buffer("device", DEVICE, size), Buffer("busy", DEVICE, MS_BYTES)]
    src, dst = (0, 1) if direction == "h2d" else (1, 0)
    lane = [Launch(0, 2, 0, MS_BYTES, 10), Mark(0), Copy(0, direction, dst, 0, src, 0, size), Mark(1), Drain(0), Mark(2)]  # type: ignore[arg-type]
    return plan_of(buffers, [lane], data=[src, 2], poison=[dst], expects=[Expect(dst, 0, size, DATA, 0)])


def test_a_small_pageable_upload_returns_once_it_is_staged(ideal: Profile) -> None:
    trace = play(ideal, behind_work(SMALL, "h2d"))
    assert span_ns(trace) == 100_000
    assert span_ns(trace, 0, 2) == 10 * MS + 200_000


def test_a_larger_pageable_upload_waits_for_its_stream_and_for_its_end(ideal: Profile) -> None:
    trace = play(ideal, behind_work(LARGE, "h2d"))
    assert span_ns(trace) == span_ns(trace, 0, 2) == 10 * MS + 200_001


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
def test_a_pageable_download_waits_at_every_size(ideal: Profile, size: int) -> None:
    trace = play(ideal, behind_work(size, "d2h"))
    assert span_ns(trace) == span_ns(trace, 0, 2) == 10 * MS + -(-size // 4)


@pytest.mark.parametrize(("blocking", "held_ns"), [(False, 1_000), (True, 1_000 + 1_000 + MS + 1_000)])
def test_a_pinned_copy_holds_its_caller_only_where_it_is_the_plain_call(
    round_numbers: Profile, blocking: bool, held_ns: int
) -> None:
    """The plain call: 1 us of the call hides in the timed event before it, then the copy, then 1 us to wake."""
    held = span_ns(play(round_numbers, plans.one_copy(MS_BYTES, blocking=blocking)), 2, 3)
    assert held == (held_ns if not blocking else held_ns - 1_000)


def test_calls_of_several_lanes_pass_one_lock(round_numbers: Profile) -> None:
    buffers = [Buffer("device", DEVICE, 400)]
    lanes = [[Barrier(), *[Launch(n, 0, 100 * n, 100)] * 10, Drain(n), Barrier()] for n in range(4)]
    lanes[0].insert(1, Mark(0))
    lanes[0].append(Mark(1))
    trace = play(round_numbers, plan_of(buffers, lanes, data=[0], streams=4))
    assert span_ns(trace) >= 40 * 1_000


@pytest.mark.parametrize(("size", "engine_ns"), [(40, 4 + 9 * 1_000), (40_000, 10 * 4_000)])
def test_passes_are_bound_by_their_calls_or_their_kernels(round_numbers: Profile, size: int, engine_ns: int) -> None:
    lane = [Mark(0), Launch(0, 0, 0, size, 10), Mark(1), Drain(0), Mark(2)]
    trace = play(round_numbers, plan_of([Buffer("device", DEVICE, size)], [lane], data=[0]))
    assert [activity.end_ns - activity.begin_ns for activity in trace.activities] == [engine_ns]
    assert (trace.activities[0].begin_ns, span_ns(trace)) == (1_000, 10_000)


def test_fresh_pages_are_paid_for_once(round_numbers: Profile) -> None:
    size = 4096 * 100
    buffers = [Buffer("from", "pageable", size), Buffer("fresh", "pageable", size)]
    lane = [Alloc(1), Mark(0), HostCopy(1, 0, 0, 0, size), Mark(1), HostCopy(1, 0, 0, 0, size), Mark(2), Free(1)]
    trace = play(round_numbers, plan_of(buffers, [lane], data=[0], in_lanes=[1]))
    assert span_ns(trace) - span_ns(trace, 1, 2) == 100 * 500


def test_pinned_memory_has_no_fresh_pages(round_numbers: Profile) -> None:
    size = 4096 * 100
    buffers = [Buffer("from", "pageable", size), Buffer("fresh", "pinned", size)]
    lane = [Alloc(1), Mark(0), HostCopy(1, 0, 0, 0, size), Mark(1), Free(1)]
    assert span_ns(play(round_numbers, plan_of(buffers, [lane], data=[0], in_lanes=[1]))) == size // 5


def test_a_download_into_fresh_pages_pays_for_them(round_numbers: Profile) -> None:
    size = 4096 * 100
    buffers = [Buffer("device", DEVICE, size), Buffer("fresh", "pageable", size)]
    lane = [Alloc(1), Copy(0, "d2h", 1, 0, 0, 0, size), Free(1)]
    copy = play(round_numbers, plan_of(buffers, [lane], data=[0], in_lanes=[1])).activities[0]
    assert copy.end_ns - copy.begin_ns == size // 4 + 100 * 500


def test_allocation_takes_what_its_kind_takes(round_numbers: Profile) -> None:
    size = 2_000_000
    for memory, expected in ((DEVICE, 200_000), ("pageable", 20_000), ("pinned", 100_000 + 1 * MS + 100_000 + MS // 2)):
        lane = [Mark(0), Alloc(0), Free(0), Mark(1)]
        assert span_ns(play(round_numbers, plan_of([Buffer("it", memory, size)], [lane], in_lanes=[0]))) == expected


def test_registered_memory_is_reached_by_the_engine(ideal: Profile) -> None:
    buffers = [Buffer("host", "pageable", MS_BYTES), Buffer("device", DEVICE, MS_BYTES)]
    lane = [Mark(0), Register(0), Mark(1), Copy(0, "h2d", 1, 0, 0, 0, MS_BYTES), Mark(2), Drain(0), Mark(3), Unregister(0)]
    trace = play(ideal, plan_of(buffers, [lane], data=[0]))
    assert [span_ns(trace, n, n + 1) for n in range(3)] == [600_000, 0, MS]


@pytest.mark.parametrize("chunk", [4096, 1_000_000])
def test_the_same_play_twice_gives_the_same_trace(round_numbers: Profile, chunk: int) -> None:
    for plan in (plans.ring(9, chunk, 3), plans.per_engine(9, chunk, 3), plans.two_lanes(chunk), plans.serialized(4, chunk)):
        session = SimulatedDevice(round_numbers).open(plan)
        assert session.play(0) == session.play(1) == SimulatedDevice(round_numbers).open(plan).play(0)


def test_an_event_that_nobody_waits_for_changes_nothing(ideal: Profile) -> None:
    plan = plans.direct(5, MS_BYTES, 2)
    lane = list(plan.lanes[0])
    lane.insert(4, Record(0, 0))
    noted = replace(plan, lanes=(tuple(lane),), events=plans.ring(1, 4, 1).events)
    before, after = play(ideal, plan), play(ideal, noted)
    assert before.host_ns == after.host_ns
    assert [a.begin_ns for a in before.activities] == [a.begin_ns for a in after.activities]


@pytest.mark.parametrize(
    "lanes",
    [
        [[Gate(0, 0), Drain(0), Release(0)]],
        [[Gate(0, 0), Record(0, 0), HostWait(0), Release(0)]],
        [[Gate(0, 0), Record(0, 0), StreamWait(1, 0), Drain(1), Release(0)]],
        [[Barrier()], [Gate(0, 0), Drain(0), Barrier(), Release(0)]],
    ],
)
def test_a_lane_that_waits_for_ever_is_an_error_and_no_hang(ideal: Profile, lanes: list[list[object]]) -> None:
    plan = plan_of([Buffer("it", DEVICE, 4)], lanes, streams=2, events=1, gates=1)  # type: ignore[arg-type]
    session = SimulatedDevice(ideal).open(plan)
    with pytest.raises(PlanError, match="waits for ever"):
        session.play(0)


def test_a_long_chain_behind_a_gate_needs_no_recursion(ideal: Profile) -> None:
    count = 5_000
    lane = [Gate(0, 0), *(step for n in range(count) for step in (Record(n % 2, n), StreamWait((n + 1) % 2, n)))]
    lane += [Release(0), Drain(0), Drain(1)]
    play(ideal, plan_of([Buffer("it", DEVICE, 4)], [lane], streams=2, events=count, gates=1))


def test_work_that_nobody_waited_for_has_not_happened(ideal: Profile) -> None:
    plan = plans.one_copy(MS_BYTES)
    hasty = plans.without(plan, *plans.indices_of(plan, Drain))
    session = SimulatedDevice(ideal).open(hasty)
    session.play(0)
    assert [wrong.wrong_bytes for wrong in session.verify()] == [MS_BYTES]


def test_a_refill_that_comes_too_early_is_what_arrives(ideal: Profile) -> None:
    """The second copy reads its source only when it begins, 1 ms after it was issued."""
    buffers = [Buffer("host", "pinned", MS_BYTES), Buffer("other", "pinned", 4), Buffer("device", DEVICE, MS_BYTES)]
    lane = [Copy(0, "h2d", 2, 0, 0, 0, MS_BYTES), Copy(0, "h2d", 2, 0, 0, 0, MS_BYTES), HostCopy(0, 0, 1, 0, 4), Drain(0)]
    plan = plan_of(buffers, [lane], data=[0], poison=[1], expects=[Expect(2, 0, MS_BYTES, DATA, 0)], races_wanted=[0])
    session = SimulatedDevice(ideal).open(plan)
    session.play(0)
    assert [(wrong.offset, wrong.wrong_bytes) for wrong in session.verify()] == [(0, 4)]


def test_an_unknown_kind_of_memory_is_unsupported(ideal: Profile) -> None:
    poor = ideal.model_copy(update={"kinds": {name: kind for name, kind in ideal.kinds.items() if name != "pinned"}})
    with pytest.raises(CaseUnsupported, match="knows no pinned memory"):
        SimulatedDevice(poor).open(plans.one_copy(4))


def test_a_closed_session_plays_no_more(ideal: Profile) -> None:
    session = SimulatedDevice(ideal).open(plans.one_copy(4))
    session.close()
    session.close()
    with pytest.raises(DmalabError, match="closed"):
        session.play(0)


def counts(profile: Profile, buffer: Buffer, *operations: Operation) -> list[tuple[int, int] | None]:
    """Play operations on one buffer and return what the process has before the first and after each."""
    lane: list[Operation] = [Mark(0, memory=True)]
    for number, operation in enumerate(operations):
        lane += [operation, Mark(number + 1, memory=True)]
    return list(play(profile, plan_of([buffer], [lane], in_lanes=[0])).memory_bytes)


def test_pages_are_resident_once_touched_or_locked(ideal: Profile) -> None:
    write = HostAccess(0, 0, 4_100, "write")
    assert counts(ideal, Buffer("it", "pageable", 12_288), Alloc(0), write, Register(0), Unregister(0), Free(0)) == [
        (0, 0),
        (0, 0),
        (8_192, 0),
        (12_288, 12_288),
        (12_288, 0),
        (0, 0),
    ]
    assert counts(ideal, Buffer("it", "pinned", 12_288), Alloc(0), Free(0)) == [(0, 0), (12_288, 12_288), (0, 0)]


def test_a_system_may_not_know_what_drivers_pin(ideal: Profile) -> None:
    unaware = with_values(ideal, pins_counted=False)
    assert counts(unaware, Buffer("it", "pinned", 4_096), Alloc(0), Free(0)) == [(0, 0), (4_096, 0), (0, 0)]


@pytest.mark.parametrize("operations", [(Alloc(0), Register(0), Unregister(0), Free(0)), (Alloc(0), Free(0))])
def test_a_lock_limit_is_kept_or_not(ideal: Profile, operations: tuple[Operation, ...]) -> None:
    memory = "pageable" if Register(0) in operations else "pinned"
    plan = plan_of([Buffer("it", memory, 8_192)], [operations], in_lanes=[0])
    with pytest.raises(CaseFailed, match=r"page-locked memory for buffer it was refused; .* the process may lock 4KiB"):
        play(ideal, replace(plan, memlock_bytes=4_096))
    play(ideal, replace(plan, memlock_bytes=8_192))
    play(with_values(ideal, lock_limit_kept=False), replace(plan, memlock_bytes=4_096))


def test_more_memory_than_the_host_has_is_refused_with_the_figures(ideal: Profile) -> None:
    plan = plan_of([Buffer("small", "pinned", 4_096), Buffer("large", "mapped", 2**46)], [[]])
    with pytest.raises(CaseFailed) as refused:
        SimulatedDevice(ideal).open(plan)
    told = "64TiB of mapped memory for buffer large was refused; this case already holds 4KiB of it, the host has 16GiB free"
    assert str(refused.value) == told


def test_memory_is_given_back(ideal: Profile) -> None:
    small = with_values(ideal, memory_bytes=5_000)
    session = SimulatedDevice(small).open(plans.serialized(10, 4_096))
    for sample in range(3):
        session.play(sample)
        assert session.verify() == ()
