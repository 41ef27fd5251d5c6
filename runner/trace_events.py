"""A timeline in Chrome's trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format is that of "Trace Event Format" (Google, document CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): an object with a list
`traceEvents`. Engines, streams and host lanes are three processes, each line a thread named by metadata events (ph M). Work and
calls are complete events (ph X) with `ts` and `dur` in µs; the bars of one thread never cross, since the format lets them only
nest: what ran beside another bar of its line goes to a further thread of that name. A flow (ph s and f) leads from each call to
the work that it asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runner.timeline import Group, Row, Span
from runner.timeline_case import CaseTimeline
from runner.timeline_page import calls_of, rows_with_calls
from runner.timeline_words import span_name

Event = dict[str, Any]

PROCESSES: Final[tuple[tuple[Group, str], ...]] = (("engine", "engines"), ("stream", "streams"), ("host", "host lanes"))
_HOST: Final = 3
_ENGINE: Final = 1


@dataclass(frozen=True, slots=True)
class Bar:
    """What stands on a thread: a span itself, or (`call`) the host's call for it."""

    begin_ns: int
    end_ns: int
    span: Span
    call: bool = False


def trace_json(of: CaseTimeline) -> bytes:
    """Return the file's content, UTF-8, one event a line."""
    events = ",\n".join(json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in trace_events(of))
    about = json.dumps(_about(of), ensure_ascii=False)
    return f'{{"displayTimeUnit":"ns","otherData":{about},"traceEvents":[\n{events}\n]}}\n'.encode()


def trace_events(of: CaseTimeline) -> list[Event]:
    """Return all events: names first, then bars by thread and begin, then flows."""
    note = " (SIMULATED)" if of.simulated else ""
    events: list[Event] = []
    for pid, (_, name) in enumerate(PROCESSES, 1):
        events.append(_named("process_name", pid, 0, name=f"{name} of {of.label}{note}"))
        events.append(_named("process_sort_index", pid, 0, sort_index=pid))
    flows: list[Event] = []
    tid = 0
    for row in rows_with_calls(of):
        pid = [group for group, _ in PROCESSES].index(row.group) + 1
        for number, bars in enumerate(_apart(_bars(row, of)), 1):
            tid += 1
            events.append(_named("thread_name", pid, tid, name=row.name if number == 1 else f"{row.name} ({number})"))
            events.append(_named("thread_sort_index", pid, tid, sort_index=tid))
            for bar in bars:
                events.append(_complete(bar, pid, tid))
                flows.extend(_flow(bar, pid, tid))
    return events + flows


def _bars(row: Row, of: CaseTimeline) -> list[Bar]:
    bars = [Bar(span.begin_ns, span.end_ns, span) for span in row.spans]
    if row.group == "host":
        lane = int(row.name.removeprefix("lane "))
        bars += [Bar(begin, end, span, call=True) for begin, end, span in calls_of(of.timeline.spans, lane)]
    return sorted(bars, key=lambda bar: (bar.begin_ns, -bar.end_ns))


def _apart(bars: Sequence[Bar]) -> list[list[Bar]]:
    """Return bars on as few threads as they need so that none begins before the one before it on its thread has ended."""
    threads: list[list[Bar]] = []
    for bar in bars:
        free = next((thread for thread in threads if thread[-1].end_ns <= bar.begin_ns), None)
        if free is None:
            threads.append(free := [])
        free.append(bar)
    return threads


def _complete(bar: Bar, pid: int, tid: int) -> Event:
    span = bar.span
    name = span_name(span)
    arguments: Event = {"operation": f"{span.index} of lane {span.lane}", "timed": span.timed}
    if span.size_bytes:
        arguments |= {"bytes": span.size_bytes}
    if not bar.call:
        if span.gb_per_s is not None:
            arguments |= {"GB/s": round(span.gb_per_s, 3)}
        if span.memory:
            arguments |= {"memory": span.memory}
        if span.call_begin_ns is not None and span.call_end_ns is not None:
            arguments |= {"call_begin_us": _us(span.call_begin_ns), "call_end_us": _us(span.call_end_ns)}
    return {
        "name": f"call: {name}" if bar.call else name,
        "cat": "call" if bar.call else span.work,
        "ph": "X",
        "ts": _us(bar.begin_ns),
        "dur": _us(bar.end_ns - bar.begin_ns),
        "pid": pid,
        "tid": tid,
        "args": arguments,
    }


def _flow(bar: Bar, pid: int, tid: int) -> Iterator[Event]:
    """Yield the end of an arrow that stands at this bar: it leads from a call to its work on the engine."""
    span = bar.span
    if span.engine == "host" or span.call_begin_ns is None:
        return
    identity = (span.lane << 32) + span.index
    common: Event = {"name": "asks for", "cat": "call", "id": identity, "pid": pid, "tid": tid, "ts": _us(bar.begin_ns)}
    if bar.call and pid == _HOST:
        yield common | {"ph": "s"}
    elif pid == _ENGINE:
        yield common | {"ph": "f", "bp": "e"}


def _named(what: str, pid: int, tid: int, **arguments: str | int) -> Event:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "ts": 0, "args": arguments}


def _about(of: CaseTimeline) -> Event:
    return {
        "run_id": of.run_id,
        "case_id": of.case_id,
        "case": of.label,
        "device": of.device,
        "device_kind": "simulated" if of.simulated else "cuda",
        "origin": of.origin,
        "source": of.timeline.source,
        "spans_left_out": of.timeline.left_out,
    }


def _us(ns: int) -> float:
    return ns / 1000
