"""The Plan of a pipeline: a ring of slots through which the chunks of an array take turns.

One slot has a device buffer and, where results do not land in the output at once, a host buffer: the stager through which
data go both ways (`staging: copy`), or the landing buffer of a loop that allocates per chunk. A chunk *enters* its slot
(buffers, refill), is *issued* (upload, kernel, download) and *retires* (wait, copy the result out, free). A serialized pipeline
retires each chunk before the next enters; an overlapped one retires a chunk when its slot is needed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.plan import Alloc, Drain, Free, HostWait, Launch, Plan
from runner.scenarios.builder import PlanWriter, chunks_of

if TYPE_CHECKING:
    from runner.scenarios.pipeline import Pipeline


def write_pipeline(pipeline: Pipeline) -> Plan:
    """Write the Plan of a pipeline."""
    ring = _Ring(pipeline)
    chunks = chunks_of(pipeline.total, pipeline.chunk)
    ring.writer.mark("begin")
    if pipeline.schedule == "serialized":
        for index in range(len(chunks)):
            ring.turn(chunks, [index])
            ring.retire(0)
    else:
        turn = ring.slots if pipeline.issue == "breadth_first" else 1
        for first in range(0, len(chunks), turn):
            ring.turn(chunks, list(range(first, min(first + turn, len(chunks)))))
        ring.drain()
    ring.writer.mark("end")
    return ring.writer.plan()


class _Ring:
    """The slots, what lies in them, and the operations that move a chunk through them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.writer = pipeline, PlanWriter()
        self.staged = pipeline.staging == "copy"
        self.per_chunk = pipeline.allocate == "per_chunk"
        self.host_waits = self.staged or self.per_chunk or pipeline.schedule == "serialized"
        self.slots = min(pipeline.ring_slots(), -(-pipeline.total // pipeline.chunk))
        self.in_slot: dict[int, tuple[int, int, int, int]] = {}
        memory = "pageable" if self.staged else pipeline.buffer
        self.input = self.writer.buffer("input", memory, pipeline.total)
        self.output = self.writer.buffer("output", memory, pipeline.total)
        self.writer.data(self.input)
        self.writer.poison(self.output)
        self.writer.expect(self.output, pipeline.total, added=pipeline.compute.passes)
        kept = not self.per_chunk
        self.devices = [self.writer.device_buffer(f"device {slot}", pipeline.chunk, allocate=kept) for slot in range(self.slots)]
        self.hosts = self._host_buffers(kept)
        self.streams = [self.writer.stream(f"stream {index}") for index in range(min(pipeline.streams, self.slots))]

    def _host_buffers(self, kept: bool) -> list[int]:
        if not (self.staged or self.per_chunk):
            return []
        name = "stager" if self.staged else "landing"
        hosts = [
            self.writer.buffer(f"{name} {i}", self.pipeline.buffer, self.pipeline.chunk, allocate=kept) for i in range(self.slots)
        ]
        if kept:
            for host in hosts:
                self.writer.poison(host)
        return hosts

    def turn(self, chunks: list[tuple[int, int]], indices: list[int]) -> None:
        """Let these chunks enter and issue them, all uploads first, then all kernels, then all downloads."""
        for index in indices:
            self.enter(index, *chunks[index])
            self.upload(index, *chunks[index])
        for index in indices:
            slot = index % self.slots
            passes = self.pipeline.compute.passes
            self.writer.lane.append(Launch(self.stream_of(slot), self.devices[slot], 0, chunks[index][1], passes))
        for index in indices:
            self.download(index, *chunks[index])

    def enter(self, index: int, offset: int, size: int) -> None:
        """Retire the chunk that was in the slot, then make the slot ready for this one."""
        slot = index % self.slots
        self.retire(slot)
        if self.per_chunk:
            self.writer.lane.append(Alloc(self.devices[slot]))
            self.writer.lane.append(Alloc(self.hosts[slot]))
        if self.staged:
            self.writer.host_copy((self.hosts[slot], 0), (self.input, offset), size)

    def upload(self, index: int, offset: int, size: int) -> None:
        """Issue the upload of a chunk, from its stager or from where its data lie."""
        slot = index % self.slots
        src = (self.hosts[slot], 0) if self.staged else (self.input, offset)
        self.writer.copy(self.stream_of(slot), "h2d", (self.devices[slot], 0), src, size)

    def download(self, index: int, offset: int, size: int) -> None:
        """Issue the download of a chunk, into the slot's host buffer or straight into the output."""
        slot = index % self.slots
        stream = self.stream_of(slot)
        dst = (self.hosts[slot], 0) if self.hosts else (self.output, offset)
        self.writer.copy(stream, "d2h", dst, (self.devices[slot], 0), size)
        if self.host_waits:
            done = self.writer.record(stream, f"chunk {index} done")
            self.in_slot[slot] = (index, done, offset, size)

    def retire(self, slot: int) -> None:
        """Wait for the chunk in a slot, copy its result out and free its buffers; nothing where the stream alone keeps order."""
        if slot not in self.in_slot:
            return
        _, done, offset, size = self.in_slot.pop(slot)
        self.writer.lane.append(HostWait(done))
        if self.hosts:
            self.writer.host_copy((self.output, offset), (self.hosts[slot], 0), size)
        if self.per_chunk:
            self.writer.lane.append(Free(self.devices[slot]))
            self.writer.lane.append(Free(self.hosts[slot]))

    def drain(self) -> None:
        """Retire what is left, the oldest chunk first, and wait for every stream."""
        for slot, _ in sorted(self.in_slot.items(), key=lambda item: item[1][0]):
            self.retire(slot)
        self.writer.lane.extend(Drain(stream) for stream in self.streams)

    def stream_of(self, slot: int) -> int:
        """Return the stream of a slot; a slot keeps its stream, so that its stream alone orders its reuse."""
        return self.streams[slot % len(self.streams)]
