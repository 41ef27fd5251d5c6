"""What both devices say alike of operations that they record: stream, bytes, the host's side, and the host's own work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runner import operations as ops
from runner.device.contract import Activity
from runner.plan import Plan
from runner.plan_groups import groups_of

_HOLDING: Final = (ops.Alloc, ops.Free, ops.PoolAlloc, ops.PoolFree, ops.Register, ops.Unregister)
HOST_WORK: Final = (ops.HostCopy, ops.HostAccess, ops.HostWait, ops.Drain, ops.Barrier, *_HOLDING)
"""Operations that the lane itself spends its time on; the others hand work over and are done as soon as the call is."""
Interval = tuple[int, int]
"""Begin and end, ns."""
_STREAMED: Final = frozenset({ops.Copy, ops.Launch, ops.KernelCopy, ops.KernelAccess, ops.Busy, ops.Prefetch, ops.Gate})
_SIZED: Final = frozenset({ops.Copy, ops.Launch, ops.KernelCopy, ops.KernelAccess, ops.Prefetch, ops.HostCopy, ops.HostAccess})


def device_activity(
    plan: Plan, place: tuple[int, int], engine: str, at: Interval, memory: str, call: Interval | None
) -> Activity:
    """Return the activity of a device operation, `place` being its lane and index, `call` when the host called for it."""
    operation = plan.lanes[place[0]][place[1]]
    begin, end = (None, None) if call is None else call
    return Activity(*place, engine, *at, stream_of(operation), size_of(plan, operation), memory, begin, end)


def host_activities(plan: Plan, calls: Sequence[Sequence[Interval | None]]) -> list[Activity]:
    """Return what the lanes themselves did; `calls[lane][index]` is when an operation was called and had returned."""
    return [
        Activity(lane, index, "host", *call, size_bytes=size_of(plan, operation), host_begin_ns=call[0], host_end_ns=call[1])
        for lane, operations in enumerate(plan.lanes)
        for index, (operation, call) in enumerate(zip(operations, calls[lane], strict=False))
        if call is not None and isinstance(operation, HOST_WORK)
    ]


def with_groups(operations: Sequence[ops.Operation], calls: Sequence[Interval | None]) -> list[Interval | None]:
    """Return when each operation of a lane was called for: those that one call handed over together, by that call."""
    told = list(calls)
    for group in groups_of(operations):
        told[group.begin + 1 : group.end + 1] = [told[group.begin]] * (group.end - group.begin)
    return told


def in_order(activities: Sequence[Activity]) -> tuple[Activity, ...]:
    """Return activities in the order in which they began."""
    return tuple(sorted(activities, key=lambda activity: (activity.begin_ns, activity.end_ns, activity.lane, activity.index)))


def stream_of(operation: ops.Operation) -> int:
    """Return the stream that does an operation's work, -1 where none does."""
    return operation.stream if type(operation) in _STREAMED else -1  # type: ignore[union-attr]


def size_of(plan: Plan, operation: ops.Operation) -> int:
    """Return the bytes that an operation moves, touches or allocates; 0 where it has none."""
    if type(operation) in _SIZED:
        return operation.size  # type: ignore[union-attr]
    return plan.buffers[operation.buffer].size if type(operation) in _HOLDING else 0  # type: ignore[union-attr]


def host_side(operation: ops.Operation) -> int | None:
    """Return the host buffer of what moves across the link by an engine, None for any other operation."""
    if isinstance(operation, ops.Copy):
        return operation.src if operation.direction == "h2d" else operation.dst
    return operation.buffer if isinstance(operation, ops.Prefetch) else None
