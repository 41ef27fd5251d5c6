"""Proof of order: an abstract play of a Plan with vector clocks, which finds deadlocks and races without moving a byte.

Lanes and streams are components, each with a time that counts its operations. An operation in a stream happens after whatever
its lane knew when it issued it and after all that was in the stream; a wait joins what an event knew into whoever waits. Two
accesses to the same bytes, one of them a write, must be ordered by that knowledge (FastTrack: Flanagan and Freund, PLDI 2009).

Two devices differ in what they wait for, so only what all of them guarantee counts as order: a small copy from pageable memory
may return before it has arrived (its source has been read, no more is known), freeing memory waits for nothing, and a gate orders
nothing, since it may open by its time limit. Not every device lets the host use memory that migrates while it works, so the host
must then know that all streams are done, and their next work must know that the host is. For deadlocks the opposite is assumed:
such a copy holds its lane, as one of memory that migrates does, freeing or unlocking memory waits for all streams, and all copies
share one engine that serves them in order of issue. The order of two lanes' calls to one stream is taken as it was played.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner import operations as ops
from runner.errors import PlanError
from runner.memory import kind_of
from runner.plan import Plan
from runner.plan_clocks import NOTHING, Clock, EventClock, LaneClock, Ranges, StreamClock, clocks_of_streams, merge
from runner.plan_holdings import Holdings
from runner.plan_words import name_of, place


def check_order(plan: Plan) -> None:
    """Prove that `plan` cannot deadlock and that conflicting accesses are ordered, but for the races it declares.

    Expects a Plan that `check_bounds` has passed. Raises PlanError naming the lane, the operation and the buffer: memory used
    before Alloc or after Free, a kernel given host memory that it may not use outside `faults_wanted` or never given that inside,
    a wait for an event not yet recorded, a deadlock, a race on a buffer outside `races_wanted` or none on one inside, or a last
    mark that is read before all work is done.
    """
    _Order(plan).play()


class _Order:
    """The abstract play."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lanes = [LaneClock(number, operations) for number, operations in enumerate(plan.lanes)]
        self.streams = clocks_of_streams(plan, len(plan.lanes))
        self.ranges = [Ranges(buffer.size) for buffer in plan.buffers]
        self.holdings = Holdings(plan)
        self.alive, self.direct = self.holdings.alive, self.holdings.direct
        self.migrates = [not buffer.on_device and kind_of(buffer.memory).migrates for buffer in plan.buffers]
        self.host_used: dict[int, int] = {}
        self.faulted: set[int] = set()
        self.events: dict[int, EventClock] = {}
        self.released: set[int] = set()
        self.copies_held = NOTHING
        self.launches_held = NOTHING
        self.raced: set[int] = set()
        self.at_barrier = 0
        self.grouped: set[int] = set()
        self.lane: LaneClock
        self.operation: ops.Operation
        self.handlers: dict[type[Any], Callable[[Any], bool]] = {
            ops.Alloc: self._alloc,
            ops.Free: self._free,
            ops.PoolAlloc: self._pool_alloc,
            ops.PoolFree: self._pool_free,
            ops.Register: self._register,
            ops.Unregister: self._unregister,
            ops.HostCopy: self._host_copy,
            ops.Copy: self._copy,
            ops.Launch: self._launch,
            ops.KernelCopy: self._kernel_copy,
            ops.KernelAccess: self._kernel_access,
            ops.HostAccess: self._host_access,
            ops.Busy: self._busy,
            ops.Prefetch: self._prefetch,
            ops.Record: self._record,
            ops.StreamWait: self._stream_wait,
            ops.HostWait: self._host_wait,
            ops.Drain: self._drain,
            ops.Barrier: self._barrier,
            ops.Gate: self._gate,
            ops.Release: self._release,
            ops.Graph: self._group,
            ops.Batch: self._group,
            ops.GroupEnd: self._group_end,
            ops.Mark: self._mark,
        }

    def play(self) -> None:
        """Play setup, prepare, the lanes in turn until all have ended, and teardown."""
        self.holdings.play("setup", self.plan.setup)
        at_rest, registered = list(self.alive), set(self.holdings.registered)
        self.holdings.play("prepare", self.plan.prepare)
        unfinished = list(self.lanes)
        while unfinished:
            moved = False
            for lane in unfinished:
                moved = self._advance(lane) or moved
            unfinished = [lane for lane in unfinished if lane.at < len(lane.operations)]
            if not moved and unfinished:
                raise PlanError("; ".join(self._stuck(lane) for lane in unfinished))
        self.holdings.check_replay(at_rest, registered)
        self._check_end()
        self._check_wanted()
        self.holdings.play("teardown", self.plan.teardown)

    def _advance(self, lane: LaneClock) -> bool:
        """Play a lane until it must wait or ends; return whether it got on."""
        self.lane = lane
        begin = lane.at
        operations, handlers = lane.operations, self.handlers
        while lane.at < len(operations):
            operation = self.operation = operations[lane.at]
            if not lane.issued:
                lane.time += 1
            if not handlers[type(operation)](operation):
                break
            lane.issued = False
            lane.at += 1
        return lane.at > begin

    def _alloc(self, operation: ops.Alloc) -> bool:
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, True))
        return self._whole(operation.buffer)

    def _free(self, operation: ops.Free) -> bool:
        if self._busy_behind_a_gate():
            return False
        self._whole(operation.buffer)
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, False))
        return True

    def _pool_alloc(self, operation: ops.PoolAlloc) -> bool:
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, True))
        return self._whole_in_stream(operation)

    def _pool_free(self, operation: ops.PoolFree) -> bool:
        self._whole_in_stream(operation)
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, False))
        return True

    def _whole_in_stream(self, operation: ops.PoolAlloc | ops.PoolFree) -> bool:
        """Memory of the pool comes and goes in the order of a stream: every use of it must be ordered with that."""
        stream = self.streams[operation.stream]
        stream.issue(self.lane)
        self._access(operation.buffer, 0, self.plan.buffers[operation.buffer].size, stream, True)
        return True

    def _group(self, operation: ops.Graph | ops.Batch) -> bool:
        self.grouped.add(self.lane.component)
        return True

    def _group_end(self, operation: ops.GroupEnd) -> bool:
        self.grouped.remove(self.lane.component)
        return True

    def _register(self, operation: ops.Register) -> bool:
        self._require(operation.buffer, self.holdings.change_registered(operation.buffer, True))
        return self._whole(operation.buffer)

    def _unregister(self, operation: ops.Unregister) -> bool:
        if self._busy_behind_a_gate():
            return False
        self._require(operation.buffer, self.holdings.change_registered(operation.buffer, False))
        return self._whole(operation.buffer)

    def _busy_behind_a_gate(self) -> bool:
        """Whether a stream is held, for which giving memory up may wait."""
        return any(stream.held and stream.held - self.released for stream in self.streams)

    def _require(self, buffer: int, wrong: str) -> None:
        if wrong:
            self._refuse(f"{name_of(self.plan, buffer)} {wrong}")

    def _whole(self, buffer: int) -> bool:
        """A change of the memory itself conflicts with every use of it."""
        self._access(buffer, 0, self.plan.buffers[buffer].size, self.lane, True)
        return True

    def _host_copy(self, operation: ops.HostCopy) -> bool:
        lane = self.lane
        self._access(operation.src, operation.src_offset, operation.size, lane, False)
        self._access(operation.dst, operation.dst_offset, operation.size, lane, True)
        for buffer in (operation.src, operation.dst):
            if self.migrates[buffer]:
                self._require_quiet(buffer)
        lane.worked = lane.time
        return True

    def _host_access(self, operation: ops.HostAccess) -> bool:
        lane = self.lane
        self._access(operation.buffer, operation.offset, operation.size, lane, operation.access != "read")
        if self.migrates[operation.buffer]:
            self._require_quiet(operation.buffer)
        lane.worked = lane.time
        return True

    def _require_quiet(self, buffer: int) -> None:
        """Let the host use memory that migrates only after all work of all streams."""
        lane, size = self.lane, self.plan.buffers[buffer].size
        for stream in self.streams:
            if stream.worked and not lane.knows(stream.component, stream.worked):
                self._race(buffer, 0, size, stream.component, "of a kind that migrates, and work is still done")
        self.host_used[lane.component] = lane.time

    def _copy(self, operation: ops.Copy) -> bool:
        lane, stream = self.lane, self.streams[operation.stream]
        download = operation.direction == "d2h"
        host = operation.dst if download else operation.src
        staged = not self.direct[host]
        if (staged or self.migrates[host]) and lane.component in self.grouped:
            self._refuse(f"{name_of(self.plan, host)} is not page-locked now, so that only a call by itself can copy it")
        if not lane.issued:
            stream.issue(lane)
            if stream.held or self.copies_held:
                stream.held = self.copies_held = (stream.held | self.copies_held) - self.released
            reader = lane if staged and not download else stream
            self._access(operation.src, operation.src_offset, operation.size, reader, False)
            self._access(operation.dst, operation.dst_offset, operation.size, stream, True)
            stream.worked = stream.time
            if self.host_used:
                self._require_host_done(stream)
        if not (operation.blocking or staged or self.migrates[host]):
            return True
        if stream.held - self.released:
            lane.issued = True
            return False
        if operation.blocking or (staged and download):
            lane.learn(stream)
        return True

    def _launch(self, operation: ops.Launch) -> bool:
        stream = self._kernel(operation.stream)
        self._kernel_use(operation.buffer, operation.offset, operation.size, stream, True)
        return True

    def _kernel_copy(self, operation: ops.KernelCopy) -> bool:
        stream = self._kernel(operation.stream)
        self._kernel_use(operation.src, operation.src_offset, operation.size, stream, False)
        self._kernel_use(operation.dst, operation.dst_offset, operation.size, stream, True)
        return True

    def _kernel_access(self, operation: ops.KernelAccess) -> bool:
        stream = self._kernel(operation.stream)
        self._kernel_use(operation.buffer, operation.offset, operation.size, stream, operation.access != "read")
        return True

    def _busy(self, operation: ops.Busy) -> bool:
        self._kernel(operation.stream)
        return True

    def _prefetch(self, operation: ops.Prefetch) -> bool:
        """Pages that move are no use to anybody meanwhile, so it conflicts with reads, too."""
        stream = self._kernel(operation.stream)
        self._access(operation.buffer, operation.offset, operation.size, stream, True)
        return True

    def _kernel(self, number: int) -> StreamClock:
        """Issue a kernel, or what a driver may do by one, to a stream and return that."""
        stream = self.streams[number]
        stream.issue(self.lane)
        if stream.held or self.launches_held:
            stream.held = self.launches_held = (stream.held | self.launches_held) - self.released
        stream.worked = stream.time
        if self.host_used:
            self._require_host_done(stream)
        return stream

    def _require_host_done(self, stream: StreamClock) -> None:
        """Let a stream work only after all that the host did with memory that migrates."""
        for lane, time in self.host_used.items():
            if not stream.knows(lane, time):
                self._refuse(f"lane {lane} may be using memory that migrates, and nothing orders the two; a wait is missing")

    def _kernel_use(self, buffer: int, offset: int, size: int, stream: StreamClock, write: bool) -> None:
        """Note that a kernel reads or writes a range, which must be memory that it may use."""
        if not self.holdings.may_use(buffer):
            if buffer not in self.plan.faults_wanted:
                memory = self.plan.buffers[buffer].memory
                self._refuse(f"a kernel may not use {name_of(self.plan, buffer)}, whose memory is {memory}")
            self.faulted.add(buffer)
        self._access(buffer, offset, size, stream, write)

    def _record(self, operation: ops.Record) -> bool:
        stream = self.streams[operation.stream]
        stream.issue(self.lane)
        self.events[operation.event] = EventClock(stream, self.lane)
        return True

    def _stream_wait(self, operation: ops.StreamWait) -> bool:
        event = self._recorded(operation.event)
        stream = self.streams[operation.stream]
        stream.issue(self.lane)
        stream.learn(event)
        if event.held:
            stream.held = (stream.held | event.held) - self.released
        return True

    def _host_wait(self, operation: ops.HostWait) -> bool:
        event = self._recorded(operation.event)
        if event.held and event.held - self.released:
            return False
        self.lane.learn(event)
        return True

    def _drain(self, operation: ops.Drain) -> bool:
        stream = self.streams[operation.stream]
        if stream.held and stream.held - self.released:
            return False
        self.lane.learn(stream)
        return True

    def _barrier(self, operation: ops.Barrier) -> bool:
        lane = self.lane
        if lane.issued:
            return not lane.at_barrier
        lane.issued = lane.at_barrier = True
        self.at_barrier += 1
        if self.at_barrier < len(self.lanes):
            return False
        self.at_barrier = 0
        together: Clock = {}
        for other in self.lanes:
            merge(together, other.clock)
            together[other.component] = other.time
        for other in self.lanes:
            other.clock, other.at_barrier = together, False
        return True

    def _gate(self, operation: ops.Gate) -> bool:
        stream = self.streams[operation.stream]
        stream.issue(self.lane)
        if operation.gate not in self.released:
            stream.held |= {operation.gate}
        return True

    def _release(self, operation: ops.Release) -> bool:
        self.released.add(operation.gate)
        return True

    def _mark(self, operation: ops.Mark) -> bool:
        lane = self.lane
        lane.last_mark = (lane.clock, lane.time)
        return True

    def _recorded(self, number: int) -> EventClock:
        """Return an event whose Record call surely came before this one; without it the wait would do nothing."""
        event = self.events.get(number)
        if event is None or not self.lane.knows(event.lane, event.lane_time):
            self._refuse(f"event {self.plan.events[number].name!r} is not recorded before this wait is called")
            raise AssertionError
        return event

    def _access(self, buffer: int, offset: int, size: int, who: LaneClock | StreamClock, write: bool) -> None:
        """Note an access and compare it with the earlier ones to the same bytes."""
        if not self.alive[buffer]:
            self._refuse(f"{name_of(self.plan, buffer)} is used, but it is not allocated")
        component, knows = who.component, who.knows
        for segment in self.ranges[buffer].segments(offset, offset + size):
            writer = segment.writer
            if writer >= 0 and writer != component and not knows(writer, segment.write_time):
                self._race(buffer, offset, size, writer, "written")
            reads = segment.reads
            if not write:
                reads[component] = who.time
                continue
            if reads:
                for reader, time in reads.items():
                    if reader != component and not knows(reader, time):
                        self._race(buffer, offset, size, reader, "read")
                reads.clear()
            segment.writer, segment.write_time = component, who.time

    def _race(self, buffer: int, offset: int, size: int, other: int, what: str) -> None:
        self.raced.add(buffer)
        if buffer not in self.plan.races_wanted:
            self._refuse(
                f"race on {name_of(self.plan, buffer)}, bytes {offset} to {offset + size}: they are {what} by {self._who(other)} "
                "and nothing orders the two; a wait is missing"
            )

    def _who(self, component: int) -> str:
        if component < len(self.lanes):
            return f"lane {component}"
        names = [self.plan.streams[index].name for index, stream in enumerate(self.streams) if stream.component == component]
        return f"stream {names[0]!r}"

    def _refuse(self, why: str) -> None:
        raise PlanError(f"{place(self.plan, f'lane {self.lane.component}', self.lane.at, self.operation)}: {why}")

    def _stuck(self, lane: LaneClock) -> str:
        where = place(self.plan, f"lane {lane.component}", lane.at, lane.operations[lane.at])
        return f"{where}: deadlock: this lane waits for ever"

    def _check_end(self) -> None:
        """The last look at the clock must come after all work, or a queue's time would pass for a transfer's."""
        marks = [(lane.component, *lane.last_mark) for lane in self.lanes if lane.last_mark is not None]
        stops = marks or [(lane.component, lane.clock, lane.time) for lane in self.lanes]
        workers: list[LaneClock | StreamClock] = [*self.lanes, *self.streams]
        for worker in workers:
            done = worker.worked == 0 or any(
                time >= worker.worked if worker.component == lane else clock.get(worker.component, 0) >= worker.worked
                for lane, clock, time in stops
            )
            if not done:
                where = "the last mark" if marks else "the end of the lanes"
                raise PlanError(f"the clock stops before the work is done: {self._who(worker.component)} still works at {where}")

    def _check_wanted(self) -> None:
        for buffer in sorted(self.plan.races_wanted - self.raced):
            raise PlanError(f"{name_of(self.plan, buffer)} is named in races_wanted, but all accesses to it are ordered")
        for buffer in sorted(self.plan.faults_wanted - self.faulted):
            raise PlanError(
                f"{name_of(self.plan, buffer)} is named in faults_wanted, but no kernel is given it while it may not use it"
            )
