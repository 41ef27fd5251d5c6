"""One play: the lanes call, the engines work, and simulated time passes until the last lane has ended."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop
from math import log2
from typing import Any, Final

from runner import operations as ops
from runner.device.simulated.agenda import Agenda, Fluid, Job
from runner.device.simulated.contents import Contents, Pieces, added_to
from runner.device.simulated.engines import Engines, Node, Queue, Work
from runner.device.simulated.groups import HANDLERS as GROUP_HANDLERS
from runner.device.simulated.groups import graph_made_in_play
from runner.device.simulated.kernels import HANDLERS as KERNEL_HANDLERS
from runner.device.simulated.memory import Memory
from runner.device.simulated.profile import PER_MILLION, Profile
from runner.errors import PlanError
from runner.plan import Plan
from runner.plan_groups import graphs_made_in_play
from runner.plan_words import place

_WAITS: Final = -1
"""What a handler returns when somebody else lets its lane go on."""
_BILLION: Final = 10**9


class Lane:
    """A host thread: `at` is its next operation, `idle_ns` how long it slept; all else burns a processor, spinning waits too.

    While `handed_over`, its operations are those of a group, which one call has issued already. `called` is the sort of its last
    call that gave an engine work.
    """

    __slots__ = ("arrived_ns", "at", "called", "handed_over", "idle_ns", "number", "steps")

    def __init__(self, number: int, steps: Steps) -> None:
        self.number, self.steps = number, steps
        self.at = 0
        self.idle_ns = 0
        self.arrived_ns = 0
        self.handed_over = False
        self.called: type[Any] | None = None


class Play:
    """All that changes during one play.

    A handler does one operation for a lane at the present time and returns when the lane goes on (ns), or `_WAITS`. A call
    enters its stream at the call's end. The calls of all lanes pass one lock, in the order in which they come to it.
    """

    def __init__(self, profile: Profile, plan: Plan, memory: Memory, bound: list[Steps], sample: int) -> None:
        self.plan, self.memory, self.sample = plan, memory, sample
        self.agenda = Agenda()
        self.engines = Engines(profile, self.agenda, memory.contents)
        self.host = Fluid(self.agenda, profile.host.copied_per_second)
        self.streams = _queues(plan)
        self.lanes = [Lane(number, steps) for number, steps in enumerate(bound)]
        self.running = len(self.lanes)
        self.lock_free_ns = 0
        self.events: dict[int, Node] = {}
        self.marks: list[int | None] = [None] * len(plan.marks)
        self.cpu_ns: list[int | None] = [None] * len(plan.marks)
        self.memory_bytes: list[tuple[int, int] | None] = [None] * len(plan.marks)
        self.making_ns: int | None = None
        self.gated: dict[int, list[Node]] = {}
        self.released: set[int] = set()
        self.arrived: list[Lane] = []
        calls, timing = profile.calls, profile.engines
        self.calls = calls
        self.copy_ns, self.launch_ns, self.record_ns = calls.copy_ns.value, calls.launch_ns.value, calls.record_ns.value
        self.handover_ns = 0 if calls.handover_ns is None else round(calls.handover_ns.value * log2(max(1, len(self.lanes))))
        self.stream_wait_ns, self.host_wait_ns = calls.stream_wait_ns.value, calls.host_wait_ns.value
        self.handoff_ns, self.timed_event_ns = timing.handoff_ns.value, timing.timed_event_ns.value
        self.cold_copy = calls.cold_copy
        self.warm = False
        self.change_ns = 0 if calls.change_ns is None else calls.change_ns.value
        self.kernel_gap_ns = self.engines.compute.same_ns
        self.early_return_bytes = profile.staging.early_return_bytes.value
        self.held = profile.staging.held
        self.first_staged = {"h2d": profile.staging.first_h2d, "d2h": profile.staging.first_d2h}
        host = profile.host
        self.copying, self.accessing = host.copy_gb_per_s, host.plain_gb_per_s
        self.access_ppm = {"read": host.read_ppm.value, "write": host.write_ppm.value, "increment": host.increment_ppm.value}

    def run(self) -> None:
        """Play until every lane has ended; raises PlanError where a lane waits for ever."""
        agenda, heap = self.agenda, self.agenda.heap
        for lane in self.lanes:
            agenda.at(0, self._go, lane)
        while self.running:
            if not heap:
                stuck = [lane for lane in self.lanes if lane.at <= len(lane.steps)]
                raise PlanError("; ".join(self.where(lane) + ": this lane waits for ever" for lane in stuck))
            agenda.now, _, action, argument = heappop(heap)
            action(argument)

    def event_times(self) -> tuple[int | None, ...]:
        """Return the time of each timed event, counted from the first of them."""
        times = [
            self.events[number].end_ns if event.timed and number in self.events and self.events[number].done else None
            for number, event in enumerate(self.plan.events)
        ]
        origin = next((time for event, time in zip(self.plan.events, times, strict=True) if event.timed), None)
        return tuple(None if time is None or origin is None else time - origin for time in times)

    def _go(self, lane: Lane) -> None:
        """Let a lane go on until it waits, or something else happens first."""
        agenda, heap, steps = self.agenda, self.agenda.heap, lane.steps
        while lane.at < len(steps):
            handler, operation = steps[lane.at]
            lane.at += 1
            wake = handler(self, lane, operation)
            if wake == _WAITS:
                return
            if heap and heap[0][0] <= wake:
                agenda.at(wake, self._go, lane)
                return
            agenda.now = wake
        lane.at = len(steps) + 1
        self.running -= 1

    def call(self, lane: Lane, cost: int) -> int:
        """Return when a call that a lane makes now has ended; it sleeps while other calls hold the lock."""
        now, begin = self.agenda.now, self.lock_free_ns
        if lane.handed_over:
            return now
        if begin > now:
            lane.idle_ns += begin - now
            # A lane's own calls follow one another: who finds the lock taken waits for another lane's.
            cost += self.handover_ns
        else:
            begin = now
        self.lock_free_ns = begin + cost
        return self.lock_free_ns

    def _copy(self, lane: Lane, operation: ops.Copy) -> int:
        upload = operation.direction == "h2d"
        host = operation.src if upload else operation.dst
        stream, memory = self.streams[operation.stream], self.memory
        staged = not memory.direct[host]
        early = staged and upload and not operation.blocking and operation.size <= self.early_return_bytes
        waits = memory.copies_wait[host] or (staged and not early)
        if waits:
            before = stream.unfinished()
            if before is not None:
                lane.at -= 1
                return self._await(before, lane, 0)
        entry = self.call(lane, self.copy_ns if lane.called is ops.Copy else self._copy_call_ns(lane, operation.size))
        engine_ns = memory.copy_ns(host, upload, operation.size)
        if staged:
            engine_ns += self._staging_ns(host, operation)
        moved = (operation.dst, operation.dst_offset, operation.src, operation.src_offset, operation.size, 0)
        by = self.engines.up if upload else self.engines.down
        node = Work((stream, entry, self.handoff_ns), by, engine_ns, (lane.number, lane.at - 1), moved)
        if early:
            node.pieces = memory.contents[host].read(operation.src_offset, operation.size)
        self.engines.enqueue(node)
        if early:
            return entry + memory.ns(self.held, operation.size)
        if waits:
            return self._await(node, lane, 0)
        return self._await(node, lane, self.host_wait_ns) if operation.blocking else entry

    def _staging_ns(self, host: int, operation: ops.Copy) -> int:
        """Return what staging takes beside moving bytes: pages that nobody has touched, and cold buffers of the driver.

        These are its own, one set a direction, and cold to the first copy of a play alone.
        """
        first = self.first_staged.pop(operation.direction, None)
        cold_ns = 0 if first is None else self.memory.ns(first, operation.size)
        if operation.direction == "h2d":
            return cold_ns
        return cold_ns + self.memory.staged_touch_ns(host, operation.dst_offset, operation.size)

    def _copy_call_ns(self, lane: Lane, size: int) -> int:
        """Return the time of a copy call that follows none of its lane, and is the slower for that.

        Code and data of the first one of a play have left the caches.
        """
        changed, lane.called = lane.called is not None, ops.Copy
        cold = 0 if self.warm or self.cold_copy is None else self.memory.ns(self.cold_copy, size)
        self.warm = True
        return self.copy_ns + (self.change_ns if changed else 0) + cold

    def launch_call_ns(self, lane: Lane) -> int:
        """Return the time of the call that launches one kernel."""
        changed, lane.called = lane.called is ops.Copy, ops.Launch
        return self.launch_ns + (self.change_ns if changed else 0)

    def _host_copy(self, lane: Lane, operation: ops.HostCopy) -> int:
        memory, size, threads = self.memory, operation.size, operation.threads
        pieces = memory.contents[operation.src].read(operation.src_offset, size)
        delay_ns = memory.read_delay_ns(operation.src, operation.src_offset, size, threads)
        delay_ns += memory.write_delay_ns(operation.dst, operation.dst_offset, size, threads) + memory.start_ns(threads)
        written = (memory.contents[operation.dst], operation.dst_offset, size, pieces, operation.src_offset)
        ppm = memory.copied_ppm if memory.direct[operation.src] or memory.direct[operation.dst] else PER_MILLION
        return self._host_work(lane, size * ppm * (_BILLION // PER_MILLION), threads, delay_ns, written)

    def _host_access(self, lane: Lane, operation: ops.HostAccess) -> int:
        memory, buffer, offset, size = self.memory, operation.buffer, operation.offset, operation.size
        contents, delay_ns = memory.contents[buffer], memory.start_ns(operation.threads)
        pieces: Pieces = []
        if operation.access != "write":
            delay_ns += memory.read_delay_ns(buffer, offset, size, operation.threads)
        if operation.access != "read":
            delay_ns += memory.write_delay_ns(buffer, offset, size, operation.threads)
            increments = operation.access == "increment"
            pieces = (
                added_to(contents.read(offset, size), offset, size, 1)
                if increments
                else [(0, (operation.salt, self.sample, 0, 0))]
            )
        work = size * self.access_ppm[operation.access] * (_BILLION // PER_MILLION)
        if self.accessing is not None:
            threads = operation.threads
            work = work * self.copying.bytes_per_second(threads) // self.accessing.bytes_per_second(threads)
        return self._host_work(
            lane, work, operation.threads, delay_ns, (contents, offset, size, pieces, offset) if pieces else None
        )

    def _host_work(self, lane: Lane, work: int, threads: int, delay_ns: int, written: Written | None) -> int:
        """Let a lane work on memory after a delay; what it writes is there at the end."""
        job = Job(work, threads, self._host_worked, (lane, written, self.agenda.now))
        if delay_ns:
            self.agenda.at(self.agenda.now + delay_ns, self.host.begin, job)
        else:
            self.host.begin(job)
        return _WAITS

    def _host_worked(self, worked: tuple[Lane, Written | None, int]) -> None:
        lane, written, begin_ns = worked
        if written is not None:
            contents, offset, size, pieces, source_offset = written
            contents.write(offset, size, pieces, source_offset)
        self.engines.activities.append((lane.number, lane.at - 1, "host", begin_ns, self.agenda.now))
        self._go(lane)

    def _record(self, lane: Lane, operation: ops.Record) -> int:
        entry = self.call(lane, self.record_ns)
        stream = self.streams[operation.stream]
        tail = stream.tail
        if tail is None or stream.peers or self.plan.events[operation.event].timed:
            tail = Node(stream, entry, self.timed_event_ns if self.plan.events[operation.event].timed else 0)
            self.engines.enqueue(tail)
        self.events[operation.event] = tail
        return entry

    def _stream_wait(self, lane: Lane, operation: ops.StreamWait) -> int:
        entry = self.call(lane, self.stream_wait_ns)
        event = self.events.get(operation.event)
        if event is not None and not event.done:
            node = Node(self.streams[operation.stream], entry, self.handoff_ns)
            self.engines.after(node, event)
            self.engines.enqueue(node)
        return entry

    def _host_wait(self, lane: Lane, operation: ops.HostWait) -> int:
        event = self.events.get(operation.event)
        if event is None or event.done:
            return self.agenda.now + self.host_wait_ns
        return self._await(event, lane, self.host_wait_ns)

    def _drain(self, lane: Lane, operation: ops.Drain) -> int:
        tail = self.streams[operation.stream].tail
        if tail is None or tail.done:
            return self.agenda.now + self.host_wait_ns
        return self._await(tail, lane, self.host_wait_ns)

    def _await(self, node: Node, lane: Lane, cost: int) -> int:
        node.waiters.append((self._go, lane, cost))
        return _WAITS

    def _barrier(self, lane: Lane, operation: ops.Barrier) -> int:
        self.arrived.append(lane)
        lane.arrived_ns = self.agenda.now
        if len(self.arrived) == len(self.lanes):
            for other in self.arrived:
                other.idle_ns += self.agenda.now - other.arrived_ns
                self.agenda.at(self.agenda.now, self._go, other)
            self.arrived = []
        return _WAITS

    def _gate(self, lane: Lane, operation: ops.Gate) -> int:
        entry = self.call(lane, self.launch_ns)
        if operation.gate not in self.released:
            node = Node(self.streams[operation.stream], entry, 0)
            node.waiting = 1
            self.gated.setdefault(operation.gate, []).append(node)
            self.engines.enqueue(node)
        return entry

    def _release(self, lane: Lane, operation: ops.Release) -> int:
        self.released.add(operation.gate)
        for node in self.gated.pop(operation.gate, []):
            self.engines.release(node)
        return self.agenda.now

    def _mark(self, lane: Lane, operation: ops.Mark) -> int:
        self.marks[operation.mark] = self.agenda.now
        if operation.cpu:
            self.cpu_ns[operation.mark] = self.agenda.now - lane.idle_ns
        if operation.memory:
            self.memory_bytes[operation.mark] = self.memory.process_bytes()
        return self.agenda.now

    def _alloc(self, lane: Lane, operation: ops.Alloc) -> int:
        return self.agenda.now + self.memory.allocate(operation.buffer)

    def _free(self, lane: Lane, operation: ops.Free) -> int:
        return self._give_up(lane, operation.buffer, self.memory.free)

    def _register(self, lane: Lane, operation: ops.Register) -> int:
        return self.agenda.now + self.memory.register(operation.buffer)

    def _unregister(self, lane: Lane, operation: ops.Unregister) -> int:
        return self._give_up(lane, operation.buffer, self.memory.unregister)

    def _give_up(self, lane: Lane, buffer: int, action: Callable[[int], int]) -> int:
        """Free or unlock a buffer, where its kind wants that only once nothing is left to do in any stream."""
        if self.memory.free_waits(buffer):
            before = next((node for stream in self.streams if (node := stream.unfinished()) is not None), None)
            if before is not None:
                lane.at -= 1
                return self._await(before, lane, 0)
        return self.agenda.now + action(buffer)

    def where(self, lane: Lane) -> str:
        """Say at which operation a lane is."""
        at = max(0, lane.at - 1)
        return place(self.plan, f"lane {lane.number}", at, self.plan.lanes[lane.number][at])

    HANDLERS: Final[dict[type[Any], Callable[..., int]]] = {
        ops.Alloc: _alloc,
        ops.Free: _free,
        ops.Register: _register,
        ops.Unregister: _unregister,
        ops.HostCopy: _host_copy,
        ops.HostAccess: _host_access,
        ops.Copy: _copy,
        ops.Record: _record,
        ops.StreamWait: _stream_wait,
        ops.HostWait: _host_wait,
        ops.Drain: _drain,
        ops.Barrier: _barrier,
        ops.Gate: _gate,
        ops.Release: _release,
        ops.Mark: _mark,
        **KERNEL_HANDLERS,
        **GROUP_HANDLERS,
    }


Written = tuple[Contents, int, int, Pieces, int]
"""What the processor writes: where, from which byte on, how many bytes, which pieces, and where their source begins."""
Steps = list[tuple[Callable[..., int], ops.Operation]]


def bind(plan: Plan) -> list[Steps]:
    """Give each operation of each lane its handler."""
    bound = [[(Play.HANDLERS[type(operation)], operation) for operation in lane] for lane in plan.lanes]
    for (number, index), group in graphs_made_in_play(plan).items():
        bound[number][index] = (graph_made_in_play, group.opener)
    return bound


def _queues(plan: Plan) -> list[Queue]:
    """One queue a stream, but the null stream is one however often it is named; it and the blocking ones wait for each other."""
    null = Queue()
    queues = [null if stream.kind == "null" else Queue() for stream in plan.streams]
    null.peers = [queue for queue, stream in zip(queues, plan.streams, strict=True) if stream.kind == "blocking"]
    for queue in null.peers:
        queue.peers = [null]
    return queues
