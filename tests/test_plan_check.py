from __future__ import annotations

from dataclasses import replace

import pytest

from runner.errors import PlanError
from runner.memory import DEVICE
from runner.plan import (
    Alloc,
    Barrier,
    Buffer,
    Busy,
    Copy,
    Drain,
    Expect,
    Fill,
    Free,
    Gate,
    HostAccess,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    Prefetch,
    Record,
    Register,
    Release,
    Stream,
    StreamWait,
    Unregister,
)
from runner.plan_check import check_bounds, check_order, check_plan
from tests import plans
from tests.lazy_player import LazyPlayer
from tests.plans import DATA, changed, indices_of, plan_of, without

HOST, OTHER, PAGEABLE, ON_DEVICE, MANAGED = range(5)
BUFFERS = [
    Buffer("host", "pinned", 64),
    Buffer("other", "pinned", 64),
    Buffer("pageable", "pageable", 64),
    Buffer("device", DEVICE, 64),
    Buffer("managed", "managed", 64),
]
UP = Copy(0, "h2d", ON_DEVICE, 0, HOST, 0, 64)
DOWN = Copy(0, "d2h", OTHER, 0, ON_DEVICE, 0, 64)


def small(*lanes: list[Operation], **fields: object) -> Plan:
    return plan_of(BUFFERS, lanes, **{"streams": 2, "events": 2, "gates": 1, **fields})  # type: ignore[arg-type]


def refuse(plan: Plan, *words: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_plan(plan)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "plan",
    [
        plans.one_copy(1),
        plans.one_copy(4097, "d2h", "pageable"),
        plans.one_copy(4097, "d2h", "pageable", blocking=True),
        plans.ring(8, 4096, 3),
        plans.ring(8, 4096, 3, memory="pageable"),
        plans.direct(8, 4096, 3),
        plans.direct(8, 4096, 3, issue="breadth_first"),
        plans.serialized(3, 4096),
        plans.per_engine(9, 4096, 3),
        plans.two_lanes(4096),
        plans.in_place(4096),
        plans.in_place(4096, by="cpu", threads=3),
        plans.kernel_copies(4096),
        plans.migrations(4096, prefetch=False),
        plans.migrations(4096, prefetch=True),
    ],
)
def test_sound_plans_pass(plan: Plan) -> None:
    check_plan(plan)
    if len(plan.lanes) == 1:
        assert LazyPlayer(plan).wrong_bytes() == 0


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (Copy(0, "h2d", ON_DEVICE, 1, HOST, 0, 64), ("64 bytes from byte 1", "'device' of 64 bytes")),
        (Copy(0, "h2d", ON_DEVICE, 0, HOST, -1, 4), ("-1", "'host'")),
        (Copy(0, "h2d", ON_DEVICE, 0, HOST, 0, 0), ("0 bytes",)),
        (Copy(0, "h2d", HOST, 0, ON_DEVICE, 0, 64), ("direction h2d does not fit", "'device' lies in device memory")),
        (Copy(0, "d2h", HOST, 0, OTHER, 0, 64), ("direction d2h does not fit",)),
        (Copy(9, "h2d", ON_DEVICE, 0, HOST, 0, 64), ("no stream 9", "has 2")),
        (Copy(0, "h2d", 9, 0, HOST, 0, 64), ("no buffer 9", "has 5")),
        (Launch(0, ON_DEVICE, 0, 62), ("multiples of 4",)),
        (Launch(0, ON_DEVICE, 2, 4), ("multiples of 4",)),
        (Launch(0, PAGEABLE, 0, 64), ("a kernel may not use", "'pageable'", "whose memory is pageable")),
        (KernelCopy(0, ON_DEVICE, 0, PAGEABLE, 0, 64), ("a kernel may not use", "'pageable'")),
        (KernelCopy(0, OTHER, 0, HOST, 0, 64), ("between a host buffer and one of the device",)),
        (KernelCopy(0, ON_DEVICE, 0, HOST, 2, 8), ("multiples of 4",)),
        (KernelAccess(0, PAGEABLE, 0, 64, "read"), ("KernelAccess read", "a kernel may not use", "'pageable'")),
        (KernelAccess(0, HOST, 0, 6, "read"), ("multiples of 4",)),
        (KernelAccess(0, HOST, 0, 64, "write", DATA), ("salt 1 is not flat",)),
        (HostAccess(ON_DEVICE, 0, 64, "read"), ("the processor cannot use memory of the device",)),
        (HostAccess(HOST, 0, 64, "write", salt=DATA), ("salt 1 is not flat",)),
        (HostAccess(HOST, 0, 64, "read", 0), ("0 threads",)),
        (HostAccess(HOST, 0, 68, "read"), ("68 bytes",)),
        (Busy(0, 0), ("0 ns keep nothing busy",)),
        (Busy(7, 5), ("no stream 7",)),
        (Prefetch(0, HOST, 0, 64, "device"), ("Prefetch of buffer 'host' to the device", "pinned memory does not migrate")),
        (Prefetch(0, ON_DEVICE, 0, 64, "device"), ("does not migrate",)),
        (Prefetch(0, MANAGED, 0, 65, "device"), ("65 bytes",)),
        (Register(HOST), ("pinned memory needs no registration",)),
        (Unregister(PAGEABLE), ("'pageable' is not registered",)),
        (Launch(0, ON_DEVICE, 0, 64, 0), ("0 passes",)),
        (HostCopy(ON_DEVICE, 0, HOST, 0, 64), ("between host buffers",)),
        (HostCopy(HOST, 0, HOST, 8, 16), ("overlap",)),
        (HostCopy(HOST, 0, OTHER, 0, 16, 0), ("0 threads",)),
        (Fill(HOST, 0, 64, DATA), ("only in setup and prepare",)),
        (Register(ON_DEVICE), ("only host memory",)),
        (Record(0, 7), ("no event 7",)),
        (HostWait(0), ("'e0' is never recorded",)),
        (Gate(0, 0), ("never released",)),
        (Gate(0, 3), ("no gate 3",)),
        (Mark(3), ("no mark 3",)),
    ],
)
def test_one_wrong_operation_is_named_with_its_place(operation: Operation, words: tuple[str, ...]) -> None:
    refuse(small([Drain(0), operation]), "lane 0, operation 1", type(operation).__name__, *words)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (small([Record(0, 0), Record(1, 0), Drain(0), Drain(1)]), ("recorded twice",)),
        (small([Mark(0), Mark(0)]), ("read twice",)),
        (small([Release(0), Release(0)]), ("released twice",)),
        (small([Barrier()], []), ("[1, 0] barriers",)),
        (replace(small([]), prepare=(Mark(0),)), ("prepare, operation 0", "only Alloc, Free")),
        (replace(small([]), setup=(Fill(HOST, 0, 65, DATA),)), ("setup, operation 0", "65 bytes")),
        (small([], expects=[Expect(HOST, 60, 8, DATA, 0)]), ("expect 0", "8 bytes from byte 60")),
        (small([], expects=[Expect(9, 0, 8, DATA, 0)]), ("no buffer 9",)),
        (small([], expects=[Expect(HOST, 0, 8, DATA, 2, 1)]), ("multiples of 4",)),
        (small([], expects=[Expect(HOST, 0, 8, DATA, -4)]), ("negative",)),
        (small([], races_wanted=[7]), ("races_wanted names buffer 7",)),
    ],
)
def test_what_only_the_whole_shows_is_refused(plan: Plan, words: tuple[str, ...]) -> None:
    refuse(plan, *words)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(small([UP, Drain(0)]), setup=()), ("not allocated",)),
        (small([Free(HOST), HostCopy(HOST, 0, OTHER, 0, 64)]), ("operation 1", "'host' is used, but it is not allocated")),
        (small([Alloc(HOST)]), ("already allocated",)),
        (small([Free(HOST)]), ("frees buffer 'host'", "played twice")),
        (small([Alloc(HOST)], in_lanes=[HOST]), ("leaves allocated",)),
        (replace(small([]), teardown=(Free(HOST), Free(HOST))), ("teardown, operation 1", "not allocated")),
    ],
)
def test_memory_must_be_there(plan: Plan, words: tuple[str, ...]) -> None:
    refuse(plan, *words)


@pytest.mark.parametrize(
    ("lanes", "words"),
    [
        ([[UP, HostCopy(HOST, 0, OTHER, 0, 64), Drain(0)]], ("race on buffer 'host'", "read by stream 's0'", "operation 1")),
        ([[DOWN, HostCopy(PAGEABLE, 0, OTHER, 60, 4), Drain(0)]], ("race on buffer 'other'", "written by stream 's0'")),
        ([[UP, Copy(1, "d2h", OTHER, 0, ON_DEVICE, 0, 64), Drain(0), Drain(1)]], ("race on buffer 'device'",)),
        ([[UP, Launch(1, ON_DEVICE, 0, 64), Drain(0), Drain(1)]], ("race on buffer 'device'", "Launch")),
        ([[UP, Free(ON_DEVICE), Alloc(ON_DEVICE), Drain(0)]], ("race on buffer 'device'", "Free")),
        ([[Register(PAGEABLE), Copy(0, "h2d", ON_DEVICE, 0, PAGEABLE, 0, 64), Unregister(PAGEABLE), Drain(0)]], ("race",)),
        ([[Gate(0, 0), UP, Release(0), HostCopy(HOST, 0, OTHER, 0, 64), Drain(0)]], ("race on buffer 'host'",)),
        ([[HostCopy(HOST, 0, PAGEABLE, 0, 8)], [HostCopy(HOST, 4, OTHER, 0, 4)]], ("race on buffer 'host'", "lane 0", "lane 1")),
        ([[UP, Record(0, 0), HostCopy(HOST, 0, OTHER, 0, 64), HostWait(0)]], ("race on buffer 'host'",)),
        ([[Record(0, 0), UP, HostWait(0), HostCopy(HOST, 0, OTHER, 0, 64), Drain(0)]], ("race on buffer 'host'",)),
        ([[HostWait(0), Record(0, 0)]], ("not recorded before this wait",)),
        ([[StreamWait(1, 0), Record(0, 0)]], ("not recorded before this wait",)),
        ([[Record(0, 0)], [HostWait(0)]], ("lane 1", "not recorded before this wait")),
        ([[UP]], ("the clock stops before the work is done", "'s0'")),
        ([[Mark(0), UP, Mark(1), Drain(0)]], ("the clock stops before the work is done", "last mark")),
        ([[Mark(0)], [HostCopy(HOST, 0, OTHER, 0, 64)]], ("the clock stops", "lane 1")),
        ([[Gate(0, 0), UP, Drain(0), Release(0)]], ("deadlock", "lane 0, operation 2 (Drain)")),
        ([[Gate(0, 0), Record(0, 0), HostWait(0), Release(0)]], ("deadlock", "HostWait")),
        ([[Gate(0, 0), UP, Copy(1, "d2h", OTHER, 0, ON_DEVICE, 0, 64, blocking=True), Release(0)]], ("race",)),
        ([[Gate(0, 0), Copy(0, "h2d", ON_DEVICE, 0, PAGEABLE, 0, 64), Release(0), Drain(0)]], ("deadlock", "Copy h2d")),
        ([[Gate(0, 0), Record(0, 0), StreamWait(1, 0), Drain(1), Release(0)]], ("deadlock", "operation 3")),
        ([[Gate(0, 0), Drain(0), Barrier()], [Barrier(), Release(0)]], ("lane 0", "lane 1", "deadlock")),
        ([[Gate(0, 0), Free(OTHER), Alloc(OTHER), Release(0)]], ("deadlock", "operation 1 (Free of buffer 'other')")),
        ([[Register(PAGEABLE), Gate(1, 0), Unregister(PAGEABLE), Release(0)]], ("deadlock", "Unregister of buffer 'pageable'")),
        ([[Gate(0, 0), Copy(0, "h2d", ON_DEVICE, 0, MANAGED, 0, 64), Release(0), Drain(0)]], ("deadlock", "Copy h2d")),
    ],
)
def test_missing_order_is_refused(lanes: list[list[Operation]], words: tuple[str, ...]) -> None:
    refuse(small(*lanes), *words)


@pytest.mark.parametrize(
    "lanes",
    [
        [[UP, Drain(0), HostCopy(HOST, 0, OTHER, 0, 64)]],
        [[UP, Record(0, 0), HostWait(0), HostCopy(HOST, 0, OTHER, 0, 64)]],
        [[UP, Record(0, 0), StreamWait(1, 0), Copy(1, "d2h", OTHER, 0, ON_DEVICE, 0, 64), Drain(1)]],
        [[UP, DOWN, Record(0, 0), StreamWait(1, 0), Record(1, 1), HostWait(1), HostCopy(HOST, 0, OTHER, 0, 64)]],
        [[Copy(0, "h2d", ON_DEVICE, 0, PAGEABLE, 0, 64), HostCopy(PAGEABLE, 0, HOST, 0, 64), Drain(0)]],
        [[Copy(0, "d2h", PAGEABLE, 0, ON_DEVICE, 0, 64), HostCopy(HOST, 0, PAGEABLE, 0, 64)]],
        [[Copy(0, "h2d", ON_DEVICE, 0, HOST, 0, 64, blocking=True), HostCopy(HOST, 0, OTHER, 0, 64)]],
        [[Copy(0, "h2d", ON_DEVICE, 0, HOST, 0, 32), Copy(1, "h2d", ON_DEVICE, 32, HOST, 32, 32), Drain(0), Drain(1)]],
        [[Gate(0, 0), UP, Release(0), Drain(0)]],
        [[Release(0), Gate(0, 0), UP, Drain(0)]],
        [[UP, Record(0, 0), HostWait(0), Barrier()], [Barrier(), HostCopy(HOST, 0, OTHER, 0, 64)]],
        [[UP, Record(0, 0), Barrier()], [Barrier(), StreamWait(1, 0), Copy(1, "d2h", OTHER, 0, ON_DEVICE, 0, 64), Drain(1)]],
        [[UP, Drain(0), Free(ON_DEVICE), Alloc(ON_DEVICE)]],
        [[Gate(0, 0), UP, Drain(0)], [Release(0)]],
        [[Gate(0, 0), Release(0), Free(OTHER), Alloc(OTHER), Drain(0)]],
        [[Gate(0, 0), UP, Free(OTHER), Alloc(OTHER), Drain(0)], [Release(0)]],
        [[Copy(0, "h2d", ON_DEVICE, 0, MANAGED, 0, 64), Drain(0)]],
    ],
)
def test_sufficient_order_is_accepted(lanes: list[list[Operation]]) -> None:
    check_plan(small(*lanes))


def test_small_pageable_copies_promise_only_that_their_source_was_read() -> None:
    upload = Copy(0, "h2d", ON_DEVICE, 0, PAGEABLE, 0, 64)
    refuse(small([upload, Launch(1, ON_DEVICE, 0, 64), Drain(0), Drain(1)]), "race on buffer 'device'")
    refuse(small([upload]), "the clock stops before the work is done")


def test_the_null_stream_orders_blocking_streams_only() -> None:
    lane = [UP, Launch(1, ON_DEVICE, 0, 64), DOWN, Drain(0), Drain(1)]
    check_plan(small(lane, streams=[Stream("null", "null"), Stream("other", "blocking")]))
    refuse(small(lane, streams=[Stream("null", "null"), Stream("other")]), "race on buffer 'device'")
    refuse(small(lane, streams=[Stream("one", "blocking"), Stream("two", "blocking")]), "race on buffer 'device'")
    check_plan(small(lane, streams=[Stream("null", "null"), Stream("null again", "null")]))


def test_a_wanted_race_must_exist() -> None:
    racing = [UP, HostCopy(HOST, 0, OTHER, 0, 64), Drain(0)]
    check_plan(small(racing, races_wanted=[HOST]))
    refuse(small(racing, races_wanted=[OTHER]), "race on buffer 'host'")
    refuse(small([UP, Drain(0)], races_wanted=[HOST]), "'host' is named in races_wanted, but all accesses to it are ordered")


def some_lazy_player_sees(plan: Plan) -> bool:
    """Whether wrong data show where all streams are lazy, or one alone."""
    lazy = [None, *([stream] for stream in range(len(plan.streams)))]
    return any(LazyPlayer(plan, which).wrong_bytes() for which in lazy)


@pytest.mark.parametrize(
    "plan",
    [
        plans.ring(8, 4096, 1),
        plans.ring(8, 4096, 3),
        plans.ring(3, 4096, 3),
        plans.per_engine(8, 4096, 1),
        plans.per_engine(8, 4096, 3),
        plans.direct(6, 4096, 3),
        plans.kernel_copies(4096),
    ],
)
def test_every_missing_wait_is_refused_and_shows_in_the_data_of_a_lazy_device(plan: Plan) -> None:
    waits = indices_of(plan, HostWait, StreamWait, Drain)
    assert waits
    assert not some_lazy_player_sees(plan)
    for wait in waits:
        broken = without(plan, wait)
        with pytest.raises(PlanError, match=r"race on buffer|the clock stops"):
            check_order(broken)
        assert some_lazy_player_sees(broken), wait


def test_a_wait_for_the_wrong_event_is_refused() -> None:
    plan = plans.ring(8, 4096, 2)
    waits = indices_of(plan, HostWait)
    with pytest.raises(PlanError, match="race on buffer 'stager 1'"):
        check_order(changed(plan, waits[1], event=0))


def test_a_swapped_pair_is_found_by_bounds_or_order() -> None:
    plan = plans.per_engine(4, 4096, 2)
    check_bounds(plan)
    copy = indices_of(plan, Copy)[0]
    swapped = list(plan.lanes[0])
    swapped[copy], swapped[copy + 1] = swapped[copy + 1], swapped[copy]
    with pytest.raises(PlanError, match="race on buffer 'device 0'"):
        check_order(replace(plan, lanes=(tuple(swapped),)))


def test_thousands_of_streams_need_no_square_of_work() -> None:
    check_plan(plans.ring(4096, 4, 2048))


FAULT = KernelAccess(0, MANAGED, 0, 64, "increment")
TOUCH = HostAccess(MANAGED, 0, 64, "write")


@pytest.mark.parametrize(
    ("lanes", "words"),
    [
        (
            [[KernelAccess(0, HOST, 0, 64, "read"), HostAccess(HOST, 0, 64, "write"), Drain(0)]],
            ("race on buffer 'host'", "read by"),
        ),
        ([[KernelAccess(0, HOST, 0, 64, "write"), HostAccess(HOST, 0, 64, "read"), Drain(0)]], ("race on buffer 'host'",)),
        ([[KernelCopy(0, ON_DEVICE, 0, HOST, 0, 64), HostAccess(HOST, 0, 4, "increment"), Drain(0)]], ("race on buffer 'host'",)),
        ([[KernelCopy(0, HOST, 0, ON_DEVICE, 0, 64), Launch(1, ON_DEVICE, 0, 4), Drain(0), Drain(1)]], ("buffer 'device'",)),
        ([[HostAccess(HOST, 0, 64, "read")], [HostAccess(HOST, 0, 4, "write")]], ("race on buffer 'host'", "lane 0", "lane 1")),
        ([[Busy(0, 5)]], ("the clock stops before the work is done", "'s0'")),
        ([[Gate(0, 0), Busy(0, 5), Drain(0), Release(0)]], ("deadlock",)),
        ([[Prefetch(0, MANAGED, 0, 64, "device"), KernelAccess(1, MANAGED, 0, 64, "read"), Drain(0), Drain(1)]], ("'managed'",)),
        ([[FAULT, TOUCH, Drain(0)]], ("race on buffer 'managed'",)),
        ([[Busy(0, 5), TOUCH, Drain(0)]], ("race on buffer 'managed'", "migrates", "'s0'")),
        ([[UP, HostCopy(MANAGED, 0, OTHER, 0, 64), Drain(0)]], ("race on buffer 'managed'", "migrates")),
        ([[TOUCH, Barrier()], [Busy(0, 5), Drain(0), Barrier()]], ("lane 1", "lane 0 may be using memory that migrates")),
        ([[Register(PAGEABLE), Register(PAGEABLE)]], ("'pageable' is already registered",)),
        ([[Register(PAGEABLE)]], ("leaves registered buffer 'pageable'", "played twice")),
        ([[Register(PAGEABLE), Free(PAGEABLE), Alloc(PAGEABLE)]], ("freed while it is registered",)),
        ([[Register(PAGEABLE), KernelAccess(0, PAGEABLE, 0, 64, "read"), Unregister(PAGEABLE), Drain(0)]], ("race on buffer",)),
    ],
)
def test_missing_order_of_accesses_in_place_is_refused(lanes: list[list[Operation]], words: tuple[str, ...]) -> None:
    refuse(small(*lanes), *words)


@pytest.mark.parametrize(
    "lanes",
    [
        [[KernelAccess(0, HOST, 0, 64, "read"), HostAccess(HOST, 0, 64, "read"), Drain(0)]],
        [[KernelAccess(0, HOST, 0, 32, "increment"), HostAccess(HOST, 32, 32, "increment"), Drain(0)]],
        [[Launch(0, HOST, 0, 64), Drain(0)]],
        [[Register(PAGEABLE), KernelAccess(0, PAGEABLE, 0, 64, "increment"), Drain(0), Unregister(PAGEABLE)]],
        [[FAULT, Drain(0), TOUCH, Prefetch(0, MANAGED, 0, 64, "device"), FAULT, Drain(0)]],
        [[TOUCH, Barrier()], [Barrier(), Busy(0, 5), Drain(0)]],
        [[Busy(0, 5), Copy(0, "h2d", ON_DEVICE, 0, MANAGED, 0, 64), Drain(0)]],
    ],
)
def test_sufficient_order_of_accesses_in_place_is_accepted(lanes: list[list[Operation]]) -> None:
    check_plan(small(*lanes))


def test_a_wanted_fault_must_exist() -> None:
    astray = [KernelAccess(0, PAGEABLE, 0, 64, "increment"), Drain(0)]
    check_plan(replace(small(astray), faults_wanted=frozenset({PAGEABLE})))
    refuse(replace(small([]), faults_wanted=frozenset({PAGEABLE})), "'pageable' is named in faults_wanted, but no kernel")
    registered = [Register(PAGEABLE), *astray, Unregister(PAGEABLE)]
    refuse(replace(small(registered), faults_wanted=frozenset({PAGEABLE})), "is named in faults_wanted")
    refuse(replace(small([]), faults_wanted=frozenset({9})), "faults_wanted names buffer 9")


def test_freeing_a_buffer_in_flight_is_a_race_that_can_be_wanted() -> None:
    hasty = [Alloc(HOST), HostCopy(HOST, 0, OTHER, 0, 64), Busy(0, 5), UP, Free(HOST), Drain(0)]
    wanted = small(
        hasty, gates=0, data=[OTHER], in_lanes=[HOST], races_wanted=[HOST], expects=[Expect(ON_DEVICE, 0, 64, DATA, 0)]
    )
    check_plan(wanted)
    assert LazyPlayer(wanted).wrong_bytes() == 64
    refuse(small(hasty, in_lanes=[HOST]), "race on buffer 'host'", "Free")


def test_only_a_prefetch_may_stand_in_prepare_beside_fills() -> None:
    prefetch = Prefetch(0, MANAGED, 0, 64, "device")
    check_plan(replace(small([]), prepare=(prefetch,)))
    refuse(replace(small([]), setup=(prefetch,)), "setup, operation 0", "only Alloc, Free")
    refuse(replace(small([]), setup=(), prepare=(prefetch,)), "'managed' is not allocated")


@pytest.mark.parametrize("memory", ["pinned", DEVICE, "managed"])
def test_pages_must_be_those_of_the_kind(memory: str) -> None:
    check_plan(plan_of([Buffer("it", "pageable", 64, "huge")], [[]]))
    refuse(plan_of([Buffer("it", memory, 64, "huge")], [[]]), f"buffer 'it': {memory} memory has no huge pages, only normal")
