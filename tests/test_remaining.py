"""The time that is left: foreseen before the first case, then corrected by what was measured."""

from __future__ import annotations

import pytest

from runner.remaining import BELIEVED_SHARE, Remaining


def test_before_the_first_case_it_is_what_was_foreseen() -> None:
    assert Remaining(50.0, 20.0).seconds(0.0, 0.0) == pytest.approx(20.0)


def test_a_run_that_keeps_to_the_forecast_leaves_its_share_of_it() -> None:
    assert Remaining(50.0, 20.0).seconds(10.0, 4.0) == pytest.approx(16.0)


def test_a_run_that_is_twice_as_slow_is_believed_the_more_the_longer_it_goes() -> None:
    remaining = Remaining(100.0, 10.0)
    paces = [remaining.seconds(done, 0.2 * done) / (100 - done) for done in (0.0, 1.0, 10.0, 50.0, 99.0)]
    assert paces == sorted(paces)
    assert paces[0] == pytest.approx(0.1)
    assert paces[2] == pytest.approx(0.15), "a tenth of the run weighs as much as the forecast"
    assert paces[-1] == pytest.approx(0.2, rel=BELIEVED_SHARE)


def test_without_a_forecast_only_what_was_measured_counts() -> None:
    assert Remaining(100.0).seconds(0.0, 3.0) == 0.0
    assert Remaining(100.0).seconds(25.0, 3.0) == pytest.approx(9.0)


def test_at_the_end_nothing_is_left() -> None:
    assert Remaining(100.0, 5.0).seconds(100.0, 7.0) == 0.0
    assert Remaining(0.0, 5.0).seconds(0.0, 0.0) == 0.0
