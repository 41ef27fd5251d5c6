"""The sentinel between the cases of a run, and what only a whole run can say of its cases."""

from __future__ import annotations

import pytest

from runner.execution.local import play_cases, with_all_cases
from runner.expand import Case
from runner.measure import sentinel as watching
from runner.measure.across import judged
from runner.measure.result import CaseResult, Sample
from runner.measure.sentinel import APART_S, MEASURE, SENTINEL, Sentinel, describe_sentinel, medians_ms
from runner.scenarios.allocation import Allocation
from runner.scenarios.base import Scenario
from runner.spec.experiment import Measure
from tests.measure.doubles import FACTS, MIB, TimedDevice, case, copy

PLAYS = MEASURE.warmup + MEASURE.samples


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The sentinel's clock, which stands still unless the test moves it."""
    now = [0.0]
    monkeypatch.setattr(watching, "monotonic", lambda: now[0])
    return now


def swept(device: TimedDevice, cases: list[Case], sentinel: Sentinel, clock: list[float], passing_s: float) -> list[CaseResult]:
    results = []
    for result in play_cases(device, FACTS, cases, Measure(warmup=1, samples=6), sentinel):
        clock[0] += passing_s
        results.append(result)
    return results


def test_the_sentinel_is_read_first_between_groups_and_last(clock: list[float]) -> None:
    device, sentinel = TimedDevice(), Sentinel()
    cases = [case(copy(1), "c_0"), case(copy(2), "c_1"), case(copy(1, direction="d2h"), "c_2")]
    results = swept(device, cases, sentinel, clock, APART_S)
    # The first and the last case share their buffers, so that they are one group.
    assert [result.case.case_id for result in results] in (["c_0", "c_2", "c_1"], ["c_2", "c_0", "c_1"])
    assert [(result.case.case_id, result.block) for result in with_all_cases(cases, results, "")] == [
        ("c_0", 0),
        ("c_1", 1),
        ("c_2", 0),
    ]
    assert [line for line in device.log if line.startswith("open")] == [f"open {number}" for number in range(6)]
    readings = sentinel.readings
    assert [(reading.case, reading.status, reading.block) for reading in readings] == [
        (SENTINEL, "ok", number) for number in range(3)
    ]
    for reading in readings:
        assert [sample.role for sample in reading.samples] == ["warmup"] * MEASURE.warmup + ["sentinel"] * MEASURE.samples


def test_short_cases_share_a_reading(clock: list[float]) -> None:
    sentinel = Sentinel()
    cases = [case(copy(mib), f"c_{mib}") for mib in range(1, 6)]
    results = swept(TimedDevice(), cases, sentinel, clock, APART_S / 2)
    assert [result.block for result in results] == [0, 0, 1, 1, 2]
    assert len(sentinel.readings) == 4


def test_nothing_is_read_where_nothing_runs_or_nothing_can_change(clock: list[float]) -> None:
    for device, cases in (
        (TimedDevice(deterministic=True), [case(copy(), "c_0")]),
        (TimedDevice(), [Case("c_0", "copy", 0, copy(), "not today", {})]),
    ):
        sentinel = Sentinel()
        (result,) = swept(device, cases, sentinel, clock, APART_S)
        assert (result.block, sentinel.readings) == (None, [])
        assert describe_sentinel(sentinel.readings)["spread_percent"] is None


def test_a_reading_that_fails_is_kept_without_a_figure(clock: list[float]) -> None:
    sentinel = Sentinel()
    (result,) = swept(TimedDevice(break_at=(0, 0)), [case(copy(), "c_0")], sentinel, clock, APART_S)
    assert result.status == "ok"
    assert [reading.status for reading in sentinel.readings] == ["failed", "ok"]
    assert medians_ms(sentinel.readings) == [None, 2.0]
    assert describe_sentinel(sentinel.readings)["spread_percent"] == 0


def test_what_lies_between_two_readings_that_differ_is_flagged(clock: list[float]) -> None:
    # Opened in turn: the sentinel (2 ms), a case, the sentinel (2.08), a case, the sentinel (2.2).
    device = TimedDevice(lambda number, play: {0: 2.0, 2: 2.08, 4: 2.2}.get(number, 1.0))
    sentinel = Sentinel()
    results = swept(device, [case(copy(1), "c_0"), case(copy(2), "c_1")], sentinel, clock, APART_S)
    assert medians_ms(sentinel.readings) == [2.0, 2.08, 2.2]
    assert describe_sentinel(sentinel.readings)["spread_percent"] == pytest.approx(10)
    assert [result.flags for result in judged(results, sentinel.readings, None)] == [(), ("drift",)]


def timed(model: Scenario, number: int, *times: float, **axes: object) -> CaseResult:
    samples = tuple(Sample("sample", index, {"event_ms": time, "wall_ms": 1.0}) for index, time in enumerate(times))
    return CaseResult(case(model, f"c_{number}", number, **axes), "ok", samples=samples)


def flags(*results: CaseResult) -> list[tuple[str, ...]]:
    return [result.flags for result in judged(results, [], None)]


DOUBTFUL = ("implausible", "time_not_growing")


def test_a_smaller_size_that_took_longer_is_implausible() -> None:
    small, large = timed(copy(1), 0, *[2.0] * 6, size=1), timed(copy(4), 1, *[1.9] * 6, size=4)
    assert flags(large, small) == [(), DOUBTFUL]
    assert flags(timed(copy(1), 0, *[2.0] * 6, size=1), timed(copy(4), 1, *[1.91] * 6, size=4)) == [(), ()], "within 5 %"


def test_time_may_shrink_within_the_noise_and_for_other_reasons_than_size() -> None:
    slow, noisy = timed(copy(1), 0, *[2.0] * 6, size=1), timed(copy(4), 1, *[1.0] * 5, 2.1, size=4)
    assert flags(slow, noisy) == [(), ()]
    assert flags(slow, timed(copy(4), 1, *[1.0] * 5, size=4)) == [(), ()], "five samples have no interval"
    fast = [1.0] * 6
    assert flags(slow, timed(copy(4, direction="d2h"), 1, *fast, size=4, direction="d2h")) == [(), ()]
    assert flags(timed(copy(1), 0, *[2.0] * 6), timed(copy(4), 1, *fast)) == [(), ()], "no axis of sizes"
    rated = [timed(Allocation(kind="allocation", size=size * MIB), size, *[5.0 - size] * 6, size=size) for size in (1, 2)]
    assert not Allocation.RATED
    assert flags(*rated) == [(), ()]


def test_the_files_clock_judges() -> None:
    small, large = timed(copy(1), 0, *[2.0] * 6, size=1), timed(copy(4), 1, *[1.0] * 6, size=4)
    assert [result.flags for result in judged([small, large], [], "wall")] == [(), ()]
