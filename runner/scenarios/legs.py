"""The legs of a pipeline, each measured alone: the host's copies, the uploads, the kernels and the downloads of all its chunks.

A leg goes through the same chunks, slots and buffers as the pipeline and hands its work over in the same way, but does only its
own part, so that what it takes is what the pipeline could not do faster by hiding anything. Legs are companions of pipelines and
no kind that a file can ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from runner.device.contract import Trace
from runner.memory import BufferKind, Pages
from runner.plan import Batch, Drain, Graph, GroupEnd, Launch, Plan
from runner.scenarios.base import Scenario, Size, event_ms
from runner.scenarios.builder import PlanWriter, chunks_of, lanes_ms
from runner.units import told_size

Part = Literal["host_in", "h2d", "kernel", "d2h", "host_out"]


class Leg(Scenario):
    """One part of a pipeline over all its chunks, on one stream or on the lanes that copy for it, timed as `leg_ms`."""

    kind: Literal["leg"] = Field("leg", description="A part of a pipeline, measured alone.")
    part: Part = Field(description="Host copies in, uploads, kernels, downloads, or host copies out.")
    buffer: BufferKind = Field(description="What the copy engine is handed.")
    pages: Pages = Field("normal", description="Pages of the data.")
    staged: bool = Field(description="Whether chunks go through one host buffer a slot instead of the data themselves.")
    total: Size = Field(description="Bytes of all chunks.")
    chunk: Size = Field(description="Bytes of one chunk.")
    slots: int = Field(ge=1, description="Buffers that the chunks take turns on.")
    passes: int = Field(1, ge=1, description="Passes of the kernel over each chunk.")
    threads: int = Field(1, ge=1, description="Threads of each host copy.")
    lanes: int = Field(1, ge=1, description="Host lanes that the chunks are dealt to, where the host copies.")
    captured: bool = Field(False, description="Whether the device's work is launched as one graph.")
    batch: int = Field(0, ge=0, description="Copies that one call hands over; 0 where each has a call of its own.")

    def own_time(self) -> str:
        """Return `leg_ms`, which is of the clock that fits the part."""
        return "leg_ms"

    def payload_bytes(self) -> int:
        """Return the bytes that this part moves or visits."""
        return self.total

    def describe(self) -> str:
        """Say what is measured."""
        return f"{self.part} of {told_size(self.total)} in chunks of {told_size(self.chunk)}, alone"

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `leg_ms`: by the host's clock for its copies, by events for the device's work.

        Of lanes with unequal numbers of chunks it is what all chunks would take at the rate of equal ones: while some lanes are
        without work the others copy faster, and a ring has them idle at other times than a leg.
        """
        host = self.part in ("host_in", "host_out")
        time = lanes_ms(plan, trace) if host else event_ms(plan, trace, "start", "stop")
        return {} if time is None else {"leg_ms": time * (self.total / self._moved() if host else 1)}

    def plan(self) -> Plan:
        """Write this part for chunk after chunk."""
        writer = PlanWriter()
        if self.part in ("host_in", "host_out"):
            self._host_copies(writer)
        else:
            self._device_work(writer)
        return writer.plan()

    def _host_copies(self, writer: PlanWriter) -> None:
        data = writer.buffer("data", "pageable", self.total)
        slots = [writer.buffer(f"stager {slot}", self.buffer, self.chunk) for slot in range(self._slots())]
        inward = self.part == "host_in"
        for buffer in [data] if inward else slots:
            writer.data(buffer)
        for buffer in slots if inward else [data]:
            writer.poison(buffer)
        lanes = min(self.lanes, len(slots))
        writer.begin_lanes(lanes)
        for slot, offset, size in self._turns():
            writer.turn_to(slot % lanes)
            here, there = (data, offset), (slots[slot], 0)
            writer.host_copy(*((there, here) if inward else (here, there)), size, self.threads)
        writer.end_lanes()
        if inward:
            self._expect_last(writer, slots)
        else:
            for _, offset, size in self._turns():
                writer.expect_range(data, offset, size)

    def _device_work(self, writer: PlanWriter) -> None:
        devices = [writer.device_buffer(f"device {slot}", self.chunk) for slot in range(self._slots())]
        stream = writer.stream("stream")
        hosts = self._hosts(writer) if self.part != "kernel" else []
        for buffer in hosts if self.part == "h2d" else devices:
            writer.data(buffer)
        for buffer in devices if self.part == "h2d" else hosts:
            writer.poison(buffer)
        writer.record(stream, "start", timed=True)
        if self.captured:
            writer.lane.append(Graph(stream))
        for number, (slot, offset, size) in enumerate(self._turns()):
            if self.batch and number % self.batch == 0:
                writer.lane += [GroupEnd(), Batch(stream)] if number else [Batch(stream)]
            host = ((hosts[slot], 0) if self.staged else (hosts[0], offset)) if hosts else (0, 0)
            if self.part == "kernel":
                writer.lane.append(Launch(stream, devices[slot], 0, size, self.passes))
            elif self.part == "h2d":
                writer.copy(stream, "h2d", (devices[slot], 0), host, size)
            else:
                writer.copy(stream, "d2h", host, (devices[slot], 0), size)
        if self.captured or self.batch:
            writer.lane.append(GroupEnd())
        writer.record(stream, "stop", timed=True)
        writer.lane.append(Drain(stream))
        self._expect_device_work(writer, devices, hosts)

    def _hosts(self, writer: PlanWriter) -> list[int]:
        if not self.staged:
            return [writer.buffer("data", self.buffer, self.total, pages=self.pages)]
        return [writer.buffer(f"stager {slot}", self.buffer, self.chunk) for slot in range(self._slots())]

    def _expect_device_work(self, writer: PlanWriter, devices: list[int], hosts: list[int]) -> None:
        if self.part == "h2d" and not self.staged:
            self._expect_last(writer, devices)
            return
        if self.part == "kernel":
            self._expect_passes(writer, devices)
            return
        places = devices if self.part == "h2d" else hosts
        landed = {
            ((places[slot], 0) if self.staged else (places[0], offset)): size for slot, offset, size in reversed([*self._turns()])
        }
        for (buffer, offset), size in landed.items():
            writer.expect_range(buffer, offset, size)

    def _expect_last(self, writer: PlanWriter, slots: list[int]) -> None:
        """Expect in each slot the last chunk that went through it."""
        last = {slot: (offset, size) for slot, offset, size in self._turns()}
        for slot, (offset, size) in last.items():
            writer.expect_range(slots[slot], 0, size, offset)

    def _expect_passes(self, writer: PlanWriter, devices: list[int]) -> None:
        """Expect in each slot one addition for each pass of each chunk; a short last chunk leaves the rest one chunk behind."""
        for slot, device in enumerate(devices):
            sizes = [size for turn, _, size in self._turns() if turn == slot]
            added = self.passes * len(sizes)
            writer.expect_range(device, 0, sizes[-1], added=added)
            if sizes[-1] < sizes[0]:
                writer.expect_range(device, sizes[-1], sizes[0] - sizes[-1], sizes[-1], added - self.passes)

    def _slots(self) -> int:
        return min(self.slots, len(self._chunks()))

    def _chunks(self) -> list[tuple[int, int]]:
        """Return (offset, size) of the chunks: of several lanes as many whole ones as can be dealt to them evenly."""
        chunks, whole = chunks_of(self.total, self.chunk), self.total // self.chunk
        return chunks if self.lanes == 1 or whole < self.lanes else chunks[: whole - whole % self.lanes]

    def _moved(self) -> int:
        return sum(size for _, size in self._chunks())

    def _turns(self) -> Iterator[tuple[int, int, int]]:
        """Yield (slot, offset, size) of every chunk."""
        chunks = self._chunks()
        slots = min(self.slots, len(chunks))
        for index, (offset, size) in enumerate(chunks):
            yield index % slots, offset, size
