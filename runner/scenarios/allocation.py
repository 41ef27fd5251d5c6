"""`kind: allocation` asks what memory costs before anything is copied: to allocate, touch, register and free it."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import DEVICE, BufferKind, Pages, kind_of
from runner.pattern import FLAT, WORD
from runner.plan import Alloc, Drain, Free, HostAccess, KernelAccess, Plan, Register, Unregister
from runner.scenarios.base import Cell, Scenario, Size, field_error, host_ms, timed
from runner.scenarios.builder import ORDINARY, PlanWriter, check_pages

PAGE_BYTES: Final = 4096
WITNESS_BYTES: Final = 1 << 20
"""Bytes at either end of the memory that are copied out, untimed, before it is freed: what is freed cannot be verified."""


class Allocation(Scenario):
    """One stretch of memory that is allocated, touched for the first time, registered where its kind asks for it, and freed."""

    RATED: ClassVar[bool] = False

    kind: Literal["allocation"] = Field(description="Allocating, first touch, registering and freeing, each step by itself.")
    where: Literal["host", "device"] = Field("host", description="Host memory of a kind, or memory of the device.")
    buffer: BufferKind | None = Field(None, description="The kind of host memory, pinned where omitted; none on the device.")
    pages: Pages = Field("normal", description="Size of the pages of the host memory: normal or huge.")
    size: Size = Field(description="Bytes of the memory; a multiple of 4.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size % WORD:
            raise field_error("size", f"{self.size:,} bytes are no multiple of the word that is written, {WORD} bytes")
        if self.where == "device":
            if self.buffer is not None:
                raise field_error("buffer", f"memory of the device is not {self.buffer}", "nothing, or where: host")
            if self.pages != "normal":
                raise field_error("pages", "the driver chooses the pages of the device's memory", "normal, or where: host")
        else:
            check_pages(self.host_kind(), self.pages)
        return self

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells, and how many pages of 4 KiB the size is."""
        buffer = self.host_kind() if self.where == "host" else None
        return super().columns() | {"buffer": buffer, "pages_count": -(-self.size // PAGE_BYTES)}

    def host_kind(self) -> BufferKind:
        """Return the kind of host memory."""
        return self.buffer or "pinned"

    def registers(self) -> bool:
        """Return whether ordinary memory is allocated first and page-locked then."""
        return self.where == "host" and kind_of(self.host_kind()).registers

    def payload_bytes(self) -> int:
        """Return the bytes of the memory."""
        return self.size

    def ways(self) -> int:
        """Return 0: nothing crosses the link."""
        return 0

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        if self.where == "device":
            return f"allocate {self.size:,} bytes of memory of the device and free them"
        memory = f"{self.host_kind()} memory" + (" with huge pages" if self.pages == "huge" else "")
        register = ", page-lock them where they lie and undo that" if self.registers() else ""
        return f"allocate {self.size:,} bytes of {memory}, write every word for the first time{register}, and free them"

    def plan(self) -> Plan:
        """Write the steps, each between two marks; what is written is copied out for verification between two of them."""
        writer = PlanWriter()
        memory = DEVICE if self.where == "device" else ORDINARY if self.registers() else self.host_kind()
        buffer = writer.buffer("memory", memory, self.size, allocate=False, pages=self.pages)
        steps = _Steps(writer, buffer, self.size)
        writer.mark("begin")
        writer.lane.append(Alloc(buffer))
        writer.mark("allocated")
        if self.where == "device":
            steps.write_by_kernel()
        else:
            writer.lane.append(HostAccess(buffer, 0, self.size, "write", 1, FLAT))
            writer.mark("touched")
            if self.registers():
                writer.lane.append(Register(buffer))
                writer.mark("registered")
                writer.lane.append(Unregister(buffer))
                writer.mark("unregistered")
            steps.copy_out_by_host()
        writer.mark("used")
        writer.lane.append(Free(buffer))
        writer.mark("end")
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return the time of each step, and of all of them as `wall_ms`: what verification takes in between is left out."""
        steps = {"allocate_ms": ("begin", "allocated"), "free_ms": ("used", "end")}
        if self.where == "host":
            steps["touch_ms"] = ("allocated", "touched")
        if self.registers():
            steps |= {"register_ms": ("touched", "registered"), "unregister_ms": ("registered", "unregistered")}
        figures = timed({name: host_ms(plan, trace, *marks) for name, marks in steps.items()})
        return {"wall_ms": sum(figures.values()), **figures} if len(figures) == len(steps) else figures


class _Steps:
    """What shows that the memory was there: both its ends are copied to a buffer that stays."""

    def __init__(self, writer: PlanWriter, buffer: int, size: int) -> None:
        self.writer, self.buffer, self.size = writer, buffer, size
        end = min(WITNESS_BYTES, size)
        self.pieces = [(0, 0, end)] if size <= end else [(0, 0, end), (size - end, end, end)]
        self.witness = writer.buffer("witness", ORDINARY, sum(length for _, _, length in self.pieces))
        writer.poison(self.witness)
        for _, offset, length in self.pieces:
            writer.expect_range(self.witness, offset, length, salt=FLAT)

    def write_by_kernel(self) -> None:
        """Write the device's memory by a kernel and copy both ends out."""
        stream = self.writer.stream("stream")
        self.writer.lane.append(KernelAccess(stream, self.buffer, 0, self.size, "write", FLAT))
        for source, offset, length in self.pieces:
            self.writer.copy(stream, "d2h", (self.witness, offset), (self.buffer, source), length)
        self.writer.lane.append(Drain(stream))

    def copy_out_by_host(self) -> None:
        """Copy both ends out."""
        for source, offset, length in self.pieces:
            self.writer.host_copy((self.witness, offset), (self.buffer, source), length)
