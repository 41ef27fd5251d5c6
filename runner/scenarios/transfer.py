"""`kind: transfer` asks how fast a copy is, in one direction or in both at once."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from runner.device.contract import Trace
from runner.errors import CaseFailed
from runner.memory import BufferKind, Pages, kind_of
from runner.plan import Copy, Demand, Direction, Operation, Plan
from runner.scenarios.base import (
    Cell,
    Clock,
    Known,
    Scenario,
    Size,
    Streams,
    cpu_ms,
    event_ms,
    host_ms,
    timed,
)
from runner.scenarios.builder import data_in
from runner.scenarios.transfer_checks import check_transfer, most_copies
from runner.scenarios.transfer_plan import write_transfer
from runner.units import counted, told_size

Migration = Literal["fault", "prefetch"]

BATCH_MS: Final = 2.2
"""What a batch shall take by the probe's time of one copy: two milliseconds, of which the 5.5 µs that a pair of events added on
an H200 are a quarter of a percent, and a tenth for the probe's own error."""
PROBE_COPIES: Final = 32
PROBE_BYTES: Final = 32 << 20
"""Copies of a probe, and bytes: one pair of events adds some 5 µs on an H200, which so many copies share."""


class Transfer(Scenario):
    """Copies of `size` bytes between a host buffer and the device, in chunks over streams.

    The events that time it stand around all copies of a direction, on its first stream; its other streams wait for the first
    event, and the first stream for them before the last event. Memory that migrates has no second buffer: its transfer is the
    move of its pages, which lie on the other side before each sample.

    A batch copies the same bytes again and again, each chunk on the stream that it had before, so that small copies are not
    hidden behind the time that a pair of events adds. With `opposite: doubled`, `lead_in: 4`, `batch: 16` and a gate it is the
    method of NVIDIA's nvbandwidth, whose figures of both directions are each one's beside such a copy.
    """

    CLOCK: ClassVar[Clock] = "event"
    WORK: ClassVar[tuple[str, ...]] = ("size", "direction", "buffer")

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

    submit: Literal["calls", "batch"] = Field(
        "calls",
        description="How the copies are handed over: each by a call, or all that one stream has of them by one call for a batch, "
        "in which they have no order.",
    )
    batch: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        1,
        description="Times that a sample copies the same bytes between its two events; all times are those of one. auto: as many "
        "as take two milliseconds, by a probe that is measured before.",
    )
    gated: bool = Field(
        False,
        description="Hold the device until all copies of the sample are queued, so that no time is the host's; wall time counts "
        "from then on.",
    )
    lead_in: int = Field(
        0, ge=0, description="Copies of each direction that go ahead of the timed ones in every sample, and are waited for."
    )
    opposite: Literal["doubled"] | None = Field(
        None,
        description="doubled: as many copies of twice the bytes keep the other direction busy meanwhile, and are not counted.",
    )
    _found: int | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_transfer(self)
        return self

    def job(self) -> dict[str, Cell]:
        """Return bytes, direction, and in what sort of memory the data lie."""
        return super().job() | {"buffer": data_in(self.buffer)}

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells; an omitted chunk is the whole size, and `batch_n` the copies that a batch has."""
        return super().columns() | {
            "chunk_bytes": self.chunk or self.size,
            "migration": self.moves_by(),
            "batch": str(self.batch),
            "batch_n": self.batch_n(),
        }

    def batch_n(self) -> int | None:
        """Return how many times a sample copies the same bytes; None as long as nobody has found out."""
        return self._found if self.batch == "auto" else self.batch

    def companions(self) -> Mapping[str, Scenario]:
        """Return the probe by which the copies of a batch are found: some of the same copies at once."""
        if self.batch != "auto" or self._found is not None:
            return {}
        count = max(1, min(PROBE_COPIES, PROBE_BYTES // self.size, most_copies(self)))
        return {"probe": self.model_copy(update={"batch": count})}

    def resolved(self, known: Known) -> Transfer:
        """Return this case with its batch counted; raises CaseFailed where the probe could not be measured."""
        if self.batch != "auto" or self._found is not None:
            return self
        time_ms = known.times_ms.get("probe", 0.0)
        if not time_ms > 0:
            raise CaseFailed("how many copies take two milliseconds is not known, since the probe could not be measured")
        found = self.model_copy()
        found._found = max(1, min(ceil(BATCH_MS / time_ms), most_copies(self)))
        return found

    def demand(self) -> Demand:
        """Return the most memory that is held at once, which no number of copies changes."""
        return write_transfer(self, 1).demand()

    def payload_bytes(self) -> int:
        """Return the bytes of all directions."""
        return self.size * self.ways()

    def link_bytes(self) -> dict[str, int]:
        """Return the bytes of each direction that is measured."""
        return dict.fromkeys(self.directions(), self.size)

    def direction_bytes(self) -> dict[str, int]:
        """Return the bytes of each direction where both are copied at once."""
        ways = self.directions()
        return dict.fromkeys(ways, self.size) if len(ways) > 1 else {}

    def ways(self) -> int:
        """Return 2 for both directions at once."""
        return len(self.directions())

    def repeats(self) -> int:
        """Return the copies of a batch."""
        return self.batch_n() or 1

    def is_measured(self, operation: Operation) -> bool:
        """Whether it is not a copy that only keeps the other direction busy."""
        return not isinstance(operation, Copy) or operation.direction in self.directions()

    def async_calls(self) -> int:
        """Return the copies of all directions; none for plain calls, nor where the host itself touches what shall move."""
        touched = self.moves_by() == "fault" and self.direction == "d2h"
        # Times are those of one copy of a batch, so that the calls are, too.
        return self.copies() * self.ways() if self.call == "async" and not touched else 0

    def directions(self) -> tuple[Direction, ...]:
        """Return the directions that are copied at once."""
        return ("h2d", "d2h") if self.direction == "bidirectional" else (self.direction,)

    def played(self) -> tuple[tuple[Direction, int], ...]:
        """Return each direction that carries bytes, and how many its copies do: those measured, then the one that keeps busy."""
        measured = tuple((way, self.size) for way in self.directions())
        if self.opposite is None:
            return measured
        return (*measured, ("d2h" if self.direction == "h2d" else "h2d", 2 * self.size))

    def copies(self) -> int:
        """Return the calls that copy the bytes of one direction once."""
        return -(-self.size // (self.chunk or self.size))

    def moves_by(self) -> Migration | None:
        """Return how pages migrate; None for memory that does not."""
        return (self.migration or "prefetch") if kind_of(self.buffer).migrates else None

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        ways = " and ".join({"h2d": "host to device", "d2h": "device to host"}[way] for way in self.directions())
        cut = (
            "in one copy" if self.chunk in (None, self.size) else f"in {self.copies():,} copies of up to {told_size(self.chunk)}"
        )
        streams = counted(self.streams, "stream")
        pages = f" with {self.pages} pages" if self.pages != "normal" else ""
        a_mover = {"engine": "an engine", "kernel": "a kernel"}[self.mover]
        how = {"fault": "letting pages fault", "prefetch": "by prefetch calls", None: f"by {self.call} calls of {a_mover}"}
        verb = "move" if self.moves_by() else "copy"
        together = ", which hand over all that a stream has" if self.submit == "batch" else ""
        return (
            f"{verb} {told_size(self.size)} from {ways} {cut} {how[self.moves_by()]} on {streams}{together}{self._repeats()}; "
            f"the host buffer is {self.buffer}{pages}"
        )

    def _repeats(self) -> str:
        """Say how often a sample copies, and what is done beside it."""
        count = {1: "", None: ", as often as takes two milliseconds"}.get(self.batch_n(), f", {self.batch_n()} times")
        first = f", after {self.lead_in:,} more that are not timed" if self.lead_in else ""
        held = ", held back until all is queued" if self.gated else ""
        beside = f", while copies of {told_size(2 * self.size)} keep the other direction busy" if self.opposite else ""
        return count + first + held + beside

    def plan(self) -> Plan:
        """Write the copies of each direction between two timed events; raises CaseFailed where a batch is not counted yet."""
        batch = self.batch_n()
        if batch is None:
            raise CaseFailed("how many copies take two milliseconds is not known yet")
        return write_transfer(self, batch)

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return wall, event and processor time, how long calls held the host and left it free, and each direction's interval.

        `event_ms` is the common interval of all directions, `call_us` the mean of one copy call, `host_free_ms` the wall time
        without that of the calls (all of it where they come before it, behind a gate). Of a batch each time is one copy's: the
        whole batch's over its copies.
        """
        ways, batch = self.directions(), self.batch_n() or 1
        own = {way: event_ms(plan, trace, f"{way} start", f"{way} stop") for way in ways}
        common = [event_ms(plan, trace, f"{ways[0]} start", f"{way} stop") for way in ways]
        wall, held = host_ms(plan, trace, "begin", "end"), host_ms(plan, trace, "call_begin", "call_end")
        figures = {
            "wall_ms": wall,
            "event_ms": None if None in common else max(time for time in common if time is not None),
            "call_us": None if held is None else held * 1e3 / (self.copies() * len(self.played())),
            "cpu_ms": cpu_ms(plan, trace, "begin", "end"),
            "host_free_ms": None if wall is None or held is None else wall if self.gated else wall - held,
        }
        figures |= {f"{way}_event_ms": time for way, time in own.items()} if len(ways) > 1 else {}
        return {name: value / batch for name, value in timed(figures).items()}
