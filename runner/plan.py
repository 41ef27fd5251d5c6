"""The operations and the Plan: what a scenario asks a device to do, as frozen data with resolved integers.

A scenario writes a Plan, `runner.plan_check` proves it safe, a device plays it and returns a Trace of marks. Buffers, streams,
events, gates and marks are indices into the Plan's tables. Sizes and offsets are bytes, always inside the buffer they name.

The data. Every byte of a filled buffer is a function of its place and of a *salt* that changes with each sample
(`runner.pattern`), so a missing, doubled, shifted or stale chunk shows. A Launch adds exactly 1 to each 32-bit word, wrapping,
per pass. An Expect says which bytes a buffer must hold after a play.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from runner.memory import DEVICE, Pages, kind_of
from runner.pattern import FLAT

Direction = Literal["h2d", "d2h"]
StreamKind = Literal["non_blocking", "blocking", "null"]
Access = Literal["read", "write", "increment"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A stretch of memory; `memory` is a buffer kind of `runner.memory`, or `device`, `pages` the size of its pages."""

    name: str
    memory: str
    size: int
    pages: Pages = "normal"

    @property
    def on_device(self) -> bool:
        """Whether it lies in the device's memory."""
        return self.memory == DEVICE


@dataclass(frozen=True, slots=True)
class Stream:
    """An ordered queue of device work. `blocking` ones wait for the null stream, and it for them."""

    name: str
    kind: StreamKind = "non_blocking"


@dataclass(frozen=True, slots=True)
class Event:
    """A point in a stream; `timed` ones give a time in the Trace. Each event is recorded at most once a play."""

    name: str
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Alloc:
    """Allocate a buffer; on a lane it is part of what is timed, and its pages are untouched."""

    buffer: int


@dataclass(frozen=True, slots=True)
class Free:
    """Free a buffer that no operation still uses."""

    buffer: int


@dataclass(frozen=True, slots=True)
class PoolAlloc:
    """Allocate a buffer of the device from the driver's pool; work behind this in the stream may use it (stream-ordered)."""

    stream: int
    buffer: int


@dataclass(frozen=True, slots=True)
class PoolFree:
    """Give a buffer back to the pool once all work before this in the stream is done; the host waits for nothing."""

    stream: int
    buffer: int


@dataclass(frozen=True, slots=True)
class Register:
    """Page-lock a pageable buffer where it lies."""

    buffer: int


@dataclass(frozen=True, slots=True)
class Unregister:
    """Undo Register."""

    buffer: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Write the pattern of `salt` over a range of a host or device buffer; only in `setup` and `prepare`."""

    buffer: int
    offset: int
    size: int
    salt: int


@dataclass(frozen=True, slots=True)
class HostCopy:
    """Copy between host buffers by `threads` threads of the processor; the lane goes on when it is done."""

    dst: int
    dst_offset: int
    src: int
    src_offset: int
    size: int
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy across the link in a stream. `blocking` is the plain call that returns when the copy is done."""

    stream: int
    direction: Direction
    dst: int
    dst_offset: int
    src: int
    src_offset: int
    size: int
    blocking: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """Add `passes` to each 32-bit word of a range that kernels may use, one kernel a pass; offset and size in multiples of 4."""

    stream: int
    buffer: int
    offset: int
    size: int
    passes: int = 1


@dataclass(frozen=True, slots=True)
class KernelCopy:
    """Copy by a kernel between a host buffer that kernels may use and a device buffer; offsets and size in multiples of 4."""

    stream: int
    dst: int
    dst_offset: int
    src: int
    src_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class KernelAccess:
    """Let a kernel read, write or increment each word of a range in place, on the device or in host memory that kernels may use.

    `write` writes the flat pattern of `salt` (from `runner.pattern.FLAT` on); `increment` adds 1, as a Launch does. `read` leaves
    everything as it is. Offset and size are multiples of 4.
    """

    stream: int
    buffer: int
    offset: int
    size: int
    access: Access
    salt: int = FLAT


@dataclass(frozen=True, slots=True)
class HostAccess:
    """Let the processor read, write or increment each word of a range in place, by `threads` threads; else as KernelAccess.

    Writing to pages that nobody has touched is their first touch.
    """

    buffer: int
    offset: int
    size: int
    access: Access
    threads: int = 1
    salt: int = FLAT


@dataclass(frozen=True, slots=True)
class Busy:
    """Keep a stream busy for a time with a kernel of one thread that touches nothing."""

    stream: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Move the pages of a managed buffer's range to the device or the host, in a stream."""

    stream: int
    buffer: int
    offset: int
    size: int
    to: Literal["device", "host"]


@dataclass(frozen=True, slots=True)
class Record:
    """Record an event in a stream."""

    stream: int
    event: int


@dataclass(frozen=True, slots=True)
class StreamWait:
    """Let a stream wait for an event that was recorded before this call was made."""

    stream: int
    event: int


@dataclass(frozen=True, slots=True)
class HostWait:
    """Let the lane wait until an event has happened."""

    event: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Let the lane wait until everything issued to a stream is done."""

    stream: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Let every lane wait for every other; all lanes hold the same number of barriers."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Hold a stream until the host releases the gate (or a time limit passes, which the Trace reports)."""

    stream: int
    gate: int


@dataclass(frozen=True, slots=True)
class Release:
    """Open a gate."""

    gate: int


@dataclass(frozen=True, slots=True)
class Graph:
    """Launch the operations up to the next GroupEnd as one graph, by one call into a stream.

    It was captured when the Plan was opened; one that uses memory which a lane registers is made in the play, here and now, since
    a graph knows memory as it was page-locked when it was captured. Its other streams are branches that begin by waiting for an
    event of the graph and are joined before its end; `runner.plan_groups` has the rules.
    """

    stream: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Hand over the copies up to the next GroupEnd by one call into a stream; among each other they have no order."""

    stream: int


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """End what a Graph or a Batch has begun."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Read the host's clock; each mark is read at most once a play.

    `cpu`: read the lane's processor time, too. `memory`: before the clock, which so leaves that out, read how much memory of the
    process is resident and locked.
    """

    mark: int
    cpu: bool = False
    memory: bool = False


Operation = (
    Alloc
    | Free
    | PoolAlloc
    | PoolFree
    | Register
    | Unregister
    | Fill
    | HostCopy
    | Copy
    | Launch
    | KernelCopy
    | KernelAccess
    | HostAccess
    | Busy
    | Prefetch
    | Record
    | StreamWait
    | HostWait
    | Drain
    | Barrier
    | Gate
    | Release
    | Graph
    | Batch
    | GroupEnd
    | Mark
)


_HOLDING = (Alloc, Free, PoolAlloc, PoolFree, Register, Unregister)


@dataclass(frozen=True, slots=True)
class Expect:
    """What verification compares after a play: the range holds the pattern of `salt` from `source_offset` on, plus `added`.

    Where `added` is not 0, offset, source_offset and size are multiples of 4 (the last word may be cut off by the size).
    """

    buffer: int
    offset: int
    size: int
    salt: int
    source_offset: int
    added: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a device needs to know of a case.

    `setup` runs once when the Plan is opened, `prepare` before every play (untimed: patterns, poison), each entry of `lanes` is
    the work of one host thread and is what a play times, `teardown` runs once when the session is closed. Whatever `setup` has
    allocated and `teardown` does not free, the device frees. `races_wanted` names the buffers on which a hazard scenario wants
    a race (freeing a buffer that is still in use is one), `faults_wanted` those that a kernel is given although it may not use
    them. `memlock_bytes` is what the process may lock meanwhile (RLIMIT_MEMLOCK), None where that is left as it is: a simulated
    device reads it here, under a real one whoever opens it sets it before. `title` is what profilers show; two Plans that differ
    in nothing else are equal.
    """

    buffers: tuple[Buffer, ...]
    setup: tuple[Operation, ...]
    prepare: tuple[Operation, ...]
    lanes: tuple[tuple[Operation, ...], ...]
    teardown: tuple[Operation, ...] = ()
    streams: tuple[Stream, ...] = ()
    events: tuple[Event, ...] = ()
    gates: int = 0
    marks: tuple[str, ...] = ()
    expects: tuple[Expect, ...] = ()
    races_wanted: frozenset[int] = frozenset()
    faults_wanted: frozenset[int] = frozenset()
    memlock_bytes: int | None = None
    title: str = field(default="", compare=False)

    def operations(self) -> Iterator[Operation]:
        """Yield every operation, setup first, lanes one after another."""
        yield from self.setup
        yield from self.prepare
        for lane in self.lanes:
            yield from lane
        yield from self.teardown

    def host_threads(self) -> int:
        """Return how many threads of the host work at once at most: of each lane as many as its widest operation has."""
        shared = (HostCopy, HostAccess)
        return sum(max((each.threads for each in lane if isinstance(each, shared)), default=1) for lane in self.lanes)

    def copying_threads(self) -> tuple[int, ...]:
        """Return how many threads copy between host buffers at once at most, of each lane that does so at all."""
        most = (max((each.threads for each in lane if isinstance(each, HostCopy)), default=0) for lane in self.lanes)
        return tuple(threads for threads in most if threads)

    def demand(self) -> Demand:
        """Return the most memory that is held at once, by sort, counting what lanes allocate at its peak."""
        held = {"pageable": 0, "pinned": 0, "device": 0}
        peak = dict(held)
        alive: set[int] = set()
        for operation in self.operations():
            if not isinstance(operation, _HOLDING):
                continue
            buffer = operation.buffer
            if isinstance(operation, (Alloc, PoolAlloc)):
                if buffer not in alive:
                    alive.add(buffer)
                    self._count(held, peak, buffer, 1)
            elif isinstance(operation, (Free, PoolFree)):
                if buffer in alive:
                    alive.remove(buffer)
                    self._count(held, peak, buffer, -1)
            elif isinstance(operation, Register):
                held["pinned"] += self.buffers[buffer].size
                peak["pinned"] = max(peak["pinned"], held["pinned"])
            else:
                held["pinned"] -= self.buffers[buffer].size
        return Demand(peak["pageable"], peak["pinned"], peak["device"])

    def _count(self, held: dict[str, int], peak: dict[str, int], index: int, sign: int) -> None:
        buffer = self.buffers[index]
        sort = DEVICE if buffer.on_device else "pinned" if kind_of(buffer.memory).page_locked else "pageable"
        held[sort] += sign * buffer.size
        peak[sort] = max(peak[sort], held[sort])


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes of memory that a Plan holds at its peak."""

    pageable_bytes: int
    pinned_bytes: int
    device_bytes: int
