"""`kind: access` asks how fast memory is read and written where it lies, by the processor or by a kernel."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import BufferKind, Pages, kind_of
from runner.pattern import FLAT, WORD
from runner.plan import Access, HostAccess, HostWait, KernelAccess, Plan
from runner.scenarios.base import Scenario, Size, event_ms, field_error, host_ms, timed
from runner.scenarios.builder import PlanWriter, check_pages
from runner.units import counted, told_size

MOST_PASSES = 10_000
LARGEST_OFFSET = 4096


class InPlace(Scenario):
    """`passes` over `size` bytes: reading, writing or incrementing every word.

    With `place: device` a kernel works on a copy in the device's memory instead. The copies there and back are part of the wall
    time, so that the two ways can be compared by it.
    """

    kind: Literal["access"] = Field(description="Reading and writing in place, by wall time.")
    by: Literal["cpu", "kernel"] = Field(description="Who touches the memory: the processor or a kernel.")
    pattern: Access = Field(description="Read, write or increment every word; an increment reads and writes it.")
    buffer: BufferKind = Field("pinned", description="The kind of the host buffer.")
    size: Size = Field(description="Bytes touched by one pass; a multiple of 4.")
    passes: int = Field(1, ge=1, le=MOST_PASSES, description="Passes over the memory in one sample.")
    threads: int = Field(1, ge=1, le=256, description="Threads of the processor that share each pass.")
    place: Literal["host", "device"] = Field(
        "host",
        description="Where a kernel touches the data: in host memory, or in a copy on the device, the copying inside the timing.",
    )
    pages: Pages = Field("normal", description="Size of the pages of the host buffer: normal or huge.")
    offset: int = Field(
        0,
        ge=0,
        le=LARGEST_OFFSET,
        multiple_of=WORD,
        description="Bytes from the begin of a page to the first word that is touched; a multiple of 4.",
        json_schema_extra={"unit": "bytes"},
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        kind = kind_of(self.buffer)
        if self.size % WORD:
            raise field_error("size", f"{self.size:,} bytes are no multiple of the word that is touched, {WORD} bytes")
        check_pages(self.buffer, self.pages)
        if self.by == "cpu" and self.place == "device":
            raise field_error("place", "the processor does not reach the device's memory", "host, or by: kernel")
        if self.by == "kernel" and self.threads > 1:
            raise field_error("threads", "threads are those of the processor", "1, or by: cpu")
        if self.by == "kernel" and self.place == "host" and not kind.kernel_access:
            raise field_error("buffer", f"a kernel cannot use {self.buffer} memory in place", "other memory, or place: device")
        if self.place == "device" and self.offset:
            raise field_error("offset", "an offset is that of data touched in host memory", "0, or place: host")
        if self.place == "device" and kind.migrates:
            raise field_error("place", f"{self.buffer} memory comes to the device by itself", "host")
        return self

    def payload_bytes(self) -> int:
        """Return the bytes of all passes; those of an increment count once, though they are read and written."""
        return self.size * self.passes

    def link_bytes(self) -> dict[str, int]:
        """Return what a kernel's passes over host memory, or the copies to and from the device, move in each direction."""
        if self.by == "cpu" or kind_of(self.buffer).migrates:
            return {}
        size = self.payload_bytes() if self.place == "host" else self.size
        moved = {"h2d": size if self.pattern != "write" else 0, "d2h": size if self.pattern != "read" else 0}
        return {direction: count for direction, count in moved.items() if count}

    def ways(self) -> int:
        """Return the directions of the link that a kernel needs to reach host memory; 0 where the passes do not cross it."""
        if self.by == "cpu" or self.place == "device" or kind_of(self.buffer).migrates:
            return 0
        return 2 if self.pattern == "increment" else 1

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        who = "a kernel" if self.by == "kernel" else counted(self.threads, "thread") + " of the processor"
        where = f"in {self.buffer} memory" if self.place == "host" else f"on the device, copied from and to {self.buffer} memory"
        pages = " with huge pages" if self.pages == "huge" else ""
        offset = f", {told_size(self.offset)} from the begin of a page," if self.offset else ""
        return f"{self.pattern} {told_size(self.size)} {where}{pages}{offset} by {who}, {counted(self.passes, 'time')}"

    def plan(self) -> Plan:
        """Write the passes between two marks, those of a kernel between two timed events, too."""
        writer = PlanWriter()
        host = writer.buffer("host", self.buffer, self.offset + self.size, pages=self.pages)
        writer.data(host)
        if self.by == "cpu":
            self._by_processor(writer, host)
        else:
            self._by_kernel(writer, host)
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `wall_ms` of the sample and `access_ms` of the passes alone: of a kernel by events, else by the host's clock."""
        wall = host_ms(plan, trace, "begin", "end")
        passes = event_ms(plan, trace, "start", "stop") if self.by == "kernel" else wall
        return timed({"wall_ms": wall, "access_ms": passes})

    def _by_processor(self, writer: PlanWriter, host: int) -> None:
        writer.mark("begin")
        writer.lane.extend(HostAccess(host, self.offset, self.size, self.pattern, self.threads, salt) for salt in self._salts())
        writer.mark("end")
        self._expect(writer, host)

    def _by_kernel(self, writer: PlanWriter, host: int) -> None:
        stream = writer.stream("stream")
        touched = host if self.place == "host" else writer.device_buffer("device", self.size)
        copied = touched != host
        if copied:
            writer.poison(touched)
        writer.mark("begin")
        if copied and self.pattern != "write":
            writer.copy(stream, "h2d", (touched, 0), (host, 0), self.size)
        writer.record(stream, "start", timed=True)
        writer.lane.extend(KernelAccess(stream, touched, self.offset, self.size, self.pattern, salt) for salt in self._salts())
        stop = writer.record(stream, "stop", timed=True)
        if copied and self.pattern != "read":
            writer.copy(stream, "d2h", (host, 0), (touched, 0), self.size)
            stop = writer.record(stream, "back")
        writer.lane.append(HostWait(stop))
        writer.mark("end")
        self._expect(writer, touched if self.pattern == "read" else host)

    def _salts(self) -> range:
        """Return a salt for each pass: only the last pass leaves what is expected."""
        return range(FLAT, FLAT + self.passes)

    def _expect(self, writer: PlanWriter, buffer: int) -> None:
        if self.pattern == "write":
            writer.expect_range(buffer, self.offset, self.size, salt=self._salts()[-1])
        else:
            added = self.passes if self.pattern == "increment" else 0
            writer.expect_range(buffer, self.offset, self.size, self.offset, added)
