"""Cases measured side by side: the order of plays, what ends each of them, and what a failure leaves alone."""

from __future__ import annotations

import pytest

from runner.measure import case as measuring
from runner.measure.case import measure_case, measure_together
from runner.measure.result import CaseResult
from runner.measure.sampling import order_of
from runner.spec.experiment import Measure, Until
from tests.measure.doubles import FACTS, TimedDevice, prepared

MEASURE = Measure(warmup=2, samples=3)


def together(device: TimedDevice, count: int, measure: Measure = MEASURE) -> list[CaseResult]:
    return list(measure_together(device, FACTS, prepared(count), measure))


def test_all_are_opened_then_warmed_up_then_played_in_rounds() -> None:
    device = TimedDevice()
    results = together(device, 3)
    rounds = [f"{place}.{2 + number}" for number in range(3) for place in order_of(3, number)]
    played = [line for line in device.log if not line.startswith("close")]
    assert played == ["open 0", "open 1", "open 2", "0.0", "0.1", "1.0", "1.1", "2.0", "2.1", *rounds]
    assert sorted(line for line in device.log if line.startswith("close")) == ["close 0", "close 1", "close 2"]
    assert [result.status for result in results] == ["ok"] * 3
    for result in results:
        place = int(result.case.case_id[-1])
        taken = [(sample.index, sample.round, sample.order) for sample in result.samples if sample.role == "sample"]
        assert taken == [(number, number, order_of(3, number).index(place)) for number in range(3)]
        assert [sample.round for sample in result.samples if sample.role == "warmup"] == [None, None]


def test_warming_up_goes_on_until_two_plays_agree() -> None:
    cooling = [9.0, 4.0, 3.0, 2.0, 2.05]
    device = TimedDevice(lambda number, play: cooling[min(play, 4)])
    result = measure_case(device, FACTS, prepared(1)[0], MEASURE)
    assert [sample.figures["event_ms"] for sample in result.samples if sample.role == "warmup"] == cooling
    assert [sample.figures["event_ms"] for sample in result.samples if sample.role == "sample"] == [2.05] * 3


def test_a_case_that_never_settles_is_measured_all_the_same() -> None:
    device = TimedDevice(lambda number, play: 1.0 + play % 2)
    result = measure_case(device, FACTS, prepared(1)[0], MEASURE)
    assert sum(sample.role == "warmup" for sample in result.samples) == 3 * MEASURE.warmup + 5
    assert (result.status, result.stopped_by) == ("ok", "samples")


def test_each_case_ends_when_its_own_median_is_known() -> None:
    def time_ms(number: int, play: int) -> float:
        return 2.0 if number == 0 else 2.0 + play % 2

    quiet, noisy = together(TimedDevice(time_ms), 2, Measure(warmup=0, until=Until(ci_percent=1.0, samples=30)))
    assert (quiet.case.case_id, quiet.stopped_by, len(quiet.samples), quiet.flags) == ("c_0", "interval", 10, ())
    assert (noisy.case.case_id, noisy.stopped_by, len(noisy.samples)) == ("c_1", "cap_samples", 30)
    assert {"noisy", "not_converged"} <= set(noisy.flags)
    # Once the other has ended, its rounds have one case.
    assert {sample.order for sample in noisy.samples if (sample.round or 0) >= 10} == {0}


def test_the_limit_of_seconds_counts_a_cases_own_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10_000))
    monkeypatch.setattr(measuring, "monotonic", lambda: float(next(now)))
    device = TimedDevice(lambda number, play: 1.0 + play % 2)
    results = together(device, 2, Measure(warmup=0, until=Until(ci_percent=1.0, seconds=15)))
    assert [(result.stopped_by, len(result.samples)) for result in results] == [("cap_seconds", 15)] * 2


def test_a_failure_leaves_the_others_alone() -> None:
    device = TimedDevice(break_at=(1, 3))
    results = {result.case.case_id: result for result in together(device, 3)}
    assert {name: result.status for name, result in results.items()} == {"c_0": "ok", "c_1": "failed", "c_2": "ok"}
    assert results["c_1"].reason == "the driver broke"
    assert device.log.index("close 1") == device.log.index("1.3") + 1, "what it held is free at once"


def test_a_lost_device_ends_the_round_and_leaves_the_rest_unmeasured() -> None:
    device = TimedDevice(break_at=(1, 2), fatal=True)
    (lost,) = together(device, 3)
    assert (lost.case.case_id, lost.status) == ("c_1", "failed")
    assert {"close 0", "close 1", "close 2"} <= set(device.log)


def test_a_device_without_noise_plays_once_and_says_so() -> None:
    device = TimedDevice(deterministic=True)
    result = measure_case(device, FACTS, prepared(1)[0], Measure(warmup=2, until=Until(ci_percent=1.0)))
    assert device.log == ["open 0", "0.0", "close 0"]
    assert (result.stopped_by, [sample.role for sample in result.samples]) == (
        "deterministic",
        ["warmup", "warmup", "sample"],
    )
