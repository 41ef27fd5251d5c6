"""Timelines as trace events: the validator finds broken files, ours pass it, and they say what the timeline says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from runner.timeline import Span
from runner.trace_events import trace_events, trace_json
from tests.timelines import MIB, MS, known_timeline, problems_of_trace


def events(**changes: Any) -> list[dict[str, Any]]:
    return trace_events(known_timeline(**changes))


def test_a_timeline_becomes_a_sound_file() -> None:
    content = json.loads(trace_json(known_timeline()))
    assert problems_of_trace(content) == []
    assert content["otherData"]["case"] == "ring chunk 1MiB"
    assert content["otherData"]["device_kind"] == "cuda"


def test_bars_say_what_was_moved_how_fast_and_when_it_was_called_for() -> None:
    (copy, second) = [each for each in events() if each["ph"] == "X" and each["cat"] == "h2d" and each["pid"] == 1]
    assert (copy["name"], copy["ts"], copy["dur"]) == ("copy to device 1MiB", 1000, 1000)
    assert copy["args"] == {
        "operation": "1 of lane 0",
        "timed": True,
        "bytes": MIB,
        "GB/s": 1.049,
        "memory": "pinned",
        "call_begin_us": 1000,
        "call_end_us": 1002,
    }
    assert second["args"]["timed"] is False


def test_lines_are_threads_of_three_processes() -> None:
    named = [each["args"]["name"] for each in events() if each["name"] in ("process_name", "thread_name")]
    assert named == [
        "engines of ring chunk 1MiB",
        "streams of ring chunk 1MiB",
        "host lanes of ring chunk 1MiB",
        "compute",
        "h2d",
        "first",
        "second",
        "lane 0",
    ]
    assert all("SIMULATED" in each["args"]["name"] for each in events(simulated=True) if each["name"] == "process_name")


def test_calls_stand_on_their_lane_and_lead_to_their_work() -> None:
    calls = [each for each in events() if each.get("cat") == "call" and each["ph"] == "X"]
    assert [(each["name"], each["ts"], each["dur"]) for each in calls] == [
        ("call: copy to device 1MiB", 1000, 2),
        ("call: kernel 1MiB", 1002, 1),
        ("call: copy to device 1MiB", 1003, 2),
    ]
    assert [each["ph"] for each in events() if each["ph"] in "sf"].count("s") == 3


def test_work_of_one_line_that_crosses_goes_to_a_further_thread() -> None:
    first, second = (Span("kernel", "compute", begin, begin + 2 * MS, 0, 0, index) for index, begin in enumerate((0, MS)))
    of = known_timeline()
    crossing = replace(of, timeline=replace(of.timeline, spans=(first, second)))
    content = json.loads(trace_json(crossing))
    assert problems_of_trace(content) == []
    names = [each["args"]["name"] for each in content["traceEvents"] if each["name"] == "thread_name"]
    assert names == ["compute", "compute (2)", "first", "first (2)"]


def test_a_lane_that_only_called_has_its_line() -> None:
    of = known_timeline()
    spans = tuple(span for span in of.timeline.spans if span.engine != "host")
    content = json.loads(trace_json(replace(of, timeline=replace(of.timeline, spans=spans))))
    assert problems_of_trace(content) == []
    assert [each["args"]["name"] for each in content["traceEvents"] if each["name"] == "thread_name"][-1] == "lane 0"


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ({"ph": "X", "dur": -1.0}, "has dur and args"),
        ({"ts": "soon"}, "ts is a time in us"),
        ({"tid": None}, "pid and tid are whole numbers"),
        ({"tid": 99}, "thread 99 of process 1 has no name"),
        ({"ph": "Q"}, "'Q' is no phase"),
        ({"dur": 5000}, "before the one before it ends"),
    ],
)
def test_the_validator_sees_what_viewers_would_drop(spoil: dict[str, Any], problem: str) -> None:
    content = json.loads(trace_json(known_timeline()))
    copy = next(each for each in content["traceEvents"] if each["ph"] == "X" and each["cat"] == "h2d")
    copy |= spoil
    assert any(problem in each for each in problems_of_trace(content))


def test_the_validator_wants_both_ends_of_a_flow_and_names() -> None:
    whole = json.loads(trace_json(known_timeline()))["traceEvents"]
    without = {"displayTimeUnit": "ns", "traceEvents": [each for each in whole if each["ph"] not in "Mf"]}
    problems = problems_of_trace(without)
    assert any("flow" in each for each in problems)
    assert any("has no name" in each for each in problems)
    assert problems_of_trace([]) == ["the file is no object with a list traceEvents"]
