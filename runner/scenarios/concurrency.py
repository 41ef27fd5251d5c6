"""`kind: concurrency` asks whether copies run at once: each alone first, then all together on streams of their own."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import BufferKind
from runner.plan import Direction, HostWait, Plan, StreamWait
from runner.scenarios.base import Cell, Clock, Scenario, Size, event_ms, field_error, host_ms, timed
from runner.scenarios.builder import PlanWriter, check_copied
from runner.units import told_size

MOST_COPIES = 16


class Concurrency(Scenario):
    """Copies of `size` bytes each, alone one after another, then all at once, each on its own stream and buffers."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"copies"})
    CLOCK: ClassVar[Clock] = "event"

    kind: Literal["concurrency"] = Field(description="Copies alone and then all at once, timed by CUDA events.")
    copies: Annotated[tuple[Direction, ...], Field(min_length=1, max_length=MOST_COPIES)] = Field(
        description="The copies, a direction each: [h2d, h2d]. An axis of it is a list of lists."
    )
    size: Size = Field(description="Bytes of each copy.")
    buffer: BufferKind = Field("pinned", description="The kind of the host buffers.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.copies:
            raise field_error("copies", "no copy is named", "h2d and d2h, such as [h2d, d2h]")
        check_copied(self.buffer)
        return self

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells; the copies with blanks between them."""
        return super().columns() | {"copies": " ".join(self.copies)}

    def payload_bytes(self) -> int:
        """Return the bytes of all copies, once: those that go together count for the rate."""
        return self.size * len(self.copies)

    def link_bytes(self) -> dict[str, int]:
        """Return the bytes of each direction, of the copies that go at once."""
        return {direction: self.size * self.copies.count(direction) for direction in self.copies}

    def ways(self) -> int:
        """Return how many directions the copies take at once."""
        return len(set(self.copies))

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        return (
            f"copy {told_size(self.size)} each {', '.join(self.copies)}, one after another and then all at once; "
            f"the host buffers are {self.buffer}"
        )

    def plan(self) -> Plan:
        """Write the copies alone, each waited for, and then all between two events of the first stream."""
        writer = PlanWriter()
        lone = [_Lone(writer, self, index) for index in range(len(self.copies))]
        for copy in lone:
            copy.alone()
        writer.mark("begin")
        first = lone[0].stream
        start = writer.record(first, "start", timed=True)
        writer.lane.extend(StreamWait(copy.stream, start) for copy in lone[1:])
        for copy in lone:
            copy.together()
        for copy in lone[1:]:
            writer.lane.append(StreamWait(first, writer.record(copy.stream, f"copy {copy.index} done")))
        writer.lane.append(HostWait(writer.record(first, "stop", timed=True)))
        writer.mark("end")
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `solo_ms`, the sum of the copies alone, `event_ms` of all at once, and `concurrency`, the one over the other.

        `wall_ms` is the host's time of those at once.
        """
        alone = [event_ms(plan, trace, f"alone {index} start", f"alone {index} stop") for index in range(len(self.copies))]
        solo = None if None in alone else sum(time for time in alone if time is not None)
        together = event_ms(plan, trace, "start", "stop")
        return timed(
            {
                "wall_ms": host_ms(plan, trace, "begin", "end"),
                "event_ms": together,
                "solo_ms": solo,
                "concurrency": solo / together if solo is not None and together else None,
            }
        )


class _Lone:
    """One of the copies: its stream, its host buffer, and two device buffers: the first copy must not pass for the second."""

    def __init__(self, writer: PlanWriter, scenario: Concurrency, index: int) -> None:
        self.writer, self.index, self.size = writer, index, scenario.size
        self.direction: Direction = scenario.copies[index]
        self.stream = writer.stream(f"stream {index}")
        self.host = writer.buffer(f"host {index}", scenario.buffer, self.size)
        self.alone_device = writer.device_buffer(f"alone device {index}", self.size)
        self.device = writer.device_buffer(f"device {index}", self.size)
        upload = self.direction == "h2d"
        writer.data(self.host if upload else self.device)
        for buffer in (self.alone_device, self.device) if upload else (self.alone_device, self.host):
            writer.poison(buffer)
        for buffer in (self.alone_device, self.device) if upload else (self.host,):
            writer.expect(buffer, self.size)

    def alone(self) -> None:
        """Copy between two events and wait for it."""
        self.writer.record(self.stream, f"alone {self.index} start", timed=True)
        self._copy(self.alone_device)
        self.writer.lane.append(HostWait(self.writer.record(self.stream, f"alone {self.index} stop", timed=True)))

    def together(self) -> None:
        """Copy beside the others."""
        self._copy(self.device)

    def _copy(self, device: int) -> None:
        dst, src = (device, self.host) if self.direction == "h2d" else (self.host, device)
        self.writer.copy(self.stream, self.direction, (dst, 0), (src, 0), self.size)
