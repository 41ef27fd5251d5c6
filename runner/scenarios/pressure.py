"""`kind: pressure` asks what pinning a large share of the machine's memory costs the host's other work."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from runner.device.contract import Trace
from runner.memory import KINDS, BufferKind, kind_of
from runner.pattern import FLAT, WORD
from runner.plan import Alloc, Demand, Free, HostAccess, Plan
from runner.scenarios.base import Known, Scenario, Size, field_error, host_ms
from runner.scenarios.builder import ORDINARY, PlanWriter
from runner.units import format_size, told_size

GIB: Final = 2**30
MOST_SHARE: Final = 0.25
"""The most of the host's memory that may be pinned: more may take the machine from everybody else on it."""
NOMINAL_HOST_BYTES: Final = 64 * GIB
"""The host memory that is assumed as long as the machine is not known: for a price or a description, never for a measurement."""
PAGE: Final = 4096


class Pressure(Scenario):
    """The same work of the host twice in one sample: alone, and beside a ballast of page-locked memory.

    The ballast is allocated between the two, so that each sample holds both and a drift of the machine shows in neither.
    """

    RATED: ClassVar[bool] = False
    ISOLATED: ClassVar[bool] = True

    kind: Literal["pressure"] = Field(description="Work of the host alone and beside a large page-locked ballast.")
    fraction: float = Field(
        gt=0, le=MOST_SHARE, description="Share of the host's available memory that is pinned as ballast, at most 0.25."
    )
    ballast_limit: Size = Field(
        16 * GIB,
        le=64 * GIB,
        description="The most that is pinned, whatever the fraction.",
        json_schema_extra={"unit": "bytes"},
    )
    buffer: BufferKind = Field("pinned", description="The kind of memory of the ballast; one that is page-locked.")
    size: Size = Field(
        256 * 2**20,
        le=GIB,
        description="Bytes that the host copies, and bytes of the fresh memory that it touches; a multiple of 4.",
        json_schema_extra={"unit": "bytes"},
    )
    _host_bytes: int | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _page_locked(self) -> Self:
        if not kind_of(self.buffer).page_locked:
            allowed = ", ".join(row.name for row in KINDS.values() if row.page_locked)
            raise field_error("buffer", f"{self.buffer} memory is not page-locked, so it presses on nobody", allowed)
        if self.size % WORD:
            raise field_error("size", f"the host writes whole words, not {format_size(self.size)}", "a multiple of 4")
        return self

    def resolved(self, known: Known) -> Self:
        """Return this case with the ballast that the host's memory gives."""
        mine = self.model_copy()
        mine._host_bytes = known.host_bytes
        return mine

    def ballast_bytes(self) -> int:
        """Return the bytes that are pinned, in whole pages; of a nominal host as long as the machine is not known."""
        host = NOMINAL_HOST_BYTES if self._host_bytes is None else self._host_bytes
        return max(PAGE, min(int(host * self.fraction), self.ballast_limit) // PAGE * PAGE)

    def demand(self) -> Demand:
        """Return what the case holds beside its ballast, as long as that is not known: a share of what is there always fits."""
        whole = self.plan().demand()
        return whole if self._host_bytes is not None else Demand(whole.pageable_bytes, 0, whole.device_bytes)

    def payload_bytes(self) -> int:
        """Return the bytes that the host copies, alone and beside the ballast."""
        return 2 * self.size

    def ways(self) -> int:
        """Return 0: nothing crosses the link."""
        return 0

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        return (
            f"copy {told_size(self.size)} on the host and touch as many fresh ones, then pin {self.fraction:g} of the available "
            f"host memory, at most {told_size(self.ballast_limit)}, as {self.buffer} ballast, and do the same again beside it"
        )

    def plan(self) -> Plan:
        """Write the work, the ballast, and the work again."""
        writer = PlanWriter()
        source, target = (writer.buffer(name, ORDINARY, self.size) for name in ("source", "target"))
        ballast = writer.buffer("ballast", self.buffer, self.ballast_bytes(), allocate=False)
        writer.data(source)
        writer.poison(target)
        writer.expect(target, self.size)
        writer.mark("begin")
        self._work(writer, "alone", source, target)
        writer.mark("pin_begin")
        writer.lane.append(Alloc(ballast))
        writer.mark("pin_end")
        self._work(writer, "pinned", source, target)
        writer.lane.append(Free(ballast))
        writer.mark("end")
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return the times of both works, what they grew by (`*_slowdown`), and the ballast: its time and its bytes."""
        parts = ("copy_alone", "touch_alone", "pin", "copy_pinned", "touch_pinned")
        times = {f"{part}_ms": host_ms(plan, trace, f"{part}_begin", f"{part}_end") for part in parts}
        figures = {"wall_ms": host_ms(plan, trace, "begin", "end")} | times | {"pinned_bytes": float(self.ballast_bytes())}
        for work in ("copy", "touch"):
            alone, beside = times[f"{work}_alone_ms"], times[f"{work}_pinned_ms"]
            figures[f"{work}_slowdown"] = beside / alone if alone and beside is not None else None
        return {name: value for name, value in figures.items() if value is not None}

    def _work(self, writer: PlanWriter, when: str, source: int, target: int) -> None:
        """Copy between touched buffers, then allocate fresh memory and touch it."""
        writer.mark(f"copy_{when}_begin")
        writer.host_copy((target, 0), (source, 0), self.size)
        writer.mark(f"copy_{when}_end")
        fresh = writer.buffer(f"fresh {when}", ORDINARY, self.size, allocate=False)
        writer.mark(f"touch_{when}_begin")
        writer.lane += [Alloc(fresh), HostAccess(fresh, 0, self.size, "write", salt=FLAT)]
        writer.mark(f"touch_{when}_end")
        writer.lane.append(Free(fresh))
