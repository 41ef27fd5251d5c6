"""`kind: hazard` asks what goes wrong, safely: a mistake with host memory is made on purpose, and what it spoils is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import KINDS, BufferKind, kind_of
from runner.pattern import FLAT, WORD
from runner.plan import (
    Alloc,
    Busy,
    Drain,
    Fill,
    Free,
    Gate,
    HostAccess,
    HostWait,
    KernelAccess,
    Plan,
    Release,
    StreamWait,
)
from runner.scenarios.base import Scenario, Size, field_error, host_ms
from runner.scenarios.builder import DATA_SALT, ORDINARY, PlanWriter
from runner.units import format_size, told_size

REFILL_SALT: Final = FLAT + 1
"""What the host writes over data that are still needed."""

Fault = Literal["refill_early", "read_early", "free_in_flight", "pageable_pointer", "no_event", "with_event"]


class Hazard(Scenario):
    """One mistake, its damage counted in bytes.

    Where copy engines use the buffer in place, a gate holds the stream until the mistake is made, so that it always shows. Where
    they cannot, the copy call itself holds the host, and a gate that the same thread opens would never open: there the stream is
    kept busy for a while instead, and the same calls are legal.
    """

    RATED: ClassVar[bool] = False
    ISOLATED: ClassVar[bool] = True
    TOLERATES: ClassVar[bool] = True

    kind: Literal["hazard"] = Field(description="A mistake with host memory, made on purpose; what it spoils is counted.")
    fault: Fault = Field(
        description="refill_early: the host writes the source of a copy before it was read. read_early: the host reads the "
        "destination before the copy arrived. free_in_flight: the source is freed while its copy waits. pageable_pointer: a "
        "kernel is given memory that it may not use. no_event: a second stream downloads what the first has yet to upload. "
        "with_event: the same, but the second waits for an event of the first, which is no mistake."
    )
    buffer: BufferKind = Field("pinned", description="The kind of the host buffer that the mistake is made with.")
    size: Size = Field(
        2**20, description="Bytes of the one copy or access; a multiple of 4.", json_schema_extra={"unit": "bytes"}
    )
    busy_ms: float = Field(
        20.0,
        ge=0.1,
        le=1000,
        description="Earlier work in the stream, in ms, wherever no gate can hold it; of no_event how long one holds it.",
        json_schema_extra={"unit": "ms"},
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        kind = kind_of(self.buffer)
        if self.size % WORD:
            raise field_error("size", f"the host and kernels write whole words, not {format_size(self.size)}", "a multiple of 4")
        if self.fault == "pageable_pointer" and kind.kernel_access:
            allowed = ", ".join(row.name for row in KINDS.values() if not row.kernel_access)
            raise field_error("buffer", f"a kernel may use {self.buffer} memory, so {self.fault} does nothing wrong", allowed)
        if kind.migrates:
            allowed = ", ".join(row.name for row in KINDS.values() if not row.migrates)
            raise field_error("buffer", f"{self.buffer} memory has no copy that {self.fault} could spoil", allowed)
        return self

    def payload_bytes(self) -> int:
        """Return the bytes of the one copy or access."""
        return self.size

    def describe(self) -> str:
        """Say in one sentence which mistake is made."""
        size = told_size(self.size)
        what = {
            "refill_early": f"copy {size} to the device and write over their source before it was read",
            "read_early": f"copy {size} from the device and read their destination before they arrived",
            "free_in_flight": f"copy {size} to the device behind {self.busy_ms:g} ms of work and free their source at once",
            "pageable_pointer": f"let a kernel increment {size} of host memory that it may not use",
            "no_event": f"upload {size} in one stream and download them in another that does not wait for it",
            "with_event": f"upload {size} in one stream and download them in another that waits for an event of it",
        }[self.fault]
        return f"{what}; the host buffer is {self.buffer}, and the bytes that are wrong are counted"

    def plan(self) -> Plan:
        """Write the mistake; what it races for, or faults on, is declared."""
        writers: dict[Fault, Callable[[Hazard], Plan]] = {
            "refill_early": _refill_early,
            "read_early": _read_early,
            "free_in_flight": _free_in_flight,
            "pageable_pointer": _pageable_pointer,
            "no_event": _no_event,
            "with_event": _with_event,
        }
        return writers[self.fault](self)

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `wall_ms`, `call_us` of the copy call and `free_ms`, where there are any; `faulted` is 0: nothing broke."""
        held = host_ms(plan, trace, "call_begin", "call_end") if "call_begin" in plan.marks else None
        figures = {
            "wall_ms": host_ms(plan, trace, "begin", "end"),
            "call_us": None if held is None else held * 1e3,
            "free_ms": host_ms(plan, trace, "free_begin", "free_end") if "free_begin" in plan.marks else None,
            "faulted": 0.0 if plan.faults_wanted else None,
        }
        return {name: value for name, value in figures.items() if value is not None}


class _Holding:
    """A writer whose one stream is held while the mistake is made: by a gate where no call waits for it, else by work."""

    def __init__(self, hazard: Hazard, *, gate: bool) -> None:
        self.writer = PlanWriter()
        self.stream = self.writer.stream("stream")
        self.gated = gate and kind_of(hazard.buffer).asynchronous
        self._busy_ns = round(hazard.busy_ms * 1e6)

    def hold(self) -> None:
        """Begin the timing, and hold the stream."""
        self.writer.mark("begin")
        self.writer.lane.append(Gate(self.stream, 0) if self.gated else Busy(self.stream, self._busy_ns))

    def copy(self, direction: Literal["h2d", "d2h"], dst: int, src: int, size: int) -> None:
        """Copy a whole buffer, timing the call."""
        self.writer.mark("call_begin")
        self.writer.copy(self.stream, direction, (dst, 0), (src, 0), size)
        self.writer.mark("call_end")

    def wait(self) -> None:
        """Let the stream go on, if a gate holds it, and wait until all is done."""
        if self.gated:
            self.writer.lane.append(Release(0))
        self.writer.lane.append(HostWait(self.writer.record(self.stream, "done")))

    def pause(self) -> None:
        """Let the host wait while a gate holds the stream, for nothing that could stand behind the stream's work."""
        if self.gated:
            other = self.writer.stream("pause")
            self.writer.lane.append(Busy(other, self._busy_ns))
            self.writer.lane.append(HostWait(self.writer.record(other, "paused")))

    def plan(self, *raced: int) -> Plan:
        """End the timing; `raced` are buffers on which two race, wherever copies use them in place."""
        self.writer.mark("end")
        plan = self.writer.plan()
        in_place = {buffer for buffer, it in enumerate(plan.buffers) if it.on_device or kind_of(it.memory).asynchronous}
        return replace(plan, gates=int(self.gated), races_wanted=frozenset(in_place.intersection(raced)))


def _refill_early(hazard: Hazard) -> Plan:
    """The device should get the data, and gets what the host wrote over them."""
    holding = _Holding(hazard, gate=True)
    writer = holding.writer
    host, device = writer.buffer("host", hazard.buffer, hazard.size), writer.device_buffer("device", hazard.size)
    writer.data(host)
    writer.poison(device)
    writer.expect(device, hazard.size)
    holding.hold()
    holding.copy("h2d", device, host, hazard.size)
    writer.lane.append(HostAccess(host, 0, hazard.size, "write", salt=REFILL_SALT))
    holding.wait()
    return holding.plan(host)


def _read_early(hazard: Hazard) -> Plan:
    """The host should see the data in its buffer, and sees what lay there before."""
    holding = _Holding(hazard, gate=True)
    writer = holding.writer
    host, device = writer.buffer("host", hazard.buffer, hazard.size), writer.device_buffer("device", hazard.size)
    seen = writer.buffer("seen", ORDINARY, hazard.size)
    writer.data(device)
    writer.poison(host)
    writer.poison(seen)
    writer.expect(seen, hazard.size)
    holding.hold()
    holding.copy("d2h", host, device, hazard.size)
    writer.host_copy((seen, 0), (host, 0), hazard.size)
    holding.wait()
    return holding.plan(host)


def _free_in_flight(hazard: Hazard) -> Plan:
    """The device should get the data of memory that is freed, allocated anew and written over while the copy waits.

    Never a gate: freeing may wait for the device, and nobody would open it.
    """
    holding = _Holding(hazard, gate=False)
    writer = holding.writer
    host = writer.buffer("host", hazard.buffer, hazard.size, allocate=False)
    other = writer.buffer("other", hazard.buffer, hazard.size, allocate=False)
    device = writer.device_buffer("device", hazard.size)
    writer.prepare += [Alloc(host), Fill(host, 0, hazard.size, DATA_SALT)]
    writer.poison(device)
    writer.expect(device, hazard.size)
    holding.hold()
    holding.copy("h2d", device, host, hazard.size)
    writer.mark("free_begin")
    writer.lane.append(Free(host))
    writer.mark("free_end")
    # Whoever allocates next may get the same pages.
    writer.lane += [Alloc(other), HostAccess(other, 0, hazard.size, "write", salt=REFILL_SALT)]
    holding.wait()
    writer.lane.append(Free(other))
    return holding.plan(host)


def _pageable_pointer(hazard: Hazard) -> Plan:
    """A device that can read pageable memory adds 1 to each word; any other ends in an error that names itself."""
    writer = PlanWriter()
    stream = writer.stream("stream")
    host = writer.buffer("host", hazard.buffer, hazard.size)
    writer.data(host)
    writer.expect(host, hazard.size, added=1)
    writer.mark("begin")
    writer.lane.append(KernelAccess(stream, host, 0, hazard.size, "increment"))
    writer.lane.append(HostWait(writer.record(stream, "done")))
    writer.mark("end")
    return replace(writer.plan(), faults_wanted=frozenset({host}))


def _no_event(hazard: Hazard) -> Plan:
    """The second stream should bring back the data, and brings what lay on the device before: nothing tells it to wait."""
    return _two_streams(hazard, ordered=False)


def _with_event(hazard: Hazard) -> Plan:
    """The second stream waits for the upload of the first and brings back the data."""
    return _two_streams(hazard, ordered=True)


def _two_streams(hazard: Hazard, *, ordered: bool) -> Plan:
    """Upload in a stream that is held and download in another, with an event between them or without."""
    holding = _Holding(hazard, gate=True)
    writer = holding.writer
    host, device = writer.buffer("host", hazard.buffer, hazard.size), writer.device_buffer("device", hazard.size)
    seen = writer.buffer("seen", hazard.buffer, hazard.size)
    writer.data(host)
    writer.poison(device)
    writer.poison(seen)
    writer.expect(seen, hazard.size)
    holding.hold()
    holding.copy("h2d", device, host, hazard.size)
    second = writer.stream("second")
    if ordered:
        writer.lane.append(StreamWait(second, writer.record(holding.stream, "uploaded")))
    writer.copy(second, "d2h", (seen, 0), (device, 0), hazard.size)
    # Where one engine does all copies the download stands behind the upload, so it must not be waited for before the release.
    holding.pause()
    holding.wait()
    writer.lane.append(Drain(second))
    return holding.plan(*(() if ordered else (device,)))
