"""`kind: pipeline` asks how much of a round trip hides: upload, kernel and download of a large array, chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from runner.device.contract import Trace
from runner.errors import CaseFailed
from runner.memory import KINDS, BufferKind, Pages, kind_of
from runner.plan import Demand, Direction, Plan, StreamKind
from runner.scenarios.base import Cell, Known, Scenario, Size, Streams, StrictModel, field_error, host_ms, timed
from runner.scenarios.builder import ORDINARY, data_in, lanes_ms
from runner.scenarios.pipeline_checks import check_pipeline
from runner.scenarios.pipeline_legs import companions_of, derive, resolve
from runner.scenarios.pipeline_plan import write_pipeline
from runner.scenarios.pipeline_words import advise_pipeline, describe_pipeline

LARGEST_PASSES = 10_000
LARGEST_RATIO = 100.0
HANDED_OVER_US = 10.0
"""An operation whose leg takes less may be waiting for its call: launches take 4 to 7 us and copies 2 to 3 on an H200's host."""


def _null_stream(value: object) -> object:
    """Take YAML's null for the name of the null stream, which is what a file that says `null` means."""
    return "null" if value is None else value


class Compute(StrictModel):
    """How much the device computes on each chunk: passes of a kernel, or a time that the runner makes passes of."""

    passes: int | None = Field(
        None, ge=1, le=LARGEST_PASSES, description="Passes of the increment kernel over each chunk, each adding 1."
    )
    ratio: float | None = Field(
        None,
        ge=0,
        le=LARGEST_RATIO,
        allow_inf_nan=False,
        description="Instead of passes: time of the kernels as a multiple of the time of the copies of one direction.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.passes is not None and self.ratio is not None:
            raise field_error("ratio", "the work is a number of passes or a ratio, not both", "one of the two")
        if self.passes is None and self.ratio is None:
            raise field_error("passes", "the work is not said", "{passes: 1} or {ratio: 1.5}")
        return self


class Pipeline(Scenario):
    """`total` bytes in chunks to the device, through a kernel, and back.

    `serialized` finishes each chunk before the next begins. `overlapped` lets the chunks take turns on a ring of slots, so that
    one chunk's upload runs beside another's kernel and a third's download.
    """

    WORK: ClassVar[tuple[str, ...]] = ("total", "direction", "output_ratio", "compute", "buffer", "staging")

    kind: Literal["pipeline"] = Field(description="Upload, kernel and download of a large array, chunk by chunk, by wall time.")
    buffer: BufferKind = Field(
        "pinned",
        description="What the copy engine is handed: the stagers with `staging: copy`, the data with `staging: direct`; with "
        "`staging: register` always registered memory.",
    )
    schedule: Literal["serialized", "overlapped"] = Field(description="One chunk at a time, or a ring of slots.")
    staging: Literal["direct", "copy", "register"] = Field(
        "direct",
        description="Direct: the data lie in `buffer`. Copy: they are pageable, and the host copies each chunk into a stager "
        "and its result out of it, inside the timing. Register: they are pageable and page-locked in place, likewise inside it.",
    )
    total: Size = Field(description="Bytes of the input; a multiple of 4.")
    chunk: Size = Field(description="Bytes of one chunk of the input; a multiple of 4. The last chunk may be short.")
    streams: Streams = Field(1, description="Streams over which the slots take turns.")
    slots: int | None = Field(None, ge=1, le=4096, description="Slots of the ring; as many as streams where omitted.")
    layout: Literal["per_slot", "per_engine"] = Field(
        "per_slot",
        description="Per slot: a chunk does all on the stream of its slot. Per engine: all uploads share a stream, all kernels "
        "another and all downloads a third, with events between.",
    )
    issue: Literal["depth_first", "breadth_first"] = Field(
        "depth_first",
        description="Order of the calls: all three of a chunk and then the next chunk, or all uploads of a turn of the ring, "
        "then its kernels, then its downloads.",
    )
    submit: Literal["calls", "graph", "batch"] = Field(
        "calls",
        description="How the work is handed over: each operation by a call; all as one graph, captured before the timing (with "
        "`staging: register` inside it); or the uploads, and the downloads, of each turn (a third of the ring) by one call for a "
        "batch of copies.",
    )
    allocate: Literal["once", "per_chunk", "pool"] = Field(
        "once",
        description="Per chunk: the device buffer of each chunk and the host buffer in which its result arrives are allocated "
        "and freed inside the timing. Pool: the device buffer of each chunk is, from the driver's pool, in the order of its "
        "stream.",
    )
    compute: Compute = Field(Compute(passes=1), description="The work on each chunk.")
    staging_threads: int = Field(1, ge=1, le=256, description="Threads of the processor that share each copy of the host.")
    staging_lanes: int = Field(
        1,
        ge=1,
        le=256,
        description="Host lanes that stage side by side, each with slots and streams of its own: one copies while another waits.",
    )
    direction: Literal["round_trip", "upload", "download"] = Field(
        "round_trip",
        description="Upload: results stay on the device. Download: the input lies there from the beginning.",
    )
    output_ratio: float = Field(
        1.0, gt=0, le=16, allow_inf_nan=False, description="Bytes of the output as a multiple of those of the input."
    )
    stream_kind: Annotated[StreamKind, BeforeValidator(_null_stream)] = Field(
        "non_blocking",
        description="Blocking streams wait for the null stream, and it for them; null: all work goes to the null stream itself.",
    )
    null_stream_work: bool = Field(False, description="Launch a tiny kernel on the null stream between chunks.")
    pages: Pages = Field("normal", description="Size of the pages of the data in host memory: normal or huge.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_pipeline(self)
        return self

    def job(self) -> dict[str, Cell]:
        """Return bytes, direction and compute as asked for, and in what sort of memory the data lie."""
        asked = self.compute
        compute = f"passes {asked.passes}" if asked.ratio is None else f"ratio {asked.ratio:g}"
        memory: BufferKind = self.buffer if self.staging == "direct" else ORDINARY
        return {**super().job(), "compute": compute, "buffer": data_in(memory), "staging": None}

    def paid_once(self) -> tuple[str, ...]:
        """Return the making of a graph, unless it is made anew in each play."""
        return ("instantiate_ms",) if self.submit == "graph" and self.staging != "register" else ()

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells; the work of each chunk stands in `compute_passes` and `compute_ratio`."""
        cells = super().columns()
        del cells["compute"]
        return cells | {
            "buffer": self.handed(),
            "slots": self.ring_slots(),
            "compute_passes": self.compute.passes,
            "compute_ratio": self.compute.ratio,
        }

    def companions(self) -> Mapping[str, Scenario]:
        """Return the legs and the serialized twin."""
        return companions_of(self)

    def resolved(self, known: Known) -> Pipeline:
        """Return this case with its work as passes."""
        return resolve(self, known)

    def derived(self, known: Known, median_ms: float, figures_ms: Mapping[str, float]) -> dict[str, float]:
        """Return legs, bounds and how much was hidden."""
        return derive(self, known, median_ms, figures_ms)

    def is_work_alone(self, part: str, alone_ms: float) -> bool:
        """Whether each operation takes longer than its call, and no copy is one that the host makes half of."""
        operations = self.chunks() * ((self.compute.passes or 1) if part == "kernel" else 1)
        reached = part == "kernel" or kind_of(self.handed()).asynchronous
        return reached and alone_ms * 1e3 >= HANDED_OVER_US * operations

    def payload_bytes(self) -> int:
        """Return the bytes of the input; the output's are not counted again."""
        return self.total

    def link_bytes(self) -> dict[str, int]:
        """Return the bytes of the input that go up and those of the output that come down."""
        sizes = {"h2d": self.total, "d2h": int(self.output_of(self.total))}
        return {direction: sizes[direction] for direction in self.ways_used()}

    def ring_slots(self) -> int:
        """Return how many chunks can be under way at once."""
        return self.slots or self.streams

    def chunks(self) -> int:
        """Return the number of chunks."""
        return -(-self.total // self.chunk)

    def ways_used(self) -> tuple[Direction, ...]:
        """Return the directions of the link that chunks go."""
        return {"round_trip": ("h2d", "d2h"), "upload": ("h2d",), "download": ("d2h",)}[self.direction]  # type: ignore[return-value]

    def handed(self) -> str:
        """Return the name of the kind of memory that the copy engine is handed."""
        return next(name for name, kind in KINDS.items() if kind.registers) if self.staging == "register" else self.buffer

    def output_of(self, size: int) -> Fraction:
        """Return the bytes of the output of `size` bytes of input; the ratio is taken as written in decimal."""
        return Fraction(size) if self.output_ratio == 1 else size * Fraction(str(self.output_ratio))

    def advice(self) -> str:
        """Warn of memory under which the ring cannot overlap, of stagers that the processor reads slowly, and of uneven lanes."""
        return advise_pipeline(self)

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        return describe_pipeline(self)

    def plan(self) -> Plan:
        """Write the ring; raises CaseFailed where the work is still a ratio."""
        if self.compute.passes is None:
            raise CaseFailed(f"how many passes take {self.compute.ratio} times as long as the copies is not known yet")
        return write_pipeline(self, self.compute.passes)

    def demand(self) -> Demand:
        """Return the most memory that is held at once, which no number of passes changes."""
        return write_pipeline(self, 1).demand()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `wall_ms`, from before the first operation of any lane until the last result lies in the output.

        With `staging: register` also `register_ms` and `unregister_ms`, which are part of it; of a graph `instantiate_ms`, which
        is part of it only there, where the graph must be made anew behind each registration.
        """
        figures: dict[str, Any] = {"wall_ms": lanes_ms(plan, trace)}
        if self.staging == "register":
            figures["register_ms"] = host_ms(plan, trace, "begin", "registered")
            figures["unregister_ms"] = host_ms(plan, trace, "worked", "end")
        if trace.instantiate_ns is not None:
            figures["instantiate_ms"] = trace.instantiate_ns / 1e6
        return timed(figures)
