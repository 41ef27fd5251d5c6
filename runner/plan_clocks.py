"""Vector clocks of a Plan's lanes, streams and events, and who last touched which bytes.

A clock says up to which moment each other component is known; a moment is the number of a component's latest operation.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from runner.plan import Operation, Plan

Clock = dict[int, int]
NOTHING: Final[frozenset[int]] = frozenset()


class LaneClock:
    """A host thread: `clock` is what it knows of others (never changed in place, so it can be shared), `time` its own."""

    __slots__ = ("at", "at_barrier", "clock", "component", "issued", "last_mark", "operations", "time", "worked")

    def __init__(self, component: int, operations: tuple[Operation, ...]) -> None:
        self.component = component
        self.operations = operations
        self.at = 0
        self.time = 0
        self.clock: Clock = {}
        self.issued = False
        self.at_barrier = False
        self.worked = 0
        self.last_mark: tuple[Clock, int] | None = None

    def knows(self, component: int, time: int) -> bool:
        """Whether that moment of another component happens before now."""
        return component == self.component or self.clock.get(component, 0) >= time

    def learn(self, source: StreamClock | EventClock) -> None:
        """Take over all that a stream or an event knows."""
        if self.clock.get(source.component, 0) >= source.time:
            return
        clock = dict(self.clock)
        clock[source.component] = source.time
        merge(clock, source.others)
        for lane, (known, time) in source.bases.items():
            if lane != self.component:
                clock[lane] = max(clock.get(lane, 0), time)
                merge(clock, known)
        self.clock = clock


class StreamClock:
    """A queue of the device.

    It mostly knows what the lanes knew that issued to it, so it keeps a reference to each such lane's latest clock in `bases` and
    only what it learnt directly from other streams in `others`: issuing costs the same for 4,096 streams as for one.
    """

    __slots__ = ("bases", "component", "held", "others", "peers", "time", "worked")

    def __init__(self, component: int) -> None:
        self.component = component
        self.time = 0
        self.bases: dict[int, tuple[Clock, int]] = {}
        self.others: Clock = {}
        self.peers: list[StreamClock] = []
        self.held = NOTHING
        self.worked = 0

    def issue(self, lane: LaneClock) -> None:
        """Append one operation, which knows what its lane knows now."""
        self.time += 1
        self.bases[lane.component] = (lane.clock, lane.time)
        for peer in self.peers:
            if peer.time:
                self.learn(peer)
                self.held |= peer.held

    def knows(self, component: int, time: int) -> bool:
        """Whether that moment of another component happens before the latest operation."""
        if component == self.component or self.others.get(component, 0) >= time:
            return True
        for lane, (clock, lane_time) in self.bases.items():
            if (lane_time if lane == component else clock.get(component, 0)) >= time:
                return True
        return False

    def learn(self, source: StreamClock | EventClock) -> None:
        """Take over all that another stream or an event knows."""
        self.others[source.component] = max(self.others.get(source.component, 0), source.time)
        merge(self.others, source.others)
        for lane, base in source.bases.items():
            mine = self.bases.get(lane)
            if mine is None or mine[1] < base[1]:
                self.bases[lane] = base


class EventClock:
    """What a stream knew when the event was recorded, and when its lane made the call."""

    __slots__ = ("bases", "component", "held", "lane", "lane_time", "others", "time")

    def __init__(self, stream: StreamClock, lane: LaneClock) -> None:
        self.component, self.time = stream.component, stream.time
        self.bases, self.others, self.held = dict(stream.bases), dict(stream.others), stream.held
        self.lane, self.lane_time = lane.component, lane.time


class Segment:
    """Bytes that have always been accessed together: the last write, and each component's last read since."""

    __slots__ = ("end", "reads", "write_time", "writer")

    def __init__(self, end: int, writer: int, write_time: int, reads: Clock) -> None:
        self.end, self.writer, self.write_time, self.reads = end, writer, write_time, reads


class Ranges:
    """The segments of one buffer, by where they start."""

    __slots__ = ("by_start", "starts")

    def __init__(self, size: int) -> None:
        self.starts = [0]
        self.by_start = {0: Segment(size, -1, 0, {})}

    def segments(self, begin: int, end: int) -> list[Segment]:
        """Return the segments that make up [begin, end), after splitting those that reach over its edges."""
        same = self.by_start.get(begin)
        if same is not None and same.end == end:
            return [same]
        self._split(begin)
        self._split(end)
        first, last = bisect_left(self.starts, begin), bisect_left(self.starts, end)
        return [self.by_start[start] for start in self.starts[first:last]]

    def _split(self, at: int) -> None:
        if at in self.by_start:
            return
        index = bisect_right(self.starts, at)
        left = self.by_start[self.starts[index - 1]]
        if at >= left.end:
            return
        self.by_start[at] = Segment(left.end, left.writer, left.write_time, dict(left.reads))
        self.starts.insert(index, at)
        left.end = at


def clocks_of_streams(plan: Plan, first_component: int) -> list[StreamClock]:
    """Return a queue a stream, but the null stream is one however often it is named; it and the blocking ones see each other."""
    null = StreamClock(first_component)
    streams = [
        null if stream.kind == "null" else StreamClock(first_component + 1 + number) for number, stream in enumerate(plan.streams)
    ]
    blocking = [queue for queue, stream in zip(streams, plan.streams, strict=True) if stream.kind == "blocking"]
    null.peers = blocking
    for queue in blocking:
        queue.peers = [null]
    return streams


def merge(into: Clock, clock: Clock) -> None:
    """Raise the times in `into` to those of `clock`."""
    for component, time in clock.items():
        if into.get(component, 0) < time:
            into[component] = time
