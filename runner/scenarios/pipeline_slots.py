"""What the ring of a pipeline stands on: the buffers of data and slots, the streams, and where each chunk lies.

One slot has a device buffer and, where results do not land in the output at once, a host buffer: the stager through which
data go both ways (`staging: copy`), or the landing buffer of a loop that allocates per chunk. What goes one way only has one
device array for all chunks, so that every result can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from runner.plan import Drain, Fill, Launch
from runner.scenarios.builder import ORDINARY, PlanWriter, chunks_of

if TYPE_CHECKING:
    from runner.scenarios.pipeline import Pipeline

Part = Literal["upload", "kernel", "download"]
BEYOND_SALT: Final = 3
"""Salt of what a device buffer holds behind its input where the output is larger."""
NULL_WORK_BYTES: Final = 256


class Slots:
    """The buffers and streams of a ring, written into the setup of a Plan, with what must lie where in the end."""

    def __init__(self, pipeline: Pipeline, passes: int) -> None:
        self.pipeline, self.passes, self.writer = pipeline, passes, PlanWriter()
        self.staged, self.registered = pipeline.staging == "copy", pipeline.staging == "register"
        self.per_chunk, self.pooled = pipeline.allocate == "per_chunk", pipeline.allocate == "pool"
        self.chunks = chunks_of(pipeline.total, pipeline.chunk)
        self.slots = min(pipeline.ring_slots(), len(self.chunks))
        self.lanes = min(pipeline.staging_lanes, self.slots)
        self.parts: list[Part] = ["kernel"]
        if pipeline.direction != "download":
            self.parts.insert(0, "upload")
        if pipeline.direction != "upload":
            self.parts.append("download")
        self.data = self._data_buffers()
        self.devices = self._device_buffers()
        self.hosts = self._host_buffers()
        self.streams = self._make_streams()
        self.null_work = NullWork(self.writer, launches=len(self.chunks) - 1 if pipeline.null_stream_work else 0)
        self._expect()

    def slot_of(self, index: int) -> int:
        """Return the slot of a chunk: chunks are dealt to the lanes, and those of a lane take turns on its slots."""
        lane, turn = index % self.lanes, index // self.lanes
        return lane + self.lanes * (turn % self._slots_of(lane))

    def _slots_of(self, lane: int) -> int:
        return -(-(self.slots - lane) // self.lanes)

    def place(self, index: int) -> tuple[int, int]:
        """Return where a chunk lies on the device.

        It ends where full chunks end, so that a short one, too, is followed by what no input has ever overwritten.
        """
        slot, (offset, size) = self.slot_of(index), self.chunks[index]
        if self.pipeline.direction != "round_trip":
            return self.devices[slot], offset
        return self.devices[slot], self.pipeline.chunk - size if self.output_of(size) > size else 0

    def output_of(self, size: int) -> int:
        """Return the bytes of output of so many bytes of input; the model has made sure that they are whole words."""
        return size if self.pipeline.output_ratio == 1 else int(self.pipeline.output_of(size))

    def stream_of(self, part: Part, slot: int) -> int:
        """Return the stream of a slot, which it keeps, so that its stream alone orders its reuse, or that of an engine."""
        if self.pipeline.layout == "per_engine":
            return self.streams[self.parts.index(part)]
        lane, turn = slot % self.lanes, slot // self.lanes
        own = self.streams[lane :: self.lanes]
        return own[turn % len(own)]

    def _data_buffers(self) -> dict[Part, int]:
        """Return the input, which is uploaded, and the output, which is downloaded."""
        pipeline, writer = self.pipeline, self.writer
        memory = ORDINARY if self.staged or self.registered else pipeline.buffer
        data: dict[Part, int] = {}
        if "upload" in self.parts:
            data["upload"] = writer.buffer("input", memory, pipeline.total, pages=pipeline.pages)
            writer.data(data["upload"])
        if "download" in self.parts:
            data["download"] = writer.buffer("output", memory, self.output_of(pipeline.total), pages=pipeline.pages)
            writer.poison(data["download"])
        return data

    def _device_buffers(self) -> list[int]:
        """Return a device buffer a slot, or one array for all where data go one way only."""
        pipeline, writer = self.pipeline, self.writer
        if pipeline.direction == "round_trip":
            size = max(pipeline.chunk, self.output_of(pipeline.chunk))
            kept = not (self.per_chunk or self.pooled)
            devices = [writer.device_buffer(f"device {slot}", size, allocate=kept) for slot in range(self.slots)]
            if size > pipeline.chunk:
                writer.prepare.extend(Fill(device, 0, size, BEYOND_SALT) for device in devices)
            return devices
        array = writer.device_buffer("device", pipeline.total)
        (writer.data if pipeline.direction == "download" else writer.poison)(array)
        return [array] * self.slots

    def _host_buffers(self) -> list[int]:
        """Return the stagers or the landing buffers, one a slot; none where the copy engine works on the data themselves."""
        if not (self.staged or self.per_chunk):
            return []
        name = "stager" if self.staged else "landing"
        size = max(self.pipeline.chunk, self.output_of(self.pipeline.chunk))
        memory, kept = ORDINARY if self.registered else self.pipeline.buffer, not self.per_chunk
        hosts = [self.writer.buffer(f"{name} {slot}", memory, size, allocate=kept) for slot in range(self.slots)]
        for host in hosts if kept else []:
            self.writer.poison(host)
        return hosts

    def _make_streams(self) -> list[int]:
        kind = self.pipeline.stream_kind
        if self.pipeline.layout == "per_engine":
            return [self.writer.stream(f"{part}s", kind) for part in self.parts]
        count = 1 if kind == "null" else min(self.pipeline.streams, self.slots)
        return [self.writer.stream(f"stream {index}", kind) for index in range(count)]

    def _expect(self) -> None:
        """Expect the result of every chunk where it shall end up."""
        pipeline, writer, passes = self.pipeline, self.writer, self.passes
        if "download" not in self.parts or pipeline.output_ratio == 1:
            writer.expect(self.data.get("download", self.devices[0]), pipeline.total, added=passes)
            return
        output = self.data["download"]
        for index, (offset, size) in enumerate(self.chunks):
            landed, length = self.output_of(offset), self.output_of(size)
            writer.expect_range(output, landed, min(size, length), offset, passes)
            if length > size:
                # What lies behind the input was added to by every chunk that has been in the slot.
                added = passes * (index // self.lanes // self._slots_of(index % self.lanes) + 1)
                writer.expect_range(output, landed + size, length - size, pipeline.chunk, added, BEYOND_SALT)


def turn_of(pipeline: Pipeline) -> int:
    """Return how many chunks are issued operation by operation before the next ones enter."""
    slots = min(pipeline.ring_slots(), pipeline.chunks())
    if pipeline.issue == "depth_first":
        return 1
    if pipeline.submit == "batch":
        return max(1, slots // 3)
    # Where slots are dealt unevenly, no lane has more chunks in a turn than the least of its slots.
    return slots - slots % min(pipeline.staging_lanes, slots)


class NullWork:
    """Tiny kernels on the null stream; nothing at all where there are no launches."""

    def __init__(self, writer: PlanWriter, launches: int) -> None:
        self.writer, self.launches = writer, launches
        if launches:
            self.buffer = writer.device_buffer("null work", NULL_WORK_BYTES)
            self.stream = writer.stream("null stream", "null")
            writer.data(self.buffer)
            writer.expect(self.buffer, NULL_WORK_BYTES, added=launches)

    def launch(self) -> None:
        """Launch one."""
        if self.launches:
            self.writer.lane.append(Launch(self.stream, self.buffer, 0, NULL_WORK_BYTES))

    def drain(self) -> None:
        """Wait for them."""
        if self.launches:
            self.writer.lane.append(Drain(self.stream))
