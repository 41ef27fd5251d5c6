"""Graphs, batches and the device's pool on the stand-in driver: made once, given back, refused where they are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from runner.device.contract import Activity
from runner.device.cuda.records import Record, Unmatched, match
from runner.errors import CaseFailed, CaseUnsupported
from runner.memory import DEVICE
from runner.plan import Batch, Buffer, Copy, Drain, Gate, Graph, GroupEnd, Launch, Plan
from runner.plan_groups import groups_of
from tests import plans
from tests.cuda.recording import RecordingBench
from tests.cuda.standin import Bench, LogicError
from tests.cuda.standin_cupti import open_recorded
from tests.mutations.mutants import case_of
from tests.plans import plan_of

SIZES = [128, 192, 256]
BATCHED = {
    "pipeline": case_of(
        kind="pipeline", schedule="overlapped", submit="batch", layout="per_engine", issue="breadth_first",
        total=4000, chunk=400, streams=3, slots=6,
    ),
    "gated": case_of(kind="transfer", direction="h2d", size=4000, chunk=1000, submit="batch", gated=True, batch=4),
    "both ways": case_of(kind="transfer", direction="bidirectional", size=4000, chunk=1000, streams=2, submit="batch", batch=2),
}  # fmt: skip


def launches(*streams: int) -> Plan:
    size = 64
    lane = [each for stream in streams for each in (Graph(stream), Launch(stream, stream, 0, size), GroupEnd())]
    buffers = [Buffer(f"device {number}", DEVICE, size) for number in range(2)]
    return plan_of(buffers, [[*lane, Drain(0), Drain(1)]], data=[0, 1], streams=2)


def test_a_graph_is_made_once_and_destroyed_with_its_session(bench: Bench) -> None:
    session = bench.open(launches(0, 0, 1, 0))
    assert bench.driver.log.count("instantiate") == 2
    trace = session.play(0)
    assert bench.driver.log.count("launch graph") == 4
    assert trace.instantiate_ns is not None
    assert trace.instantiate_ns == session.play(1).instantiate_ns
    session.close()
    assert bench.driver.log.count("destroy graph") == 2


def test_a_graph_of_registered_memory_is_made_in_each_play_and_destroyed_behind_it(bench: Bench) -> None:
    session = bench.open(plans.graph(SIZES, in_place=True))
    assert "instantiate" not in bench.driver.log
    for play in range(3):
        bench.driver.log.clear()
        assert session.play(play).instantiate_ns is not None
        assert session.verify() == ()
        told = ("register", "unregister", "instantiate", "launch graph", "synchronize context", "destroy graph")
        assert [call for call in bench.driver.log if call in told] == [
            "synchronize context",
            *("register", "register", "instantiate", "launch graph", "unregister", "unregister"),
            *("synchronize context", "destroy graph"),
        ]
    session.close()
    assert "destroy graph" not in bench.driver.log[bench.driver.log.index("destroy graph") + 1 :]


@pytest.mark.parametrize("call", ["copy h2d", "instantiate", "launch graph"])
def test_what_fails_while_a_graph_is_made_in_a_play_fails_that_play(bench: Bench, call: str) -> None:
    session = bench.open(plans.graph(SIZES, in_place=True))
    session.play(0)
    bench.driver.fail[call] = LogicError(f"{call} went wrong")
    with pytest.raises(CaseFailed, match=f"{call} went wrong in operation 3 of lane 0, Graph"):
        session.play(1)
    assert bench.driver.captured is None
    bench.driver.fail.clear()
    session.close()
    assert bench.driver.log.count("instantiate") - (call == "instantiate") == bench.driver.log.count("destroy graph")


@pytest.mark.parametrize("call", ["copy h2d", "launch increment", "instantiate"])
def test_what_fails_while_a_graph_is_made_ends_the_capture_and_the_case(bench: Bench, call: str) -> None:
    bench.driver.fail[call] = LogicError(f"{call} went wrong")
    with pytest.raises(CaseFailed, match=f"opening the case failed: {call} went wrong"):
        bench.open(plans.graph(SIZES))
    assert bench.driver.captured is None
    bench.driver.fail.clear()


@pytest.mark.parametrize(
    ("version", "bindings", "words"),
    [
        (12_040, 12_080, "this driver is for CUDA 12.4 and the call of these cuda-bindings came with 12.8"),
        (12_080, 13_000, "this driver is for CUDA 12.8 and the call of these cuda-bindings came with 13.0"),
    ],
)
def test_batches_are_unsupported_where_the_driver_is_older(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, version: int, bindings: int, words: str
) -> None:
    bench.driver.version = version
    monkeypatch.setattr(bench.context.raw, "CUDA_VERSION", bindings)
    with pytest.raises(CaseUnsupported, match=words):
        bench.open(plans.batches(SIZES))


def test_batches_are_unsupported_where_bindings_lack_them(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(type(bench.context.raw), "cuMemcpyBatchAsync")
    with pytest.raises(CaseUnsupported, match="these cuda-bindings have no such call"):
        bench.open(plans.batches(SIZES))


def test_the_pool_keeps_its_memory_while_a_session_uses_it(bench: Bench) -> None:
    session = bench.open(plans.pooled(4, 64, 2))
    session.play(0)
    assert session.verify() == ()
    session.close()
    of_the_pool = [call for call in bench.driver.log if call.startswith(("pool keeps", "trim pool"))]
    assert of_the_pool == ["pool keeps all", "pool keeps nothing", "trim pool"]


def test_a_launch_on_memory_of_the_pool_is_made_ready_once_an_address(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[int] = []
    increment = bench.kernels.increment

    def noting(address: int, size: int, stream: Any) -> Any:
        addresses.append(address)
        return increment(address, size, stream)

    monkeypatch.setattr(bench.kernels, "increment", noting)
    session = bench.open(plans.pooled(1, 64, 1))
    assert addresses == []
    for play in range(5):
        session.play(play)
        assert session.verify() == ()
    session.close()
    assert addresses
    assert len(addresses) == len(set(addresses))


def test_memory_of_the_pool_that_a_failed_play_leaves_is_freed(bench: Bench) -> None:
    session = bench.open(plans.pooled(4, 64, 2))
    bench.driver.fail["copy d2h"] = LogicError("the copy went wrong")
    with pytest.raises(CaseFailed, match="the copy went wrong in operation"):
        session.play(0)
    session.close()
    bench.driver.fail.clear()
    assert 64 not in [size for size, sort in bench.driver.ranges.values() if sort == "device"]


def test_a_device_without_a_pool_is_told_so(bench: Bench) -> None:
    bench.driver.attributes["pools"] = 0
    with pytest.raises(CaseUnsupported, match="memory was asked for from the pool of the device, but this device has none"):
        bench.open(plans.pooled(4, 64, 2))


def recorded(plan: Plan, edit: Callable[[list[Any]], list[Any]] = list) -> tuple[tuple[Activity, ...], str]:
    """Return what a recorded play says of itself where CUPTI's records are edited."""
    bench = RecordingBench()
    try:
        session, cupti = open_recorded(bench, plan)
        session.play(0)
        cupti.edit = edit
        trace = session.play(1, record=True)
        session.close()
        return tuple(activity for activity in trace.activities if activity.engine != "host"), trace.not_recorded
    finally:
        bench.close()


def as_one_each(records: list[Any]) -> list[Any]:
    """Tell each batch by one record that has the id of the call before, as an H200 does."""
    merged: list[Any] = []
    ids: list[int] = []
    for record in records:
        copy = hasattr(record, "bytes")
        if copy and ids and ids[-1] == record.correlation_id:
            merged[-1].bytes, merged[-1].end = merged[-1].bytes + record.bytes, record.end
            merged[-1].copy_count += 1
        else:
            record.copy_count = 1
            merged.append(record)
        ids.append(record.correlation_id)
    before = 1
    for record in merged:
        if hasattr(record, "bytes"):
            record.correlation_id = before
        before = record.correlation_id
    return merged


def test_the_nodes_of_a_graph_are_told_one_by_one() -> None:
    plan = plans.graph(SIZES, 2)
    activities, why_not = recorded(plan)
    assert not why_not
    assert [type(plan.lanes[0][each.index]).__name__ for each in activities] == ["Copy", "Launch", "Copy"] * 3
    assert [each.size_bytes for each in activities] == [size for size in SIZES for _ in range(3)]
    assert len({(each.host_begin_ns, each.host_end_ns) for each in activities}) == 1


def test_the_copies_of_a_batch_are_told_one_by_one_or_as_their_first() -> None:
    plan = plans.batches(SIZES)
    activities, _ = recorded(plan)
    assert [each.size_bytes for each in activities] == [*SIZES, sum(SIZES), *reversed(SIZES)]

    merged, why_not = recorded(plan, as_one_each)
    assert not why_not
    assert [(each.index, each.engine, each.size_bytes) for each in merged] == [
        (2, "h2d", sum(SIZES)),
        (6, "compute", sum(SIZES)),
        (8, "d2h", sum(SIZES)),
    ]


@pytest.mark.parametrize("name", ["pipeline", "gated", "both ways"])
def test_many_batches_are_told_by_stream_and_time(name: str) -> None:
    """A batch has no id of its own, but that of the call before it, of whatever stream."""
    plan = BATCHED[name].plan()
    batches = [group for group in groups_of(plan.lanes[0]) if not group.captured]
    assert len(batches) > 3
    activities, why_not = recorded(plan, as_one_each)
    assert not why_not
    told = {each.index: each for each in activities}
    for group in batches:
        first = told[group.begin + 1]
        assert (first.stream, first.size_bytes) == (group.opener.stream, sum(copy.size for copy in group.operations))  # type: ignore[union-attr]
    kernels = [index for index, operation in enumerate(plan.lanes[0]) if isinstance(operation, (Launch, Gate))]
    assert sorted(told) == sorted([group.begin + 1 for group in batches] + kernels)


def test_batches_whose_copies_do_not_add_up_are_not_recorded() -> None:
    def one_less(records: list[Any]) -> list[Any]:
        merged = as_one_each(records)
        for first in merged[:1]:
            first.copy_count -= 1
        return merged

    def one_more(records: list[Any]) -> list[Any]:
        merged = as_one_each(records)
        return [*merged, *merged[-1:]]

    for edit in (one_less, lambda records: as_one_each(records)[:-1]):
        activities, why_not = recorded(BATCHED["pipeline"].plan(), edit)
        assert activities == ()
        assert "some in batches, but CUPTI recorded" in why_not
    _, why_not = recorded(BATCHED["pipeline"].plan(), one_more)
    assert why_not == "CUPTI recorded more work of a stream than it was given"


def unnamed(records: list[Any]) -> list[Any]:
    for record in records:
        record.graph_node_id = 0
    return records


def shuffled(records: list[Any]) -> list[Any]:
    ids = [record.graph_node_id for record in records]
    for record, node in zip(records, reversed(ids), strict=True):
        record.graph_node_id = node
    return records


def too_early(records: list[Any]) -> list[Any]:
    # The others go later: a record of before the play's begin would count as another play's.
    for index, record in enumerate(records):
        if index != 2:
            record.start, record.end = record.start + 20_000_000, record.end + 20_000_000
    return records


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (unnamed, "CUPTI does not tell which node of a graph a record belongs to"),
        (shuffled, "but CUPTI recorded d2h"),
        (too_early, "in the order of their ids some begin too early"),
        (lambda records: records[1:], "a graph of 10 copies and kernels was launched, but CUPTI recorded 9 of them"),
    ],
)
def test_nodes_that_cannot_be_told_apart_are_not_recorded(edit: Callable[[list[Any]], list[Any]], words: str) -> None:
    activities, why_not = recorded(plans.graph(SIZES, 2), edit)
    assert activities == ()
    assert words in why_not


def test_a_batch_whose_bytes_are_not_all_recorded_is_not_recorded() -> None:
    def fewer_bytes(records: list[Any]) -> list[Any]:
        merged = as_one_each(records)
        for first in merged[:1]:
            first.bytes -= SIZES[0]
        return merged

    _, why_not = recorded(plans.batches(SIZES), fewer_bytes)
    assert why_not == "a batch copies 576 bytes, but CUPTI recorded 448"


def test_no_lane_of_several_can_be_told_by_a_graph() -> None:
    copy = Copy(0, "h2d", 0, 0, 1, 0, 64)
    plan = replace(plans.one_copy(64), lanes=((Graph(0), copy, GroupEnd()), (Batch(0), copy, GroupEnd())))
    records: Sequence[Record] = [Record(1, 7, "h2d", 1, 2, 64, "pinned", 1)]
    with pytest.raises(Unmatched, match="of several lanes no record tells whose it is"):
        match(records, plan, [7], by_stream=True)
