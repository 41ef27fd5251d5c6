"""`kind: transfer` asks how fast a copy is, in one direction or in both at once."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import KINDS, BufferKind, Pages, kind_of
from runner.pattern import WORD
from runner.plan import Direction, Plan
from runner.scenarios.base import (
    LARGEST_PLAN,
    Cell,
    Clock,
    Scenario,
    Size,
    Streams,
    cpu_ms,
    event_ms,
    field_error,
    host_ms,
    timed,
)
from runner.scenarios.builder import check_pages
from runner.scenarios.transfer_plan import write_transfer
from runner.units import counted, format_size

Migration = Literal["fault", "prefetch"]


class Transfer(Scenario):
    """Copies of `size` bytes between a host buffer and the device, in chunks over streams.

    The events that time it stand around all copies of a direction, on its first stream; its other streams wait for the first
    event, and the first stream for them before the last event. Memory that migrates has no second buffer: its transfer is the
    move of its pages, which lie on the other side before each sample.
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
    mover: Literal["engine", "kernel"] = Field(
        "engine", description="What copies: a copy engine, or a kernel that uses the host buffer in place (by words of 4 bytes)."
    )
    migration: Migration | None = Field(
        None,
        description="How the pages of memory that migrates move: because the other side touches them (fault), or by a call "
        "(prefetch, where omitted). Other memory has none.",
    )
    pages: Pages = Field("normal", description="Size of the pages of the host buffer: normal or huge.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.chunk is not None and self.chunk > self.size:
            raise field_error("chunk", f"a chunk of {format_size(self.chunk)} is larger than the size, {format_size(self.size)}")
        if self.copies() * (1 if self.call == "async" else 2) + 6 * self.streams > LARGEST_PLAN:
            raise field_error("chunk", f"{self.copies():,} copies are too many for one sample", f"at most {LARGEST_PLAN:,}")
        check_pages(self.buffer, self.pages)
        self._check_mover()
        if self.mover == "kernel" or self.moves_by() == "fault":
            for field in ("size", "chunk"):
                if (getattr(self, field) or 0) % WORD:
                    message = f"{getattr(self, field):,} bytes are no multiple of the word that is touched, {WORD} bytes"
                    raise field_error(field, message)
        return self

    def _check_mover(self) -> None:
        kind = kind_of(self.buffer)
        if self.migration and not kind.migrates:
            allowed = ", ".join(row.name for row in KINDS.values() if row.migrates)
            raise field_error("migration", f"{self.buffer} memory does not migrate, it is copied", f"only with buffer: {allowed}")
        if self.moves_by() == "fault" and self.direction == "bidirectional":
            message = f"the host may not touch {self.buffer} memory while the device works"
            raise field_error("direction", message, "h2d, d2h, or migration: prefetch")
        if self.mover == "kernel" and kind.migrates:
            raise field_error("mover", f"{self.buffer} memory migrates; migration: fault lets a kernel touch it", "engine")
        if self.mover == "kernel" and not kind.kernel_access:
            raise field_error("mover", f"a kernel cannot use {self.buffer} memory in place", "engine")

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells; an omitted chunk is the whole size."""
        return super().columns() | {"chunk_bytes": self.chunk or self.size, "migration": self.moves_by()}

    def payload_bytes(self) -> int:
        """Return the bytes of all directions."""
        return self.size * self.ways()

    def direction_bytes(self) -> dict[str, int]:
        """Return the bytes of each direction where both are copied at once."""
        ways = self.directions()
        return dict.fromkeys(ways, self.size) if len(ways) > 1 else {}

    def ways(self) -> int:
        """Return 2 for both directions at once."""
        return len(self.directions())

    def async_calls(self) -> int:
        """Return the copies of all directions; none for plain calls, nor where the host itself touches what shall move."""
        touched = self.moves_by() == "fault" and self.direction == "d2h"
        return self.copies() * self.ways() if self.call == "async" and not touched else 0

    def directions(self) -> tuple[Direction, ...]:
        """Return the directions that are copied at once."""
        return ("h2d", "d2h") if self.direction == "bidirectional" else (self.direction,)

    def copies(self) -> int:
        """Return the copies of one direction."""
        return -(-self.size // (self.chunk or self.size))

    def moves_by(self) -> Migration | None:
        """Return how pages migrate; None for memory that does not."""
        return (self.migration or "prefetch") if kind_of(self.buffer).migrates else None

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        ways = " and ".join({"h2d": "host to device", "d2h": "device to host"}[way] for way in self.directions())
        cut = "in one copy" if self.chunk in (None, self.size) else f"in {self.copies():,} copies of up to {self.chunk:,} bytes"
        streams = counted(self.streams, "stream")
        pages = f" with {self.pages} pages" if self.pages != "normal" else ""
        how = {"fault": "letting pages fault", "prefetch": "by prefetch calls", None: f"by {self.call} calls of a {self.mover}"}
        verb = "move" if self.moves_by() else "copy"
        return (
            f"{verb} {self.size:,} bytes from {ways} {cut} {how[self.moves_by()]} on {streams}; "
            f"the host buffer is {self.buffer}{pages}"
        )

    def plan(self) -> Plan:
        """Write the copies of each direction between two timed events."""
        return write_transfer(self)

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return wall, event and processor time, how long calls held the host and left it free, and each direction's interval.

        `event_ms` is the common interval of all directions, `call_us` the mean of one copy call, `host_free_ms` the wall time
        without that of the calls.
        """
        ways = self.directions()
        own = {way: event_ms(plan, trace, f"{way} start", f"{way} stop") for way in ways}
        common = [event_ms(plan, trace, f"{ways[0]} start", f"{way} stop") for way in ways]
        wall, held = host_ms(plan, trace, "begin", "end"), host_ms(plan, trace, "call_begin", "call_end")
        figures = {
            "wall_ms": wall,
            "event_ms": None if None in common else max(time for time in common if time is not None),
            "call_us": None if held is None else held * 1e3 / (self.copies() * len(ways)),
            "cpu_ms": cpu_ms(plan, trace, "begin", "end"),
            "host_free_ms": None if wall is None or held is None else wall - held,
        }
        return timed(figures | ({f"{way}_event_ms": time for way, time in own.items()} if len(ways) > 1 else {}))
