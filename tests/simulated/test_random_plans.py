"""Whatever the Plan, engines do one thing at a time, streams keep their order, and no time is lost or made."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.device.simulated import SimulatedDevice, load_profile
from runner.memory import DEVICE
from runner.plan import Buffer, Copy, Drain, Launch, Mark, Operation, Plan, Record, StreamWait
from runner.plan_check import check_plan
from tests.plans import plan_of
from tests.simulated.profiles import play, span_ns, with_values, without_overheads

STREAMS, PART = 3, 40_000
WORK = st.tuples(st.sampled_from(["up", "down", "kernel"]), st.integers(0, STREAMS - 1), st.integers(1, PART // 4))
WORKS = st.lists(st.tuples(WORK, st.booleans()), min_size=1, max_size=14)


def plan_from(works: list[tuple[tuple[str, int, int], bool]]) -> Plan:
    """Each stream has its own parts of the buffers; a flag lets the next stream wait for what this one did."""
    whole = STREAMS * PART
    buffers = [Buffer("in", "pinned", whole), Buffer("out", "pinned", whole), Buffer("device", DEVICE, whole)]
    lane: list[Operation] = [Mark(0)]
    events = 0
    for (what, stream, words), waits in works:
        at, size = stream * PART, 4 * words
        if what == "kernel":
            lane.append(Launch(stream, 2, at, size))
        elif what == "up":
            lane.append(Copy(stream, "h2d", 2, at, 0, at, size))
        else:
            lane.append(Copy(stream, "d2h", 1, at, 2, at, size))
        if waits:
            lane += [Record(stream, events), StreamWait((stream + 1) % STREAMS, events)]
            events += 1
    lane += [*(Drain(stream) for stream in range(STREAMS)), Mark(1)]
    return plan_of(buffers, [lane], data=[0, 2], poison=[1], streams=STREAMS, events=events)


@settings(max_examples=150, deadline=None)
@given(WORKS, st.sampled_from([1, 2]))
def test_engines_and_streams_keep_their_order(works: list[tuple[tuple[str, int, int], bool]], engines: int) -> None:
    plan = plan_from(works)
    trace = play(with_values(load_profile("test"), copy_engines=engines), plan)
    assert len(trace.activities) == len(works)
    by_engine: dict[str, list[tuple[int, int, int]]] = {}
    by_stream: dict[int, list[tuple[int, int, int]]] = {}
    for activity in trace.activities:
        span = (activity.index, activity.begin_ns, activity.end_ns)
        by_engine.setdefault(activity.engine, []).append(span)
        by_stream.setdefault(plan.lanes[0][activity.index].stream, []).append(span)  # type: ignore[union-attr]
    for spans in (*by_engine.values(), *by_stream.values()):
        spans.sort()
        assert all(begin <= end for _, begin, end in spans)
        assert all(end <= begin for (_, _, end), (_, begin, _) in pairwise(spans))


@settings(max_examples=150, deadline=None)
@given(WORKS)
def test_the_makespan_lies_between_its_bounds(works: list[tuple[tuple[str, int, int], bool]]) -> None:
    """No engine and no stream can be faster than its own work, and all together cannot be slower than one after another."""
    trace = play(without_overheads(load_profile("test")), plan_from(works))
    times = [(what, stream, -(-4 * words // 10)) for (what, stream, words), _ in works]
    engines = [sum(time for what, _, time in times if what == kind) for kind in ("up", "down", "kernel")]
    streams = [sum(time for _, stream, time in times if stream == number) for number in range(STREAMS)]
    assert max(engines + streams) <= span_ns(trace) <= sum(time for *_, time in times)


@settings(max_examples=100, deadline=None)
@given(WORKS, st.sampled_from([500_000, 800_000, 1_000_000]))
def test_no_work_is_lost_or_made(works: list[tuple[tuple[str, int, int], bool]], duplex_ppm: int) -> None:
    """A kernel takes its own time; a copy that, and more only by what the opposite direction took from it meanwhile."""
    plan = plan_from(works)
    trace = play(with_values(without_overheads(load_profile("test")), duplex_ppm=duplex_ppm), plan)
    spans = {activity.index: (activity.engine, activity.begin_ns, activity.end_ns) for activity in trace.activities}
    order = [index for index, operation in enumerate(plan.lanes[0]) if isinstance(operation, Copy | Launch)]
    opposite = {"h2d": "d2h", "d2h": "h2d"}
    for index, ((_, _, words), _) in zip(order, works, strict=True):
        engine, begin, end = spans[index]
        others = [each for each in spans.values() if each[0] == opposite.get(engine)]
        shared = sum(max(0, min(end, other_end) - max(begin, other_begin)) for _, other_begin, other_end in others)
        done = end - begin - shared + shared * duplex_ppm / 1_000_000
        assert abs(done - 4 * words / 10) <= 2 + len(others), "whole ns, one for each time that the sharing changes"


@settings(max_examples=50, deadline=None)
@given(WORKS, st.integers(0, 14))
def test_work_that_is_longer_never_ends_sooner(works: list[tuple[tuple[str, int, int], bool]], at: int) -> None:
    ideal = without_overheads(load_profile("test"))
    (what, stream, words), waits = works[at % len(works)]
    longer = list(works)
    longer[at % len(works)] = ((what, stream, min(PART // 4, 2 * words)), waits)
    assert span_ns(play(ideal, plan_from(works))) <= span_ns(play(ideal, plan_from(longer)))


@settings(max_examples=50, deadline=None)
@given(WORKS)
def test_a_plan_played_twice_gives_one_trace(works: list[tuple[tuple[str, int, int], bool]]) -> None:
    plan = plan_from(works)
    check_plan(plan)
    session = SimulatedDevice(load_profile("h200")).open(plan)
    assert session.play(0) == session.play(1)
