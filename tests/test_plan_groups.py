"""What one call may hand over together: every rule broken once, and the order inside a graph proven as outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from runner.errors import PlanError
from runner.memory import DEVICE
from runner.plan import (
    Alloc,
    Batch,
    Buffer,
    Busy,
    Copy,
    Drain,
    Event,
    Expect,
    Free,
    Graph,
    GroupEnd,
    HostCopy,
    HostWait,
    KernelAccess,
    Launch,
    Mark,
    Operation,
    Plan,
    PoolAlloc,
    PoolFree,
    Record,
    Register,
    Stream,
    StreamWait,
    Unregister,
)
from runner.plan_check import check_order, check_plan
from runner.plan_groups import graphs_made_before, graphs_made_in_play, groups_of, predecessors
from tests import plans
from tests.lazy_player import LazyPlayer
from tests.plans import DATA, WRITTEN, indices_of, plan_of, without

SIZE = 4096
UP, ADD, DOWN = Copy(0, "h2d", 2, 0, 0, 0, SIZE), Launch(0, 2, 0, SIZE), Copy(0, "d2h", 1, 0, 2, 0, SIZE)
BUFFERS = (Buffer("in", "pinned", SIZE), Buffer("out", "pinned", SIZE), Buffer("device", DEVICE, SIZE))
EVENTS = (Event("first"), Event("second"), Event("timed", timed=True))


def plan_with(lane: Sequence[Operation], memory: str = "pinned", streams: Sequence[Stream] | int = 3) -> Plan:
    buffers = (Buffer("in", memory, SIZE), *BUFFERS[1:])
    return plan_of(buffers, [lane], data=[0], poison=[1, 2], streams=streams, events=EVENTS)


def test_the_plans_of_the_contract_are_proven_and_do_what_they_shall_however_late() -> None:
    for plan in (
        plans.graph([8, 16, 4]),
        plans.graph([8, 16, 4], 3),
        plans.graph([8, 16, 4], 2, in_place=True),
        plans.batches([8, 16, 4]),
        plans.pooled(5, 8, 2),
    ):
        check_plan(plan)
        assert LazyPlayer(plan).wrong_bytes() == 0


ON_1 = replace(ADD, stream=1)
FORK, JOIN = (Record(0, 0), StreamWait(1, 0)), (Record(1, 1), StreamWait(0, 1))
WRONG: dict[str, tuple[Sequence[Operation], str]] = {
    "an end of nothing": ([GroupEnd()], "nothing was begun that could end here"),
    "no end": ([Graph(0), UP], "this group never ends"),
    "one in another": ([Graph(0), Batch(0), UP, GroupEnd(), GroupEnd()], "a group cannot begin inside another"),
    "an empty graph": ([Graph(0), GroupEnd()], "this graph holds no work"),
    "an empty batch": ([Batch(0), GroupEnd()], "this batch holds no copy"),
    "a kernel in a batch": ([Batch(0), UP, ADD, GroupEnd()], "async copies in its own stream and nothing else"),
    "another stream in a batch": ([Batch(1), UP, GroupEnd()], "async copies in its own stream and nothing else"),
    "a plain call in a batch": ([Batch(0), replace(UP, blocking=True), GroupEnd()], "async copies in its own stream"),
    "both ways in a batch": ([Batch(0), UP, DOWN, GroupEnd()], "the copies of a batch go one way"),
    "one place twice in a batch": (
        [Batch(0), UP, replace(UP, dst_offset=8, size=8), GroupEnd()],
        "two copies of a batch, which have no order, write byte 8 of buffer 'device'",
    ),
    "a wait of the host": ([Record(0, 0), Graph(0), UP, HostWait(0), GroupEnd()], "no graph can hold this"),
    "a copy of the host": ([Graph(0), HostCopy(1, 0, 0, 0, SIZE), GroupEnd()], "no graph can hold this"),
    "a mark": ([Graph(0), UP, Mark(0), GroupEnd()], "no graph can hold this"),
    "a plain call": ([Graph(0), replace(UP, blocking=True), GroupEnd()], "a copy that the host waits for"),
    "a write of the sample": (
        [Graph(0), KernelAccess(0, 2, 0, SIZE, "write", WRITTEN), GroupEnd()],
        "changes with each sample, but a graph never changes",
    ),
    "a timed event": ([Graph(0), UP, Record(0, 2), GroupEnd()], "an event inside a graph has no time"),
    "an unforked branch": ([Graph(0), UP, ON_1, *JOIN, GroupEnd()], "stream 's1' is no part of the graph yet"),
    "an unjoined branch": ([Graph(0), UP, *FORK, ON_1, GroupEnd()], "stream 's1' is not joined into the launch stream"),
    "a branch joined too early": (
        [Graph(0), UP, *FORK, *JOIN, ON_1, GroupEnd()],
        "stream 's1' is not joined into the launch stream",
    ),
    "an event from outside": ([Record(1, 0), Graph(0), StreamWait(0, 0), UP, GroupEnd()], "only events can be waited for"),
    "an event waited for outside": ([Graph(0), UP, Record(0, 0), GroupEnd(), HostWait(0)], "happens only inside a graph"),
    "a branch used outside": (
        [Graph(0), UP, *FORK, ON_1, *JOIN, GroupEnd(), Drain(1)],
        "stream 's1' is a branch of a graph, which nothing else orders",
    ),
    "a branch launched into": (
        [Graph(0), UP, *FORK, ON_1, *JOIN, GroupEnd(), Graph(1), ON_1, GroupEnd()],
        "stream 's1' is a branch of another graph",
    ),
    "memory that comes and goes": (
        [Alloc(2), Graph(0), UP, GroupEnd(), Drain(0), Free(2)],
        "is allocated or freed by a lane, so its address is not known before",
    ),
    "memory that comes and goes, in a batch": (
        [Alloc(2), Batch(0), UP, GroupEnd(), Drain(0), Free(2)],
        "is allocated or freed by a lane, so its address is not known before",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_handed_over_together_is_refused(name: str) -> None:
    lane, words = WRONG[name]
    with pytest.raises(PlanError, match=words):
        check_plan(plan_with([*lane, Drain(0)]))


@pytest.mark.parametrize("opener", [Graph(0), Batch(0)])
def test_memory_that_a_lane_registers_is_copied_only_while_it_is_registered(opener: Operation) -> None:
    lane = [Register(0), opener, UP, GroupEnd(), Drain(0), Unregister(0)]
    check_plan(plan_with(lane, "pageable"))
    for early in (lane[1:4] + lane[:1] + lane[4:], lane[:1] + lane[5:] + lane[1:5]):
        with pytest.raises(PlanError, match="buffer 'in' is not page-locked now, so that only a call by itself can copy it"):
            check_plan(plan_with(early, "pageable"))
    with pytest.raises(PlanError, match="race on buffer 'in'"):
        check_plan(plan_with([*lane[:4], Unregister(0), Drain(0)], "pageable"))


def test_graphs_of_memory_that_a_lane_registers_are_made_in_the_play() -> None:
    launched = [Graph(0), UP, GroupEnd(), Graph(0), ADD, GroupEnd()]
    plan = plan_with([Register(0), *launched, Drain(0), Unregister(0)], "pageable")
    assert list(graphs_made_in_play(plan)) == [(0, 1)]
    assert [group.operations for group in graphs_made_before(plan)] == [(ADD,)]
    assert graphs_made_in_play(plan_with([*launched, Drain(0)])) == {}


def test_no_other_lane_uses_a_stream_while_it_is_captured() -> None:
    registered = plan_with([Register(0), Graph(0), UP, GroupEnd(), Drain(0), Unregister(0)], "pageable")
    check_plan(replace(registered, lanes=(*registered.lanes, (Busy(1, 10), Drain(1)))))
    words = "lane 0 makes a graph of stream 's0' during the play, so no other lane may use it"
    with pytest.raises(PlanError, match=words):
        check_plan(replace(registered, lanes=(*registered.lanes, (Busy(0, 10), Drain(0)))))
    before = plan_with([Graph(0), UP, GroupEnd(), Drain(0)])
    check_plan(replace(before, lanes=(*before.lanes, (Busy(0, 10), Drain(0)))))


@pytest.mark.parametrize("lane", [[Graph(0), UP, GroupEnd()], [Batch(0), UP, GroupEnd()]], ids=["graph", "batch"])
def test_memory_that_is_not_page_locked_is_copied_by_calls_alone(lane: list[Operation]) -> None:
    for memory in ("pageable", "managed"):
        with pytest.raises(PlanError, match="buffer 'in' is not page-locked now, so that only a call by itself can copy it"):
            check_plan(plan_with([*lane, Drain(0)], memory))


def test_streams_that_mean_something_else_inside_a_graph_are_refused() -> None:
    for kind in ("blocking", "null"):
        with pytest.raises(PlanError, match="is not non-blocking, which a graph forgets"):
            check_plan(plan_with([Graph(0), UP, GroupEnd(), Drain(0)], streams=[Stream("s0", kind)]))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="the null stream takes no batch"):
        check_plan(plan_with([Batch(0), UP, GroupEnd(), Drain(0)], streams=[Stream("s0", "null")]))


def test_each_wait_between_the_branches_of_a_graph_is_needed() -> None:
    """What the proof of order says of a missing wait, the lazy player shows in the data."""
    pipeline = plans.per_engine(4, 8, 2)
    body = [operation for operation in pipeline.lanes[0] if not isinstance(operation, (Mark, Drain))]
    events = [Event(f"e{number}") for number in range(len(pipeline.events) + 3)]
    fork = [Record(0, 12), StreamWait(1, 12), StreamWait(2, 12)]
    join = [Record(1, 13), StreamWait(0, 13), Record(2, 14), StreamWait(0, 14)]
    lane = (Mark(0), Graph(0), *fork, *body, *join, GroupEnd(), Drain(0), Mark(1))
    plan = replace(pipeline, lanes=(lane,), events=tuple(events))
    check_plan(plan)
    assert LazyPlayer(plan).wrong_bytes() == 0
    needed = [index for index in indices_of(plan, StreamWait) if lane[index] not in (*fork, *join)]
    assert len(needed) == 10
    for index in needed:
        with pytest.raises(PlanError):
            check_order(without(plan, index))
        assert any(LazyPlayer(without(plan, index), lazy).wrong_bytes() for lazy in ([0], [1], [2], [0, 1], [1, 2], [0, 1, 2]))


def test_a_graph_is_made_once_however_often_it_is_launched() -> None:
    (group,) = groups_of(plans.graph([8, 4]).lanes[0])
    assert (group.begin, group.end, group.nodes()) == (1, 12, 7)
    launched = plan_with([*[Graph(0), UP, GroupEnd()] * 3, Graph(1), replace(UP, stream=1), GroupEnd(), Drain(0)])
    assert len(groups_of(launched.lanes[0])) == 4
    assert [group.opener.stream for group in graphs_made_before(launched)] == [0, 1]


def test_what_a_graph_orders_is_told_pair_by_pair() -> None:
    operations = [UP, Record(0, 0), StreamWait(1, 0), ON_1, ADD, Record(1, 1), StreamWait(0, 1), DOWN]
    assert set(predecessors(operations)) == {(0, 3), (0, 4), (4, 7), (3, 7)}


def pooled(*lane: Operation) -> Plan:
    expects = [Expect(1, 0, SIZE, DATA, 0, 1)]
    return plan_of(BUFFERS, [lane], data=[0], poison=[1], in_lanes=[2], streams=2, events=2, expects=expects)


def test_memory_of_the_pool_comes_and_goes_in_the_order_of_its_stream() -> None:
    right = (PoolAlloc(0, 2), UP, ADD, DOWN, PoolFree(0, 2), Drain(0))
    check_plan(pooled(*right))
    assert pooled(*right).demand().device_bytes == SIZE
    ordered = (PoolAlloc(1, 2), Record(1, 0), StreamWait(0, 0), UP, ADD, DOWN, Record(0, 1), StreamWait(1, 1), PoolFree(1, 2))
    check_plan(pooled(*ordered, Drain(0)))
    for missing in (2, 7):
        with pytest.raises(PlanError, match="race on buffer 'device'"):
            check_plan(pooled(*ordered[:missing], *ordered[missing + 1 :], Drain(0)))


@pytest.mark.parametrize(
    ("lane", "words"),
    [
        ((UP, PoolAlloc(0, 2), PoolFree(0, 2), Drain(0)), "is used, but it is not allocated"),
        ((PoolAlloc(0, 2), PoolFree(0, 2), UP, Drain(0)), "is used, but it is not allocated"),
        ((PoolAlloc(0, 2), PoolAlloc(0, 2), Drain(0)), "is already allocated"),
        ((PoolFree(0, 2), Drain(0)), "is used, but it is not allocated"),
        ((PoolAlloc(0, 2), Drain(0)), "a play leaves allocated buffer 'device'"),
        ((PoolAlloc(0, 0), PoolFree(0, 0), Drain(0)), "the pool has memory of the device alone"),
        ((PoolAlloc(5, 2), PoolFree(0, 2), Drain(0)), "there is no stream 5"),
    ],
)
def test_memory_of_the_pool_that_is_not_there_is_refused(lane: tuple[Operation, ...], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        check_plan(pooled(*lane))
