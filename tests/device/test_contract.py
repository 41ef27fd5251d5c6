"""What every device owes to `runner.device.contract`: order, independence, exact data, honest answers, safe ends.

Nothing here looks at how long anything takes, since a real device answers that differently on each run.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from runner.device.contract import Device, Mismatch, Session, Trace
from runner.errors import CaseFailed, CaseUnsupported
from runner.memory import DEVICE, KINDS
from runner.plan import (
    Alloc,
    Buffer,
    Busy,
    Copy,
    Drain,
    Event,
    Expect,
    Free,
    Gate,
    Graph,
    GroupEnd,
    HostAccess,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Plan,
    PoolAlloc,
    PoolFree,
    Record,
    Register,
    Release,
    Stream,
    StreamWait,
    Unregister,
)
from runner.plan_check import check_plan
from tests import plans
from tests.plans import DATA, POISON, WRITTEN, changed, indices_of, plan_of, without

KIND_NAMES = tuple(KINDS)


def play(device: Device, plan: Plan, sample: int = 0) -> tuple[Trace, tuple[Mismatch, ...]]:
    check_plan(plan)
    session = device.open(plan)
    try:
        return session.play(sample), session.verify()
    finally:
        session.close()


def in_and_out(device: Device, plan: Plan) -> Trace:
    trace, wrong = play(device, plan)
    assert wrong == ()
    return trace


@pytest.mark.parametrize("size", [1, 3, 4, 4097, 65_537, 3 * 2**20 + 5])
@pytest.mark.parametrize("memory", KIND_NAMES)
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("blocking", [False, True])
def test_a_copy_arrives_whole(device: Device, direction: str, memory: str, size: int, blocking: bool) -> None:
    in_and_out(device, plans.one_copy(size, direction, memory, blocking=blocking))  # type: ignore[arg-type]


def test_bytes_that_nobody_copied_are_noticed(device: Device) -> None:
    plan = plans.one_copy(4096)
    _, wrong = play(device, without(plan, *indices_of(plan, Copy)))
    assert [(found.buffer, found.offset) for found in wrong] == [("device", 0)]
    assert wrong[0].wrong_bytes > 2048


def test_operations_of_one_stream_keep_their_order(device: Device) -> None:
    size = 256 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [Copy(0, "h2d", 2, 0, 0, 0, size)]
    lane += [Launch(0, 2, 0, size, 2), Launch(0, 2, size // 2, size // 2), Copy(0, "d2h", 1, 0, 2, 0, size), Drain(0)]
    expects = [Expect(1, 0, size // 2, DATA, 0, 2), Expect(1, size // 2, size // 2, DATA, size // 2, 3)]
    in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1, 2], expects=expects))


def test_a_held_stream_does_not_hold_another(device: Device) -> None:
    size = 64 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("a", DEVICE, size), Buffer("b", DEVICE, size)]
    lane = [Gate(0, 0), Launch(0, 1, 0, size), Copy(1, "h2d", 2, 0, 0, 0, size), Record(1, 0)]
    lane += [HostWait(0), Mark(0), Release(0), Drain(0), Mark(1)]
    expects = [Expect(1, 0, size, DATA, 0, 1), Expect(2, 0, size, DATA, 0)]
    plan = plan_of(buffers, [lane], data=[0, 1], poison=[2], streams=2, events=1, gates=1, expects=expects)
    trace = in_and_out(device, plan)
    assert not trace.gate_timeout


def test_a_gate_holds_its_stream_until_it_is_released(device: Device) -> None:
    size = 4096
    buffers = [Buffer("first", "pinned", size), Buffer("second", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [Gate(0, 0), Copy(0, "h2d", 2, 0, 0, 0, size), HostCopy(0, 0, 1, 0, size), Release(0), Drain(0)]
    # The source is replaced while the gate is closed, so the copy must bring what was written last: a race, wanted here.
    expects = [Expect(2, 0, size, DATA, 0)]
    plan = plan_of(buffers, [lane], data=[1], poison=[0, 2], gates=1, expects=expects, races_wanted=[0])
    trace = in_and_out(device, plan)
    assert not trace.gate_timeout


def test_a_stream_waits_for_an_event_of_another(device: Device) -> None:
    size = 1024 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [Gate(0, 0), Copy(0, "h2d", 2, 0, 0, 0, size), Record(0, 0), StreamWait(1, 0), Launch(1, 2, 0, size)]
    lane += [Copy(1, "d2h", 1, 0, 2, 0, size), Release(0), Drain(1)]
    expects = [Expect(1, 0, size, DATA, 0, 1)]
    in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1, 2], streams=2, events=1, gates=1, expects=expects))


def test_the_null_stream_and_blocking_streams_wait_for_each_other(device: Device) -> None:
    size = 1024 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [Copy(0, "h2d", 2, 0, 0, 0, size), Launch(1, 2, 0, size), Copy(0, "d2h", 1, 0, 2, 0, size), Drain(0)]
    expects = [Expect(1, 0, size, DATA, 0, 1)]
    streams = [Stream("null", "null"), Stream("other", "blocking")]
    in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1, 2], streams=streams, expects=expects))


def test_event_times_count_from_the_first_timed_event(device: Device) -> None:
    size = 1024 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [Record(0, 0), Record(0, 1), Copy(0, "h2d", 1, 0, 0, 0, size), Record(0, 2), Record(0, 3), Drain(0)]
    events = [Event("plain"), Event("begin", timed=True), Event("end", timed=True), Event("last")]
    trace = in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1], events=events))
    plain, begin, end, last = trace.event_ns
    assert (plain, begin, last) == (None, 0, None)
    assert end is not None
    assert end > 0


def test_marks_follow_the_lane(device: Device) -> None:
    trace = in_and_out(device, plans.one_copy(1024 * 1024))
    begin, end, before_call, after_call = trace.host_ns
    assert None not in trace.host_ns
    assert begin <= before_call <= after_call <= end  # type: ignore[operator]


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_a_staged_ring_brings_every_word_back_plus_one(device: Device, slots: int) -> None:
    in_and_out(device, plans.ring(7, 64 * 1024, slots))


def test_a_ring_through_pageable_stagers_is_exact_too(device: Device) -> None:
    in_and_out(device, plans.ring(5, 96 * 1024, 2, memory="pageable", threads=2, passes=3))


@pytest.mark.parametrize("issue", ["depth_first", "breadth_first"])
def test_a_direct_pipeline_is_exact(device: Device, issue: str) -> None:
    in_and_out(device, plans.direct(7, 32 * 1024, 3, issue=issue))


def test_a_pipeline_of_one_stream_an_engine_is_exact(device: Device) -> None:
    in_and_out(device, plans.per_engine(9, 32 * 1024, 2))


def test_memory_allocated_in_a_lane_is_usable_in_every_play(device: Device) -> None:
    plan = plans.serialized(3, 128 * 1024)
    check_plan(plan)
    session = device.open(plan)
    for sample in range(3):
        session.play(sample)
        assert session.verify() == ()
    session.close()


def test_two_lanes_meet_at_barriers(device: Device) -> None:
    trace = in_and_out(device, plans.two_lanes(256 * 1024))
    assert None not in trace.host_ns


@pytest.mark.parametrize("size", [4096, 64 * 1024, 4 * 2**20])
def test_a_pageable_source_may_be_overwritten_once_the_call_returned(device: Device, size: int) -> None:
    buffers = [Buffer("source", "pageable", size), Buffer("other", "pageable", size), Buffer("device", DEVICE, size)]
    lane = [Copy(0, "h2d", 2, 0, 0, 0, size), HostCopy(0, 0, 1, 0, size), Drain(0)]
    in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1, 2], expects=[Expect(2, 0, size, DATA, 0)]))


def test_registered_memory_is_copied_exactly(device: Device) -> None:
    size = 1024 * 1024
    buffers = [Buffer("host", "pageable", size), Buffer("device", DEVICE, size)]
    lane = [Register(0), Copy(0, "h2d", 1, 0, 0, 0, size), Drain(0), Unregister(0)]
    in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1], expects=[Expect(1, 0, size, DATA, 0)]))


KERNEL_KINDS = tuple(name for name, kind in KINDS.items() if kind.kernel_access)
MIGRATING = tuple(name for name, kind in KINDS.items() if kind.migrates)
SIZES_IN_PLACE = [8, 4_100, 65_543, 3 * 2**20 + 4]
"""Whole words are used in place, but the buffers may end anywhere."""


@pytest.mark.parametrize("size", SIZES_IN_PLACE)
@pytest.mark.parametrize("memory", [*KERNEL_KINDS, DEVICE])
def test_kernels_use_memory_in_place(device: Device, memory: str, size: int) -> None:
    plan = plans.in_place(size, "mapped" if memory == DEVICE else memory)
    if memory == DEVICE:
        buffers = [Buffer("it", DEVICE, size), Buffer("out", "pinned", size)]
        back = Copy(0, "d2h", 1, 0, 0, 0, size)
        lane = tuple(back if isinstance(operation, Copy) else operation for operation in plan.lanes[0])
        plan = replace(plan, buffers=tuple(buffers), lanes=(lane,))
    in_and_out(device, plan)


@pytest.mark.parametrize("size", SIZES_IN_PLACE)
@pytest.mark.parametrize("memory", KIND_NAMES)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_processor_uses_memory_in_place(device: Device, memory: str, size: int, threads: int) -> None:
    in_and_out(device, plans.in_place(size, memory, by="cpu", threads=threads))


@pytest.mark.parametrize("size", SIZES_IN_PLACE)
@pytest.mark.parametrize("memory", KERNEL_KINDS)
def test_kernels_copy_exactly(device: Device, memory: str, size: int) -> None:
    in_and_out(device, plans.kernel_copies(size, memory))


def test_a_kernel_copies_from_and_to_any_word(device: Device) -> None:
    size = 64 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("device", DEVICE, size)]
    expects, lane = [], []
    for number in range(4):
        at = number * 8192
        source, middle, length = at + 4 * number, at + 4 * (3 - number), 4096 + 4 * number
        lane += [KernelCopy(0, 2, middle, 0, source, length), KernelCopy(0, 1, at, 2, middle, length)]
        expects += [Expect(1, at, length, DATA, source), Expect(1, at + length, 64, POISON, at + length)]
    in_and_out(device, plan_of(buffers, [[*lane, Drain(0)]], data=[0], poison=[1, 2], expects=expects))


def test_a_kernel_uses_registered_memory(device: Device) -> None:
    size = 1024 * 1024
    lane = [Register(0), KernelAccess(0, 0, 0, size, "increment"), Launch(0, 0, 0, size // 2, 2), Drain(0), Unregister(0)]
    expects = [Expect(0, 0, size // 2, DATA, 0, 3), Expect(0, size // 2, size // 2, DATA, size // 2, 1)]
    in_and_out(device, plan_of([Buffer("host", "pageable", size)], [lane], data=[0], expects=expects))


def test_an_increment_too_many_in_place_is_noticed(device: Device) -> None:
    for by in ("kernel", "cpu"):
        plan = plans.in_place(4096, by=by)
        _, wrong = play(device, without(plan, 2))
        assert [(found.buffer, found.offset) for found in wrong] == [("host", 0), ("device", 0)]
        assert all(found.wrong_bytes >= 512 for found in wrong)


@pytest.mark.parametrize("shift", [0, 4, 1028])
def test_what_is_written_in_place_is_flat(device: Device, shift: int) -> None:
    size = 64 * 1024
    buffers = [Buffer("host", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [HostAccess(0, 0, size, "write", 2, WRITTEN), Copy(0, "h2d", 1, 0, 0, shift, size - shift)]
    lane += [KernelAccess(0, 1, 0, 4096, "write", WRITTEN + 1), Drain(0)]
    expects = [Expect(1, 4096, size - shift - 4096, WRITTEN, 12), Expect(1, 0, 4096, WRITTEN + 1, 0)]
    in_and_out(device, plan_of(buffers, [lane], poison=[0, 1], expects=expects))


@pytest.mark.parametrize("size", [4_100, 2**20, 5 * 2**20 + 12])
@pytest.mark.parametrize("prefetch", [False, True])
def test_migrating_data_stay_right_wherever_they_go(device: Device, size: int, prefetch: bool) -> None:
    plan = plans.migrations(size, prefetch=prefetch)
    check_plan(plan)
    session = device.open(plan)
    try:
        for sample in range(3):
            session.play(sample)
            assert session.verify() == ()
    finally:
        session.close()


@pytest.mark.parametrize("memory", MIGRATING)
def test_a_prefetch_may_prepare_a_play(device: Device, memory: str) -> None:
    size = 1024 * 1024
    lane = [HostAccess(0, 0, size // 2, "increment"), KernelAccess(0, 0, 0, size, "increment"), Drain(0)]
    expects = [Expect(0, 0, size // 2, DATA, 0, 2), Expect(0, size // 2, size // 2, DATA, size // 2, 1)]
    in_and_out(device, plan_of([Buffer("it", memory, size)], [lane], data=[0], expects=expects, prefetched=[0]))


def test_a_busy_stream_keeps_its_order_and_holds_no_other(device: Device) -> None:
    size = 64 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [Copy(1, "h2d", 2, 0, 0, 0, size), Record(1, 0), Busy(0, 2_000_000), StreamWait(0, 0), Launch(0, 2, 0, size)]
    lane += [Copy(0, "d2h", 1, 0, 2, 0, size), HostWait(0), HostAccess(0, 0, size, "increment"), Drain(0)]
    expects = [Expect(1, 0, size, DATA, 0, 1), Expect(0, 0, size, DATA, 0, 1)]
    in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1, 2], streams=2, events=1, expects=expects))


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_a_buffer_freed_in_flight_hurts_nobody_else(device: Device, memory: str) -> None:
    """Whether the copy still finds its data is the device's own; that the next case is right is the contract."""
    size = 1024 * 1024
    buffers = [Buffer("host", memory, size), Buffer("source", "pageable", size), Buffer("device", DEVICE, size)]
    lane = [Alloc(0), HostCopy(0, 0, 1, 0, size), Busy(0, 2_000_000), Copy(0, "h2d", 2, 0, 0, 0, size), Free(0), Drain(0)]
    expects, racing = [Expect(2, 0, size, DATA, 0)], [] if memory == "pageable" else [0]
    plan = plan_of(buffers, [lane], data=[1], poison=[2], in_lanes=[0], expects=expects, races_wanted=racing)
    _, wrong = play(device, plan)
    assert all(found.buffer == "device" for found in wrong)
    assert not wrong or racing
    in_and_out(device, plans.one_copy(size))


def test_the_processor_time_of_a_lane_is_read_where_asked(device: Device) -> None:
    plan = plans.one_copy(1024 * 1024)
    asked = changed(changed(plan, 0, cpu=True), len(plan.lanes[0]) - 1, cpu=True)
    begin, end, before_call, after_call = in_and_out(device, asked).cpu_ns
    assert (before_call, after_call) == (None, None)
    assert begin is not None
    assert end is not None
    assert 0 <= begin <= end


def test_the_memory_of_the_process_is_counted_where_asked(device: Device) -> None:
    size = 64 * 2**20
    lane = [Mark(0, memory=True), Alloc(0), HostAccess(0, 0, size, "write"), Mark(1), Mark(2, memory=True), Free(0), Mark(3)]
    plan = plan_of([Buffer("fresh", "pageable", size)], [lane], in_lanes=[0])
    before, unasked, after, last = in_and_out(device, plan).memory_bytes
    assert (unasked, last) == (None, None)
    if before is None or after is None:
        assert not device.deterministic, "only a system may not tell"
        pytest.skip("this system does not tell how much memory a process has")
    # A process does other things meanwhile, and systems count by the hundred pages.
    assert abs(after[0] - before[0] - size) < size // 8
    assert after[1] - before[1] < size // 8


@pytest.mark.parametrize("memory", [name for name, kind in KINDS.items() if "huge" in kind.pages])
def test_huge_pages_carry_data_as_others_do(device: Device, memory: str) -> None:
    plan = plans.one_copy(6 * 2**20 + 5, memory=memory)
    host, on_device = plan.buffers
    plan = replace(plan, buffers=(replace(host, pages="huge"), on_device))
    try:
        trace = in_and_out(device, plan)
    except CaseUnsupported as refusal:
        if device.deterministic:
            raise
        pytest.skip(str(refusal))
    assert trace.buffer_facts[0] in KINDS[memory].driver_says


UNEQUAL = [64 * 1024, 4, 300_000, 128 * 1024, 4096]


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_a_graph_does_what_its_operations_do_in_every_play(device: Device, streams: int) -> None:
    plan = plans.graph(UNEQUAL, streams)
    check_plan(plan)
    session = device.open(plan)
    try:
        for sample in range(3):
            trace = session.play(sample)
            assert session.verify() == ()
            assert trace.instantiate_ns is not None
            assert trace.instantiate_ns > 0
    finally:
        session.close()


def test_a_graph_of_memory_that_is_registered_is_made_in_every_play(device: Device) -> None:
    plan = plans.graph(UNEQUAL, 2, in_place=True)
    check_plan(plan)
    session = device.open(plan)
    try:
        for sample in range(3):
            trace = session.play(sample)
            assert session.verify() == ()
            begin, end = trace.host_ns
            assert begin is not None
            assert end is not None
            assert trace.instantiate_ns is not None
            assert 0 < trace.instantiate_ns < end - begin
    finally:
        session.close()


def test_a_graph_may_be_launched_again_and_again(device: Device) -> None:
    size = 64 * 1024
    buffers = [Buffer("it", DEVICE, size), Buffer("out", "pinned", size)]
    launched = [Graph(0), Launch(0, 0, 0, size), Launch(0, 0, 0, size // 2, 2), GroupEnd()]
    lane = [*launched * 5, Copy(0, "d2h", 1, 0, 0, 0, size), Drain(0)]
    expects = [Expect(1, 0, size // 2, DATA, 0, 15), Expect(1, size // 2, size // 2, DATA, size // 2, 5)]
    in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1], expects=expects))


def test_a_graph_comes_after_what_was_in_its_stream_and_before_what_follows(device: Device) -> None:
    size = 256 * 1024
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("device", DEVICE, size)]
    lane = [Gate(0, 0), Copy(0, "h2d", 2, 0, 0, 0, size), Graph(0), Record(0, 0), StreamWait(1, 0), Launch(1, 2, 0, size)]
    lane += [Record(1, 1), StreamWait(0, 1), GroupEnd(), Copy(0, "d2h", 1, 0, 2, 0, size), Release(0), Drain(0)]
    expects = [Expect(1, 0, size, DATA, 0, 1)]
    trace = in_and_out(device, plan_of(buffers, [lane], data=[0], poison=[1, 2], streams=2, events=2, gates=1, expects=expects))
    assert not trace.gate_timeout


def test_a_plan_without_graphs_names_no_time_for_making_them(device: Device) -> None:
    assert in_and_out(device, plans.one_copy(4096)).instantiate_ns is None


@pytest.mark.parametrize("memory", [name for name, kind in KINDS.items() if kind.asynchronous and not kind.migrates])
def test_a_batch_copies_each_of_its_chunks(device: Device, memory: str) -> None:
    supported(device, plans.batches(UNEQUAL, memory))


def test_a_chunk_that_a_batch_leaves_out_is_noticed(device: Device) -> None:
    plan = plans.batches(UNEQUAL)
    session = opened(device, without(plan, 4))
    session.play(0)
    assert [(wrong.buffer, wrong.offset) for wrong in session.verify()] == [("output", sum(UNEQUAL[:2]))]
    session.close()


@pytest.mark.parametrize("streams", [1, 3])
def test_memory_of_the_pool_carries_data_as_other_memory_does(device: Device, streams: int) -> None:
    plan = plans.pooled(7, 64 * 1024, streams)
    check_plan(plan)
    session = opened(device, plan)
    for sample in range(3):
        session.play(sample)
        assert session.verify() == ()
    session.close()


def test_the_pool_refuses_what_the_device_does_not_have(device: Device) -> None:
    buffers = [Buffer("too large", DEVICE, 2**46)]
    plan = plan_of(buffers, [[PoolAlloc(0, 0), PoolFree(0, 0)]], in_lanes=[0])
    session = opened(device, plan)
    with pytest.raises(CaseFailed, match=r"64TiB of device( pool)? memory for buffer too large was refused"):
        session.play(0)
    session.close()
    in_and_out(device, plans.one_copy(4096))


@pytest.mark.parametrize("plan", [plans.graph(UNEQUAL), plans.batches(UNEQUAL), plans.pooled(4, 4096, 2)])
def test_recorded_plays_tell_of_work_that_was_handed_over_together(device: Device, plan: Plan) -> None:
    session = opened(device, plan)
    trace = session.play(0, record=True)
    assert session.verify() == ()
    session.close()
    if trace.not_recorded:
        assert not device.deterministic
        return
    copied = {"h2d": 0, "d2h": 0}
    for activity in trace.activities:
        if activity.engine in copied:
            copied[activity.engine] += activity.size_bytes
            assert activity.host_begin_ns is not None
    assert copied == {
        way: sum(each.size for each in plan.lanes[0] if isinstance(each, Copy) and each.direction == way) for way in copied
    }


def opened(device: Device, plan: Plan) -> Session:
    """Open a Plan; a device that really lacks what it asks for is passed over."""
    check_plan(plan)
    try:
        return device.open(plan)
    except CaseUnsupported as refusal:
        if device.deterministic:
            raise
        pytest.skip(str(refusal))


def supported(device: Device, plan: Plan) -> None:
    session = opened(device, plan)
    session.play(0)
    assert session.verify() == ()
    session.close()


CHUNK = 8192


@pytest.mark.parametrize(
    ("name", "where", "fields", "first", "last"),
    [
        ("a short upload", 0, {"size": CHUNK - 4}, 2 * CHUNK - 4, 2 * CHUNK),
        ("a doubled chunk", 0, {"src_offset": 0}, CHUNK, 2 * CHUNK),
        ("an upload beside its place", 0, {"dst_offset": 4, "size": CHUNK - 4}, CHUNK, 2 * CHUNK),
        ("a short download", 2, {"size": CHUNK - 1}, 2 * CHUNK - 1, 2 * CHUNK),
        ("a download over its neighbour", 2, {"dst_offset": 2 * CHUNK}, CHUNK, 2 * CHUNK),
        ("a download shifted by a byte", 2, {"src_offset": 1, "size": CHUNK - 1}, CHUNK, 2 * CHUNK),
        ("a kernel that ends early", 1, {"size": CHUNK - 4}, 2 * CHUNK - 4, 2 * CHUNK),
        ("a kernel run twice", 1, {"passes": 2}, CHUNK, 2 * CHUNK),
    ],
)
def test_a_wrong_chunk_is_found_where_it_lies(
    device: Device, name: str, where: int, fields: dict[str, int], first: int, last: int
) -> None:
    plan = replace(plans.direct(3, CHUNK, 1), expects=(Expect(1, 0, 3 * CHUNK, DATA, 0, 1),))
    _, wrong = play(device, changed(plan, 1 + 3 + where, **fields))
    assert len(wrong) == 1, name
    assert wrong[0].buffer == "output"
    assert first <= wrong[0].offset < last
    assert 1 <= wrong[0].wrong_bytes <= last - first


def test_each_sample_has_its_own_data(device: Device) -> None:
    plan = plans.ring(4, 4096, 2)
    session = device.open(plan)
    for sample in (0, 1, 7):
        session.play(sample)
        assert session.verify() == ()
    session.close()


def test_data_filled_for_another_sample_are_noticed(device: Device) -> None:
    plan = plans.one_copy(4096)
    stale = replace(plan, setup=plan.setup + plan.prepare, prepare=())
    session = device.open(stale)
    session.play(0)
    assert session.verify() == ()
    session.play(1)
    assert [wrong.buffer for wrong in session.verify()] == ["device"]
    session.close()


@pytest.mark.parametrize("memory", KIND_NAMES)
def test_the_driver_says_what_each_buffer_is(device: Device, memory: str) -> None:
    trace = in_and_out(device, plans.one_copy(1024 * 1024, memory=memory))
    host, on_device = trace.buffer_facts
    assert host in KINDS[memory].driver_says
    assert on_device == "device"


def test_engines_do_one_thing_at_a_time(device: Device) -> None:
    trace = in_and_out(device, plans.direct(6, 256 * 1024, 3))
    by_engine: dict[str, list[tuple[int, int]]] = {}
    for activity in trace.activities:
        by_engine.setdefault(activity.engine, []).append((activity.begin_ns, activity.end_ns))
    for spans in by_engine.values():
        spans.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_a_failure_in_the_middle_of_a_play_ends_safely(device: Device) -> None:
    size, too_large = 1024 * 1024, 2**46
    plan = plans.one_copy(size)
    hungry = replace(
        plan,
        buffers=(*plan.buffers, Buffer("too large", DEVICE, too_large)),
        lanes=(plan.lanes[0][:4] + plans.alloc_and_free(2) + plan.lanes[0][4:],),
    )
    check_plan(hungry)
    session = device.open(hungry)
    with pytest.raises(CaseFailed, match="64TiB of device memory for buffer too large was refused"):
        session.play(0)
    session.close()
    session.close()
    in_and_out(device, plan)


def test_a_refused_allocation_names_its_figures(device: Device) -> None:
    plan = plans.one_copy(2**46)
    pinned_away = replace(plan, setup=plan.setup[1:])
    with pytest.raises(CaseFailed, match=r"device memory for buffer device was refused.*holds.*free"):
        device.open(pinned_away)


def test_closing_twice_is_safe(device: Device) -> None:
    session = device.open(plans.one_copy(4096))
    session.play(0)
    session.close()
    session.close()


def test_sessions_follow_each_other(device: Device) -> None:
    for size in (4096, 8192, 4096):
        in_and_out(device, plans.ring(3, size, 2))


def test_facts_identify_the_device(device: Device) -> None:
    facts = device.facts()
    assert facts.name
    assert facts.kind in ("cuda", "simulated")
    assert (facts.kind == "simulated") == facts.name.startswith("simulated:") == device.deterministic
    assert 0 < facts.free_bytes <= facts.memory_bytes
    assert facts.copy_engines >= 1
