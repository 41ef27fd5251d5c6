"""From operations to ready calls: everything that can be looked up, sliced, packed or allocated is done before the timed region.

What stands in the timed loop is `for call in calls: call()`. A call is a `functools.partial` of a driver function with addresses,
array views and packed launch arguments made beforehand. Only operations on buffers that a lane itself allocates look up their
memory when they run, since it does not exist earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Barrier as ThreadBarrier
from time import perf_counter_ns
from typing import Any, Final, cast

import numpy as np

from runner import pattern
from runner.device.cuda.data import DataWorkers
from runner.device.cuda.driver import CudaContext
from runner.device.cuda.events import Events
from runner.device.cuda.gates import Gates
from runner.device.cuda.kernels import Call, Kernels
from runner.device.cuda.memory import SessionMemory
from runner.pattern import Bytes
from runner.plan import (
    Alloc,
    Barrier,
    Copy,
    Drain,
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
    StreamWait,
    Unregister,
)

CACHE_LINE: Final = 64


@dataclass(slots=True)
class BoundLane:
    """The ready calls of a lane; `owners[i]` is the index of the operation that call i belongs to."""

    calls: list[Call] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)


@dataclass(slots=True)
class PlayState:
    """What changes from play to play and is read by bound calls."""

    sample: int
    host_ns: list[int | None]


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything that calls are bound to; `streams` holds None for the null stream."""

    context: CudaContext
    kernels: Kernels
    memory: SessionMemory
    workers: DataWorkers
    streams: list[Any]
    events: Events
    gates: Gates
    barrier: ThreadBarrier | None
    copiers: ThreadPoolExecutor | None
    state: PlayState


class Binder:
    """Turns operations of one Plan into ready calls; `setup` must have run before anything else is bound."""

    def __init__(self, plan: Plan, resources: Resources) -> None:
        self._plan, self._of = plan, resources
        timed = [operation for lane in (plan.prepare, *plan.lanes) for operation in lane]
        self._late = {operation.buffer for operation in timed if isinstance(operation, Alloc)}
        self._makers: dict[type, Callable[[Any], Iterable[Call]]] = {
            Alloc: lambda op: [partial(resources.memory.allocate, op.buffer)],
            Free: lambda op: [partial(resources.memory.free, op.buffer)],
            Register: lambda op: [partial(resources.memory.register, op.buffer)],
            Unregister: lambda op: [partial(resources.memory.unregister, op.buffer)],
            Fill: lambda op: [partial(self._fill, op)],
            HostCopy: self._host_copy,
            Copy: self._copy,
            Launch: self._launch,
            Record: lambda op: [resources.events.record(op.event, resources.streams[op.stream])],
            StreamWait: lambda op: resources.events.stream_wait(op.event, resources.streams[op.stream]),
            HostWait: lambda op: [resources.events.host_wait(op.event)],
            Drain: self._drain,
            Barrier: self._barrier,
            Gate: lambda op: [resources.gates.hold(op.gate, resources.streams[op.stream])],
            Release: lambda op: [resources.gates.open_call(op.gate)],
            Mark: self._mark,
        }

    def bind(self, operations: Iterable[Operation]) -> BoundLane:
        """Bind operations in their order."""
        lane = BoundLane()
        for index, operation in enumerate(operations):
            for call in self._makers[type(operation)](operation):
                lane.calls.append(call)
                lane.owners.append(index)
        return lane

    def bind_setup(self, operation: Operation) -> list[Call]:
        """Bind one operation of `setup`, to be run before the next is bound; its host memory may come from the pool."""
        if isinstance(operation, Alloc):
            return [partial(self._of.memory.allocate, operation.buffer, pooled=True)]
        return list(self._makers[type(operation)](operation))

    def _fill(self, operation: Fill) -> None:
        common = pattern.offset_of(operation.salt, self._of.state.sample)
        region = self._of.memory.region(operation.buffer)
        self._of.workers.fill(self._of.kernels, region, operation.offset, operation.size, common)

    def _host_copy(self, operation: HostCopy) -> list[Call]:
        memory = self._of.memory

        def views() -> tuple[Bytes, Bytes]:
            return (
                memory.region(operation.dst).view(operation.dst_offset, operation.size),
                memory.region(operation.src).view(operation.src_offset, operation.size),
            )

        copiers = self._of.copiers
        if {operation.dst, operation.src} & self._late:
            return [lambda: _copy_by(copiers, *views(), operation.threads)]
        if operation.threads == 1:
            # np.copyto and memmove end in the same memmove without the interpreter's lock; copyto also knows its bounds.
            return [partial(np.copyto, *views())]
        return [partial(_copy_pieces, copiers, _cut(*views(), operation.threads))]

    def _copy(self, operation: Copy) -> list[Call]:
        cuda, stream, memory = self._of.context.cuda, self._of.streams[operation.stream], self._of.memory
        upload = operation.direction == "h2d"
        host, host_offset = (operation.src, operation.src_offset) if upload else (operation.dst, operation.dst_offset)
        device, device_offset = (operation.dst, operation.dst_offset) if upload else (operation.src, operation.src_offset)
        plain = operation.blocking and stream is None
        function = (
            (cuda.memcpy_htod if upload else cuda.memcpy_dtoh)
            if plain
            else (cuda.memcpy_htod_async if upload else cuda.memcpy_dtoh_async)
        )
        tail = () if plain else (stream,)

        def arguments() -> tuple[Any, ...]:
            view = memory.region(host).view(host_offset, operation.size)
            address = memory.region(device).address + device_offset
            return ((address, view) if upload else (view, address)) + tail

        call: Call = (lambda: function(*arguments())) if {host, device} & self._late else partial(function, *arguments())
        # The plain call on a stream: the safe helper of the source documents, which synchronizes before it returns.
        return [call, stream.synchronize] if operation.blocking and not plain else [call]

    def _launch(self, operation: Launch) -> list[Call]:
        memory, kernels, stream = self._of.memory, self._of.kernels, self._of.streams[operation.stream]

        def launch() -> Call:
            address = memory.region(operation.buffer).address + operation.offset
            return kernels.increment(address, operation.size, stream)

        if operation.buffer in self._late:
            return [lambda: launch()()] * operation.passes
        return [launch()] * operation.passes

    def _drain(self, operation: Drain) -> list[Call]:
        stream = self._of.streams[operation.stream]
        if stream is not None:
            return [stream.synchronize]
        # PyCUDA has no object for the null stream; an event behind all of its work is waited for instead.
        marker = self._of.context.cuda.Event(self._of.context.cuda.event_flags.DISABLE_TIMING)
        return [partial(marker.record, None), marker.synchronize]

    def _barrier(self, operation: Barrier) -> list[Call]:
        return [] if self._of.barrier is None else [self._of.barrier.wait]

    def _mark(self, operation: Mark) -> list[Call]:
        host_ns, mark, clock = self._of.state.host_ns, operation.mark, perf_counter_ns

        def read_clock() -> None:
            host_ns[mark] = clock()

        return [read_clock]


def make_copiers(plan: Plan) -> ThreadPoolExecutor | None:
    """Start the threads that host copies share, as many as all lanes can use at once; None where one thread does it."""
    helpers = sum(
        max((operation.threads - 1 for operation in lane if isinstance(operation, HostCopy)), default=0) for lane in plan.lanes
    )
    if not helpers:
        return None
    pool = ThreadPoolExecutor(helpers, thread_name_prefix="dmalab-copy")
    together = ThreadBarrier(helpers + 1)
    # A pool starts threads as work arrives; nobody may start inside the timed region.
    started = [pool.submit(together.wait) for _ in range(helpers)]
    together.wait()
    for job in started:
        job.result()
    return pool


def _copy_by(copiers: ThreadPoolExecutor | None, dst: Bytes, src: Bytes, threads: int) -> None:
    if threads == 1:
        np.copyto(dst, src)
    else:
        _copy_pieces(copiers, _cut(dst, src, threads))


def _copy_pieces(copiers: ThreadPoolExecutor | None, pieces: list[tuple[Bytes, Bytes]]) -> None:
    """Copy the first piece here and the others in the pool's threads; return when all are done."""
    pool = cast(ThreadPoolExecutor, copiers)
    others = [pool.submit(np.copyto, dst, src) for dst, src in pieces[1:]]
    np.copyto(*pieces[0])
    for job in others:
        job.result()


def _cut(dst: Bytes, src: Bytes, threads: int) -> list[tuple[Bytes, Bytes]]:
    """Cut a copy into one piece a thread, at whole cache lines; fewer where there are not enough."""
    step = -(-len(dst) // threads)
    step = max(CACHE_LINE, -(-step // CACHE_LINE) * CACHE_LINE)
    return [(dst[begin : begin + step], src[begin : begin + step]) for begin in range(0, len(dst), step)]
