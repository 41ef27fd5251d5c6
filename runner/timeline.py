"""The timeline of one play: what each engine, stream and host lane did when, and how much of it ran at once.

Everything follows from a Plan and its Trace. Where the device recorded its activities, they are the timeline (source `engine`).
Elsewhere the Plan's timed events give a coarser one (source `events`): one stretch from the event called `X start` to that called
`X stop`, for each X that is a direction. Where there are no such events there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from runner.device.contract import Activity, Trace
from runner.plan import (
    Barrier,
    Busy,
    Copy,
    Drain,
    Gate,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    Prefetch,
    Record,
)

Source = Literal["engine", "events", "none"]
Group = Literal["engine", "stream", "host"]
Work = Literal["h2d", "d2h", "kernel", "busy", "host_copy", "wait", "host"]
"""What is done: a copy in a direction, a kernel, a kernel that only passes time, a copy, a wait or other work of the host."""
OVERLAPPING: Final[tuple[Work, ...]] = ("h2d", "d2h", "kernel")
"""The work whose running at once counts."""
_WORK: Final[Mapping[type, Work]] = {
    Launch: "kernel",
    KernelAccess: "kernel",
    KernelCopy: "kernel",
    Busy: "busy",
    Gate: "busy",
    HostCopy: "host_copy",
    HostWait: "wait",
    Drain: "wait",
    Barrier: "wait",
}


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of work, from `begin_ns` to `end_ns` after the first of the timeline.

    `lane` and `index` name the operation (-1 for a stretch between events), `stream` is an index into the Plan (-1 on the host).
    `timed` tells that the operation stands in the part of its lane that is timed. `memory` is the driver's word on the host's
    side, `call_begin_ns` and `call_end_ns` are when the host called for it, None where that is not known.
    """

    work: Work
    engine: str
    begin_ns: int
    end_ns: int
    stream: int = -1
    lane: int = -1
    index: int = -1
    size_bytes: int = 0
    memory: str = ""
    timed: bool = True
    call_begin_ns: int | None = None
    call_end_ns: int | None = None

    @property
    def gb_per_s(self) -> float | None:
        """Bytes over time in 10^9 bytes a second; None where nothing was moved, or in no time."""
        length = self.end_ns - self.begin_ns
        return self.size_bytes / length if self.size_bytes and length else None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the timeline: an engine, a stream or a host lane by its name, and its spans in the order of their begin."""

    group: Group
    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """All spans of a play in the order of their begin, counted from the first begin of any work or call, at `origin_ns`."""

    source: Source
    spans: tuple[Span, ...]
    origin_ns: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of the timed device work of a timeline ran at once.

    The first four are shares, 0 to 1, of the time in which a copy to the device, a copy to the host or a kernel ran at all:
    `any_two` sorts or more at once, `all_three`, both directions of copies, and a kernel beside a copy of either. `busy` is each
    engine's busy share of the time from the first begin to the last end of all of them, `gaps_ns` how long it stood idle each
    time between its first begin and its last end. `work_ns` is the sum of the times of each sort of work.
    """

    any_two: float
    all_three: float
    h2d_d2h: float
    copy_kernel: float
    busy: Mapping[str, float]
    gaps_ns: Mapping[str, tuple[int, ...]]
    work_ns: Mapping[Work, int]


def timeline_of(plan: Plan, trace: Trace) -> Timeline:
    """Return the timeline of a play: of its activities, else of its timed events, else empty with the source `none`."""
    if trace.activities:
        begins = [each.begin_ns for each in trace.activities]
        origin = min([*begins, *(each.host_begin_ns for each in trace.activities if each.host_begin_ns is not None)])
        return Timeline("engine", _in_order(_recorded(plan, trace.activities, origin)), origin)
    spans = _between_events(plan, trace)
    return Timeline("events" if spans else "none", _in_order(spans), 0)


def rows_of(plan: Plan, timeline: Timeline) -> list[Row]:
    """Return the lines of a timeline: engines, then streams, then host lanes, each of them that did anything."""
    return rows_by([stream.name for stream in plan.streams], timeline.spans)


def rows_by(streams: Sequence[str], spans: Sequence[Span]) -> list[Row]:
    """Return the lines of these spans in their order; `streams` are the names of the Plan's streams."""
    device = [span for span in spans if span.engine != "host"]
    rows = [Row("engine", engine, tuple(found)) for engine, found in _by_engine(device).items()]
    for number, name in enumerate(streams):
        rows.append(Row("stream", name, tuple(span for span in device if span.stream == number)))
    for lane in range(max((span.lane for span in spans), default=-1) + 1):
        own = tuple(span for span in spans if span.engine == "host" and span.lane == lane)
        rows.append(Row("host", f"lane {lane}", own))
    return [row for row in rows if row.spans]


def overlap_fractions(timeline: Timeline) -> Overlap | None:
    """Return how much of the timed copies and kernels ran at once; None where no two sorts of them ran at all."""
    spans = [span for span in timeline.spans if span.timed and span.work in OVERLAPPING]
    if len({span.work for span in spans}) < 2:
        return None
    shares = _shares(spans)
    any_work = sum(shares.values())
    if not any_work:
        return None

    def share(*wanted: frozenset[Work]) -> float:
        return sum(length for running, length in shares.items() if any(each <= running for each in wanted)) / any_work

    both, up, down = frozenset[Work](("h2d", "d2h")), frozenset[Work](("h2d", "kernel")), frozenset[Work](("d2h", "kernel"))
    whole = max(span.end_ns for span in spans) - min(span.begin_ns for span in spans)
    busy = {engine: busy_stretches(each) for engine, each in _by_engine(spans).items()}
    return Overlap(
        any_two=share(both, up, down),
        all_three=share(both | up),
        h2d_d2h=share(both),
        copy_kernel=share(up, down),
        busy={engine: sum(end - begin for begin, end in each) / whole for engine, each in busy.items()},
        gaps_ns={engine: tuple(after[0] - before[1] for before, after in pairwise(each)) for engine, each in busy.items()},
        work_ns={
            work: sum(span.end_ns - span.begin_ns for span in spans if span.work == work)
            for work in OVERLAPPING
            if any(span.work == work for span in spans)
        },
    )


def busy_stretches(spans: Iterable[Span]) -> list[tuple[int, int]]:
    """Return the union of spans as disjoint stretches (begin_ns, end_ns) in their order; those that touch are one."""
    union: list[tuple[int, int]] = []
    for begin, end in sorted((span.begin_ns, span.end_ns) for span in spans):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((begin, end))
    return union


def timed_part(plan: Plan, lane: int) -> range:
    """Return the indices of a lane's operations that are timed.

    Where the lane records two timed events or more between its marks `begin` and `end`, these are the operations between the
    first and the last of them; where it records them elsewhere (behind a gate the marks come later), those between them all the
    same; without such events those between the marks, and without marks all.
    """
    operations = plan.lanes[lane]
    marks = {plan.marks[operation.mark]: index for index, operation in enumerate(operations) if isinstance(operation, Mark)}
    marked = range(marks.get("begin", 0), marks.get("end", len(operations)))
    events = [index for index, each in enumerate(operations) if isinstance(each, Record) and plan.events[each.event].timed]
    inside = [index for index in events if index in marked]
    bounds = inside if len(inside) > 1 else events
    return range(bounds[0], bounds[-1]) if len(bounds) > 1 else marked


def work_of(operation: Operation) -> Work:
    """Return what sort of work an operation is."""
    if isinstance(operation, Copy):
        return operation.direction
    if isinstance(operation, Prefetch):
        return "h2d" if operation.to == "device" else "d2h"
    return _WORK.get(type(operation), "host")


def _recorded(plan: Plan, activities: Sequence[Activity], origin: int) -> list[Span]:
    timed = [timed_part(plan, lane) for lane in range(len(plan.lanes))]
    return [
        Span(
            work_of(plan.lanes[each.lane][each.index]),
            each.engine,
            each.begin_ns - origin,
            each.end_ns - origin,
            each.stream,
            each.lane,
            each.index,
            each.size_bytes,
            each.memory,
            each.index in timed[each.lane],
            None if each.host_begin_ns is None else each.host_begin_ns - origin,
            None if each.host_end_ns is None else each.host_end_ns - origin,
        )
        for each in activities
    ]


def _between_events(plan: Plan, trace: Trace) -> list[Span]:
    times = {event.name: ns for event, ns in zip(plan.events, trace.event_ns, strict=False) if ns is not None}
    directions: tuple[Work, ...] = ("h2d", "d2h")
    return [
        Span(way, way, times[f"{way} start"], times[f"{way} stop"])
        for way in directions
        if f"{way} start" in times and f"{way} stop" in times
    ]


def _in_order(spans: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(sorted(spans, key=lambda span: (span.begin_ns, span.end_ns, span.lane, span.index)))


def _by_engine(spans: Iterable[Span]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.engine, []).append(span)
    return dict(sorted(found.items()))


def _shares(spans: Sequence[Span]) -> dict[frozenset[Work], int]:
    """Return for how long (ns) each set of sorts of work ran at once; the time in which none ran is left out."""
    changes = sorted([(span.begin_ns, 1, span.work) for span in spans] + [(span.end_ns, -1, span.work) for span in spans])
    running: dict[Work, int] = dict.fromkeys(OVERLAPPING, 0)
    at_once: frozenset[Work] = frozenset()
    lengths: dict[frozenset[Work], int] = {}
    for (now, change, work), (following, _, _) in pairwise(changes):
        running[work] += change
        if running[work] == max(change, 0):  # the first of its sort begins, or the last one ends
            at_once ^= {work}
        if at_once and following > now:
            lengths[at_once] = lengths.get(at_once, 0) + following - now
    return lengths
