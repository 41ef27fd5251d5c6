"""The Plan of a pipeline: a ring of slots through which the chunks of an array take turns.

One slot has a device buffer and, where results do not land in the output at once, a host buffer: the stager through which
data go both ways (`staging: copy`), or the landing buffer of a loop that allocates per chunk. A chunk *enters* its slot
(buffers, refill), is *issued* (upload, kernel, download) and *retires* (wait, copy the result out, free). A serialized pipeline
retires each chunk before the next enters; an overlapped one retires a chunk when its slot is needed again. What goes one way
only has one device array for all chunks, so that every result can be compared. Where the host stages on several lanes, slots and
chunks are dealt to them, and each lane does all of this for its own chunks, on streams of its own.

A graph holds all that is issued; its first stream is launched into, and the others branch off and are joined. In batches a turn
of the ring is a third of it, so that one third comes in while another is computed on and the last goes out, and each of the three
parts of a turn is one call (of kernels: one each) with one event behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from runner import operations as ops
from runner.plan import Plan
from runner.scenarios.pipeline_slots import Part, Slots, turn_of

if TYPE_CHECKING:
    from runner.scenarios.pipeline import Pipeline


@lru_cache(maxsize=2)
def write_pipeline(pipeline: Pipeline, passes: int) -> Plan:
    """Write the Plan of a pipeline whose kernel makes `passes` over each chunk; the last ones are kept, being asked for twice."""
    ring = _Ring(pipeline, passes)
    chunks = ring.chunks
    ring.writer.begin_lanes(ring.lanes)
    ring.register()
    if pipeline.schedule == "serialized":
        for index in range(len(chunks)):
            ring.turn([index])
            ring.retire(0)
    else:
        turn = turn_of(pipeline)
        ring.begin_graph()
        for first in range(0, len(chunks), turn):
            ring.turn(list(range(first, min(first + turn, len(chunks)))))
        ring.end_graph()
        ring.drain()
    ring.null_work.drain()
    ring.unregister()
    ring.writer.end_lanes()
    return replace(ring.writer.plan(), shares_copies=ring.staged and pipeline.staging_lanes * pipeline.staging_threads > 1)


class _Ring(Slots):
    """The slots, what lies in them, and the operations that move a chunk through them."""

    def __init__(self, pipeline: Pipeline, passes: int) -> None:
        super().__init__(pipeline, passes)
        self.captured, self.batched = pipeline.submit == "graph", pipeline.submit == "batch"
        self.host_waits = self.staged or self.per_chunk or pipeline.schedule == "serialized"
        self.in_slot: dict[int, tuple[int, int]] = {}
        # A stager that goes up only is free as soon as it is read, unless a chunk shall be through before the next one enters.
        staged_up = self.staged and pipeline.schedule == "overlapped" and pipeline.direction == "upload"
        self.last: Part = "upload" if staged_up else self.parts[-1]

    def register(self) -> None:
        """Page-lock the data where they lie, if they shall be."""
        if self.registered:
            self.writer.lane.extend(ops.Register(buffer) for buffer in self.data.values())
            self.writer.mark("registered")

    def unregister(self) -> None:
        """Undo `register`."""
        if self.registered:
            self.writer.mark("worked")
            self.writer.lane.extend(ops.Unregister(buffer) for buffer in self.data.values())

    def begin_graph(self) -> None:
        """Begin the graph, if there shall be one, and let its other streams branch off."""
        if self.captured:
            self.writer.lane.append(ops.Graph(self.streams[0]))
            if self.streams[1:]:
                begun = self.writer.record(self.streams[0], "begun")
                self.writer.lane.extend(ops.StreamWait(stream, begun) for stream in self.streams[1:])

    def end_graph(self) -> None:
        """Join the branches and end the graph."""
        if self.captured:
            for number, stream in enumerate(self.streams[1:], 1):
                self.writer.lane.append(ops.StreamWait(self.streams[0], self.writer.record(stream, f"stream {number} done")))
            self.writer.lane.append(ops.GroupEnd())

    def turn(self, indices: list[int]) -> None:
        """Let these chunks enter and issue them, each lane all uploads first, then all kernels, then all downloads."""
        if self.batched:
            self.turn_in_batches(indices)
            return
        if self.pipeline.direction == "download":
            # Kernels over what lies on the device already need no slot, so that none waits until one has been emptied.
            self.each(indices, self.begin, self.compute)
            self.each(indices, self.enter, self.download)
            return
        self.each(indices, self.begin, self.enter, self.upload)
        self.each(indices, self.compute)
        if "download" in self.parts:
            self.each(indices, self.download)

    def each(self, indices: list[int], *steps: Callable[[int], None]) -> None:
        """Take these steps with each chunk in turn, on the lane of its slot."""
        for index in indices:
            self.turn_to_slot(self.slot_of(index))
            for step in steps:
                step(index)

    def turn_in_batches(self, indices: list[int]) -> None:
        """Issue each part of these chunks behind one wait, uploads and downloads by one call each."""
        lane, slots = self.writer.lane, [self.slot_of(index) for index in indices]
        if self.pipeline.direction == "round_trip":
            left = {self.in_slot.pop(slot)[1] for slot in slots if slot in self.in_slot}
            lane.extend(ops.StreamWait(self.stream_of("upload", 0), event) for event in sorted(left))
        issue = {"upload": self._copy_in, "kernel": self._launch, "download": self._copy_out}
        for number, part in enumerate(self.parts):
            stream = self.stream_of(part, 0)
            if part != "kernel":
                lane.append(ops.Batch(stream))
            for index in indices:
                issue[part](index)
            if part != "kernel":
                lane.append(ops.GroupEnd())
            done = self.writer.record(stream, f"chunks {indices[0]} to {indices[-1]} {part}")
            if number + 1 < len(self.parts):
                lane.append(ops.StreamWait(self.stream_of(self.parts[number + 1], 0), done))
        self.in_slot.update((slot, (index, done)) for slot, index in zip(slots, indices, strict=True))

    def turn_to_slot(self, slot: int) -> None:
        """Write the lane of a slot from now on."""
        self.writer.turn_to(slot % self.lanes)

    def begin(self, index: int) -> None:
        """Issue what comes between this chunk and the one before."""
        if index:
            self.null_work.launch()

    def enter(self, index: int) -> None:
        """Retire the chunk that was in the slot, then make the slot ready for this one."""
        slot, (offset, size) = self.slot_of(index), self.chunks[index]
        if self.host_waits:
            self.retire(slot)
        elif slot in self.in_slot and self.pipeline.direction == "round_trip":
            self.writer.lane.append(ops.StreamWait(self.stream_of("upload", slot), self.in_slot.pop(slot)[1]))
        if self.per_chunk:
            self.writer.lane.append(ops.Alloc(self.devices[slot]))
            self.writer.lane.append(ops.Alloc(self.hosts[slot]))
        if self.pooled:
            self.writer.lane.append(ops.PoolAlloc(self.stream_of("upload", slot), self.devices[slot]))
        if self.staged and "upload" in self.parts:
            source = (self.data["upload"], offset)
            self.writer.host_copy((self.hosts[slot], 0), source, size, self.pipeline.staging_threads)

    def upload(self, index: int) -> None:
        """Issue the upload of a chunk, from its stager or from where its data lie."""
        self._copy_in(index)
        self._finish("upload", index)
        self._hand_over("upload", "kernel", index)

    def _copy_in(self, index: int) -> None:
        slot, (offset, size) = self.slot_of(index), self.chunks[index]
        src = (self.hosts[slot], 0) if self.staged else (self.data["upload"], offset)
        self.writer.copy(self.stream_of("upload", slot), "h2d", self.place(index), src, size)

    def compute(self, index: int) -> None:
        """Issue the kernel over a chunk's input and, where that is larger, over its output."""
        self._launch(index)
        if "download" in self.parts:
            self._hand_over("kernel", "download", index)
        self._finish("kernel", index)

    def _launch(self, index: int) -> None:
        slot, (_, size) = self.slot_of(index), self.chunks[index]
        if self.passes:
            length = max(size, self.output_of(size))
            self.writer.lane.append(ops.Launch(self.stream_of("kernel", slot), *self.place(index), length, self.passes))

    def download(self, index: int) -> None:
        """Issue the download of a chunk, into the slot's host buffer or straight into the output."""
        self._copy_out(index)
        if self.pooled:
            slot = self.slot_of(index)
            self.writer.lane.append(ops.PoolFree(self.stream_of("download", slot), self.devices[slot]))
        self._finish("download", index)

    def _copy_out(self, index: int) -> None:
        slot, (offset, size) = self.slot_of(index), self.chunks[index]
        dst = (self.hosts[slot], 0) if self.hosts else (self.data["download"], self.output_of(offset))
        self.writer.copy(self.stream_of("download", slot), "d2h", dst, self.place(index), self.output_of(size))

    def retire(self, slot: int) -> None:
        """Wait for the chunk in a slot, copy its result out and free its buffers."""
        if slot not in self.in_slot:
            return
        index, done = self.in_slot.pop(slot)
        offset, size = self.chunks[index]
        self.writer.lane.append(ops.HostWait(done))
        if self.hosts and "download" in self.parts:
            output = (self.data["download"], self.output_of(offset))
            self.writer.host_copy(output, (self.hosts[slot], 0), self.output_of(size), self.pipeline.staging_threads)
        if self.per_chunk:
            self.writer.lane.append(ops.Free(self.devices[slot]))
            self.writer.lane.append(ops.Free(self.hosts[slot]))

    def drain(self) -> None:
        """Retire what is left, the oldest chunk first, and wait for every stream."""
        if self.host_waits:
            for slot, _ in sorted(self.in_slot.items(), key=lambda item: item[1][0]):
                self.turn_to_slot(slot)
                self.retire(slot)
        # What a graph's branches do is done when the stream is that it was launched into.
        for number, stream in enumerate(self.streams[:1] if self.captured else self.streams):
            self.writer.turn_to(number % self.lanes)
            self.writer.lane.append(ops.Drain(stream))
        self.writer.turn_to(0)

    def _hand_over(self, part: Part, following: Part, index: int) -> None:
        """Let the stream of the next part wait for this one; within one stream that needs no event."""
        slot = self.slot_of(index)
        if self.pipeline.layout == "per_engine":
            event = self.writer.record(self.stream_of(part, slot), f"chunk {index} {part}")
            self.writer.lane.append(ops.StreamWait(self.stream_of(following, slot), event))

    def _finish(self, part: Part, index: int) -> None:
        """Record that a chunk needs its slot no longer, behind the last part that does, where anything waits for it."""
        if part == self.last and (self.host_waits or self.pipeline.layout == "per_engine"):
            slot = self.slot_of(index)
            self.in_slot[slot] = (index, self.writer.record(self.stream_of(part, slot), f"chunk {index} done"))
