"""A timeline whose times are known, and the rules of Chrome's trace event format as a validator."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from runner.timeline import Span
from runner.timeline_case import CaseTimeline
from runner.timeline_store import KeptTimeline

MS = 1_000_000
MIB = 2**20


def known_timeline(**changes: Any) -> CaseTimeline:
    """Two uploads of 1 MiB on two streams, of which the second crosses a kernel, a host copy before and a wait behind them."""
    spans = (
        Span("host_copy", "host", 0, 1 * MS, lane=0, index=0, size_bytes=MIB),
        Span("h2d", "h2d", 1 * MS, 2 * MS, 0, 0, 1, MIB, "pinned", True, 1 * MS, 1 * MS + 2_000),
        Span("kernel", "compute", 2 * MS, 4 * MS, 0, 0, 2, MIB, "", True, 1 * MS + 2_000, 1 * MS + 3_000),
        Span("wait", "host", 2 * MS, 6 * MS, lane=0, index=4),
        Span("h2d", "h2d", 3 * MS, 5 * MS, 1, 0, 3, MIB, "pinned", False, 1 * MS + 3_000, 1 * MS + 5_000),
    )
    kept = KeptTimeline("engine", ("first", "second"), spans, changes.pop("left_out", 0))
    told = {"run_id": "r_1", "case_id": "c_1", "label": "ring chunk 1MiB", "device": "NVIDIA Test", "simulated": False}
    return CaseTimeline(**(told | {"origin": "the last recorded play of the run", "timeline": kept} | changes))


def problems_of_trace(content: Any) -> list[str]:
    """Return what breaks the rules of the trace event format, or of what we say in it; empty for a sound file.

    Checked are the object form, the fields that each phase must have and their types, metadata for each process and thread, that
    complete events of one thread nest (here: follow each other), and that each flow has one begin and one end, in this order.
    """
    problems: list[str] = []
    if not isinstance(content, dict) or not isinstance(content.get("traceEvents"), list):
        return ["the file is no object with a list traceEvents"]
    if content.get("displayTimeUnit") not in ("ms", "ns"):
        problems.append("displayTimeUnit is neither ms nor ns")
    names: dict[tuple[str, int, int], str] = {}
    bars: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    flows: dict[int, dict[str, float]] = defaultdict(dict)
    for event in content["traceEvents"]:
        problems += [f"{event} lacks {key}" for key in ("name", "ph", "pid", "tid", "ts") if key not in event]
        if not all(isinstance(event.get(key), int) for key in ("pid", "tid")):
            problems.append(f"{event}: pid and tid are whole numbers")
        time = event.get("ts")
        if not isinstance(time, int | float) or time < 0:
            problems.append(f"{event}: ts is a time in us")
            continue
        match event["ph"]:
            case "M":
                problems += _metadata(event, names)
            case "X":
                length = event.get("dur")
                if not isinstance(length, int | float) or length < 0 or not isinstance(event.get("args"), dict):
                    problems.append(f"{event}: a complete event has dur and args")
                else:
                    bars[event["pid"], event["tid"]].append((time, time + length))
            case "s" | "f":
                if event["ph"] in flows[event["id"]]:
                    problems.append(f"{event}: the flow has that end already")
                flows[event["id"]][event["ph"]] = time
            case other:
                problems.append(f"{other!r} is no phase that is used here")
    for pid, tid in bars:
        if ("thread_name", pid, tid) not in names or ("process_name", pid, 0) not in names:
            problems.append(f"thread {tid} of process {pid} has no name")
    for thread, stretches in bars.items():
        ordered = sorted(stretches)
        crossing = [two for one, two in pairwise(ordered) if two[0] < one[1] - 1e-6]
        problems += [f"on thread {thread} a bar begins at {begin} before the one before it ends" for begin, _ in crossing]
    for identity, ends in flows.items():
        if set(ends) != {"s", "f"} or ends["s"] > ends["f"]:
            problems.append(f"flow {identity} has {ends}")
    return problems


def _metadata(event: dict[str, Any], names: dict[tuple[str, int, int], str]) -> list[str]:
    wanted = {
        "process_name": "name",
        "thread_name": "name",
        "process_sort_index": "sort_index",
        "thread_sort_index": "sort_index",
    }
    key = wanted.get(event["name"])
    value = event.get("args", {}).get(key) if key else None
    if key is None or value is None or isinstance(value, str) != (key == "name"):
        return [f"{event} is no metadata that viewers know"]
    names[event["name"], event["pid"], event["tid"]] = str(value)
    return []
