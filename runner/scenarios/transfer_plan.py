"""The Plan of a transfer: the copies, or the migrations, of each direction between two timed events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.memory import kind_of
from runner.plan import (
    Batch,
    Copy,
    Direction,
    Drain,
    Gate,
    GroupEnd,
    HostAccess,
    HostWait,
    KernelAccess,
    KernelCopy,
    Operation,
    Plan,
    Prefetch,
    Release,
    StreamWait,
)
from runner.scenarios.builder import PlanWriter, chunks_of

if TYPE_CHECKING:
    from runner.scenarios.transfer import Transfer


def write_transfer(transfer: Transfer, batch: int) -> Plan:
    """Write the Plan of a transfer whose samples copy the same bytes `batch` times."""
    writer = PlanWriter()
    way_of = _Migration if kind_of(transfer.buffer).migrates else _Way
    ways = [way_of(writer, transfer, direction, size) for direction, size in transfer.played()]
    if transfer.lead_in:
        for way in ways:
            for _ in range(transfer.lead_in):
                way.copies()
        writer.lane.extend(Drain(stream) for way in ways for stream in way.streams)
    if transfer.gated:
        writer.lane.append(Gate(ways[0].streams[0], 0))
    else:
        writer.mark("begin", cpu=True)
    for way in ways:
        way.start(ways[0])
    writer.mark("call_begin")
    for way in ways:
        for _ in range(batch):
            way.copies()
    writer.mark("call_end")
    for way in ways:
        way.stop()
    if transfer.gated:
        writer.mark("begin", cpu=True)
        writer.lane.append(Release(0))
    measured = len(transfer.directions())
    writer.lane.extend(HostWait(way.stopped) for way in ways[:measured])
    writer.mark("end", cpu=True)
    if ways[measured:]:
        writer.lane.extend(HostWait(way.stopped) for way in ways[measured:])
        writer.mark("all done")
    return replace(writer.plan(), gates=int(transfer.gated))


class _Way:
    """One direction of a transfer: its buffers, its streams and its two timed events."""

    def __init__(self, writer: PlanWriter, transfer: Transfer, direction: Direction, size: int) -> None:
        self.writer, self.transfer, self.direction, self.size = writer, transfer, direction, size
        self.streams = [writer.stream(f"{direction} {index}") for index in range(transfer.streams)]
        self.src, self.dst = self.buffers()
        self.started = self.stopped = -1

    def buffers(self) -> tuple[int, int]:
        """Add the buffers, the data in the one and poison in the other; return source and destination."""
        transfer, writer = self.transfer, self.writer
        host = writer.buffer(f"{self.direction} host", transfer.buffer, self.size, pages=transfer.pages)
        device = writer.device_buffer(f"{self.direction} device", self.size)
        src, dst = (host, device) if self.direction == "h2d" else (device, host)
        writer.data(src)
        writer.poison(dst)
        writer.expect(dst, self.size)
        return src, dst

    def start(self, first: _Way) -> None:
        """Record the start; every other stream waits for it, and a second direction for the start of the first."""
        if first is not self:
            self.writer.lane.append(StreamWait(self.streams[0], first.started))
        self.started = self.writer.record(self.streams[0], f"{self.direction} start", timed=True)
        self.writer.lane.extend(StreamWait(stream, self.started) for stream in self.streams[1:])

    def copies(self) -> None:
        """Issue the copies once, chunk after chunk, the streams taking turns; where the bytes are doubled, so are the chunks."""
        whole = self.transfer.size
        chunks = chunks_of(self.size, (self.transfer.chunk or whole) * self.size // whole)
        if self.transfer.submit == "batch":
            self.copies_in_batches(chunks)
            return
        for index, (offset, size) in enumerate(chunks):
            self.writer.lane.extend(self.copy(self.streams[index % len(self.streams)], offset, size))

    def copies_in_batches(self, chunks: list[tuple[int, int]]) -> None:
        """Issue the copies once, those of each stream by one call."""
        for number, stream in enumerate(self.streams[: len(chunks)]):
            self.writer.lane.append(Batch(stream))
            for offset, size in chunks[number :: len(self.streams)]:
                self.writer.lane.extend(self.copy(stream, offset, size))
            self.writer.lane.append(GroupEnd())

    def copy(self, stream: int, offset: int, size: int) -> tuple[Operation, ...]:
        """Return what copies one chunk; a kernel's copy has no call that waits, so that a wait follows it."""
        blocking = self.transfer.call == "sync"
        if self.transfer.mover == "engine":
            return (Copy(stream, self.direction, self.dst, offset, self.src, offset, size, blocking),)
        copy = KernelCopy(stream, self.dst, offset, self.src, offset, size)
        return (copy, Drain(stream)) if blocking else (copy,)

    def stop(self) -> None:
        """Join the other streams into the first and record the stop there."""
        for index, stream in enumerate(self.streams[1:], 1):
            done = self.writer.record(stream, f"{self.direction} done {index}")
            self.writer.lane.append(StreamWait(self.streams[0], done))
        self.stopped = self.writer.record(self.streams[0], f"{self.direction} stop", timed=True)


class _Migration(_Way):
    """One direction of pages that move: there is one buffer, which lies on the other side before each play."""

    def buffers(self) -> tuple[int, int]:
        """Add the buffer; filling it leaves it with the host, so what shall come back is first sent to the device."""
        buffer = self.writer.buffer(f"{self.direction} data", self.transfer.buffer, self.size, pages=self.transfer.pages)
        self.writer.data(buffer)
        if self.direction == "d2h":
            self.writer.prepare.append(Prefetch(self.streams[0], buffer, 0, self.size, "device"))
        self.writer.expect(buffer, self.size)
        return buffer, buffer

    def copy(self, stream: int, offset: int, size: int) -> tuple[Operation, ...]:
        """Return what moves one chunk: a prefetch, or whoever touches it."""
        upload = self.direction == "h2d"
        if self.transfer.moves_by() == "fault" and not upload:
            return (HostAccess(self.dst, offset, size, "read"),)
        move: Operation = (
            KernelAccess(stream, self.dst, offset, size, "read")
            if self.transfer.moves_by() == "fault"
            else Prefetch(stream, self.dst, offset, size, "device" if upload else "host")
        )
        return (move, Drain(stream)) if self.transfer.call == "sync" else (move,)
