"""Who uses which bytes of a Plan's memory, and whether anything orders two uses that conflict.

Lanes and streams are components, each with a time that counts its operations. Two accesses to the same bytes, one of them a
write, must be ordered by what is known of each other (FastTrack: Flanagan and Freund, PLDI 2009).
"""

from __future__ import annotations

from runner import operations as ops
from runner.errors import PlanError
from runner.plan import Plan
from runner.plan_clocks import LaneClock, Ranges, StreamClock, clocks_of_streams
from runner.plan_holdings import Holdings
from runner.plan_words import name_of, place


class Accesses:
    """The clocks of an abstract play, and the accesses noted so far; `operation` of `lane` is what is played now."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lanes = [LaneClock(number, operations) for number, operations in enumerate(plan.lanes)]
        self.streams = clocks_of_streams(plan, len(plan.lanes))
        self.ranges = [Ranges(buffer.size) for buffer in plan.buffers]
        self.holdings = Holdings(plan)
        self.alive = self.holdings.alive
        self.raced: set[int] = set()
        self.lane: LaneClock
        self.operation: ops.Operation

    def access(self, buffer: int, offset: int, size: int, who: LaneClock | StreamClock, write: bool) -> None:
        """Note an access and compare it with the earlier ones to the same bytes."""
        if not self.alive[buffer]:
            self.refuse(f"{name_of(self.plan, buffer)} is used, but it is not allocated")
        component, knows = who.component, who.knows
        for segment in self.ranges[buffer].segments(offset, offset + size):
            writer = segment.writer
            if writer >= 0 and writer != component and not knows(writer, segment.write_time):
                self.race(buffer, offset, size, writer, "written")
            reads = segment.reads
            if not write:
                reads[component] = who.time
                continue
            if reads:
                for reader, time in reads.items():
                    if reader != component and not knows(reader, time):
                        self.race(buffer, offset, size, reader, "read")
                reads.clear()
            segment.writer, segment.write_time = component, who.time

    def race(self, buffer: int, offset: int, size: int, other: int, what: str) -> None:
        """Refuse what conflicts with an earlier access, unless the Plan wants a race on that buffer."""
        self.raced.add(buffer)
        if buffer not in self.plan.races_wanted:
            self.refuse(
                f"race on {name_of(self.plan, buffer)}, bytes {offset} to {offset + size}: they are {what} by {self.who(other)} "
                "and nothing orders the two; a wait is missing"
            )

    def who(self, component: int) -> str:
        """Name a lane or a stream."""
        if component < len(self.lanes):
            return f"lane {component}"
        names = [self.plan.streams[index].name for index, stream in enumerate(self.streams) if stream.component == component]
        return f"stream {names[0]!r}"

    def refuse(self, why: str) -> None:
        """Raise PlanError at the present operation."""
        raise PlanError(f"{place(self.plan, f'lane {self.lane.component}', self.lane.at, self.operation)}: {why}")
