"""`kind: transfer` asks how fast a copy is, in one direction or in both at once."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import BufferKind
from runner.plan import Copy, Direction, HostWait, Plan, StreamWait
from runner.scenarios.base import LARGEST_PLAN, Cell, Clock, Scenario, Size, Streams, event_ms, field_error, host_ms
from runner.scenarios.builder import PlanWriter, chunks_of
from runner.units import counted, format_size


class Transfer(Scenario):
    """Copies of `size` bytes between a host buffer and the device, in chunks over streams.

    The events that time it stand around all copies of a direction, on its first stream; its other streams wait for the first
    event, and the first stream for them before the last event.
    """

    CLOCK: ClassVar[Clock] = "event"

    kind: Literal["transfer"] = Field(description="A copy across the link, timed by CUDA events.")
    buffer: BufferKind = Field("pinned", description="The kind of the host buffer that the copy engine is handed.")
    direction: Literal["h2d", "d2h", "bidirectional"] = Field(
        description="Host to device, device to host, or both at once, each with its own buffers and streams."
    )
    size: Size = Field(description="Bytes copied in each direction by one sample.")
    chunk: Size | None = Field(
        None, description="Bytes of one copy; the whole size where omitted.", json_schema_extra={"unit": "bytes"}
    )
    streams: Streams = Field(1, description="Streams of each direction, over which the chunks take turns.")
    call: Literal["async", "sync"] = Field("async", description="The async copy call, or the plain one that waits for the copy.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.chunk is not None and self.chunk > self.size:
            raise field_error("chunk", f"a chunk of {format_size(self.chunk)} is larger than the size, {format_size(self.size)}")
        if self._copies() + 6 * self.streams > LARGEST_PLAN:
            raise field_error("chunk", f"{self._copies():,} copies are too many for one sample", f"at most {LARGEST_PLAN:,}")
        return self

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells; an omitted chunk is the whole size."""
        return super().columns() | {"chunk_bytes": self.chunk or self.size}

    def payload_bytes(self) -> int:
        """Return the bytes of all directions."""
        return self.size * self.ways()

    def direction_bytes(self) -> dict[str, int]:
        """Return the bytes of each direction where both are copied at once."""
        ways = self._directions()
        return dict.fromkeys(ways, self.size) if len(ways) > 1 else {}

    def ways(self) -> int:
        """Return 2 for both directions at once."""
        return len(self._directions())

    def async_calls(self) -> int:
        """Return the copies of all directions, none for plain calls."""
        return self._copies() * self.ways() if self.call == "async" else 0

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        ways = " and ".join({"h2d": "host to device", "d2h": "device to host"}[way] for way in self._directions())
        cut = "in one copy" if self.chunk in (None, self.size) else f"in {self._copies():,} copies of up to {self.chunk:,} bytes"
        streams = counted(self.streams, "stream")
        return f"copy {self.size:,} bytes from {ways} {cut} by {self.call} calls on {streams}; the host buffer is {self.buffer}"

    def plan(self) -> Plan:
        """Write the copies of each direction between two timed events."""
        writer = PlanWriter()
        ways = [_Way(writer, self, direction) for direction in self._directions()]
        writer.mark("begin")
        for way in ways:
            way.start(ways[0])
        writer.mark("call_begin")
        for way in ways:
            way.copies()
        writer.mark("call_end")
        for way in ways:
            way.stop()
        for way in ways:
            writer.lane.append(HostWait(way.stopped))
        writer.mark("end")
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `wall_ms`, `event_ms` (the common interval), `call_us` of one copy call, and each direction's own interval."""
        ways = self._directions()
        own = {way: event_ms(plan, trace, f"{way} start", f"{way} stop") for way in ways}
        common = [event_ms(plan, trace, f"{ways[0]} start", f"{way} stop") for way in ways]
        held = host_ms(plan, trace, "call_begin", "call_end")
        figures = {
            "wall_ms": host_ms(plan, trace, "begin", "end"),
            "event_ms": None if None in common else max(time for time in common if time is not None),
            "call_us": None if held is None else held * 1e3 / (self._copies() * len(ways)),
        }
        if len(ways) > 1:
            figures |= {f"{way}_event_ms": time for way, time in own.items()}
        return {name: value for name, value in figures.items() if value is not None}

    def _directions(self) -> tuple[Direction, ...]:
        return ("h2d", "d2h") if self.direction == "bidirectional" else (self.direction,)

    def _copies(self) -> int:
        return -(-self.size // (self.chunk or self.size))


class _Way:
    """One direction of a transfer: its buffers, its streams and its two timed events."""

    def __init__(self, writer: PlanWriter, transfer: Transfer, direction: Direction) -> None:
        self.writer, self.transfer, self.direction = writer, transfer, direction
        host = writer.buffer(f"{direction} host", transfer.buffer, transfer.size)
        device = writer.device_buffer(f"{direction} device", transfer.size)
        self.src, self.dst = (host, device) if direction == "h2d" else (device, host)
        writer.data(self.src)
        writer.poison(self.dst)
        writer.expect(self.dst, transfer.size)
        self.streams = [writer.stream(f"{direction} {index}") for index in range(transfer.streams)]
        self.started = self.stopped = -1

    def start(self, first: _Way) -> None:
        """Record the start; every other stream waits for it, and a second direction for the start of the first."""
        if first is not self:
            self.writer.lane.append(StreamWait(self.streams[0], first.started))
        self.started = self.writer.record(self.streams[0], f"{self.direction} start", timed=True)
        self.writer.lane.extend(StreamWait(stream, self.started) for stream in self.streams[1:])

    def copies(self) -> None:
        """Issue the copies, chunk after chunk, the streams taking turns."""
        blocking = self.transfer.call == "sync"
        for index, (offset, size) in enumerate(chunks_of(self.transfer.size, self.transfer.chunk or self.transfer.size)):
            stream = self.streams[index % len(self.streams)]
            self.writer.lane.append(Copy(stream, self.direction, self.dst, offset, self.src, offset, size, blocking))

    def stop(self) -> None:
        """Join the other streams into the first and record the stop there."""
        for index, stream in enumerate(self.streams[1:], 1):
            done = self.writer.record(stream, f"{self.direction} done {index}")
            self.writer.lane.append(StreamWait(self.streams[0], done))
        self.stopped = self.writer.record(self.streams[0], f"{self.direction} stop", timed=True)
