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

What waits and orders is here, what uses memory in `runner.plan_uses`, and the comparison of uses in `runner.plan_accesses`.
"""

from __future__ import annotations

from runner import operations as ops
from runner.errors import PlanError
from runner.plan import Plan
from runner.plan_clocks import Clock, EventClock, LaneClock, StreamClock, merge
from runner.plan_uses import MemoryUse
from runner.plan_words import name_of, place


def check_order(plan: Plan) -> None:
    """Prove that `plan` cannot deadlock and that conflicting accesses are ordered, but for the races it declares.

    Expects a Plan that `check_bounds` has passed. Raises PlanError naming the lane, the operation and the buffer: memory used
    before Alloc or after Free, a kernel given host memory that it may not use outside `faults_wanted` or never given that inside,
    a wait for an event not yet recorded, a deadlock, a race on a buffer outside `races_wanted` or none on one inside, or a last
    mark that is read before all work is done.
    """
    _Order(plan).play()


class _Order(MemoryUse):
    """The abstract play, with the handlers of what waits and orders."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.events: dict[int, EventClock] = {}
        self.at_barrier = 0
        self.handlers |= {
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

    def _group(self, operation: ops.Graph | ops.Batch) -> bool:
        self.grouped.add(self.lane.component)
        return True

    def _group_end(self, operation: ops.GroupEnd) -> bool:
        self.grouped.remove(self.lane.component)
        return True

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
            self.refuse(f"event {self.plan.events[number].name!r} is not recorded before this wait is called")
            raise AssertionError
        return event

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
                raise PlanError(f"the clock stops before the work is done: {self.who(worker.component)} still works at {where}")

    def _check_wanted(self) -> None:
        for buffer in sorted(self.plan.races_wanted - self.raced):
            raise PlanError(f"{name_of(self.plan, buffer)} is named in races_wanted, but all accesses to it are ordered")
        for buffer in sorted(self.plan.faults_wanted - self.faulted):
            raise PlanError(
                f"{name_of(self.plan, buffer)} is named in faults_wanted, but no kernel is given it while it may not use it"
            )
