"""Builders of small Plans for tests; sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runner.memory import DEVICE
from runner.pattern import FLAT
from runner.plan import (
    Access,
    Alloc,
    Barrier,
    Batch,
    Buffer,
    Copy,
    Direction,
    Drain,
    Event,
    Expect,
    Fill,
    Free,
    Graph,
    GroupEnd,
    HostAccess,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    PoolAlloc,
    PoolFree,
    Prefetch,
    Record,
    Register,
    Stream,
    StreamWait,
    Unregister,
)

DATA = 1
"""Salt of the data that a Plan moves."""
POISON = 2
"""Salt of what stands in a destination before."""
WRITTEN = FLAT + 1
"""Salt of what an access in place writes."""


def plan_of(
    buffers: Sequence[Buffer],
    lanes: Sequence[Sequence[Operation]],
    *,
    data: Sequence[int] = (),
    poison: Sequence[int] = (),
    in_lanes: Sequence[int] = (),
    streams: Sequence[Stream] | int = 1,
    events: Sequence[Event] | int = 0,
    gates: int = 0,
    expects: Sequence[Expect] = (),
    races_wanted: Sequence[int] = (),
    faults_wanted: Sequence[int] = (),
    prefetched: Sequence[int] = (),
) -> Plan:
    """Make a Plan whose setup allocates all buffers but those `in_lanes`; marks are named by their numbers.

    The pages of `prefetched` buffers lie on the device when the lanes begin.
    """
    marks = sum(isinstance(operation, Mark) for lane in lanes for operation in lane)
    fills = [Fill(index, 0, buffers[index].size, salt) for salt, where in ((DATA, data), (POISON, poison)) for index in where]
    return Plan(
        buffers=tuple(buffers),
        setup=tuple(Alloc(index) for index in range(len(buffers)) if index not in in_lanes),
        prepare=(*fills, *(Prefetch(0, index, 0, buffers[index].size, "device") for index in prefetched)),
        lanes=tuple(tuple(lane) for lane in lanes),
        streams=tuple(Stream(f"s{n}") for n in range(streams)) if isinstance(streams, int) else tuple(streams),
        events=tuple(Event(f"e{n}") for n in range(events)) if isinstance(events, int) else tuple(events),
        gates=gates,
        marks=tuple(f"m{n}" for n in range(marks)),
        expects=tuple(expects),
        races_wanted=frozenset(races_wanted),
        faults_wanted=frozenset(faults_wanted),
    )


def one_copy(size: int, direction: Direction = "h2d", memory: str = "pinned", *, blocking: bool = False) -> Plan:
    """One copy between timed events 0 and 1; marks 0 and 1 around all, marks 2 and 3 around the call alone."""
    host, device = Buffer("host", memory, size), Buffer("device", DEVICE, size)
    src, dst = (0, 1) if direction == "h2d" else (1, 0)
    lane = [
        Mark(0),
        Record(0, 0),
        Mark(2),
        Copy(0, direction, dst, 0, src, 0, size, blocking),
        Mark(3),
        Record(0, 1),
        Drain(0),
        Mark(1),
    ]
    events = (Event("begin", timed=True), Event("end", timed=True))
    return plan_of([host, device], [lane], data=[src], poison=[dst], events=events, expects=[Expect(dst, 0, size, DATA, 0)])


def ring(chunks: int, chunk: int, slots: int, *, memory: str = "pinned", threads: int = 1, passes: int = 1) -> Plan:
    """A staged ring on one lane: buffers 0 input, 1 output, then stagers, then device buffers; marks 0 and 1 around all."""
    total = chunks * chunk
    buffers = [Buffer("input", "pageable", total), Buffer("output", "pageable", total)]
    buffers += [Buffer(f"stager {n}", memory, chunk) for n in range(slots)]
    buffers += [Buffer(f"device {n}", DEVICE, chunk) for n in range(slots)]
    lane: list[Operation] = [Mark(0)]

    def retire(index: int) -> None:
        lane.append(HostWait(index))
        lane.append(HostCopy(1, index * chunk, 2 + index % slots, 0, chunk, threads))

    for index in range(chunks):
        slot = index % slots
        stager, device = 2 + slot, 2 + slots + slot
        if index >= slots:
            retire(index - slots)
        lane.append(HostCopy(stager, 0, 0, index * chunk, chunk, threads))
        lane += [Copy(slot, "h2d", device, 0, stager, 0, chunk), Launch(slot, device, 0, chunk, passes)]
        lane += [Copy(slot, "d2h", stager, 0, device, 0, chunk), Record(slot, index)]
    for index in range(max(0, chunks - slots), chunks):
        retire(index)
    lane.append(Mark(1))
    poison = list(range(1, 2 + 2 * slots))
    expects = [Expect(1, 0, total, DATA, 0, passes)]
    return plan_of(buffers, [lane], data=[0], poison=poison, streams=slots, events=chunks, expects=expects)


def direct(
    chunks: int, chunk: int, streams: int, *, kernel: int | None = None, passes: int = 1, issue: str = "depth_first"
) -> Plan:
    """A pipeline whose data are pinned already: buffer 0 input, 1 output, then a device buffer a stream.

    `kernel` bytes of each chunk (all where None) are incremented `passes` times, and only they are expected back.
    """
    touched = chunk if kernel is None else kernel
    total = chunks * chunk
    buffers = [Buffer("input", "pinned", total), Buffer("output", "pinned", total)]
    buffers += [Buffer(f"device {n}", DEVICE, chunk) for n in range(streams)]

    def work(index: int) -> tuple[Operation, Operation, Operation]:
        stream, device, at = index % streams, 2 + index % streams, index * chunk
        up, down = Copy(stream, "h2d", device, 0, 0, at, chunk), Copy(stream, "d2h", 1, at, device, 0, chunk)
        return up, Launch(stream, device, 0, touched, passes), down

    lane: list[Operation] = [Mark(0)]
    turn = streams if issue == "breadth_first" else 1
    for first in range(0, chunks, turn):
        works = [work(index) for index in range(first, min(first + turn, chunks))]
        lane += [operation for step in zip(*works, strict=True) for operation in step]
    lane += [Drain(stream) for stream in range(streams)]
    lane.append(Mark(1))
    expects = [Expect(1, index * chunk, touched, DATA, index * chunk, passes) for index in range(chunks)]
    return plan_of(buffers, [lane], data=[0], poison=range(1, 2 + streams), streams=streams, expects=expects)


def serialized(chunks: int, chunk: int) -> Plan:
    """The pageable loop: each chunk allocates its device buffer and a landing buffer; buffer 0 input, 1 output."""
    total = chunks * chunk
    buffers = [Buffer("input", "pageable", total), Buffer("output", "pageable", total)]
    buffers += [Buffer("device", DEVICE, chunk), Buffer("landing", "pageable", chunk)]
    lane: list[Operation] = [Mark(0)]
    for index in range(chunks):
        at = index * chunk
        lane += [
            Alloc(2),
            Alloc(3),
            Copy(0, "h2d", 2, 0, 0, at, chunk),
            Launch(0, 2, 0, chunk),
            Copy(0, "d2h", 3, 0, 2, 0, chunk),
        ]
        lane += [Drain(0), HostCopy(1, at, 3, 0, chunk), Free(2), Free(3)]
    lane.append(Mark(1))
    expects = [Expect(1, 0, total, DATA, 0, 1)]
    return plan_of(buffers, [lane], data=[0], poison=[1], in_lanes=[2, 3], expects=expects)


def per_engine(chunks: int, chunk: int, slots: int) -> Plan:
    """Data pinned already, one stream an engine, ordered by stream waits alone; buffer 0 input, 1 output, then device slots.

    Event 3i is the upload of chunk i, 3i + 1 its kernel, 3i + 2 its download.
    """
    buffers = [Buffer("input", "pinned", chunks * chunk), Buffer("output", "pinned", chunks * chunk)]
    buffers += [Buffer(f"device {n}", DEVICE, chunk) for n in range(slots)]
    lane: list[Operation] = [Mark(0)]
    for index in range(chunks):
        device, at, event = 2 + index % slots, index * chunk, 3 * index
        if index >= slots:
            lane.append(StreamWait(0, 3 * (index - slots) + 2))
        lane += [Copy(0, "h2d", device, 0, 0, at, chunk), Record(0, event)]
        lane += [StreamWait(1, event), Launch(1, device, 0, chunk), Record(1, event + 1)]
        lane += [StreamWait(2, event + 1), Copy(2, "d2h", 1, at, device, 0, chunk), Record(2, event + 2)]
    lane += [Drain(2), Mark(1)]
    expects = [Expect(1, 0, chunks * chunk, DATA, 0, 1)]
    return plan_of(buffers, [lane], data=[0], poison=range(1, 2 + slots), streams=3, events=3 * chunks, expects=expects)


def two_lanes(chunk: int, memory: str = "pinned") -> Plan:
    """Two lanes, each taking its half of the input through a slot of its own; a barrier before the last mark."""
    buffers = [Buffer("input", "pageable", 2 * chunk), Buffer("output", "pageable", 2 * chunk)]
    buffers += [Buffer(f"stager {n}", memory, chunk) for n in range(2)] + [Buffer(f"device {n}", DEVICE, chunk) for n in range(2)]
    lanes: list[list[Operation]] = []
    for number in range(2):
        stager, device, at = 2 + number, 4 + number, number * chunk
        lane: list[Operation] = [Barrier(), HostCopy(stager, 0, 0, at, chunk), Copy(number, "h2d", device, 0, stager, 0, chunk)]
        lane += [Launch(number, device, 0, chunk), Copy(number, "d2h", stager, 0, device, 0, chunk), Record(number, number)]
        lane += [HostWait(number), HostCopy(1, at, stager, 0, chunk), Barrier()]
        lanes.append(lane)
    lanes[0].insert(1, Mark(0))
    lanes[0].append(Mark(1))
    expects = [Expect(1, 0, 2 * chunk, DATA, 0, 1)]
    return plan_of(buffers, lanes, data=[0], poison=range(1, 6), streams=2, events=2, expects=expects)


def without(plan: Plan, *indices: int, lane: int = 0) -> Plan:
    """Return the Plan without some operations of a lane."""
    kept = tuple(operation for index, operation in enumerate(plan.lanes[lane]) if index not in indices)
    return replace(plan, lanes=(*plan.lanes[:lane], kept, *plan.lanes[lane + 1 :]))


def changed(plan: Plan, index: int, **fields: object) -> Plan:
    """Return the Plan with other fields in one operation of lane 0."""
    lane = list(plan.lanes[0])
    lane[index] = replace(lane[index], **fields)
    return replace(plan, lanes=(tuple(lane), *plan.lanes[1:]))


def indices_of(plan: Plan, *kinds: type, lane: int = 0) -> list[int]:
    """Return where operations of these types stand in a lane."""
    return [index for index, operation in enumerate(plan.lanes[lane]) if isinstance(operation, kinds)]


def alloc_and_free(buffer: int) -> tuple[Operation, ...]:
    """Return the two operations that take and give back a buffer."""
    return Alloc(buffer), Free(buffer)


def in_place(size: int, memory: str = "mapped", *, by: str = "kernel", threads: int = 1) -> Plan:
    """Buffer 0 is written, incremented twice and read where it lies, half of it; buffer 1 holds what a copy brings then.

    `by` is `kernel`, or `cpu` by so many `threads`. The other half keeps its data.
    """
    half = size // 8 * 4
    buffers = [Buffer("host", memory, size), Buffer("device", DEVICE, size)]
    steps: list[Access] = ["write", "increment", "increment", "read"]
    kernels = [KernelAccess(0, 0, 0, half, access, WRITTEN) for access in steps]
    host = [HostAccess(0, 0, half, access, threads, WRITTEN) for access in steps]
    lane = [Mark(0), *(kernels if by == "kernel" else host), Copy(0, "h2d", 1, 0, 0, 0, size), Drain(0), Mark(1)]
    expects = [Expect(buffer, 0, half, WRITTEN, 0, 2) for buffer in (0, 1)]
    expects += [Expect(buffer, half, size - half, DATA, half) for buffer in (0, 1)]
    return plan_of(buffers, [lane], data=[0], poison=[1], expects=expects)


def kernel_copies(size: int, memory: str = "pinned") -> Plan:
    """Up, plus one, and down by kernels alone, half of it from and to the middle of the buffers."""
    half = size // 8 * 4
    buffers = [Buffer("in", memory, size), Buffer("out", memory, size), Buffer("device", DEVICE, size)]
    lane = [Mark(0), KernelCopy(0, 2, 0, 0, half, half), Launch(0, 2, 0, half), KernelCopy(0, 1, half, 2, 0, half)]
    lane += [Drain(0), Mark(1)]
    expects = [Expect(1, half, half, DATA, half, 1), Expect(1, 0, half, POISON, 0)]
    return plan_of(buffers, [lane], data=[0], poison=[1, 2], expects=expects)


def migrations(size: int, *, prefetch: bool) -> Plan:
    """Managed data that a kernel increments on the device and the processor on the host, twice each in turn.

    Pages move by Prefetch, or by being touched. Mark 2n stands before the kernel's turn n, mark 2n + 1 before the processor's.
    """
    lane: list[Operation] = []
    for turn in range(2):
        lane.append(Mark(2 * turn))
        lane += [Prefetch(0, 0, 0, size, "device")] if prefetch else []
        lane += [KernelAccess(0, 0, 0, size, "increment"), Drain(0), Mark(2 * turn + 1)]
        lane += [Prefetch(0, 0, 0, size, "host"), Drain(0)] if prefetch else []
        lane.append(HostAccess(0, 0, size, "increment"))
    lane.append(Mark(4))
    return plan_of([Buffer("managed", "managed", size)], [lane], data=[0], expects=[Expect(0, 0, size, DATA, 0, 4)])


def graph(sizes: Sequence[int], streams: int = 2, *, in_place: bool = False) -> Plan:
    """Chunks of these sizes up, plus one, and back by one graph on so many streams: buffer 0 input, 1 output, 2 on the device.

    Event 0 lets the branches begin, the others join them. With `in_place` the lane registers input and output.
    """
    total, memory = sum(sizes), "pageable" if in_place else "pinned"
    buffers = [Buffer("input", memory, total), Buffer("output", memory, total), Buffer("device", DEVICE, total)]
    body: list[Operation] = [Graph(0)]
    body += [Record(0, 0), *(StreamWait(stream, 0) for stream in range(1, streams))] if streams > 1 else []
    at = 0
    for index, size in enumerate(sizes):
        stream = index % streams
        body += [Copy(stream, "h2d", 2, at, 0, at, size), Launch(stream, 2, at, size, 1 + index % 2)]
        body.append(Copy(stream, "d2h", 1, at, 2, at, size))
        at += size
    body += [each for stream in range(1, streams) for each in (Record(stream, stream), StreamWait(0, stream))]
    body += [GroupEnd(), Drain(0)]
    lane = [Mark(0), *([Register(0), Register(1), *body, Unregister(0), Unregister(1)] if in_place else body), Mark(1)]
    offsets = [sum(sizes[:index]) for index in range(len(sizes))]
    expects = [Expect(1, at, size, DATA, at, 1 + index % 2) for index, (at, size) in enumerate(zip(offsets, sizes, strict=True))]
    return plan_of(buffers, [lane], data=[0], poison=[1, 2], streams=streams, events=streams, expects=expects)


def batches(sizes: Sequence[int], memory: str = "pinned") -> Plan:
    """Chunks of these sizes up in one batch and down in another, in reverse; buffer 0 input, 1 output, 2 on the device."""
    total = sum(sizes)
    buffers = [Buffer("input", memory, total), Buffer("output", memory, total), Buffer("device", DEVICE, total)]
    offsets = [sum(sizes[:index]) for index in range(len(sizes))]
    up = [Copy(0, "h2d", 2, at, 0, at, size) for at, size in zip(offsets, sizes, strict=True)]
    down = [Copy(0, "d2h", 1, at, 2, at, size) for at, size in zip(offsets, sizes, strict=True)]
    lane = [Mark(0), Batch(0), *up, GroupEnd(), Launch(0, 2, 0, total), Batch(0), *reversed(down), GroupEnd(), Drain(0), Mark(1)]
    return plan_of(buffers, [lane], data=[0], poison=[1, 2], expects=[Expect(1, 0, total, DATA, 0, 1)])


def pooled(chunks: int, chunk: int, streams: int) -> Plan:
    """A direct pipeline whose device buffers, one a stream, come from the pool and go back for each chunk."""
    plan = direct(chunks, chunk, streams)
    lane: list[Operation] = []
    for operation in plan.lanes[0]:
        if isinstance(operation, Copy) and operation.direction == "h2d":
            lane.append(PoolAlloc(operation.stream, operation.dst))
        lane.append(operation)
        if isinstance(operation, Copy) and operation.direction == "d2h":
            lane.append(PoolFree(operation.stream, operation.src))
    fills = tuple(fill for fill in plan.prepare if isinstance(fill, Fill) and fill.buffer < 2)
    return replace(plan, setup=plan.setup[:2], prepare=fills, lanes=(tuple(lane),))
