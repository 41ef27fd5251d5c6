"""Where the time of a run goes, by a clock that the test turns."""

from __future__ import annotations

import pytest

from runner.device.contract import Trace
from runner.errors import CaseFailed
from runner.measure import spent
from runner.measure.case import measure_case
from runner.measure.result import CaseResult
from runner.measure.spent import SPENT, Spent, measuring_share, spent_of_run
from runner.spec.experiment import Measure
from tests.measure.doubles import FACTS, TimedDevice, prepared


class Clock:
    """Stands still but where it is turned."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    turned = Clock()
    monkeypatch.setattr(spent, "perf_counter", turned)
    return turned


def result(**seconds: float) -> CaseResult:
    return CaseResult(prepared(1)[0].case, "ok", seconds=seconds)


def test_a_stretch_counts_for_what_it_is_on_also_where_it_fails(clock: Clock) -> None:
    of = Spent({"plans": 1.0})
    with of.on("plans"):
        clock.now = 2.0

    def refuse() -> None:
        with of.on("opening"):
            clock.now = 5.0
            raise CaseFailed("no memory")

    with pytest.raises(CaseFailed):
        refuse()
    assert of.seconds == {"plans": 3.0, "opening": 3.0}


def test_a_play_is_parted_as_its_device_says() -> None:
    of = Spent()
    of.play("warmup", Trace((), (), spent_ns=(2 * 10**9, 10**9)), 3.5)
    of.play("twin", Trace((), ()), 4.0)
    assert of.seconds == {"filling": 2.0, "warm_ups": 1.0, "reading": 0.5, "companions": 4.0}


def test_a_run_is_the_sum_of_its_cases_and_its_own_and_the_rest_is_what_is_left(clock: Clock) -> None:
    own = Spent()
    with own.on("tables"):
        clock.now = 1.0
    clock.now = 20.0
    cases = [result(samples=4.0, verification=5.0), result(samples=1.0, filling=2.0)]
    whole = spent_of_run(own, cases, [result(warm_ups=0.5, samples=1.5, filling=1.0)])
    known = {"tables": 1.0, "samples": 5.0, "verification": 5.0, "filling": 3.0, "sentinel": 2.0, "rest": 4.0}
    assert whole == dict.fromkeys(SPENT, 0.0) | known
    assert measuring_share(whole) == pytest.approx(7 / 15)


def test_every_case_brings_what_it_has_cost_its_companions_included() -> None:
    measured = measure_case(TimedDevice(), FACTS, prepared(1)[0], Measure(warmup=2, samples=2))
    assert measured.seconds.keys() == {"plans", "opening", "filling", "warm_ups", "samples", "reading", "verification"}
    refused = measure_case(TimedDevice(break_at=(0, 0)), FACTS, prepared(1)[0], Measure())
    assert refused.status == "failed"
    assert refused.seconds.keys() == {"plans", "opening"}
