"""Timelines of plays with known times, and what they say of the work that ran at once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from runner.device.contract import Activity, Trace
from runner.device.select import open_device
from runner.memory import DEVICE
from runner.plan import Buffer, Busy, Copy, Drain, Event, HostCopy, HostWait, Launch, Mark, Operation, Plan, Record
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from runner.timeline import Span, busy_stretches, overlap_fractions, rows_of, timed_part, timeline_of, work_of
from tests.plans import plan_of

MIB = 2**20
UP, KERNEL, DOWN = Copy(0, "h2d", 1, 0, 0, 0, 1000), Launch(1, 1, 0, 1000), Copy(2, "d2h", 0, 0, 1, 0, 1000)
BUFFERS = [Buffer("host", "pinned", 1000), Buffer("device", DEVICE, 1000)]


def traced(*stretches: tuple[int, int], lane: tuple[Operation, ...] = (UP, KERNEL, DOWN)) -> tuple[Plan, Trace]:
    """Return a Plan of one lane and a Trace in which its operations took these stretches."""
    plan = plan_of(BUFFERS, [lane], streams=3)
    engines = {Copy: "copy", Launch: "compute", HostCopy: "host", HostWait: "host", Busy: "busy"}
    done = [
        Activity(0, index, operation.direction if isinstance(operation, Copy) else engines[type(operation)], *stretch)
        for index, (operation, stretch) in enumerate(zip(lane, stretches, strict=True))
    ]
    return plan, Trace((), (), activities=tuple(done))


@pytest.mark.parametrize(
    ("up", "kernel", "down", "shares"),
    [
        # any two, all three, both directions, kernel beside a copy
        ((0, 10), (10, 20), (20, 30), (0, 0, 0, 0)),
        ((0, 10), (0, 10), (0, 10), (1, 1, 1, 1)),
        ((0, 10), (20, 30), (0, 10), (0.5, 0, 0.5, 0)),
        ((0, 10), (5, 15), (20, 25), (0.25, 0, 0, 0.25)),
        ((0, 8), (4, 12), (6, 16), (0.5, 0.125, 0.125, 0.5)),
        ((0, 10), (100, 110), (105, 115), (0.2, 0, 0, 0.2)),
    ],
)
def test_shares_are_of_the_time_in_which_anything_ran(
    up: tuple[int, int], kernel: tuple[int, int], down: tuple[int, int], shares: tuple[float, ...]
) -> None:
    overlap = overlap_fractions(timeline_of(*traced(up, kernel, down)))
    assert overlap is not None
    assert (overlap.any_two, overlap.all_three, overlap.h2d_d2h, overlap.copy_kernel) == pytest.approx(shares)


def test_engines_have_their_busy_share_and_the_gaps_between() -> None:
    lane = (UP, UP, UP, DOWN)
    overlap = overlap_fractions(timeline_of(*traced((0, 10), (10, 20), (26, 36), (30, 40), lane=lane)))
    assert overlap is not None
    assert overlap.busy == {"d2h": 0.25, "h2d": 0.75}
    assert overlap.gaps_ns == {"d2h": (), "h2d": (6,)}
    assert overlap.work_ns == {"h2d": 30, "d2h": 10}


@pytest.mark.parametrize(("lane", "stretches"), [((UP, UP), ((0, 5), (2, 9))), ((UP, Busy(0, 9)), ((0, 5), (0, 5)))])
def test_one_sort_of_work_overlaps_with_nothing(lane: tuple[Operation, ...], stretches: tuple[tuple[int, int], ...]) -> None:
    assert overlap_fractions(timeline_of(*traced(*stretches, lane=lane))) is None


def test_two_kernels_of_the_same_time_are_no_change_of_what_runs() -> None:
    lane = (KERNEL, KERNEL, UP)
    overlap = overlap_fractions(timeline_of(*traced((0, 10), (10, 20), (0, 20), lane=lane)))
    assert overlap is not None
    assert overlap.copy_kernel == 1


def test_spans_are_counted_from_the_first_call_and_tell_bytes_and_rate() -> None:
    plan = plan_of(BUFFERS, [[UP]])
    copy = Activity(0, 0, "h2d", 5_100, 5_200, 0, 1000, "pinned", 5_000, 5_020)
    timeline = timeline_of(plan, Trace((), (), activities=(copy,)))
    (span,) = timeline.spans
    assert (timeline.origin_ns, timeline.source) == (5_000, "engine")
    assert (span.begin_ns, span.end_ns, span.call_begin_ns, span.call_end_ns) == (100, 200, 0, 20)
    assert (span.work, span.size_bytes, span.memory, span.gb_per_s) == ("h2d", 1000, "pinned", 10.0)
    assert Span("wait", "host", 0, 5).gb_per_s is None


def test_rows_are_engines_streams_and_lanes() -> None:
    wait = HostWait(0)
    plan, trace = traced((10, 20), (20, 30), (30, 40), (0, 45), lane=(UP, KERNEL, DOWN, wait))
    placed = [
        Activity(each.lane, each.index, each.engine, each.begin_ns, each.end_ns, -1 if each.engine == "host" else each.index)
        for each in trace.activities
    ]
    timeline = timeline_of(plan, Trace((), (), activities=tuple(placed)))
    rows = rows_of(plan, timeline)
    assert [(row.group, row.name, [span.index for span in row.spans]) for row in rows] == [
        ("engine", "compute", [1]),
        ("engine", "d2h", [2]),
        ("engine", "h2d", [0]),
        ("stream", "s0", [0]),
        ("stream", "s1", [1]),
        ("stream", "s2", [2]),
        ("host", "lane 0", [3]),
    ]


def test_without_records_events_give_a_coarser_timeline_and_without_those_there_is_none() -> None:
    both = Transfer(kind="transfer", direction="bidirectional", size=MIB)
    plan = both.plan()
    times = {"h2d start": 0, "d2h start": 4_000, "h2d stop": 10_000, "d2h stop": 12_000}
    trace = Trace((None,) * len(plan.marks), tuple(times.get(event.name) for event in plan.events))
    timeline = timeline_of(plan, trace)
    overlap = overlap_fractions(timeline)
    assert (timeline.source, [(span.work, span.begin_ns, span.end_ns) for span in timeline.spans]) == (
        "events",
        [("h2d", 0, 10_000), ("d2h", 4_000, 12_000)],
    )
    assert overlap is not None
    assert overlap.h2d_d2h == 0.5
    unknown = timeline_of(plan, Trace((), (None,) * len(plan.events)))
    assert (unknown.source, unknown.spans, overlap_fractions(unknown)) == ("none", (), None)


def test_what_is_timed_lies_between_events_else_between_marks_else_everywhere() -> None:
    events = (Event("start", timed=True), Event("stop", timed=True), Event("done"))
    timed = [Record(0, 0), UP, Record(0, 1)]

    def part(lane: list[Operation], marks: tuple[str, ...] = ()) -> range:
        plan = plan_of(BUFFERS, [lane], events=events)
        return timed_part(Plan(plan.buffers, (), (), plan.lanes, streams=plan.streams, events=events, marks=marks), 0)

    assert part([UP, *timed, UP]) == range(1, 3)
    assert part([*timed, Mark(0), UP, Mark(1)], ("begin", "end")) == range(2)
    assert part([UP, Mark(0), UP, Record(0, 2), Mark(1), UP], ("begin", "end")) == range(1, 4)
    assert part([UP, UP]) == range(2)


def test_stretches_that_touch_are_one() -> None:
    spans = [Span("h2d", "h2d", *stretch) for stretch in ((5, 9), (0, 3), (3, 4), (6, 7))]
    assert busy_stretches(spans) == [(0, 4), (5, 9)]


def test_a_simulated_ring_is_told_whole() -> None:
    ring = Pipeline(kind="pipeline", schedule="overlapped", buffer="pinned", staging="copy", total=8 * MIB, chunk=MIB, streams=3)
    plan = ring.plan()
    session = open_device("simulated").device.open(plan)
    plain, recorded = session.play(0), session.play(1, record=True)
    session.close()
    assert (plain.host_ns, plain.event_ns) == (recorded.host_ns, recorded.event_ns)
    timeline = timeline_of(plan, recorded)
    told = {span.index for span in timeline.spans}
    assert told == {
        index for index, each in enumerate(plan.lanes[0]) if isinstance(each, Copy | Launch | HostCopy | HostWait | Drain)
    }
    lane = next(row for row in rows_of(plan, timeline) if row.group == "host")
    assert all(before.end_ns <= after.begin_ns for before, after in pairwise(lane.spans))
    assert {span.work for span in lane.spans} == {"host_copy", "wait"}
    for span in timeline.spans:
        assert span.call_begin_ns is not None
        assert span.call_begin_ns <= span.begin_ns
        assert span.work == work_of(plan.lanes[0][span.index])
        assert span.memory == ("pinned" if span.work in ("h2d", "d2h") else "")


def test_a_direct_pipeline_overlaps_more_the_more_streams_it_has() -> None:
    def shares(streams: int) -> tuple[float, float]:
        kind = {"kind": "pipeline", "schedule": "overlapped", "buffer": "pinned", "staging": "direct", "streams": streams}
        plan = Pipeline(**kind, total=64 * MIB, chunk=8 * MIB).plan()  # type: ignore[arg-type]
        session = open_device("simulated").device.open(plan)
        overlap = overlap_fractions(timeline_of(plan, session.play(0)))
        session.close()
        assert overlap is not None
        return overlap.h2d_d2h, overlap.copy_kernel

    one, two = shares(1), shares(2)
    assert one == (0, 0)
    assert two[0] > 0.5
    assert 0 < two[1] < 0.2
