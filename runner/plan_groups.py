"""Operations that one call hands over together: graphs and batches of copies.

A group is a stretch of a lane, so that its operations keep their places and everything else that looks at a Plan, `check_order`
foremost, finds them where they are issued. What may stand in one is said in `runner.plan_group_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from runner import operations as ops
from runner.plan import Plan

Work = ops.Copy | ops.Launch | ops.KernelCopy | ops.KernelAccess | ops.Busy
WORK: Final = (ops.Copy, ops.Launch, ops.KernelCopy, ops.KernelAccess, ops.Busy)
"""What becomes a node of a graph; a Launch one a pass."""


@dataclass(frozen=True, slots=True)
class Group:
    """A stretch of a lane: `begin` is where its Graph or Batch stands, `end` where its GroupEnd."""

    begin: int
    end: int
    opener: ops.Graph | ops.Batch
    operations: tuple[ops.Operation, ...]

    @property
    def captured(self) -> bool:
        """Whether it is a graph, made beforehand and launched, and not only one call for many copies."""
        return isinstance(self.opener, ops.Graph)

    def nodes(self) -> int:
        """Return how many copies and kernels it holds."""
        return nodes_from(self.operations, 0)

    def buffers(self) -> frozenset[int]:
        """Return the buffers that its operations use."""
        return frozenset(buffer for operation in self.operations for buffer in used_by(operation))

    def streams(self) -> frozenset[int]:
        """Return the streams of its operations and of the one call."""
        return frozenset(getattr(operation, "stream", self.opener.stream) for operation in (self.opener, *self.operations))


def groups_of(operations: Sequence[ops.Operation]) -> list[Group]:
    """Return the groups of a lane in their order; one that never ends is none."""
    found: list[Group] = []
    opened: tuple[int, ops.Graph | ops.Batch] | None = None
    for index, operation in enumerate(operations):
        if isinstance(operation, (ops.Graph, ops.Batch)):
            opened = (index, operation)
        elif isinstance(operation, ops.GroupEnd) and opened is not None:
            found.append(Group(opened[0], index, opened[1], tuple(operations[opened[0] + 1 : index])))
            opened = None
    return found


def nodes_from(operations: Sequence[ops.Operation], begin: int) -> int:
    """Return how many copies and kernels stand between a place and the next GroupEnd, or the end."""
    nodes = 0
    for index in range(begin, len(operations)):
        operation = operations[index]
        if isinstance(operation, ops.GroupEnd):
            break
        if isinstance(operation, WORK):
            nodes += operation.passes if isinstance(operation, ops.Launch) else 1
    return nodes


def graphs_made_before(plan: Plan) -> list[Group]:
    """Return the graphs that are made when a Plan is opened, each once however often it is launched."""
    made_in_play = graphs_made_in_play(plan)
    graphs = {
        (group.opener, group.operations): group
        for number, lane in enumerate(plan.lanes)
        for group in groups_of(lane)
        if group.captured and (number, group.begin) not in made_in_play
    }
    return list(graphs.values())


def graphs_made_in_play(plan: Plan) -> dict[tuple[int, int], Group]:
    """Return the graphs of memory that a lane registers, by lane and place: each is made anew whenever it is launched."""
    locked = _registered_in_play(plan)
    if not locked:
        return {}
    return {
        (number, group.begin): group
        for number, lane in enumerate(plan.lanes)
        for group in groups_of(lane)
        if group.captured and not locked.isdisjoint(group.buffers())
    }


def predecessors(operations: Sequence[ops.Operation]) -> Iterator[tuple[int, int]]:
    """Yield pairs of places of a group's work, the second of which its streams and events let begin only after the first."""
    tails: dict[int, set[int]] = {}
    events: dict[int, set[int]] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, ops.Record):
            events[operation.event] = set(tails.get(operation.stream, ()))
        elif isinstance(operation, ops.StreamWait):
            tails.setdefault(operation.stream, set()).update(events.get(operation.event, ()))
        elif isinstance(operation, WORK):
            yield from ((earlier, index) for earlier in tails.get(operation.stream, ()))
            tails[operation.stream] = {index}


def used_by(operation: ops.Operation) -> list[int]:
    """Return the buffers that an operation uses."""
    return [getattr(operation, name) for name in ("buffer", "dst", "src") if hasattr(operation, name)]


def _registered_in_play(plan: Plan) -> frozenset[int]:
    return frozenset(operation.buffer for lane in plan.lanes for operation in lane if isinstance(operation, ops.Register))
