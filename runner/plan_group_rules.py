"""What may stand in a graph or a batch.

For a group to be proven where its operations stand, it must hold only what a driver can capture, and its streams must mean inside
what they mean outside. The rules of capture are those of CUDA's programming guide ("Creating a Graph Using Stream Capture",
"Cross-stream Dependencies and Events").
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from runner import operations as ops
from runner.errors import PlanError
from runner.plan import Plan
from runner.plan_groups import WORK, Group, Work, graphs_made_in_play, groups_of, used_by
from runner.plan_words import name_of, place

_CAPTURED: Final = (*WORK, ops.Record, ops.StreamWait)


def check_groups(plan: Plan) -> None:
    """Refuse groups that no device could hand over as one; raises PlanError naming the lane, the operation and the rule.

    A group begins and ends on its lane and holds no other. A batch holds async copies of one direction in its own stream, no two
    of which touch the same bytes unless both read. A graph holds copies, kernels, records and waits on non-blocking streams, of
    memory that the lanes neither allocate nor free; each of its other streams first waits for an event of the graph, is joined
    into the launch stream before the end, and is used by nothing but graphs launched into that stream. An event recorded in a
    graph has no time and is waited for in it alone, and only such events are waited for there. No other lane uses the streams of
    a graph that is made in the play.
    """
    if not any(isinstance(operation, (ops.Graph, ops.Batch, ops.GroupEnd)) for lane in plan.lanes for operation in lane):
        return
    operations = [operation for lane in plan.lanes for operation in lane]
    moving = {
        operation.buffer for operation in operations if isinstance(operation, (ops.Alloc, ops.Free, ops.PoolAlloc, ops.PoolFree))
    }
    branches: dict[int, int] = {}
    for number, lane in enumerate(plan.lanes):
        _check_brackets(plan, number)
        for group in groups_of(lane):
            check = _InGroup(plan, number, group, moving)
            if group.captured:
                check.graph(branches)
            else:
                check.batch()
    _check_outside(plan, branches)
    for (number, _), group in graphs_made_in_play(plan).items():
        _check_alone(plan, number, group)


def _check_brackets(plan: Plan, number: int) -> None:
    opened = -1
    lane = plan.lanes[number]
    for index, operation in enumerate(lane):
        if isinstance(operation, ops.GroupEnd):
            if opened < 0:
                raise PlanError(f"{place(plan, f'lane {number}', index, operation)}: nothing was begun that could end here")
            opened = -1
        elif isinstance(operation, (ops.Graph, ops.Batch)):
            if opened >= 0:
                raise PlanError(f"{place(plan, f'lane {number}', index, operation)}: a group cannot begin inside another")
            opened = index
    if opened >= 0:
        raise PlanError(f"{place(plan, f'lane {number}', opened, lane[opened])}: this group never ends")


class _InGroup:
    """The checks of one group."""

    def __init__(self, plan: Plan, lane: int, group: Group, moving: set[int]) -> None:
        self.plan, self.lane, self.group, self.moving = plan, lane, group, moving

    def batch(self) -> None:
        """Check a batch."""
        copies = []
        for index, operation in enumerate(self.group.operations):
            if not isinstance(operation, ops.Copy) or operation.blocking or operation.stream != self.group.opener.stream:
                self.refuse(index, "a batch holds async copies in its own stream and nothing else")
                raise AssertionError
            self._require_place(index, operation)
            copies.append(operation)
        if not copies:
            self.refuse(-1, "this batch holds no copy")
        if len({copy.direction for copy in copies}) > 1:
            self.refuse(-1, "the copies of a batch go one way")
        if self.plan.streams[self.group.opener.stream].kind == "null":
            self.refuse(-1, "the null stream takes no batch")
        self._require_apart([(copy.dst, copy.dst_offset, copy.size) for copy in copies])

    def _require_apart(self, written: list[tuple[int, int, int]]) -> None:
        """Copies of one direction read and write different buffers, so only what two of them write can conflict."""
        written.sort()
        for (buffer, offset, size), (other, begin, _) in pairwise(written):
            if buffer == other and offset + size > begin:
                self.refuse(-1, f"two copies of a batch, which have no order, write byte {begin} of {name_of(self.plan, buffer)}")

    def graph(self, branches: dict[int, int]) -> None:
        """Check a graph and note in `branches` its other streams, each with the stream that such graphs are launched into."""
        origin = self.group.opener.stream
        clocks: dict[int, dict[int, int]] = {origin: {}}
        events: dict[int, dict[int, int]] = {}
        for index, operation in enumerate(self.group.operations):
            if not isinstance(operation, _CAPTURED):
                self.refuse(index, "no graph can hold this")
                raise AssertionError
            self._check_work(index, operation)
            stream = operation.stream
            if isinstance(operation, ops.StreamWait):
                if operation.event not in events:
                    self.refuse(index, "inside a graph only events can be waited for that were recorded in it before")
                _merge(clocks.setdefault(stream, {}), events[operation.event])
                continue
            if stream not in clocks:
                self.refuse(
                    index, f"stream {self.plan.streams[stream].name!r} is no part of the graph yet: it waits for no event of it"
                )
            clock = clocks[stream]
            if isinstance(operation, ops.Record):
                events[operation.event] = dict(clock)
            else:
                clock[stream] = clock.get(stream, 0) + 1
        self._require_joined(clocks)
        for stream in clocks:
            self._branch(stream, branches)

    def _require_joined(self, clocks: dict[int, dict[int, int]]) -> None:
        origin = clocks[self.group.opener.stream]
        if not any(isinstance(operation, WORK) for operation in self.group.operations):
            self.refuse(-1, "this graph holds no work")
        for stream, clock in clocks.items():
            if origin.get(stream, 0) < clock.get(stream, 0):
                self.refuse(
                    -1, f"stream {self.plan.streams[stream].name!r} is not joined into the launch stream before the graph ends"
                )

    def _branch(self, stream: int, branches: dict[int, int]) -> None:
        origin = self.group.opener.stream
        if self.plan.streams[stream].kind != "non_blocking":
            self.refuse(-1, f"stream {self.plan.streams[stream].name!r} is not non-blocking, which a graph forgets")
        if stream != origin and branches.setdefault(stream, origin) != origin:
            self.refuse(-1, f"stream {self.plan.streams[stream].name!r} is a branch of graphs of another launch stream, too")

    def _check_work(self, index: int, operation: Work | ops.Record | ops.StreamWait) -> None:
        if isinstance(operation, ops.Copy) and operation.blocking:
            self.refuse(index, "a copy that the host waits for cannot be part of a graph")
        if isinstance(operation, ops.KernelAccess) and operation.access == "write":
            self.refuse(index, "what a kernel writes changes with each sample, but a graph never changes")
        if isinstance(operation, ops.Record) and self.plan.events[operation.event].timed:
            self.refuse(index, "an event inside a graph has no time")
        self._require_place(index, operation)

    def _require_place(self, index: int, operation: Work | ops.Record | ops.StreamWait) -> None:
        """The addresses of an operation must be known before."""
        for buffer in used_by(operation):
            if buffer in self.moving:
                self.refuse(
                    index, f"{name_of(self.plan, buffer)} is allocated or freed by a lane, so its address is not known before"
                )

    def refuse(self, index: int, why: str) -> None:
        """Raise PlanError at an operation of the group; -1 is what has begun it."""
        at = self.group.begin + 1 + index
        raise PlanError(f"{place(self.plan, f'lane {self.lane}', at, self.plan.lanes[self.lane][at])}: {why}")


def _check_outside(plan: Plan, branches: dict[int, int]) -> None:
    """Outside of graphs nothing is known of their branches and their events, since launching orders only the launch stream."""
    inside = {
        (number, at)
        for number, lane in enumerate(plan.lanes)
        for group in groups_of(lane)
        if group.captured
        for at in range(group.begin, group.end + 1)
    }
    captured = {operation.event for number, at in inside if isinstance(operation := plan.lanes[number][at], ops.Record)}
    for number, lane in enumerate(plan.lanes):
        for index, operation in enumerate(lane):
            if isinstance(operation, ops.Graph) and operation.stream in branches:
                where = place(plan, f"lane {number}", index, operation)
                raise PlanError(f"{where}: stream {plan.streams[operation.stream].name!r} is a branch of another graph")
            if (number, index) in inside:
                continue
            if isinstance(operation, (ops.HostWait, ops.StreamWait)) and operation.event in captured:
                where = place(plan, f"lane {number}", index, operation)
                raise PlanError(f"{where}: event {plan.events[operation.event].name!r} happens only inside a graph")
            stream = getattr(operation, "stream", None)
            if stream in branches:
                where = place(plan, f"lane {number}", index, operation)
                raise PlanError(
                    f"{where}: stream {plan.streams[stream].name!r} is a branch of a graph, which nothing else orders"
                )


def _check_alone(plan: Plan, number: int, group: Group) -> None:
    """What another lane issued to a stream while that is captured would become a part of the graph."""
    mine = group.streams()
    for other, lane in enumerate(plan.lanes):
        for index, operation in enumerate(lane):
            stream = getattr(operation, "stream", None)
            if other != number and stream in mine:
                raise PlanError(
                    f"{place(plan, f'lane {other}', index, operation)}: lane {number} makes a graph of stream "
                    f"{plan.streams[stream].name!r} during the play, so no other lane may use it"
                )


def _merge(into: dict[int, int], clock: dict[int, int]) -> None:
    for stream, time in clock.items():
        into[stream] = max(into.get(stream, 0), time)
