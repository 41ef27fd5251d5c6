"""From operations to ready calls: everything that can be looked up, sliced, packed or allocated is done before the timed region.

What stands in the timed loop is `for call in calls: call()`. A call is a `functools.partial` of a driver function with addresses,
array views and packed launch arguments made beforehand. Only operations on buffers that a lane itself allocates look up their
memory when they run, since it does not exist earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter_ns, thread_time_ns
from typing import Any

from runner import operations as ops
from runner import pattern
from runner.device.cuda.batches import batch_call
from runner.device.cuda.host_work import Touch, WordWriter, access_call, copy_call, increment_words, read_words
from runner.device.cuda.kernels import Call
from runner.device.cuda.pages import process_memory_bytes
from runner.device.cuda.resources import BoundLane, Resources
from runner.errors import CaseUnsupported
from runner.memory import kind_of
from runner.plan import Plan
from runner.plan_groups import Group, graphs_made_in_play, groups_of


class Binder:
    """Turns operations of one Plan into ready calls; `setup` must have run before anything else is bound."""

    def __init__(self, plan: Plan, resources: Resources) -> None:
        self._plan, self._of = plan, resources
        timed = [operation for lane in (plan.prepare, *plan.lanes) for operation in lane]
        self._late = {operation.buffer for operation in timed if isinstance(operation, ops.Alloc | ops.PoolAlloc)}
        self._made_in_play = set(graphs_made_in_play(plan).values())
        self._freed = {operation.buffer for operation in timed if isinstance(operation, ops.Free)}
        self._makers: dict[type, Callable[[Any], Iterable[Call]]] = {
            ops.Alloc: lambda op: [partial(resources.memory.allocate, op.buffer)],
            ops.Free: lambda op: [partial(resources.memory.free, op.buffer)],
            ops.PoolAlloc: lambda op: [partial(resources.memory.allocate_ordered, op.buffer, resources.streams[op.stream])],
            ops.PoolFree: lambda op: [partial(resources.memory.free_ordered, op.buffer, resources.streams[op.stream])],
            ops.Register: lambda op: [partial(resources.memory.register, op.buffer)],
            ops.Unregister: lambda op: [partial(resources.memory.unregister, op.buffer)],
            ops.Fill: lambda op: [partial(self._fill, op)],
            ops.HostCopy: self._host_copy,
            ops.Copy: self._copy,
            ops.Launch: self._launch,
            ops.KernelCopy: self._kernel_copy,
            ops.KernelAccess: self._kernel_access,
            ops.HostAccess: self._host_access,
            ops.Busy: lambda op: [resources.kernels.busy(op.duration_ns, resources.streams[op.stream])],
            ops.Prefetch: self._prefetch,
            ops.Record: lambda op: [resources.events.record(op.event, resources.streams[op.stream])],
            ops.StreamWait: lambda op: resources.events.stream_wait(op.event, resources.streams[op.stream]),
            ops.HostWait: lambda op: [resources.events.host_wait(op.event)],
            ops.Drain: self._drain,
            ops.Barrier: self._barrier,
            ops.Gate: lambda op: [resources.gates.hold(op.gate, resources.streams[op.stream])],
            ops.Release: lambda op: [resources.gates.open_call(op.gate)],
            ops.Mark: self._mark,
        }

    def bind(self, operations: Sequence[ops.Operation]) -> BoundLane:
        """Bind operations in their order; what one call hands over together is that one call."""
        lane, after = BoundLane(), 0
        groups = {group.begin: group for group in groups_of(operations)}
        for index, operation in enumerate(operations):
            if index < after:
                continue
            group = groups.get(index)
            if group is not None:
                after = group.end + 1
            calls = self._makers[type(operation)](operation) if group is None else [self._group(group)]
            for call in calls:
                lane.calls.append(call)
                lane.owners.append(index)
        return lane

    def _group(self, group: Group) -> Call:
        """Make a group the one call that it is."""
        stream = self._of.streams[group.opener.stream]
        if not group.captured:
            return batch_call(self._of.context, [self._addresses(operation) for operation in group.operations], stream)
        calls = [call for operation in group.operations for call in self._makers[type(operation)](operation)]
        if group in self._made_in_play:
            return self._of.graphs.make_and_launch(stream, calls)
        return self._of.graphs.launch((group.opener, group.operations), stream, calls)

    def bind_setup(self, operation: ops.Operation) -> list[Call]:
        """Bind one operation of `setup`, to be run before the next is bound.

        Host memory may come from the pool, but for that which a play frees: there, freeing shall do what it does in a program.
        """
        if isinstance(operation, ops.Alloc):
            pooled = operation.buffer not in self._freed
            return [partial(self._of.memory.allocate, operation.buffer, pooled=pooled, prove=True)]
        return list(self._makers[type(operation)](operation))

    def late_buffers(self) -> frozenset[int]:
        """Return the buffers that a play itself allocates."""
        return frozenset(self._late)

    def _fill(self, operation: ops.Fill) -> None:
        common, step = pattern.offset_of(operation.salt, self._of.state.sample), pattern.step_of(operation.salt)
        region = self._of.memory.region(operation.buffer)
        self._of.workers.fill(self._of.kernels, region, operation.offset, operation.size, common, step)

    def _host_copy(self, operation: ops.HostCopy) -> list[Call]:
        memory, helpers, copier = self._of.memory, self._of.helpers, self._of.copier
        # An engine reads what goes into a stager at once, from the caches where it can; an output is read much later.
        streaming = not kind_of(self._plan.buffers[operation.dst].memory).asynchronous

        def ready() -> Call:
            dst = memory.region(operation.dst).view(operation.dst_offset, operation.size)
            src = memory.region(operation.src).view(operation.src_offset, operation.size)
            if copier is not None:
                return copier.call(dst, src, operation.threads, streaming=streaming)
            return copy_call(helpers, dst, src, operation.threads)

        return [self._now_or_late(ready, operation.dst, operation.src)]

    def _host_access(self, operation: ops.HostAccess) -> list[Call]:
        memory, helpers = self._of.memory, self._of.helpers
        touch: Touch = read_words if operation.access == "read" else increment_words
        if operation.access == "write":
            touch = writer = WordWriter()
            self._of.state.set_words.append((operation.salt, writer.set))

        def ready() -> Call:
            target = memory.region(operation.buffer).view(operation.offset, operation.size)
            return access_call(helpers, touch, target, operation.threads)

        return [self._now_or_late(ready, operation.buffer)]

    def _now_or_late(self, ready: Callable[[], Call], *buffers: int) -> Call:
        """Make a call ready now, or when it is called where one of its buffers is allocated only then."""
        return (lambda: ready()()) if self._late.intersection(buffers) else ready()

    def _by_address(self, ready: Callable[[], Call], *buffers: int) -> Call:
        """As `_now_or_late`, for calls that stay as they are.

        Where only memory of the device comes and goes, which a pool mostly gives again where it was, a call is made ready once an
        address: 0.3 µs instead of 1.2 a call in the timed loop. A call ready for host memory would keep that from being freed.
        """
        late = self._late.intersection(buffers)
        if len(late) != 1 or not all(self._plan.buffers[buffer].on_device for buffer in late):
            return self._now_or_late(ready, *buffers)
        (buffer,), region, made = late, self._of.memory.region, dict[int, Call]()

        def call() -> None:
            address = region(buffer).address
            known = made.get(address)
            if known is None:
                known = made[address] = ready()
            known()

        return call

    def _copy(self, operation: ops.Copy) -> list[Call]:
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
            # PyCUDA asks for the buffer at each call, and a memoryview gives it in half the time that an array of NumPy takes.
            view = memory.region(host).view(host_offset, operation.size).data
            address = memory.region(device).address + device_offset
            return ((address, view) if upload else (view, address)) + tail

        call = self._by_address(lambda: partial(function, *arguments()), host, device)
        # The plain call on a stream: the safe helper of the source documents, which synchronizes before it returns.
        return [call, stream.synchronize] if operation.blocking and not plain else [call]

    def _addresses(self, operation: Any) -> tuple[int, int, int]:
        """Return destination, source and bytes of a copy."""
        memory = self._of.memory
        to, source = memory.region(operation.dst).address, memory.region(operation.src).address
        return to + operation.dst_offset, source + operation.src_offset, operation.size

    def _launch(self, operation: ops.Launch) -> list[Call]:
        kernels, stream = self._of.kernels, self._of.streams[operation.stream]

        def launch() -> Call:
            return kernels.increment(self._address(operation.buffer, operation.offset), operation.size, stream)

        return [self._by_address(launch, operation.buffer)] * operation.passes

    def _kernel_copy(self, operation: ops.KernelCopy) -> list[Call]:
        kernels, stream = self._of.kernels, self._of.streams[operation.stream]

        def launch() -> Call:
            to = self._address(operation.dst, operation.dst_offset)
            return kernels.copy(to, self._address(operation.src, operation.src_offset), operation.size, stream)

        return [self._now_or_late(launch, operation.dst, operation.src)]

    def _kernel_access(self, operation: ops.KernelAccess) -> list[Call]:
        kernels, stream, state = self._of.kernels, self._of.streams[operation.stream], self._of.state

        def launch() -> Call:
            address = self._address(operation.buffer, operation.offset)
            if operation.access == "read":
                return kernels.read(address, operation.size, stream)
            if operation.access == "increment":
                return kernels.increment(address, operation.size, stream)
            write, set_word = kernels.write(address, operation.size, stream)
            if operation.buffer in self._late:
                set_word(state.flat_word(operation.salt))
            else:
                state.set_words.append((operation.salt, set_word))
            return write

        return [self._now_or_late(launch, operation.buffer)]

    def _prefetch(self, operation: ops.Prefetch) -> list[Call]:
        context, memory, stream = self._of.context, self._of.memory, self._of.streams[operation.stream]
        if not context.attribute("CONCURRENT_MANAGED_ACCESS"):
            raise CaseUnsupported("pages were asked to move ahead of their use, but this device has no concurrent managed access")

        def ready() -> Call:
            address = memory.region(operation.buffer).address + operation.offset
            return context.prefetch(address, operation.size, operation.to == "device", 0 if stream is None else stream.handle)

        return [self._now_or_late(ready, operation.buffer)]

    def _address(self, buffer: int, offset: int) -> int:
        return self._of.memory.device_address(buffer) + offset

    def _drain(self, operation: ops.Drain) -> list[Call]:
        stream = self._of.streams[operation.stream]
        if stream is not None:
            return [stream.synchronize]
        # PyCUDA has no object for the null stream; an event behind all of its work is waited for instead.
        marker = self._of.context.cuda.Event(self._of.context.cuda.event_flags.DISABLE_TIMING)
        return [partial(marker.record, None), marker.synchronize]

    def _barrier(self, operation: ops.Barrier) -> list[Call]:
        return [] if self._of.barrier is None else [self._of.barrier.wait]

    def _mark(self, operation: ops.Mark) -> list[Call]:
        state, mark, clock, processor_clock = self._of.state, operation.mark, perf_counter_ns, thread_time_ns
        host_ns, cpu_ns = state.host_ns, state.cpu_ns

        def read_memory() -> None:
            state.memory_bytes[mark] = process_memory_bytes()

        def read_clock() -> None:
            host_ns[mark] = clock()

        def read_both_clocks() -> None:
            cpu_ns[mark] = processor_clock()
            host_ns[mark] = clock()

        read = read_both_clocks if operation.cpu else read_clock
        return [read_memory, read] if operation.memory else [read]
