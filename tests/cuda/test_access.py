"""Work in place, migration and the processor's own clock, bound to calls of a stand-in driver."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from runner.device.cuda import bind
from runner.device.cuda.host_work import cut, increment_words, make_helpers, read_words
from runner.errors import CaseFailed, CaseUnsupported
from runner.memory import KINDS
from runner.pattern import FLAT, first_word, offset_of
from runner.plan import (
    Access,
    Alloc,
    Buffer,
    Busy,
    Copy,
    Drain,
    Event,
    Expect,
    Fill,
    Free,
    HostAccess,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    Prefetch,
    Record,
    Stream,
)
from tests.cuda.standin import Bench, LogicError

SIZE = 40_004
IN_PLACE = [name for name, kind in KINDS.items() if kind.kernel_access]
HUGE_SALT = FLAT + 3


def lane(buffers: tuple[Buffer, ...], operations: tuple[Operation, ...], *expects: Expect, late: bool = False) -> Plan:
    """Fill buffer 0 by salt 1 before each play; `late` buffers are allocated and filled anew for each play."""
    allocations = tuple(Alloc(index) for index in range(len(buffers)))
    frees = tuple(Free(index) for index in range(len(buffers))) if late else ()
    size = buffers[0].size
    return Plan(
        buffers=buffers,
        setup=() if late else allocations,
        prepare=(*(frees + allocations if late else ()), Fill(0, 0, size, 1)),
        lanes=((*operations, Drain(0)),),
        streams=(Stream("s"),),
        expects=expects,
    )


def play(bench: Bench, plan: Plan, plays: int = 2) -> None:
    session = bench.open(plan)
    try:
        for sample in range(plays):
            session.play(sample)
            assert session.verify() == ()
    finally:
        session.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 4097, 40_003])
def test_each_kind_is_filled_verified_and_a_wrong_byte_in_it_found(bench: Bench, kind: str, size: int) -> None:
    session = bench.open(lane((Buffer("data", kind, size),), (), Expect(0, 0, size, 1, 0)))
    session.play(0)
    assert session.verify() == ()
    session._memory.region(0).view(size - 1, 1)[:] ^= 1
    (wrong,) = session.verify()
    assert (wrong.buffer, wrong.offset, wrong.wrong_bytes) == ("data", size - 1, 1)
    session.close()


def test_memory_that_the_processor_reads_slowly_is_verified_by_way_of_the_device(bench: Bench) -> None:
    session = bench.open(lane((Buffer("data", "write_combined", 10_000),), (), Expect(0, 0, 10_000, 1, 0)))
    session.play(0)
    bench.driver.log.clear()
    assert session.verify() == ()
    # The scratch of the stand-in holds 4,096 bytes, half of it for a piece that is compared while the next one comes.
    assert [call for call in bench.driver.log if "copy" in call] == ["plain copy h2d", "plain copy d2h"] * 5
    session.close()


@pytest.mark.parametrize("kind", ["write_combined", "device"])
@pytest.mark.parametrize("places", [(0,), (2044, 2048), (4092, 4096, 9996)])
def test_every_wrong_word_is_counted_in_whatever_piece_it_lies(bench: Bench, kind: str, places: tuple[int, ...]) -> None:
    plan = lane((Buffer("data", kind, 10_000),), (), Expect(0, 0, 10_000, 1, 0))
    session = bench.open(replace(plan, prepare=(*plan.prepare, *(Fill(0, place, 4, 2) for place in places))))
    session.play(0)
    (wrong,) = session.verify()
    words = [first_word(place, offset_of(salt, 0)).to_bytes(4, "little") for place in places for salt in (1, 2)]
    differing = sum(
        here != there for one, other in zip(words[::2], words[1::2], strict=True) for here, there in zip(one, other, strict=True)
    )
    assert (wrong.offset, wrong.wrong_bytes) == (places[0], differing)
    session.close()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by", ["host", "kernel"])
@pytest.mark.parametrize("access", ["read", "write", "increment"])
@pytest.mark.parametrize("kind", IN_PLACE)
def test_words_are_read_written_and_added_to_in_place(bench: Bench, kind: str, access: Access, by: str, late: bool) -> None:
    begin, size = 8, SIZE - 20
    operation: Operation = (
        HostAccess(0, begin, size, access, 3, FLAT + 1) if by == "host" else KernelAccess(0, 0, begin, size, access, FLAT + 1)
    )
    salt, added = (FLAT + 1, 0) if access == "write" else (1, int(access == "increment"))
    expects = (
        Expect(0, 0, begin, 1, 0),
        Expect(0, begin, size, salt, begin, added),
        Expect(0, begin + size, SIZE - begin - size, 1, begin + size),
    )
    plan = lane((Buffer("data", kind, SIZE),), (operation,), *expects, late=late)
    play(bench, plan, plays=3)


def test_a_flat_word_is_another_one_in_each_sample(bench: Bench) -> None:
    plan = lane((Buffer("data", "pageable", SIZE),), (HostAccess(0, 0, SIZE, "write", 1, FLAT),), Expect(0, 0, SIZE, FLAT, 0))
    session = bench.open(plan)
    words = set()
    for sample in range(3):
        session.play(sample)
        assert session.verify() == ()
        words.add(int(session._memory.region(0).view(0, 4).view(np.uint32)[0]))
    assert len(words) == 3
    session.close()


def test_a_fill_of_a_flat_salt_holds_one_word_everywhere(bench: Bench) -> None:
    for kind in ("device", "pinned", "pageable"):
        plan = Plan((Buffer("data", kind, 10_001),), (Alloc(0),), (Fill(0, 0, 10_001, HUGE_SALT),), ((),))
        session = bench.open(plan)
        session.play(0)
        check = Plan(plan.buffers, plan.setup, plan.prepare, plan.lanes, expects=(Expect(0, 0, 10_001, HUGE_SALT, 0),))
        session.close()
        play(bench, check)


@pytest.mark.parametrize("kind", IN_PLACE)
def test_a_kernel_copies_both_ways(bench: Bench, kind: str) -> None:
    buffers = (Buffer("in", kind, SIZE), Buffer("data", "device", SIZE), Buffer("out", kind, SIZE))
    operations = (KernelCopy(0, 1, 0, 0, 4, SIZE - 4), Launch(0, 1, 0, SIZE - 4), KernelCopy(0, 2, 4, 1, 0, SIZE - 4))
    play(bench, lane(buffers, operations, Expect(2, 4, SIZE - 4, 1, 4, 1)))


def test_a_kernel_given_memory_that_it_may_not_use_fails_the_case(bench: Bench) -> None:
    plan = lane((Buffer("data", "pageable", SIZE),), (KernelAccess(0, 0, 0, SIZE, "read"),))
    session = bench.open(plan)
    with pytest.raises(CaseFailed, match=r"illegal memory access was encountered in operation 0 of lane 0, KernelAccess\("):
        session.play(0)
    session.close()


def test_a_lost_device_names_the_kernel_that_was_meant_to_go_astray(bench: Bench) -> None:
    buffers = (Buffer("data", "pageable", SIZE),)
    access = KernelAccess(0, 0, 0, SIZE, "read")
    plan = Plan(buffers, (Alloc(0),), (), ((access, Drain(0)),), streams=(Stream("s"),), faults_wanted=frozenset({0}))
    session = bench.open(plan)
    error = LogicError("cuStreamSynchronize failed: an illegal memory access was encountered")
    bench.driver.fail.update({"wait stream": error, "synchronize context": error})
    session._lanes[0].calls[0] = lambda: None
    with pytest.raises(CaseFailed) as caught:
        session.play(0)
    assert "synchronize" in str(caught.value).lower()
    bench.driver.fail.clear()
    assert bench.context.lost
    assert "kernel of operation 0 of lane 0, KernelAccess(" in str(caught.value)
    assert "used the host's address of data" in str(caught.value)
    bench.context.lost = False
    session.close()


def test_a_stream_is_kept_busy_for_the_time_asked_for(bench: Bench) -> None:
    play(bench, lane((Buffer("data", "device", 4),), (Busy(0, 1_500_000),)))
    assert bench.driver.log.count("launch busy 1500000") == 2


def test_pages_move_to_the_device_and_back_in_a_stream_also_before_a_play(bench: Bench) -> None:
    plan = Plan(
        buffers=(Buffer("data", "managed", SIZE),),
        setup=(Alloc(0),),
        prepare=(Fill(0, 0, SIZE, 1), Prefetch(0, 0, 0, SIZE, "device")),
        lanes=((KernelAccess(0, 0, 0, SIZE, "increment"), Prefetch(0, 0, 4, SIZE - 4, "host"), Drain(0)),),
        streams=(Stream("s"),),
        expects=(Expect(0, 0, SIZE, 1, 0, 1),),
    )
    play(bench, plan, plays=1)
    assert bench.driver.prefetched == [(1, 0, SIZE), (2, 0, SIZE - 4)]


def test_pages_cannot_be_moved_where_the_device_has_no_concurrent_access(bench: Bench) -> None:
    bench.driver.attributes["concurrent"] = 0
    plan = Plan((Buffer("data", "pinned", 64),), (Alloc(0),), (), ((Prefetch(0, 0, 0, 64, "host"),),), streams=(Stream("s"),))
    with pytest.raises(CaseUnsupported, match="no concurrent managed access"):
        bench.open(plan)


def test_a_mark_reads_the_processor_time_of_its_lane_where_it_is_asked_to(bench: Bench) -> None:
    plan = Plan((), (), (), ((Mark(0, cpu=True), Mark(1), Mark(2, cpu=True)),), marks=("a", "b", "c"))
    session = bench.open(plan)
    before = time.thread_time_ns()
    first, none, last = session.play(0).cpu_ns
    assert none is None
    assert first is not None
    assert last is not None
    assert before <= first <= last <= time.thread_time_ns()
    session.close()


def test_a_mark_counts_the_memory_of_the_process_where_it_is_asked_to(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([(4096, 0), (8192, 4096), None])
    monkeypatch.setattr(bind, "process_memory_bytes", lambda: next(counts))
    lane = (Mark(0, memory=True), Mark(1), Mark(2, cpu=True, memory=True), Mark(3, memory=True))
    session = bench.open(Plan((), (), (), (lane,), marks=("a", "b", "c", "d")))
    trace = session.play(0)
    assert trace.memory_bytes == ((4096, 0), None, (8192, 4096), None)
    assert None not in trace.host_ns
    assert [time is None for time in trace.cpu_ns] == [True, True, False, True]
    session.close()


def test_memory_that_a_play_frees_is_freed_and_not_kept(bench: Bench) -> None:
    buffers = (Buffer("in", "pinned", 4096), Buffer("data", "device", 4096))
    plan = Plan(
        buffers=buffers,
        setup=(Alloc(0), Alloc(1)),
        prepare=(Fill(0, 0, 4096, 1),),
        lanes=((Copy(0, "h2d", 1, 0, 0, 0, 4096), Record(0, 0), Free(0), Drain(0)),),
        streams=(Stream("s"),),
        events=(Event("copied"),),
        races_wanted=frozenset({0}),
        expects=(Expect(1, 0, 4096, 1, 0),),
    )
    play(bench, plan, plays=1)
    assert "free pinned" in bench.driver.log
    assert bench.pool.held_bytes == 0


@pytest.mark.parametrize("size", [1, 63, 64, 65, 4096, 40_003])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_work_is_cut_into_no_more_pieces_than_threads_without_gap_or_overlap(size: int, threads: int) -> None:
    pieces = cut(size, threads)
    assert 1 <= len(pieces) <= threads
    assert [begin for begin, _ in pieces] == [0, *(end for _, end in pieces[:-1])]
    assert pieces[-1][1] == size
    assert all(begin % 64 == 0 for begin, _ in pieces)


def test_as_many_helpers_are_started_as_all_lanes_can_use_at_once() -> None:
    lanes = ((HostAccess(0, 0, 4, "read", 3), HostAccess(0, 0, 4, "read", 2)), (HostAccess(0, 0, 4, "read", 4),))
    helpers = make_helpers(Plan((Buffer("data", "pageable", 4),), (), (), lanes))
    assert helpers is not None
    assert helpers._max_workers == 5
    helpers.shutdown()
    assert make_helpers(Plan((), (), (), ((HostAccess(0, 0, 4, "read"),),))) is None


def test_adding_wraps_and_reading_changes_nothing() -> None:
    words = np.array([0, 7, 2**32 - 1], dtype=np.uint32)
    read_words(words)
    increment_words(words)
    assert words.tolist() == [1, 8, 0]
