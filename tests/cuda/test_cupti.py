"""Recorded plays: CUPTI's records matched with a Plan, on a stand-in and on a real device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from runner.device.activities import HOST_WORK
from runner.device.cuda.cupti import Recorder
from runner.device.cuda.device import CudaDevice
from runner.device.cuda.records import Record, Unmatched, match
from runner.errors import CaseFailed
from runner.plan import Copy, HostCopy, Launch, Plan
from tests import plans
from tests.cuda.standin import Bench, LogicError
from tests.cuda.standin_cupti import open_recorded

SIZE = 4096
ONE = [0]


def record(
    correlation: int, engine: str = "h2d", size: int = SIZE, stream: int = 7, begin: int = 0, memory: str = "pinned"
) -> Record:
    start = begin or correlation * 1000
    return Record(correlation, stream, engine, start, start + 100, size, memory)


def test_a_recorded_play_tells_of_every_operation_engine_size_memory_and_call(bench: Bench) -> None:
    plan = plans.ring(4, SIZE, 2, passes=3)
    session, _ = open_recorded(bench, plan)
    trace = session.play(0, record=True)
    assert (session.verify(), trace.not_recorded) == ((), "")
    lane = plan.lanes[0]
    done = {activity.index: activity for activity in trace.activities}
    assert set(done) == {index for index, each in enumerate(lane) if isinstance(each, (Copy, Launch, *HOST_WORK))}
    assert len(done) == len(trace.activities)
    for index, activity in done.items():
        operation = lane[index]
        if isinstance(operation, Copy):
            assert (activity.engine, activity.memory) == (operation.direction, "pinned")
            assert (activity.stream, activity.size_bytes) == (operation.stream, operation.size)
        elif isinstance(operation, Launch):
            assert (activity.engine, activity.memory, activity.size_bytes) == ("compute", "", operation.size)
        else:
            assert (activity.engine, activity.stream) == ("host", -1)
            assert (activity.begin_ns, activity.end_ns) == (activity.host_begin_ns, activity.host_end_ns)
        assert activity.host_begin_ns is not None
        assert activity.host_end_ns is not None
        assert 0 < activity.host_begin_ns <= activity.host_end_ns
    session.close()


def test_engine_times_are_told_by_the_hosts_clock(bench: Bench) -> None:
    session, _ = open_recorded(bench, plans.one_copy(SIZE))
    trace = session.play(0, record=True)
    (copy,) = (activity for activity in trace.activities if activity.engine == "h2d")
    begin, end, *_ = trace.host_ns
    assert begin is not None
    assert end is not None
    # The stand-in's clock runs a second ahead of the host's: only the conversion brings the copy between the marks.
    assert begin - 100_000 < copy.begin_ns < end + 100_000
    session.close()


def test_only_the_lanes_of_a_recorded_play_are_recorded_and_cupti_is_detached_before_any_other_play(bench: Bench) -> None:
    session, cupti = open_recorded(bench, plans.ring(2, SIZE, 2))
    session.play(0)
    assert cupti.log == []
    session.play(1, record=True)
    tried = ["subscribe", "unsubscribe"]
    recorded = ["register", "enable MEMCPY", "enable CONCURRENT_KERNEL", "flush", "disable MEMCPY", "disable CONCURRENT_KERNEL"]
    assert cupti.log == [*tried, *recorded, "finalize", *recorded]
    session.play(2, record=True)
    assert cupti.log[-5:] == recorded[1:]
    session.play(3)
    session.play(4)
    assert cupti.log[-1] == "finalize"
    assert cupti.log.count("finalize") == 2
    session.close()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda records: records[1:], "6 calls gave the device work, but CUPTI recorded 5"),
        (lambda records: [*records, records[-1].__class__(**vars(records[-1]) | {"correlation_id": 10**9})], "recorded 7"),
        (lambda records: [_with(records[0], bytes=5), *records[1:]], "h2d work of 4,096 bytes, but CUPTI recorded h2d of 5"),
        (lambda records: [_with(records[0], copy_kind=2), *records[1:]], "but CUPTI recorded d2h of 4,096 bytes"),
        (lambda records: [_with(records[0], end=0), *records[1:]], "to 0"),
    ],
)
def test_a_play_whose_records_do_not_match_its_plan_counts_as_not_recorded(
    bench: Bench, edit: Callable[[list[Any]], list[Any]], words: str
) -> None:
    session, cupti = open_recorded(bench, plans.ring(2, SIZE, 2))
    assert session.play(0, record=True).not_recorded == ""
    cupti.edit = edit
    trace = session.play(1, record=True)
    session.close()
    assert words in trace.not_recorded


def _with(found: Any, **fields: int) -> Any:
    return type(found)(**(vars(found) | fields))


def test_records_of_one_call_are_joined(bench: Bench) -> None:
    session, cupti = open_recorded(bench, plans.one_copy(SIZE, memory="pageable"))
    cupti.piece, cupti.memory = 1000, {"h2d": 1, "d2h": 1}
    (copy,) = (each for each in session.play(0, record=True).activities if each.engine == "h2d")
    assert (copy.size_bytes, copy.memory) == (SIZE, "pageable")
    assert copy.end_ns - copy.begin_ns > 50
    session.close()


@pytest.mark.parametrize(
    ("call", "words"),
    [("subscribe", "held by another profiler"), ("enable MEMCPY", "cannot record here"), ("flush", "cannot record")],
)
def test_where_cupti_refuses_the_play_goes_on_and_says_why_it_is_not_recorded(bench: Bench, call: str, words: str) -> None:
    session, cupti = open_recorded(bench, plans.one_copy(SIZE))
    cupti.fail[call] = cupti.cuptiError("ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)")
    trace = session.play(0, record=True)
    assert (trace.activities, session.verify()) == ((), ())
    assert words in trace.not_recorded
    assert "MULTIPLE_SUBSCRIBERS" in trace.not_recorded
    session.close()


def test_a_refusal_in_the_middle_of_a_run_costs_only_the_records(bench: Bench) -> None:
    session, cupti = open_recorded(bench, plans.one_copy(SIZE))
    assert session.play(0, record=True).activities
    cupti.fail["flush"] = cupti.cuptiError("ERROR_UNKNOWN (999)")
    trace = session.play(1, record=True)
    assert (trace.activities, trace.not_recorded) == ((), "CUPTI refused: ERROR_UNKNOWN (999)")
    session.close()


def test_without_cupti_the_reason_tells_what_to_install(bench: Bench) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    recorder = Recorder(bench.context, absent)
    assert "pip install cupti-python" in recorder.why_not()
    recorder.detach()


def test_a_failed_play_leaves_nothing_enabled(bench: Bench) -> None:
    session, cupti = open_recorded(bench, plans.one_copy(SIZE))
    session.play(0, record=True)
    bench.driver.fail["copy h2d"] = LogicError("cuMemcpyHtoDAsync failed: invalid argument")
    with pytest.raises(CaseFailed, match="operation 3 of lane 0"):
        session.play(1, record=True)
    assert cupti.enabled == set()
    session.close()


def test_several_lanes_are_told_apart_by_their_streams() -> None:
    plan = plans.two_lanes(SIZE)
    lanes = [[each for each in lane if isinstance(each, Copy | Launch)] for lane in plan.lanes]
    ids = [10 + stream for stream in range(len(plan.streams))]
    records, correlation = [], 0
    # The calls of the lanes come in turns.
    for pair in zip(*lanes, strict=True):
        for operation in pair:
            correlation += 1
            way = operation.direction if isinstance(operation, Copy) else "compute"
            size = operation.size if isinstance(operation, Copy) else 0
            records.append(record(correlation, way, size, ids[operation.stream]))
    found = match(records, plan, ids, by_stream=True)
    assert Counter(lane for lane, _ in found) == {number: len(lane) for number, lane in enumerate(lanes)}
    for (lane, index), work in found.items():
        assert ids[plan.lanes[lane][index].stream] == work.stream  # type: ignore[union-attr]
    with pytest.raises(Unmatched, match="two lanes share a stream"):
        match([record(1), record(2)], _shared(plan), [7] * len(plan.streams), by_stream=True)


def _shared(plan: Plan) -> Plan:
    copy = next(each for each in plan.lanes[0] if isinstance(each, Copy))
    return plans.plan_of(plan.buffers, [[copy], [copy]], streams=len(plan.streams))


def test_passes_of_one_launch_are_one_activity() -> None:
    launch = Launch(0, 1, 0, SIZE, passes=3)
    plan = plans.plan_of(plans.one_copy(SIZE).buffers, [[launch]])
    records = [record(number, "compute", 0, begin=number * 1000) for number in (3, 1, 2)]
    assert match(records, plan, ONE, by_stream=False) == {(0, 0): Record(1, 7, "compute", 1000, 3100, 0, "pinned")}


@pytest.mark.gpu
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_the_real_engines_times_lie_within_the_hosts(cuda: CudaDevice, memory: str) -> None:
    if cuda.recording:
        pytest.skip(cuda.recording)
    plan = plans.ring(4, 1 << 22, 2) if memory == "pinned" else plans.one_copy(1 << 22, memory=memory)
    session = cuda.open(plan)
    for sample in range(2):
        trace = session.play(sample, record=True)
        assert (trace.not_recorded, session.verify()) == ("", ())
    session.close()
    copies = [activity for activity in trace.activities if activity.engine in ("h2d", "d2h")]
    assert len(copies) == sum(isinstance(each, Copy) for each in plan.lanes[0])
    assert {copy.memory for copy in copies} == {memory}
    lane = [activity for activity in trace.activities if activity.engine == "host"]
    assert len(lane) == sum(isinstance(each, HOST_WORK) for each in plan.lanes[0])
    assert any(isinstance(each, HostCopy) for each in plan.lanes[0]) or memory == "pageable"
    last = max(activity.host_end_ns or 0 for activity in trace.activities)
    for copy in copies:
        assert copy.host_begin_ns is not None
        assert copy.host_begin_ns - 20_000 < copy.begin_ns < copy.end_ns < last + 20_000
        assert copy.size_bytes / (copy.end_ns - copy.begin_ns) < 200
