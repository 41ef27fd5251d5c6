"""The session on a recording stand-in of the driver: what is called when, what is refused, and in which order things end."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from runner.device.contract import Mismatch
from runner.errors import CaseFailed, DmalabError
from runner.plan import (
    Alloc,
    Barrier,
    Buffer,
    Copy,
    Drain,
    Event,
    Expect,
    Fill,
    Free,
    Gate,
    HostCopy,
    HostWait,
    Launch,
    Mark,
    Operation,
    Plan,
    Record,
    Register,
    Release,
    Stream,
    StreamWait,
    Unregister,
)
from tests.cuda.standin import Bench, LogicError

SIZE = 40_008
"""No multiple of the scratch buffer of the stand-in, so that its last piece is short."""


def round_trip(
    kind: str = "pinned", size: int = SIZE, passes: int = 1, blocking: bool = False, stream: str = "non_blocking"
) -> Plan:
    return Plan(
        buffers=(Buffer("input", kind, size), Buffer("output", kind, size), Buffer("slot", "device", size)),
        setup=(Alloc(0), Alloc(1), Alloc(2)),
        prepare=(Fill(0, 0, size, 1), Fill(1, 0, size, 2), Fill(2, 0, size, 3)),
        lanes=(
            (
                Mark(0),
                Record(0, 0),
                Copy(0, "h2d", 2, 0, 0, 0, size, blocking),
                Launch(0, 2, 0, size, passes),
                Copy(0, "d2h", 1, 0, 2, 0, size, blocking),
                Record(0, 1),
                HostWait(1),
                Mark(1),
            ),
        ),
        streams=(Stream("s", stream),),  # type: ignore[arg-type]
        events=(Event("begin", timed=True), Event("end", timed=True)),
        marks=("begin", "end"),
        expects=(Expect(1, 0, size, 1, 0, passes), Expect(2, 0, size, 1, 0, passes)),
    )


def one_lane(*lane: Operation, buffers: tuple[Buffer, ...] = (), setup: tuple[Operation, ...] = (), **rest: object) -> Plan:
    return Plan(buffers=buffers, setup=setup, prepare=(), lanes=(lane,), **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["pageable", "pinned"])
@pytest.mark.parametrize("size", [4, 4096, SIZE])
@pytest.mark.parametrize("passes", [1, 3])
def test_every_play_gives_right_data_and_all_times(bench: Bench, kind: str, size: int, passes: int) -> None:
    session = bench.open(round_trip(kind, size, passes))
    for sample in range(3):
        trace = session.play(sample)
        assert session.verify() == ()
        begin, end = trace.host_ns
        assert begin is not None
        assert end is not None
        assert begin < end
        assert trace.event_ns == (0, 1_500_000)
        assert trace.buffer_facts == (kind, kind, "device")
        assert not trace.gate_timeout
    session.close()


def test_the_timed_region_holds_the_calls_of_the_plan_and_nothing_else(bench: Bench) -> None:
    session = bench.open(round_trip(passes=2))
    session.play(0)
    bench.driver.log.clear()
    session.play(1)
    log = bench.driver.log
    begin = log.index("synchronize context")
    assert log[begin:] == [
        "synchronize context",
        *("record", "copy h2d", "launch increment", "launch increment", "copy d2h", "record", "wait event"),
        "synchronize context",
    ]
    session.close()


def test_the_garbage_collector_rests_while_a_play_is_timed(bench: Bench) -> None:
    session = bench.open(one_lane(Mark(0), marks=("now",)))
    states: list[bool] = []
    session._lanes[0].calls.append(lambda: states.append(gc.isenabled()))
    session._lanes[0].owners.append(0)
    session.play(0)
    session.close()
    assert states == [False]
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("stream", "calls"),
    [
        ("non_blocking", ["copy h2d", "wait stream", "launch increment", "copy d2h", "wait stream"]),
        ("null", ["plain copy h2d", "launch increment", "plain copy d2h"]),
    ],
)
def test_a_blocking_copy_returns_when_the_copy_is_done(bench: Bench, stream: str, calls: list[str]) -> None:
    session = bench.open(round_trip(blocking=True, stream=stream))
    bench.driver.log.clear()
    session.play(0)
    assert session.verify() == ()
    begin = bench.driver.log.index("synchronize context")
    assert bench.driver.log[begin + 2 : begin + 2 + len(calls)] == calls
    session.close()


def test_each_wrong_byte_is_counted_and_the_first_is_shown(bench: Bench) -> None:
    session = bench.open(round_trip())
    session.play(5)
    output = session._memory.region(1).array
    assert output is not None
    before = output[12_344:12_348].copy().view(np.uint32)[0]
    output[12_345] ^= 0xFF
    output[SIZE - 1] ^= 1
    (mismatch,) = session.verify()
    after = before ^ np.uint32(0xFF00)
    assert mismatch == Mismatch("output", 12_345, 2, f"0x{before:08x}", f"0x{after:08x}")
    session.close()


def test_a_stale_result_of_the_play_before_is_wrong_in_every_word(bench: Bench) -> None:
    plan = round_trip()
    session = bench.open(
        Plan(plan.buffers, plan.setup, plan.prepare[:1], ((plan.lanes[0][0],),), marks=plan.marks, expects=plan.expects[:1])
    )
    session.play(0)
    (mismatch,) = session.verify()
    assert mismatch.wrong_bytes > SIZE // 2
    session.close()


def test_what_a_lane_allocates_is_looked_up_when_it_runs(bench: Bench) -> None:
    buffers = (
        Buffer("input", "pageable", SIZE),
        Buffer("output", "pageable", SIZE),
        Buffer("slot", "device", SIZE),
        Buffer("landing", "pageable", SIZE),
    )
    lane = (
        Alloc(2),
        Alloc(3),
        Register(0),
        Copy(0, "h2d", 2, 0, 0, 0, SIZE),
        Launch(0, 2, 0, SIZE, 2),
        Copy(0, "d2h", 3, 0, 2, 0, SIZE),
        Drain(0),
        Unregister(0),
        HostCopy(1, 0, 3, 0, SIZE, threads=3),
        Free(2),
        Free(3),
    )
    plan = Plan(
        buffers,
        (Alloc(0), Alloc(1)),
        (Fill(0, 0, SIZE, 1), Fill(1, 0, SIZE, 2)),
        (lane,),
        streams=(Stream("s"),),
        expects=(Expect(1, 0, SIZE, 1, 0, 2),),
    )
    session = bench.open(plan)
    for sample in range(2):
        trace = session.play(sample)
        assert session.verify() == ()
        assert trace.buffer_facts == ("pageable", "pageable", "device", "pageable")
    session.close()


def test_memory_that_may_not_be_page_locked_is_refused_in_words(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.context.raw, "cuMemHostRegister", lambda address, size, flags: (2,))
    buffers = (Buffer("input", "pageable", 4096),)
    session = bench.open(Plan(buffers, (Alloc(0),), (), ((Register(0), Unregister(0)),)))
    told = (
        "4KiB of page-locked memory for buffer input was refused (cuMemHostRegister failed: invalid argument); this case already"
    )
    with pytest.raises(CaseFailed) as refusal:
        session.play(0)
    assert str(refusal.value).startswith(told)
    session.close()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 4097])
def test_host_copies_by_any_number_of_threads_move_every_byte(bench: Bench, threads: int, size: int) -> None:
    buffers = (Buffer("a", "pageable", size + 3), Buffer("b", "pinned", size + 5))
    plan = Plan(
        buffers,
        (Alloc(0), Alloc(1)),
        (Fill(0, 0, size + 3, 1), Fill(1, 0, size + 5, 2)),
        ((HostCopy(1, 5, 0, 3, size, threads),),),
        expects=(Expect(1, 5, size, 1, 3), Expect(1, 0, 5, 2, 0)),
    )
    session = bench.open(plan)
    session.play(0)
    assert session.verify() == ()
    session.close()


def two_lanes(*second: Operation) -> Plan:
    half = SIZE // 2
    lane = (
        Mark(0),
        Copy(0, "h2d", 1, 0, 0, 0, half),
        Barrier(),
        Launch(0, 1, 0, half),
        Copy(0, "d2h", 2, 0, 1, 0, half),
        Drain(0),
        Mark(1),
    )
    other = second or (
        Mark(2),
        Copy(1, "h2d", 1, half, 0, half, half),
        Barrier(),
        Launch(1, 1, half, half),
        Copy(1, "d2h", 2, half, 1, half, half),
        Drain(1),
        Mark(3),
    )
    return Plan(
        (Buffer("input", "pinned", SIZE), Buffer("slot", "device", SIZE), Buffer("output", "pinned", SIZE)),
        (Alloc(0), Alloc(1), Alloc(2)),
        (Fill(0, 0, SIZE, 1), Fill(2, 0, SIZE, 2)),
        (lane, other),
        streams=(Stream("a"), Stream("b")),
        marks=("a begin", "a end", "b begin", "b end"),
        expects=(Expect(2, 0, SIZE, 1, 0, 1),),
    )


def test_lanes_play_together_and_meet_at_barriers(bench: Bench) -> None:
    session = bench.open(two_lanes())
    for sample in range(3):
        trace = session.play(sample)
        assert session.verify() == ()
        assert all(time is not None for time in trace.host_ns)
    session.close()


def test_a_lane_that_fails_frees_the_others_and_names_the_operation(bench: Bench) -> None:
    session = bench.open(two_lanes(Copy(1, "h2d", 1, SIZE - 4, 0, 0, 400), Barrier()))
    with pytest.raises(CaseFailed, match=r"invalid argument in operation 0 of lane 1, Copy\(stream=1, direction='h2d'"):
        session.play(0)
    with pytest.raises(CaseFailed, match="no other can be trusted"):
        session.play(1)
    session.close()


def test_after_a_failure_everything_is_waited_for_before_anything_is_freed(bench: Bench) -> None:
    session = bench.open(round_trip())
    bench.driver.fail["copy d2h"] = LogicError("cuMemcpyDtoHAsync failed: unknown error")
    with pytest.raises(CaseFailed, match="cuMemcpyDtoHAsync failed: unknown error in operation 4 of lane 0"):
        session.play(0)
    bench.driver.log.clear()
    session.close()
    bench.pool.clear()
    frees = [index for index, call in enumerate(bench.driver.log) if call.startswith("free")]
    assert bench.driver.log.index("synchronize context") < min(frees)
    assert len(frees) == 3
    session.close()
    assert bench.closed == [session]


def test_an_error_that_sticks_loses_the_device(bench: Bench) -> None:
    session = bench.open(round_trip())
    stuck = LogicError("cuEventSynchronize failed: an illegal memory access was encountered")

    def stick() -> None:
        bench.driver.fail["synchronize context"] = stuck
        raise stuck

    session._lanes[0].calls[-2] = stick
    with pytest.raises(CaseFailed, match=r"illegal memory access was encountered in operation 6 of lane 0, HostWait\(event=1\)"):
        session.play(0)
    assert bench.context.lost
    bench.driver.log.clear()
    session.close()
    assert not [call for call in bench.driver.log if call.startswith("free")]
    with pytest.raises(CaseFailed, match="lost by an error before this case"):
        bench.context.require_usable()
    bench.driver.ranges.clear()
    bench.driver.fail.clear()


def test_ctrl_c_in_a_play_flies_on_and_the_session_still_closes(bench: Bench) -> None:
    session = bench.open(one_lane(Mark(0), marks=("now",)))

    def interrupt() -> None:
        raise KeyboardInterrupt

    session._lanes[0].calls.insert(0, interrupt)
    session._lanes[0].owners.insert(0, 0)
    with pytest.raises(KeyboardInterrupt):
        session.play(0)
    session.close()
    assert bench.closed == [session]


def test_refused_memory_is_told_with_the_figures(bench: Bench) -> None:
    plan = one_lane(buffers=(Buffer("small", "device", 1 << 20), Buffer("huge", "device", 1 << 40)), setup=(Alloc(0), Alloc(1)))
    with pytest.raises(CaseFailed) as caught:
        bench.open(plan)
    assert str(caught.value) == (
        "1TiB of device memory for buffer huge was refused (cuMemAlloc failed: out of memory); this case already holds 1MiB, "
        "the device has 1023MiB free"
    )


def test_memory_of_another_kind_than_asked_for_is_refused(bench: Bench) -> None:
    bench.driver.pinned_is_really = "ordinary"
    with pytest.raises(CaseFailed, match="buffer input should be pinned, but the driver says that its memory is pageable"):
        bench.open(round_trip("pinned"))


def test_host_memory_goes_back_to_the_pool_and_is_used_again(bench: Bench) -> None:
    bench.open(round_trip("pinned")).close()
    assert bench.pool.held_bytes == 2 * SIZE
    bench.driver.log.clear()
    session = bench.open(round_trip("pinned"))
    assert "allocate pinned" not in bench.driver.log
    session.play(9)
    assert session.verify() == ()
    session.close()


def test_gates_are_opened_by_the_host_and_at_the_end_in_any_case(bench: Bench) -> None:
    plan = one_lane(Gate(0, 0), Release(0), streams=(Stream("s"),), gates=1)
    session = bench.open(plan)
    assert not session.play(0).gate_timeout
    of = session._of
    assert of is not None
    words = of.gates._words
    assert words[0] == 1
    of.gates.shut_all()
    assert words[0] == 0
    words[32] = 1
    assert of.gates.timed_out()
    session._unblock()
    assert words[0] == 1
    session.close()


def test_the_null_stream_can_wait_for_an_event(bench: Bench) -> None:
    plan = one_lane(
        Record(0, 0),
        StreamWait(1, 0),
        StreamWait(0, 0),
        Record(1, 1),
        HostWait(1),
        Drain(1),
        streams=(Stream("s"), Stream("n", "null")),
        events=(Event("first", timed=True), Event("second", timed=True)),
    )
    session = bench.open(plan)
    bench.driver.log.clear()
    trace = session.play(0)
    assert trace.event_ns == (0, 1_500_000)
    assert "null stream waits" in bench.driver.log
    session.close()
    assert bench.driver.log.count("destroy event") == 2


def test_a_closed_session_plays_no_more(bench: Bench) -> None:
    session = bench.open(round_trip())
    session.close()
    with pytest.raises(DmalabError, match="closed"):
        session.play(0)


@pytest.mark.parametrize(("kind", "flags"), [("non_blocking", 1), ("blocking", 0)])
def test_streams_are_of_the_kind_asked_for(bench: Bench, kind: str, flags: int) -> None:
    session = bench.open(round_trip(stream=kind))
    assert session._of is not None
    assert session._of.streams[0].flags == flags
    session.close()


@pytest.mark.parametrize("fails", [False, True])
def test_streams_and_events_die_with_the_session_and_not_by_the_garbage_collector(bench: Bench, fails: bool) -> None:
    gc.collect()
    gc.disable()
    try:
        session = bench.open(round_trip())
        assert session._of is not None
        watched = [weakref.ref(session._of.streams[0]), *(weakref.ref(event) for event in session._of.events._events)]
        if fails:
            bench.driver.fail["copy d2h"] = LogicError("cuMemcpyDtoHAsync failed: unknown error")
            with pytest.raises(CaseFailed):
                session.play(0)
        else:
            session.play(0)
        session.close()
        assert [reference() for reference in watched] == [None, None, None]
    finally:
        gc.enable()
