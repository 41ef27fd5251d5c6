"""Access in place, migration, kinds of host memory, faults: what each costs on the profile of round numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runner.device.simulated import Profile, SimulatedDevice
from runner.device.simulated.profile_values import Curve
from runner.errors import CaseFailed
from runner.memory import DEVICE
from runner.plan import (
    Access,
    Alloc,
    Barrier,
    Buffer,
    Busy,
    Copy,
    Direction,
    Drain,
    Expect,
    Free,
    HostAccess,
    HostCopy,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Pages,
    Plan,
    Prefetch,
    Register,
    Unregister,
)
from tests import plans
from tests.plans import DATA, WRITTEN, plan_of
from tests.simulated.profiles import MS, MS_BYTES, play, span_ns, with_kind, with_values

PAGES = 100
SIZE = PAGES * 4096


def between_marks(
    profile: Profile, buffers: Sequence[Buffer], operations: Sequence[Operation], **more: Sequence[int]
) -> list[int]:
    """Return the ns of each operation, by marks around all of them."""
    lane: list[Operation] = [Mark(0)]
    for number, operation in enumerate(operations):
        lane += [operation, Mark(number + 1)]
    trace = play(profile, plan_of(buffers, [lane], **more))  # type: ignore[arg-type]
    return [span_ns(trace, number, number + 1) for number in range(len(operations))]


def engine_ns(profile: Profile, plan: Plan) -> list[tuple[str, int]]:
    """Return each activity's engine and time, in order of their ends."""
    return [(activity.engine, activity.end_ns - activity.begin_ns) for activity in play(profile, plan).activities]


@pytest.mark.parametrize(
    ("memory", "pages", "allocate", "free"),
    [
        ("pageable", "normal", 10_000, 10_000),
        ("registered", "normal", 10_000 + PAGES * 500 + 100_000 + SIZE // 20, 100_000 + SIZE // 40 + 10_000),
        ("registered", "huge", 10_000 + 100_000 + 100_000 + SIZE // 40, 100_000 + SIZE // 80 + 10_000),
        ("write_combined", "normal", 100_000 + SIZE // 2, 100_000 + SIZE // 4),
        ("mapped", "normal", 100_000 + SIZE // 2, 100_000 + SIZE // 4),
        ("managed", "normal", 20_000, 20_000),
    ],
)
def test_what_allocating_and_freeing_a_kind_take(
    round_numbers: Profile, memory: str, pages: Pages, allocate: int, free: int
) -> None:
    times = between_marks(round_numbers, [Buffer("it", memory, SIZE, pages)], [Alloc(0), Free(0)], in_lanes=[0])
    assert times == [allocate, free]


@pytest.mark.parametrize(
    ("pages", "touch", "lock", "unlock"),
    [("normal", PAGES * 500, SIZE // 20, SIZE // 40), ("huge", 100_000, SIZE // 40, SIZE // 80)],
)
def test_registering_untouched_memory_touches_it(
    round_numbers: Profile, pages: Pages, touch: int, lock: int, unlock: int
) -> None:
    buffers = [Buffer("it", "pageable", SIZE, pages)]
    operations = [Alloc(0), Register(0), Unregister(0), Register(0), Unregister(0), HostAccess(0, 0, SIZE, "write"), Free(0)]
    _, first, undo, second, _, write, _ = between_marks(round_numbers, buffers, operations, in_lanes=[0])
    assert (first, undo, second) == (touch + 100_000 + lock, 100_000 + unlock, 100_000 + lock)
    assert write == SIZE // 20


@pytest.mark.parametrize(("pages", "touch"), [("normal", PAGES * 500), ("huge", 100_000)])
def test_writing_fresh_pages_in_place_touches_them(round_numbers: Profile, pages: Pages, touch: int) -> None:
    operations = [Alloc(0), HostAccess(0, 0, SIZE, "write"), HostAccess(0, 0, SIZE, "write"), Free(0)]
    times = between_marks(round_numbers, [Buffer("it", "pageable", SIZE, pages)], operations, in_lanes=[0])
    assert times[1:3] == [touch + SIZE // 20, SIZE // 20]


@pytest.mark.parametrize(("access", "at_5_gb_per_s"), [("read", 0.5), ("write", 0.25), ("increment", 1.0)])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("memory", ["pageable", "pinned", "mapped", "managed"])
def test_the_processor_uses_all_ordinary_kinds_alike(
    round_numbers: Profile, memory: str, threads: int, access: Access, at_5_gb_per_s: float
) -> None:
    buffers = [Buffer("it", memory, MS_BYTES)]
    times = between_marks(round_numbers, buffers, [HostAccess(0, 0, MS_BYTES, access, threads)], data=[0])
    assert times == [2 * MS * at_5_gb_per_s / threads]


def test_write_combined_memory_is_slow_to_read_alone(round_numbers: Profile) -> None:
    """Reading takes 0.1 GB/s a thread on top of what any read takes, whoever reads."""
    buffers = [Buffer("it", "write_combined", MS_BYTES), Buffer("other", "pageable", MS_BYTES)]
    operations = [
        HostAccess(0, 0, MS_BYTES, "write"),
        HostAccess(0, 0, MS_BYTES, "read"),
        HostAccess(0, 0, MS_BYTES, "read", 2),
        HostAccess(0, 0, MS_BYTES, "increment"),
        HostCopy(0, 0, 1, 0, MS_BYTES),
        HostCopy(1, 0, 0, 0, MS_BYTES),
    ]
    times = between_marks(round_numbers, buffers, operations, data=[0, 1])
    assert times == [MS // 2, 101 * MS, 50 * MS + MS // 2, 102 * MS, 2 * MS, 102 * MS]


@pytest.mark.parametrize(
    ("memory", "read", "write", "increment"),
    [
        (DEVICE, 20, 20, 10),
        *((memory, 8, 5, 4) for memory in ("pinned", "registered", "write_combined", "mapped")),
    ],
)
def test_kernels_work_in_place(ideal: Profile, memory: str, read: int, write: int, increment: int) -> None:
    lane: list[Operation] = [KernelAccess(0, 0, 0, MS_BYTES, access, WRITTEN) for access in ("write", "increment", "read")]
    lane += [Launch(0, 0, 0, MS_BYTES), Drain(0)]
    plan = plan_of([Buffer("it", memory, MS_BYTES)], [lane], expects=[Expect(0, 0, MS_BYTES, WRITTEN, 0, 2)])
    rates = [round(MS_BYTES / time) for _, time in engine_ns(ideal, plan)]
    assert rates == [write, increment, read, increment]


def test_kernels_copy_over_the_link(ideal: Profile) -> None:
    half = MS_BYTES // 2
    kernels = [("compute", half // 8), ("compute", half // 10), ("compute", half // 5)]
    assert engine_ns(ideal, plans.kernel_copies(MS_BYTES)) == kernels


def test_pages_move_to_who_touches_them(ideal: Profile) -> None:
    """Into the device at 2 GB/s and back at 1, beside a kernel of 10 GB/s and the processor's 5."""
    trace = play(ideal, plans.migrations(MS_BYTES, prefetch=False))
    assert [span_ns(trace, n, n + 1) for n in range(4)] == [5 * MS + MS, 10 * MS + 2 * MS] * 2


def test_pages_that_were_sent_ahead_are_there(ideal: Profile) -> None:
    """To the device at 10 GB/s and back at 5."""
    trace = play(ideal, plans.migrations(MS_BYTES, prefetch=True))
    assert [span_ns(trace, n, n + 1) for n in range(4)] == [MS + MS, 2 * MS + 2 * MS] * 2
    assert [activity.engine for activity in trace.activities] == ["h2d", "compute", "d2h", "host"] * 2


def test_only_what_lies_elsewhere_moves(ideal: Profile) -> None:
    half = MS_BYTES // 2
    lane = [Launch(0, 0, 0, half), Launch(0, 0, 0, MS_BYTES), Prefetch(0, 0, 0, half, "host"), Prefetch(0, 0, 0, half, "host")]
    lane += [KernelAccess(0, 0, half, half, "read"), KernelCopy(0, 1, 0, 0, 0, MS_BYTES), Drain(0)]
    plan = plan_of([Buffer("managed", "managed", MS_BYTES), Buffer("device", DEVICE, MS_BYTES)], [lane], data=[0])
    fault, kernel = 5 * MS // 2, MS
    times = [time for _, time in engine_ns(ideal, plan)]
    assert times == [fault + kernel // 2, fault + kernel, MS, 0, kernel // 4, fault + kernel]


def test_what_prepare_prefetched_lies_on_the_device(ideal: Profile) -> None:
    buffers = [Buffer("managed", "managed", MS_BYTES)]
    operations = [HostAccess(0, 0, MS_BYTES, "read"), HostAccess(0, 0, MS_BYTES, "read")]
    assert between_marks(ideal, buffers, operations, data=[0], prefetched=[0]) == [10 * MS + MS, MS]
    assert between_marks(ideal, buffers, operations, data=[0]) == [MS, MS]


def test_fresh_managed_pages_cost_no_move(ideal: Profile) -> None:
    lane = [Alloc(0), KernelAccess(0, 0, 0, MS_BYTES, "write"), Drain(0), Free(0)]
    plan = plan_of([Buffer("managed", "managed", MS_BYTES)], [lane], in_lanes=[0])
    assert engine_ns(ideal, plan) == [("compute", MS // 2)]


def test_a_busy_stream_holds_nobody_else(ideal: Profile) -> None:
    buffers = [Buffer("a", DEVICE, MS_BYTES), Buffer("b", DEVICE, MS_BYTES)]
    lane = [Mark(0), Busy(0, 7 * MS), Launch(1, 1, 0, MS_BYTES), Launch(0, 0, 0, MS_BYTES), Drain(1), Mark(1)]
    lane += [Drain(0), Mark(2)]
    trace = play(ideal, plan_of(buffers, [lane], data=[0, 1], streams=2))
    assert [span_ns(trace, 0, mark) for mark in (1, 2)] == [MS, 8 * MS]
    assert ("busy", 0, 7 * MS) in [(activity.engine, activity.begin_ns, activity.end_ns) for activity in trace.activities]


def astray(operation: Operation) -> Plan:
    buffers = [Buffer("ordinary", "pageable", 64), Buffer("device", DEVICE, 64)]
    return plan_of(buffers, [[operation, Drain(0)]], data=[0, 1], faults_wanted=[0])


ASTRAY = [
    KernelAccess(0, 0, 0, 64, "increment"),
    KernelAccess(0, 0, 0, 64, "read"),
    KernelCopy(0, 1, 0, 0, 0, 64),
    Launch(0, 0, 0, 64),
]


@pytest.mark.parametrize("operation", ASTRAY)
def test_an_address_that_the_device_cannot_reach_loses_it(round_numbers: Profile, operation: Operation) -> None:
    device = SimulatedDevice(round_numbers)
    session, other = device.open(astray(operation)), device.open(plans.one_copy(4))
    other.play(0)
    name = type(operation).__name__
    with pytest.raises(CaseFailed, match=rf"lane 0, operation 0 \({name}.*illegal address.*pageable memory"):
        session.play(0)
    assert device.lost
    for action in (lambda: other.play(1), other.verify, lambda: device.open(plans.one_copy(4))):
        with pytest.raises(CaseFailed, match="was lost by an error before"):
            action()
    session.close()
    other.close()
    play(round_numbers, plans.one_copy(4))


@pytest.mark.parametrize("operation", ASTRAY)
def test_a_device_that_reaches_ordinary_memory_has_no_fault(round_numbers: Profile, operation: Operation) -> None:
    play(with_values(round_numbers, pageable_access=True), astray(operation))


@pytest.mark.parametrize(("memory", "wrong_bytes"), [("pinned", MS_BYTES), ("pageable", 0)])
def test_a_buffer_freed_in_flight_is_read_as_fresh_pages(ideal: Profile, memory: str, wrong_bytes: int) -> None:
    """A copy from pageable memory had read its source before its call returned."""
    buffers = [Buffer("host", memory, MS_BYTES), Buffer("source", "pageable", MS_BYTES), Buffer("device", DEVICE, MS_BYTES)]
    lane = [Alloc(0), HostCopy(0, 0, 1, 0, MS_BYTES), Busy(0, 5 * MS), Copy(0, "h2d", 2, 0, 0, 0, MS_BYTES), Free(0), Drain(0)]
    expects = [Expect(2, 0, MS_BYTES, DATA, 0)]
    plan = plan_of(buffers, [lane], data=[1], poison=[2], in_lanes=[0], expects=expects)
    session = SimulatedDevice(ideal).open(plan)
    session.play(0)
    assert sum(wrong.wrong_bytes for wrong in session.verify()) == wrong_bytes


def test_freeing_and_unlocking_may_wait_for_all_streams(ideal: Profile) -> None:
    """What was in flight arrives whole, whichever stream it is in."""
    waiting = with_kind(ideal, "pinned", free_waits=True)
    buffers = [Buffer("host", "pinned", MS_BYTES), Buffer("source", "pageable", MS_BYTES), Buffer("device", DEVICE, MS_BYTES)]
    lane = [Alloc(0), HostCopy(0, 0, 1, 0, MS_BYTES), Busy(1, 5 * MS), Copy(1, "h2d", 2, 0, 0, 0, MS_BYTES), Mark(0), Free(0)]
    lane += [Mark(1), Drain(1), Mark(2)]
    expects = [Expect(2, 0, MS_BYTES, DATA, 0)]
    plan = plan_of(buffers, [lane], data=[1], poison=[2], in_lanes=[0], streams=2, expects=expects, races_wanted=[0])
    assert span_ns(play(waiting, plan)) == 6 * MS + 100_000 + MS_BYTES // 4
    locked = [Register(0), Busy(1, 5 * MS), Mark(0), Unregister(0), Mark(1), Drain(1), Mark(2)]
    plan = plan_of([Buffer("host", "pageable", MS_BYTES)], [locked], data=[0], streams=2)
    unlock = 100_000 + MS_BYTES // 40
    assert span_ns(play(with_kind(ideal, "registered", free_waits=True), plan)) == 5 * MS + unlock
    assert span_ns(play(ideal, plan)) == unlock


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize(("waits", "held"), [(True, 6 * MS), (False, 0)])
def test_copies_of_managed_memory_may_hold_their_caller(ideal: Profile, direction: Direction, waits: bool, held: int) -> None:
    """Behind 5 ms of work, and however small they are."""
    buffers = [Buffer("managed", "managed", MS_BYTES), Buffer("device", DEVICE, MS_BYTES)]
    src, dst = (0, 1) if direction == "h2d" else (1, 0)
    lane = [Busy(0, 5 * MS), Mark(0), Copy(0, direction, dst, 0, src, 0, MS_BYTES), Mark(1), Drain(0), Mark(2)]
    plan = plan_of(buffers, [lane], data=[src], poison=[dst], expects=[Expect(dst, 0, MS_BYTES, DATA, 0)])
    trace = play(with_kind(ideal, "managed", copies_wait=waits), plan)
    assert [span_ns(trace, 0, mark) for mark in (1, 2)] == [held, 6 * MS]


def test_sending_pages_may_hold_the_caller(ideal: Profile) -> None:
    held = {"prefetch_held_h2d": Curve(points=((0, 0), (MS_BYTES, 400_000)), how="assumed", source="round")}
    profile = ideal.model_copy(update={"migration": ideal.migration.model_copy(update=held)})
    send = Prefetch(0, 0, 0, MS_BYTES, "device")
    lane = [Mark(0), send, Mark(1), Drain(0), Mark(2), send, Mark(3), Drain(0), Mark(4)]
    trace = play(profile, plan_of([Buffer("managed", "managed", MS_BYTES)], [lane], data=[0]))
    assert [span_ns(trace, *marks) for marks in ((0, 1), (0, 2), (2, 3))] == [400_000, MS, 0]


def test_fresh_managed_pages_may_cost_a_kernel_their_making(ideal: Profile) -> None:
    making = {"fresh_device": Curve(points=((0, 0), (MS_BYTES, 300_000)), how="assumed", source="round")}
    profile = ideal.model_copy(update={"migration": ideal.migration.model_copy(update=making)})
    access = KernelAccess(0, 0, 0, MS_BYTES, "write")
    plan = plan_of([Buffer("managed", "managed", MS_BYTES)], [[Alloc(0), access, access, Drain(0), Free(0)]], in_lanes=[0])
    assert engine_ns(profile, plan) == [("compute", MS // 2 + 300_000), ("compute", MS // 2)]


def test_huge_pages_may_be_freed_faster(ideal: Profile) -> None:
    quick = Curve(points=((0, 3_000),), how="assumed", source="round")
    kind = ideal.kinds["pageable"].model_copy(update={"free_huge": quick})
    profile = ideal.model_copy(update={"kinds": {**ideal.kinds, "pageable": kind}})
    pages: tuple[Pages, ...] = ("normal", "huge")
    plan = [Alloc(0), Free(0)]
    times = [between_marks(profile, [Buffer("it", "pageable", SIZE, size)], plan, in_lanes=[0])[1] for size in pages]
    assert times == [10_000, 3_000]


def test_calls_copies_and_spinning_waits_burn_the_processor(round_numbers: Profile) -> None:
    buffers = [Buffer("host", "pinned", MS_BYTES), Buffer("device", DEVICE, MS_BYTES)]
    lane = [Mark(0, cpu=True), HostAccess(0, 0, MS_BYTES, "read"), Copy(0, "h2d", 1, 0, 0, 0, MS_BYTES), Drain(0)]
    lane += [Mark(1), Mark(2, cpu=True)]
    trace = play(round_numbers, plan_of(buffers, [lane], data=[0]))
    assert trace.cpu_ns == (0, None, trace.host_ns[2])
    assert trace.host_ns[2] == MS + 1_000 + MS + 1_000


def test_a_lane_sleeps_at_barriers_and_at_the_lock_of_the_driver(round_numbers: Profile) -> None:
    buffers = [Buffer("host", "pinned", MS_BYTES), Buffer("device", DEVICE, 8)]
    first = [HostAccess(0, 0, MS_BYTES, "read"), Barrier(), Launch(0, 1, 0, 4), Drain(0), Mark(0, cpu=True), Barrier()]
    second = [Barrier(), Launch(1, 1, 4, 4), Drain(1), Mark(1, cpu=True), Barrier()]
    trace = play(round_numbers, plan_of(buffers, [first, second], data=[0, 1], streams=2))
    one, two = trace.host_ns
    assert one is not None
    assert two is not None
    # The second lane came to the barrier 1 ms before the first, so it launched first, and the first waited 1 us for that call.
    assert trace.cpu_ns == (one - 1_000, two - MS)
