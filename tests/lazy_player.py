"""A clock-free player that does device work as late as a Plan allows, so that a missing wait shows as wrong data.

A lazy stream runs only what somebody waits for, and only that far; an eager one runs each operation as soon as it is issued. Real
devices and simulated ones lie between the two, and hide a missing wait wherever a copy happens to be fast enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from runner.device.simulated.contents import Contents, Pieces, added_to, expected
from runner.memory import kind_of
from runner.plan import (
    Alloc,
    Batch,
    Busy,
    Copy,
    Drain,
    Fill,
    Free,
    Graph,
    GroupEnd,
    HostAccess,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    PoolAlloc,
    PoolFree,
    Prefetch,
    Record,
    Register,
    StreamWait,
    Unregister,
)

Moving = Copy | HostCopy | KernelCopy
Accessing = Launch | KernelAccess | HostAccess
Issued = Copy | KernelCopy | Launch | KernelAccess | Busy | Prefetch | Record | StreamWait
Queued = tuple[Issued, Pieces | None]


class LazyPlayer:
    """Plays a Plan of one lane with non-blocking streams and without gates; `lazy` are its lazy streams, all where None."""

    def __init__(self, plan: Plan, lazy: Collection[int] | None = None) -> None:
        assert len(plan.lanes) == 1
        assert not plan.gates
        assert all(stream.kind == "non_blocking" for stream in plan.streams)
        self.plan = plan
        self.lazy = set(range(len(plan.streams)) if lazy is None else lazy)
        self.contents = [Contents(buffer.size) for buffer in plan.buffers]
        self.queues: list[deque[Queued]] = [deque() for _ in plan.streams]
        self.recorded_in: dict[int, int] = {}
        self.happened: set[int] = set()
        self.registered: set[int] = set()

    def wrong_bytes(self) -> int:
        """Play once and count the bytes that are not as expected; what nobody waited for never happens."""
        for operation in (*self.plan.setup, *self.plan.prepare, *self.plan.lanes[0]):
            self._do(operation)
        found = (
            self.contents[expect.buffer].differences(expect.offset, expect.size, expected(expect, 0))
            for expect in self.plan.expects
        )
        return sum(difference[1] for difference in found if difference is not None)

    def _do(self, operation: Operation) -> None:
        match operation:
            case Alloc(buffer=buffer) | Free(buffer=buffer):
                self.contents[buffer] = Contents(self.plan.buffers[buffer].size)
            case Fill(buffer=buffer, offset=offset, size=size, salt=salt):
                self.contents[buffer].fill(offset, size, salt, 0)
            case HostCopy():
                self._move(operation, None)
            case HostAccess():
                self._access(operation)
            case Copy() | KernelCopy() | Launch() | KernelAccess() | Busy() | Prefetch() | Record() | StreamWait():
                self._issue(operation)
            case Register(buffer=buffer):
                self.registered.add(buffer)
            case Unregister(buffer=buffer):
                self.registered.remove(buffer)
            case HostWait(event=event):
                self._until(event)
            case Drain(stream=stream):
                self._run(stream)
            case Mark() | Graph() | Batch() | GroupEnd() | PoolAlloc() | PoolFree():
                # A group is issued as its operations would be, and memory of the pool keeps what lay in it.
                pass
            case _:
                raise AssertionError(operation)

    def _issue(self, operation: Issued) -> None:
        stream = operation.stream
        staged = None
        if isinstance(operation, Record):
            self.recorded_in[operation.event] = stream
        if isinstance(operation, Copy) and operation.direction == "h2d" and self._pageable(operation.src):
            staged = self.contents[operation.src].read(operation.src_offset, operation.size)
        self.queues[stream].append((operation, staged))
        download = isinstance(operation, Copy) and operation.direction == "d2h" and self._pageable(operation.dst)
        if stream not in self.lazy or download or (isinstance(operation, Copy) and operation.blocking):
            self._run(stream)

    def _pageable(self, buffer: int) -> bool:
        return not (buffer in self.registered or kind_of(self.plan.buffers[buffer].memory).asynchronous)

    def _until(self, event: int) -> None:
        if event in self.recorded_in and event not in self.happened:
            self._run(self.recorded_in[event], event)

    def _run(self, stream: int, event: int | None = None) -> None:
        """Do what is queued in a stream, up to an event where one is named."""
        queue = self.queues[stream]
        while queue and (event is None or event not in self.happened):
            operation, staged = queue.popleft()
            if isinstance(operation, Record):
                self.happened.add(operation.event)
            elif isinstance(operation, StreamWait):
                self._until(operation.event)
            elif isinstance(operation, (Copy, KernelCopy)):
                self._move(operation, staged)
            elif isinstance(operation, (Launch, KernelAccess)):
                self._access(operation)

    def _move(self, operation: Moving, staged: Pieces | None) -> None:
        pieces = staged or self.contents[operation.src].read(operation.src_offset, operation.size)
        self.contents[operation.dst].write(operation.dst_offset, operation.size, pieces, operation.src_offset)

    def _access(self, operation: Accessing) -> None:
        contents, offset, size = self.contents[operation.buffer], operation.offset, operation.size
        access = "increment" if isinstance(operation, Launch) else operation.access
        if access == "write":
            assert not isinstance(operation, Launch)
            contents.fill(offset, size, operation.salt, 0)
        elif access == "increment":
            passes = operation.passes if isinstance(operation, Launch) else 1
            contents.write(offset, size, added_to(contents.read(offset, size), offset, size, passes), offset)
