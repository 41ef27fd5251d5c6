"""`kind: allocation` asks what memory costs before anything is copied: to allocate, touch, register and free it, and in pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import DEVICE, KINDS, BufferKind, Pages, kind_of
from runner.pattern import FLAT, WORD
from runner.plan import Alloc, Demand, Drain, Free, HostAccess, KernelAccess, Plan, PoolAlloc, PoolFree, Register, Unregister
from runner.scenarios.base import Cell, Known, Scenario, Size, field_error, host_ms, timed
from runner.scenarios.builder import ORDINARY, PlanWriter, check_pages
from runner.scenarios.transfer import Transfer
from runner.units import format_size, told_size

PAGE_BYTES: Final = 4096
_PAGE_LOCKED: Final = ", ".join(row.name for row in KINDS.values() if row.page_locked)
_BY_DRIVER: Final = ", ".join(row.name for row in KINDS.values() if row.page_locked and not row.registers)
BEYOND_BYTES: Final = 16 << 40
"""No host has as much, so a driver that is asked for it refuses; a little less than a host has might be given, and hurt it."""
WITNESS_BYTES: Final = 1 << 20
"""Bytes at either end of the memory that are copied out, untimed, before it is freed: what is freed cannot be verified."""


class Allocation(Scenario):
    """One stretch of memory that is allocated, touched for the first time, registered where its kind asks for it, and freed."""

    RATED: ClassVar[bool] = False

    kind: Literal["allocation"] = Field(description="Allocating, first touch, registering and freeing, each step by itself.")
    where: Literal["host", "device"] = Field("host", description="Host memory of a kind, or memory of the device.")
    buffer: BufferKind | None = Field(None, description="The kind of host memory, pinned where omitted; none on the device.")
    pages: Pages = Field("normal", description="Size of the pages of the host memory: normal or huge.")
    allocator: Literal["driver", "pool"] = Field(
        "driver", description="Of the device's memory: the driver's plain calls, or its pool, in the order of a stream."
    )
    size: Size = Field(description="Bytes of the memory; a multiple of 4.")
    memlock_limit: Size | None = Field(
        None,
        description="The most memory that the process may lock meanwhile (RLIMIT_MEMLOCK); as it is where omitted.",
        json_schema_extra={"unit": "bytes"},
    )
    beyond_memory: bool = Field(
        False, description="Ask for it although no machine has as much (16 TiB or more), to see how the request is refused."
    )

    payback: bool = Field(
        False,
        description="Measure copies to the device from such memory and from pageable memory, too, and tell after how many of "
        "them page-locking has paid.",
    )

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
            if self.allocator == "pool":
                raise field_error("allocator", "the pool has memory of the device alone", "driver, or where: device")
        if self.memlock_limit is not None and not self._page_locked():
            raise field_error("memlock_limit", "only memory that is page-locked counts against the limit", _PAGE_LOCKED)
        if self.payback and (not self._page_locked() or self.memlock_limit is not None or self.beyond_memory):
            raise field_error("payback", "only page-locked memory that is there can pay", f"false, or buffer: {_PAGE_LOCKED}")
        if self.beyond_memory:
            self._check_beyond()
        return self

    def companions(self) -> dict[str, Scenario]:
        """Return what tells whether page-locking pays: copies from both kinds of memory, and what pageable memory costs."""
        if not self.payback:
            return {}
        kind: BufferKind = self.host_kind()
        copies = {
            name: Transfer(kind="transfer", direction="h2d", buffer=buffer, size=self.size, pages=pages)
            for name, buffer, pages in (("copy_locked", kind, self.pages), ("copy_pageable", ORDINARY, "normal"))
        }
        return {**copies, "memory_pageable": Allocation(kind="allocation", buffer=ORDINARY, size=self.size)}

    def derived(self, known: Known, median_ms: float, figures_ms: Mapping[str, float]) -> dict[str, float]:
        """Return `copies_to_pay`: the cost beyond that of pageable memory over what a copy saves, if it saves anything."""
        if not {"copy_locked", "copy_pageable", "memory_pageable"} <= known.times_ms.keys():
            return {}
        cost = median_ms - known.times_ms["memory_pageable"]
        saved = known.times_ms["copy_pageable"] - known.times_ms["copy_locked"]
        return {"copies_to_pay": max(0.0, cost / saved)} if saved > 0 else {}

    def _check_beyond(self) -> None:
        """Refuse, at the field, requests that might be granted: in part, or in promises that end the process when kept."""
        if self.size < BEYOND_BYTES:
            allowed = f"a size of {format_size(BEYOND_BYTES)} or more"
            raise field_error("beyond_memory", f"a machine may have {format_size(self.size)}", allowed)
        if self.where == "host" and (self.registers() or not self._page_locked()):
            raise field_error("beyond_memory", f"the system may promise {self.buffer} memory that it does not have", _BY_DRIVER)

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

    def memlock_bytes(self) -> int | None:
        """Return the bytes that the process may lock."""
        return self.memlock_limit

    def demand(self) -> Demand:
        """Return what is held at once; memory beyond that of any machine is asked for and never held."""
        return Demand(0, 0, 0) if self.beyond_memory else self.plan().demand()

    def _page_locked(self) -> bool:
        return self.where == "host" and kind_of(self.host_kind()).page_locked

    def payload_bytes(self) -> int:
        """Return the bytes of the memory."""
        return self.size

    def ways(self) -> int:
        """Return 0: nothing crosses the link."""
        return 0

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        limited = "" if self.memlock_limit is None else f", while the process may lock {told_size(self.memlock_limit)}"
        if self.beyond_memory:
            memory = "memory of the device" if self.where == "device" else f"{self.host_kind()} memory"
            return f"ask for {told_size(self.size)} of {memory}, more than any machine has, which must be refused{limited}"
        if self.where == "device":
            pool = " from the driver's pool" if self.allocator == "pool" else ""
            return f"allocate {told_size(self.size)} of memory of the device{pool} and free them"
        memory = f"{self.host_kind()} memory" + (" with huge pages" if self.pages == "huge" else "")
        register = ", page-lock them where they lie and undo that" if self.registers() else ""
        return (
            f"allocate {told_size(self.size)} of {memory}, write every word for the first time{register}, and free them{limited}"
        )

    def plan(self) -> Plan:
        """Write the steps, each between two marks; what is written is counted and, for verification, copied out in between."""
        writer = PlanWriter()
        memory = DEVICE if self.where == "device" else ORDINARY if self.registers() else self.host_kind()
        buffer = writer.buffer("memory", memory, self.size, allocate=False, pages=self.pages)
        steps = _Steps(writer, buffer, self.size)
        stream = writer.stream("stream") if self.where == "device" else -1
        pooled = self.allocator == "pool"
        writer.mark("begin", memory=self.where == "host")
        writer.lane.append(PoolAlloc(stream, buffer) if pooled else Alloc(buffer))
        writer.mark("allocated")
        if self.where == "device":
            steps.write_by_kernel(stream)
        else:
            writer.lane.append(HostAccess(buffer, 0, self.size, "write", 1, FLAT))
            writer.mark("touched")
            if self.registers():
                writer.lane.append(Register(buffer))
                writer.mark("registered")
            writer.mark("counted", memory=True)
            if self.registers():
                writer.lane.append(Unregister(buffer))
                writer.mark("unregistered")
            steps.copy_out_by_host()
        writer.mark("used")
        writer.lane.append(PoolFree(stream, buffer) if pooled else Free(buffer))
        writer.mark("end")
        return replace(writer.plan(), memlock_bytes=self.memlock_limit)

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return the time of each step, and of all of them as `wall_ms`: what verification takes in between is left out.

        `resident_bytes` and `locked_bytes` are by how much the system's counts of the process have grown meanwhile.
        """
        steps = {"allocate_ms": ("begin", "allocated"), "free_ms": ("used", "end")}
        if self.where == "host":
            steps["touch_ms"] = ("allocated", "touched")
        if self.registers():
            steps |= {"register_ms": ("touched", "registered"), "unregister_ms": ("counted", "unregistered")}
        figures = timed({name: host_ms(plan, trace, *marks) for name, marks in steps.items()})
        whole = {"wall_ms": sum(figures.values())} if len(figures) == len(steps) else {}
        return whole | figures | _growth(plan, trace)


def _growth(plan: Plan, trace: Trace) -> dict[str, float]:
    """Return by how much resident and locked memory grew from the first mark to `counted`, in bytes; nothing where not told."""
    if not trace.memory_bytes or "counted" not in plan.marks:
        return {}
    before, after = (trace.memory_bytes[plan.marks.index(mark)] for mark in ("begin", "counted"))
    if before is None or after is None:
        return {}
    return {"resident_bytes": float(after[0] - before[0]), "locked_bytes": float(after[1] - before[1])}


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

    def write_by_kernel(self, stream: int) -> None:
        """Write the device's memory by a kernel and copy both ends out."""
        self.writer.lane.append(KernelAccess(stream, self.buffer, 0, self.size, "write", FLAT))
        for source, offset, length in self.pieces:
            self.writer.copy(stream, "d2h", (self.witness, offset), (self.buffer, source), length)
        self.writer.lane.append(Drain(stream))

    def copy_out_by_host(self) -> None:
        """Copy both ends out."""
        for source, offset, length in self.pieces:
            self.writer.host_copy((self.witness, offset), (self.buffer, source), length)
