"""`kind: pipeline` asks how much of a round trip hides: upload, kernel and download of a large array, chunk by chunk."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import BufferKind
from runner.pattern import WORD
from runner.plan import Plan
from runner.scenarios.base import LARGEST_PLAN, Cell, Scenario, Size, Streams, StrictModel, field_error, host_ms
from runner.scenarios.pipeline_plan import write_pipeline
from runner.units import counted, format_size

LARGEST_PASSES = 10_000


class Compute(StrictModel):
    """How much the device computes on each chunk."""

    passes: int = Field(1, ge=1, le=LARGEST_PASSES, description="Passes of the increment kernel over each chunk, each adding 1.")


class Pipeline(Scenario):
    """A round trip of `total` bytes in chunks.

    `serialized` finishes each chunk before the next begins. `overlapped` lets the chunks take turns on a ring of slots, a stream
    each, so that one chunk's upload runs beside another's kernel and a third's download.
    """

    kind: Literal["pipeline"] = Field(description="Upload, kernel and download of a large array, chunk by chunk, by wall time.")
    buffer: BufferKind = Field(
        "pinned",
        description="What the copy engine is handed: the stagers with `staging: copy`, the data with `staging: direct`.",
    )
    schedule: Literal["serialized", "overlapped"] = Field(description="One chunk at a time, or a ring of slots.")
    staging: Literal["direct", "copy"] = Field(
        "direct",
        description="Direct: the data lie in `buffer`. Copy: they are pageable, and the host copies each chunk into a stager "
        "and its result out of it, inside the timing.",
    )
    total: Size = Field(description="Bytes of the input, and of the output; a multiple of 4.")
    chunk: Size = Field(description="Bytes of one chunk; a multiple of 4. The last chunk may be short.")
    streams: Streams = Field(1, description="Streams over which the slots take turns.")
    slots: int | None = Field(None, ge=1, le=4096, description="Slots of the ring; as many as streams where omitted.")
    issue: Literal["depth_first", "breadth_first"] = Field(
        "depth_first",
        description="Order of the calls: all three of a chunk and then the next chunk, or all uploads of a turn of the ring, "
        "then its kernels, then its downloads.",
    )
    allocate: Literal["once", "per_chunk"] = Field(
        "once",
        description="Per chunk: the device buffer of each chunk and the host buffer in which its result arrives are allocated "
        "and freed inside the timing.",
    )
    compute: Compute = Field(Compute(), description="The work on each chunk.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for field in ("total", "chunk"):
            if getattr(self, field) % WORD:
                raise field_error(field, f"{getattr(self, field):,} bytes are no multiple of the kernel's word, {WORD} bytes")
        if self.chunk > self.total:
            raise field_error(
                "chunk", f"a chunk of {format_size(self.chunk)} is larger than the total, {format_size(self.total)}"
            )
        if self.schedule == "serialized" and max(self.streams, self.slots or 1) > 1:
            field = "streams" if self.streams > 1 else "slots"
            raise field_error(field, "a serialized pipeline has one chunk under way at a time", "1, or schedule: overlapped")
        if self.slots is not None and self.slots < self.streams:
            raise field_error(
                "slots", f"{self.slots} slots leave some of {self.streams} streams without work", "as many as streams or more"
            )
        if self._chunks() * (12 + self.compute.passes) > LARGEST_PLAN * 2:
            raise field_error(
                "chunk", f"{self._chunks():,} chunks are too many for one sample", f"at most about {LARGEST_PLAN // 7:,}"
            )
        return self

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells; the work of each chunk stands in `compute_passes`."""
        cells = super().columns()
        del cells["compute"]
        return cells | {"slots": self.ring_slots(), "compute_passes": self.compute.passes}

    def payload_bytes(self) -> int:
        """Return the bytes of the input; the output's are not counted again."""
        return self.total

    def ring_slots(self) -> int:
        """Return how many chunks can be under way at once."""
        return self.slots or self.streams

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        chunks, slots = self._chunks(), self.ring_slots()
        how = (
            "one after another"
            if self.schedule == "serialized"
            else f"on a ring of {counted(slots, 'slot')} and {counted(self.streams, 'stream')}"
        )
        idle = f" ({counted(slots - chunks, 'slot')} stay idle)" if slots > chunks else ""
        data = "pageable and staged by host copies through" if self.staging == "copy" else "in"
        kept = ", allocating a device buffer and a landing buffer for each chunk" if self.allocate == "per_chunk" else ""
        return (
            f"take {self.total:,} bytes to the device and back in {counted(chunks, 'chunk')} of {self.chunk:,} bytes "
            f"{how}{idle}, adding {self.compute.passes} to each word; the data are {data} {self.buffer} memory{kept}"
        )

    def plan(self) -> Plan:
        """Write the ring."""
        return write_pipeline(self)

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `wall_ms`, from before the first operation until the last result lies in the output."""
        wall = host_ms(plan, trace, "begin", "end")
        return {} if wall is None else {"wall_ms": wall}

    def _chunks(self) -> int:
        return -(-self.total // self.chunk)
