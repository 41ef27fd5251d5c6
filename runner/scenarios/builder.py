"""A small writer of Plans: it hands out indices by name, so that scenarios read as the work they describe."""

from __future__ import annotations

from typing import Final

from runner.device.contract import Trace
from runner.memory import DEVICE, BufferKind, Pages, kind_of
from runner.plan import (
    Alloc,
    Barrier,
    Buffer,
    Copy,
    Direction,
    Event,
    Expect,
    Fill,
    HostCopy,
    Mark,
    Operation,
    Plan,
    Record,
    Stream,
    StreamKind,
)
from runner.scenarios.base import field_error

DATA_SALT = 1
"""Salt of the data that a case moves."""
POISON_SALT = 2
"""Salt of what stands in a destination before the data arrive; never expected anywhere."""
ORDINARY: Final[BufferKind] = "pageable"
"""The memory of data that lie where a program happens to have them."""


class PlanWriter:
    """Collects buffers, streams, events and operations, and makes the frozen Plan of them.

    `lane` is the host lane that is written now: the only one, unless `begin_lanes` has made several.
    """

    def __init__(self) -> None:
        self.setup: list[Operation] = []
        self.prepare: list[Operation] = []
        self.lane: list[Operation] = []
        self._lanes = [self.lane]
        self._buffers: list[Buffer] = []
        self._streams: list[Stream] = []
        self._events: list[Event] = []
        self._marks: list[str] = []
        self._expects: list[Expect] = []

    def buffer(self, name: str, memory: str, size: int, *, allocate: bool = True, pages: Pages = "normal") -> int:
        """Add a buffer, allocated before the timed region unless the lane itself allocates it."""
        self._buffers.append(Buffer(name, memory, size, pages))
        index = len(self._buffers) - 1
        if allocate:
            self.setup.append(Alloc(index))
        return index

    def device_buffer(self, name: str, size: int, *, allocate: bool = True) -> int:
        """Add a buffer in the device's memory."""
        return self.buffer(name, DEVICE, size, allocate=allocate)

    def stream(self, name: str, kind: StreamKind = "non_blocking") -> int:
        """Add a stream."""
        self._streams.append(Stream(name, kind))
        return len(self._streams) - 1

    def event(self, name: str, *, timed: bool = False) -> int:
        """Add an event."""
        self._events.append(Event(name, timed))
        return len(self._events) - 1

    def mark(self, name: str, *, cpu: bool = False, memory: bool = False) -> None:
        """Read the host's clock here, under a name; with `cpu` the lane's processor time, with `memory` the counts of memory."""
        self._marks.append(name)
        self.lane.append(Mark(len(self._marks) - 1, cpu, memory))

    def begin_lanes(self, count: int) -> None:
        """Write `count` host lanes from here on, which begin together, each with a mark of its own; see `lanes_ms`."""
        self._lanes += [[] for _ in range(count - 1)]
        for number in range(count):
            self.turn_to(number)
            if count > 1:
                self.lane.append(Barrier())
            self.mark(lane_mark("begin", number))
        self.turn_to(0)

    def end_lanes(self) -> None:
        """Read the clock at the end of each lane."""
        for number in range(len(self._lanes)):
            self.turn_to(number)
            self.mark(lane_mark("end", number))

    def turn_to(self, lane: int) -> None:
        """Write this lane from now on."""
        self.lane = self._lanes[lane]

    def record(self, stream: int, name: str, *, timed: bool = False) -> int:
        """Add an event and record it in a stream here."""
        event = self.event(name, timed=timed)
        self.lane.append(Record(stream, event))
        return event

    def data(self, buffer: int) -> None:
        """Fill a whole buffer with the case's data before every play."""
        self.prepare.append(Fill(buffer, 0, self._buffers[buffer].size, DATA_SALT))

    def poison(self, buffer: int) -> None:
        """Fill a whole buffer before every play with what is never expected."""
        self.prepare.append(Fill(buffer, 0, self._buffers[buffer].size, POISON_SALT))

    def copy(self, stream: int, direction: Direction, dst: tuple[int, int], src: tuple[int, int], size: int) -> None:
        """Copy across the link, asynchronously; `dst` and `src` are (buffer, offset)."""
        self.lane.append(Copy(stream, direction, *dst, *src, size))

    def host_copy(self, dst: tuple[int, int], src: tuple[int, int], size: int, threads: int = 1) -> None:
        """Copy between host buffers; `dst` and `src` are (buffer, offset)."""
        self.lane.append(HostCopy(*dst, *src, size, threads))

    def expect(self, buffer: int, size: int, added: int = 0) -> None:
        """Expect the case's data, plus `added`, in the first `size` bytes of a buffer."""
        self.expect_range(buffer, 0, size, added=added)

    def expect_range(
        self, buffer: int, offset: int, size: int, source_offset: int = 0, added: int = 0, salt: int = DATA_SALT
    ) -> None:
        """Expect in a range the pattern of `salt`, by default the case's data, from byte `source_offset` on, plus `added`."""
        self._expects.append(Expect(buffer, offset, size, salt, source_offset, added))

    def plan(self) -> Plan:
        """Return what was written so far as a frozen Plan."""
        return Plan(
            buffers=tuple(self._buffers),
            setup=tuple(self.setup),
            prepare=tuple(self.prepare),
            lanes=tuple(tuple(lane) for lane in self._lanes),
            streams=tuple(self._streams),
            events=tuple(self._events),
            marks=tuple(self._marks),
            expects=tuple(self._expects),
        )


def lane_mark(name: str, lane: int) -> str:
    """Return the name of the mark of a lane: that of the first lane has no number."""
    return f"{name} {lane}" if lane else name


def lanes_ms(plan: Plan, trace: Trace) -> float | None:
    """Return the host's time in ms from where its first lane begins to where its last ends, None where a mark was not passed."""
    times = [
        [trace.host_ns[plan.marks.index(lane_mark(name, lane))] for lane in range(len(plan.lanes))] for name in ("begin", "end")
    ]
    begins, ends = ([time for time in each if time is not None] for each in times)
    passed = len(begins) == len(ends) == len(plan.lanes)
    return (max(ends) - min(begins)) / 1e6 if passed else None


def chunks_of(total: int, chunk: int) -> list[tuple[int, int]]:
    """Cut `total` bytes into (offset, size); the last one may be short."""
    return [(offset, min(chunk, total - offset)) for offset in range(0, total, chunk)]


def check_pages(buffer: BufferKind, pages: Pages) -> None:
    """Refuse, at the field `pages`, pages that this kind of memory cannot have."""
    kind = kind_of(buffer)
    if pages not in kind.pages:
        raise field_error("pages", f"{kind.name} memory cannot have {pages} pages", ", ".join(sorted(kind.pages)))


def data_in(buffer: BufferKind) -> str:
    """Say in what sort of memory data lie that this kind holds."""
    kind = kind_of(buffer)
    return "memory that migrates" if kind.migrates else "page-locked memory" if kind.page_locked else "ordinary memory"


def check_copied(buffer: BufferKind) -> None:
    """Refuse, at the field `buffer`, memory whose pages move by themselves, since no copy call is needed to reach it."""
    if kind_of(buffer).migrates:
        raise field_error(
            "buffer", f"the pages of {buffer} memory move by themselves; kind: transfer measures how fast, nothing is copied"
        )
