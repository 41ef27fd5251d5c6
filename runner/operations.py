"""The operations of a Plan: what a host lane does, or asks a stream to do, as frozen data with resolved integers.

Buffers, streams, events, gates and marks are indices into the tables of the Plan (`runner.plan`) that holds the operation. Sizes
and offsets are bytes, always inside the buffer they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runner.pattern import FLAT

Direction = Literal["h2d", "d2h"]
Access = Literal["read", "write", "increment"]


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
    event of the graph and are joined before its end; `runner.plan_group_rules` has the rules.
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
