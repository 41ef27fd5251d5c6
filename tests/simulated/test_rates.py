"""Shared rates against closed forms, and the curves that give single times."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.device.simulated import Profile
from runner.device.simulated.agenda import Agenda, Fluid, Job
from runner.device.simulated.profile_values import Curve, RateTable
from runner.memory import DEVICE
from runner.plan import Barrier, Buffer, Copy, Drain, HostCopy, Mark
from tests.plans import plan_of
from tests.simulated.profiles import MS, MS_BYTES, play, span_ns, with_values


def ends_of(jobs: Sequence[tuple[int, int, int]], rates: dict[int, int]) -> list[int]:
    """Play (start ns, work, weight) and return each job's end in ns."""
    agenda, ends = Agenda(), [-1] * len(jobs)
    fluid = Fluid(agenda, lambda weight: rates[weight])

    def end(number: int) -> None:
        ends[number] = agenda.now

    for number, (start, work, weight) in enumerate(jobs):
        agenda.at(start, fluid.begin, Job(work, weight, end, number))
    while agenda.heap:
        agenda.now, _, action, argument = heappop(agenda.heap)
        action(argument)
    return ends


def test_one_job_has_the_whole_rate() -> None:
    assert ends_of([(5, 100, 1)], {1: 10}) == [15]
    assert ends_of([(5, 101, 1)], {1: 10}) == [16]


def test_two_equal_jobs_share_and_the_second_speeds_up_when_the_first_ends() -> None:
    """Alone 10 a ns, together 12: 6 each. The first ends after 100 / 6; the second did 100 by then and 100 more at 10."""
    assert ends_of([(0, 600, 1), (0, 1_200, 1)], {1: 10, 2: 12}) == [100, 160]


def test_a_late_job_takes_its_part_from_then_on() -> None:
    assert ends_of([(0, 1_000, 1), (50, 300, 1)], {1: 10, 2: 12}) == [120, 100]


def test_weights_divide_the_rate() -> None:
    assert ends_of([(0, 300, 1), (0, 900, 3)], {1: 40, 3: 40, 4: 40}) == [30, 30]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10_000)), min_size=1, max_size=6))
def test_work_is_neither_lost_nor_made(jobs: list[tuple[int, int]]) -> None:
    """With a constant total rate the last end of jobs that start together is all work over the rate, rounded up."""
    total = 60
    rates = dict.fromkeys(range(1, 7), total)
    ends = ends_of([(0, work, 1) for _, work in jobs], rates)
    work = sum(work for _, work in jobs)
    assert ceil(Fraction(work, total)) <= max(ends) <= ceil(Fraction(work, total)) + len(jobs)
    for (start, amount), end in zip(jobs, ends_of([(start, work, 1) for start, work in jobs], rates), strict=True):
        assert start + ceil(Fraction(amount, total)) <= end <= max(start for start, _ in jobs) + work


def test_opposite_copies_slow_each_other_while_both_run(ideal: Profile) -> None:
    """2 ms up beside 1 ms down at four fifths: down ends at 1.25 ms; by then 1 ms of up is done, and 1 ms is left."""
    buffers = [Buffer("in", "pinned", 2 * MS_BYTES), Buffer("out", "pinned", MS_BYTES)]
    buffers += [Buffer("a", DEVICE, 2 * MS_BYTES), Buffer("b", DEVICE, MS_BYTES)]
    lane = [Copy(0, "h2d", 2, 0, 0, 0, 2 * MS_BYTES), Copy(1, "d2h", 1, 0, 3, 0, MS_BYTES), Drain(0), Drain(1)]
    plan = plan_of(buffers, [lane], data=[0, 3], streams=2)
    ends = {activity.engine: activity.end_ns for activity in play(with_values(ideal, duplex_ppm=800_000), plan).activities}
    assert ends == {"d2h": 1_250_000, "h2d": 2_250_000}


@pytest.mark.parametrize(
    ("lanes", "threads", "expected_ms"), [(1, 1, 2), (1, 2, 1), (2, 1, 2), (4, 1, 2), (8, 1, 4), (1, 8, 0.5)]
)
def test_host_copies_of_all_lanes_share_a_rate(ideal: Profile, lanes: int, threads: int, expected_ms: float) -> None:
    """10 MB a lane; 5 GB/s by 1 thread, 10 by 2, 20 by 4 and more."""
    buffers = [Buffer("from", "pageable", lanes * MS_BYTES), Buffer("to", "pageable", lanes * MS_BYTES)]
    work = [[Barrier(), HostCopy(1, n * MS_BYTES, 0, n * MS_BYTES, MS_BYTES, threads), Barrier()] for n in range(lanes)]
    work[0].insert(1, Mark(0))  # type: ignore[arg-type]
    work[0].append(Mark(1))  # type: ignore[arg-type]
    assert span_ns(play(ideal, plan_of(buffers, work, data=[0], poison=[1]))) == expected_ms * MS


def curve(points: list[tuple[int, int]], rate: float | None = None) -> Curve:
    return Curve.model_validate({"points": tuple(points), "then_gb_per_s": rate, "how": "assumed", "source": "a test"})


def test_a_curve_runs_through_its_points() -> None:
    line = curve([(0, 100), (1_000, 200), (3_000, 1_200)], 2.0)
    assert [line.ns(size) for size in (0, 1, 10, 500, 1_000, 2_000, 3_000, 3_001, 5_000)] == [
        *(100, 101, 101, 150, 200, 700, 1_200, 1_201, 2_200)
    ]
    assert curve([(0, 7)]).ns(10**12) == 7


@settings(deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_curve_never_falls(one: int, other: int) -> None:
    line = curve([(0, 100), (1_000, 200), (3_000, 1_200)], 55.43)
    assert line.ns(min(one, other)) <= line.ns(max(one, other))


@pytest.mark.parametrize("points", [[(1, 0)], [(0, 5), (0, 6)], [(0, 5), (10, 4)], [(0, 5), (20, 6), (10, 7)], []])
def test_a_curve_that_does_not_rise_is_refused(points: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match=r"rise|at least 1 item"):
        curve(points)


def test_a_rate_between_two_rows_lies_on_their_line() -> None:
    table = RateTable.model_validate({"by_threads": {1: 5, 2: 10, 4: 20}, "how": "assumed", "source": "a test"})
    assert [table.bytes_per_second(threads) // 10**9 for threads in (1, 2, 3, 4, 9)] == [5, 10, 15, 20, 20]


def test_a_copy_on_a_single_engine_is_never_slowed(ideal: Profile) -> None:
    buffers = [Buffer("in", "pinned", MS_BYTES), Buffer("out", "pinned", MS_BYTES), Buffer("a", DEVICE, MS_BYTES)]
    buffers += [Buffer("b", DEVICE, MS_BYTES)]
    lane = [Mark(0), Copy(0, "h2d", 2, 0, 0, 0, MS_BYTES), Copy(1, "d2h", 1, 0, 3, 0, MS_BYTES), Drain(0), Drain(1), Mark(1)]
    plan = plan_of(buffers, [lane], data=[0, 3], streams=2)
    trace = play(with_values(ideal, copy_engines=1, duplex_ppm=500_000), plan)
    assert span_ns(trace) == 2 * MS
    assert {activity.engine for activity in trace.activities} == {"copy"}
