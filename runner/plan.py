"""The Plan: what a scenario asks a device to do, as frozen data with resolved integers.

A scenario writes a Plan, `runner.plan_check` proves it safe, a device plays it and returns a Trace of marks. Its operations are
those of `runner.operations`, which are had from here, too.

The data. Every byte of a filled buffer is a function of its place and of a *salt* that changes with each sample
(`runner.pattern`), so a missing, doubled, shifted or stale chunk shows. A Launch adds exactly 1 to each 32-bit word, wrapping,
per pass. An Expect says which bytes a buffer must hold after a play.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from runner import operations as ops
from runner.memory import DEVICE, Pages, kind_of
from runner.operations import *  # noqa: F403  # whoever writes or reads a Plan wants its operations, too

StreamKind = Literal["non_blocking", "blocking", "null"]


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


_HOLDING = (ops.Alloc, ops.Free, ops.PoolAlloc, ops.PoolFree, ops.Register, ops.Unregister)


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
    device reads it here, under a real one whoever opens it sets it before. `shares_copies` asks for the copier whose threads
    share the host's copies even where one thread makes them all, as several threads always have it. `title` is what profilers
    show; two Plans that differ in nothing else are equal.
    """

    buffers: tuple[Buffer, ...]
    setup: tuple[ops.Operation, ...]
    prepare: tuple[ops.Operation, ...]
    lanes: tuple[tuple[ops.Operation, ...], ...]
    teardown: tuple[ops.Operation, ...] = ()
    streams: tuple[Stream, ...] = ()
    events: tuple[Event, ...] = ()
    gates: int = 0
    marks: tuple[str, ...] = ()
    expects: tuple[Expect, ...] = ()
    races_wanted: frozenset[int] = frozenset()
    faults_wanted: frozenset[int] = frozenset()
    memlock_bytes: int | None = None
    shares_copies: bool = False
    title: str = field(default="", compare=False)

    def operations(self) -> Iterator[ops.Operation]:
        """Yield every operation, setup first, lanes one after another."""
        yield from self.setup
        yield from self.prepare
        for lane in self.lanes:
            yield from lane
        yield from self.teardown

    def host_threads(self) -> int:
        """Return how many threads of the host work at once at most: of each lane as many as its widest operation has."""
        shared = (ops.HostCopy, ops.HostAccess)
        return sum(max((each.threads for each in lane if isinstance(each, shared)), default=1) for lane in self.lanes)

    def copying_threads(self) -> tuple[int, ...]:
        """Return how many threads copy between host buffers at once at most, of each lane that does so at all."""
        most = (max((each.threads for each in lane if isinstance(each, ops.HostCopy)), default=0) for lane in self.lanes)
        return tuple(threads for threads in most if threads)

    def shared_copier(self) -> bool:
        """Return whether the host's copies are made by the copier whose threads share them, and not by a plain memcpy."""
        return self.shares_copies or sum(self.copying_threads()) > 1

    def demand(self) -> Demand:
        """Return the most memory that is held at once, by sort, counting what lanes allocate at its peak."""
        held = {"pageable": 0, "pinned": 0, "device": 0}
        peak = dict(held)
        alive: set[int] = set()
        for operation in self.operations():
            if not isinstance(operation, _HOLDING):
                continue
            buffer = operation.buffer
            if isinstance(operation, (ops.Alloc, ops.PoolAlloc)):
                if buffer not in alive:
                    alive.add(buffer)
                    self._count(held, peak, buffer, 1)
            elif isinstance(operation, (ops.Free, ops.PoolFree)):
                if buffer in alive:
                    alive.remove(buffer)
                    self._count(held, peak, buffer, -1)
            elif isinstance(operation, ops.Register):
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
