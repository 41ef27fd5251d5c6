"""Makespans known from the model of engines that serve in order of issue, exact to the ns."""

from __future__ import annotations

import pytest

from runner.device.simulated import Profile
from runner.memory import DEVICE
from runner.plan import Buffer, Copy, Drain, Gate, Launch, Mark, Record, Release, StreamWait
from tests import plans
from tests.plans import plan_of
from tests.simulated.profiles import MS, MS_BYTES, play, span_ns, with_values


@pytest.mark.parametrize(
    ("chunks", "copy_ms", "kernel_ms", "engines", "issue", "expected_ms"),
    [
        (3, 1, 1, 1, "depth_first", 9),
        (3, 1, 1, 1, "breadth_first", 6),
        (3, 1, 1, 2, "depth_first", 5),
        (3, 1, 1, 2, "breadth_first", 5),
        (3, 2, 1, 1, "depth_first", 15),
        (3, 2, 1, 1, "breadth_first", 12),
        (3, 2, 1, 2, "depth_first", 9),
        (3, 2, 1, 2, "breadth_first", 9),
        (3, 1, 4, 1, "depth_first", 18),
        (3, 1, 4, 1, "breadth_first", 14),
        (3, 1, 4, 2, "depth_first", 14),
        (3, 1, 4, 2, "breadth_first", 14),
        (4, 1, 1, 1, "depth_first", 12),
        (4, 1, 1, 1, "breadth_first", 8),
        (4, 1, 1, 2, "depth_first", 6),
        (4, 1, 1, 2, "breadth_first", 6),
    ],
)
def test_known_makespan(
    ideal: Profile, chunks: int, copy_ms: int, kernel_ms: int, engines: int, issue: str, expected_ms: int
) -> None:
    plan = plans.direct(chunks, copy_ms * MS_BYTES, chunks, kernel=MS_BYTES, passes=kernel_ms, issue=issue)
    assert span_ns(play(with_values(ideal, copy_engines=engines), plan)) == expected_ms * MS


def test_three_copies_one_way_on_three_streams_gain_nothing(ideal: Profile) -> None:
    buffers = [Buffer("host", "pinned", 3 * MS_BYTES), Buffer("device", DEVICE, 3 * MS_BYTES)]
    ups = [Copy(n, "h2d", 1, n * MS_BYTES, 0, n * MS_BYTES, MS_BYTES) for n in range(3)]
    lane = [Mark(0), *ups, Drain(0), Drain(1), Drain(2), Mark(1)]
    assert span_ns(play(ideal, plan_of(buffers, [lane], data=[0], streams=3))) == 3 * MS


def test_overheads_add_up_on_one_stream(round_numbers: Profile) -> None:
    """1 us for the call, then copy, handoff, kernel, handoff, copy, and 1 us to wake the lane; the other calls hide."""
    trace = play(round_numbers, plans.direct(1, MS_BYTES, 1))
    assert span_ns(trace) == 1_000 + MS + 1_000 + MS + 1_000 + MS + 1_000
    assert [(activity.engine, activity.begin_ns, activity.end_ns) for activity in trace.activities] == [
        ("h2d", 1_000, 1_001_000),
        ("compute", 1_002_000, 2_002_000),
        ("d2h", 2_003_000, 3_003_000),
    ]


def test_a_gap_stands_between_streams_on_one_engine_and_not_within_one(round_numbers: Profile) -> None:
    buffers = [Buffer("host", "pinned", 2 * MS_BYTES), Buffer("device", DEVICE, 2 * MS_BYTES)]
    for second, gap in ((0, 0), (1, 1_000)):
        ups = [Copy(0, "h2d", 1, 0, 0, 0, MS_BYTES), Copy(second, "h2d", 1, MS_BYTES, 0, MS_BYTES, MS_BYTES)]
        first, last = play(round_numbers, plan_of(buffers, [[*ups, Drain(0), Drain(1)]], data=[0], streams=2)).activities
        assert last.begin_ns - first.end_ns == gap


def test_a_timed_event_takes_its_time_after_it_was_stamped(round_numbers: Profile) -> None:
    begin, end = play(round_numbers, plans.one_copy(MS_BYTES)).event_ns
    assert (begin, end) == (0, 1_000 + MS)


def test_a_handoff_reaches_over_a_stream_wait(round_numbers: Profile) -> None:
    buffers = [Buffer("host", "pinned", MS_BYTES), Buffer("device", DEVICE, MS_BYTES)]
    lane = [Copy(0, "h2d", 1, 0, 0, 0, MS_BYTES), Record(0, 0), StreamWait(1, 0), Launch(1, 1, 0, MS_BYTES), Drain(1)]
    copy, kernel = play(round_numbers, plan_of(buffers, [lane], data=[0], streams=2, events=1)).activities
    assert kernel.begin_ns - copy.end_ns == 1_000


def test_a_gate_holds_a_stream_but_no_engine(ideal: Profile) -> None:
    """The gated launch comes to the compute engine's head only after the other stream's, so that one is not held."""
    buffers = [Buffer("a", DEVICE, MS_BYTES), Buffer("b", DEVICE, MS_BYTES)]
    lane = [Mark(0), Launch(1, 1, 0, MS_BYTES), Gate(0, 0), Launch(0, 0, 0, MS_BYTES), Drain(1), Mark(1)]
    lane += [Release(0), Drain(0), Mark(2)]
    trace = play(ideal, plan_of(buffers, [lane], data=[0, 1], streams=2, gates=1))
    assert (span_ns(trace), span_ns(trace, 1, 2)) == (MS, MS)


def test_a_million_steps_of_time_do_not_drift(ideal: Profile) -> None:
    plan = plans.one_copy(3)
    assert span_ns(play(ideal, plan)) == 1
    chunks = 4_000
    buffers = [Buffer("host", "pinned", 1_000 * chunks), Buffer("device", DEVICE, 1_000 * chunks)]
    lane = [Mark(0), *(Copy(0, "h2d", 1, n * 1_000, 0, n * 1_000, 1_000) for n in range(chunks)), Drain(0), Mark(1)]
    assert span_ns(play(ideal, plan_of(buffers, [lane], data=[0]))) == 100 * chunks
