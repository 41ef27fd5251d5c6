"""`kind: blocking` asks how long an async copy call holds the host while the stream still has earlier work to do."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import BufferKind
from runner.plan import Busy, Direction, HostWait, Plan
from runner.scenarios.base import Clock, Scenario, Size, cpu_ms, event_ms, host_ms, timed
from runner.scenarios.builder import PlanWriter, check_copied
from runner.units import told_size

LONGEST_BUSY_MS = 1000.0


class Blocking(Scenario):
    """One async copy in a stream that is kept busy for a while; the events stand before that work and behind the copy."""

    RATED: ClassVar[bool] = False
    CLOCK: ClassVar[Clock] = "event"

    kind: Literal["blocking"] = Field(description="An async copy behind earlier work in its stream.")
    buffer: BufferKind = Field("pinned", description="The kind of the host buffer.")
    direction: Direction = Field(description="Host to device or device to host.")
    size: Size = Field(description="Bytes of the copy.")
    busy_ms: float = Field(
        5.0, ge=0, le=LONGEST_BUSY_MS, allow_inf_nan=False, description="Time of the earlier work in ms; 0 for none."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_copied(self.buffer)
        return self

    def payload_bytes(self) -> int:
        """Return the bytes of the copy."""
        return self.size

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        way = "to the device" if self.direction == "h2d" else "to the host"
        return (
            f"copy {told_size(self.size)} {way} by an async call behind {self.busy_ms:g} ms of work in the same stream; "
            f"the host buffer is {self.buffer}"
        )

    def plan(self) -> Plan:
        """Write the earlier work, the copy between two marks, and the wait."""
        writer = PlanWriter()
        host, device = writer.buffer("host", self.buffer, self.size), writer.device_buffer("device", self.size)
        src, dst = (host, device) if self.direction == "h2d" else (device, host)
        writer.data(src)
        writer.poison(dst)
        writer.expect(dst, self.size)
        stream = writer.stream("stream")
        writer.mark("begin", cpu=True)
        writer.record(stream, "start", timed=True)
        if self._busy_ns():
            writer.lane.append(Busy(stream, self._busy_ns()))
        writer.mark("call_begin")
        writer.copy(stream, self.direction, (dst, 0), (src, 0), self.size)
        writer.mark("call_end")
        writer.lane.append(HostWait(writer.record(stream, "stop", timed=True)))
        writer.mark("end", cpu=True)
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `call_us` of the copy call, `wait_share` (its time over that of the earlier work), wall, event and cpu time.

        `wall_ms` and `event_ms` begin before the earlier work.
        """
        held = host_ms(plan, trace, "call_begin", "call_end")
        return timed(
            {
                "wall_ms": host_ms(plan, trace, "begin", "end"),
                "event_ms": event_ms(plan, trace, "start", "stop"),
                "call_us": None if held is None else held * 1e3,
                "wait_share": held / self.busy_ms if held is not None and self._busy_ns() else None,
                "cpu_ms": cpu_ms(plan, trace, "begin", "end"),
            }
        )

    def _busy_ns(self) -> int:
        return round(self.busy_ms * 1e6)
