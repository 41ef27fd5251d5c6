from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.stats import Spread, drift, has_trend, interval_percent, median, median_interval, outliers, quantile, spread

NUMBERS = st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=1, max_size=60)


@given(NUMBERS)
def test_median_and_quantiles_agree_with_numpy(values: list[float]) -> None:
    assert median(values) == pytest.approx(float(np.median(values)), rel=1e-12)
    for fraction in (0.0, 0.05, 0.5, 0.95, 1.0):
        assert quantile(values, fraction) == pytest.approx(float(np.quantile(values, fraction, method="linear")), rel=1e-12)


@given(NUMBERS)
def test_figures_are_in_order_whatever_the_order_of_the_samples(values: list[float]) -> None:
    found = spread(values)
    assert found == spread(values[::-1])
    assert found.minimum is not None
    assert found.median is not None
    assert found.minimum <= found.median
    if found.p05 is not None and found.p95 is not None:
        assert found.minimum <= found.p05 <= found.p95 <= max(values)
    if found.ci_low is not None and found.ci_high is not None:
        assert found.ci_low <= found.median <= found.ci_high


@pytest.mark.parametrize("count", [*range(1, 80), 1000])
def test_interval_is_the_narrowest_with_the_coverage(count: int) -> None:
    """The chance that the true median lies outside, summed from the binomial, is at most 5 %; one rank further in it is more."""

    def missed(rank: int) -> Fraction:
        return Fraction(2 * sum(math.comb(count, below) for below in range(rank)), 2**count)

    interval = median_interval([float(value) for value in range(1, count + 1)])
    if count < 6:
        assert interval is None
        assert missed(1) > Fraction(1, 20)
        return
    assert interval is not None
    rank = int(interval[0])
    assert interval == (rank, count + 1 - rank)
    assert missed(rank) <= Fraction(1, 20) < missed(rank + 1)


def test_interval_of_ten_samples_is_second_to_ninth() -> None:
    assert median_interval([5, 3, 9, 1, 7, 2, 8, 4, 10, 6]) == (2, 9)


def test_too_few_samples_leave_cells_empty() -> None:
    assert spread([]) == Spread(0)
    assert spread([4.0]) == Spread(1, 4.0, 4.0)
    assert spread([4.0, 6.0]) == Spread(2, 5.0, 4.0)
    assert spread([1.0, 2.0, 3.0]) == Spread(3, 2.0, 1.0, pytest.approx(1.1), pytest.approx(2.9))


def test_deterministic_samples_get_no_interval() -> None:
    assert spread([2.0] * 10).ci_low == 2.0
    assert spread([2.0] * 10, deterministic=True) == Spread(10, 2.0, 2.0, 2.0, 2.0)


def test_what_is_no_number_is_not_counted() -> None:
    assert spread([math.nan, 1.0, math.inf]) == Spread(1, 1.0, 1.0)


def test_one_stall_does_not_move_the_median() -> None:
    assert spread([1.0] * 49 + [40.0]).median == 1.0


def test_nothing_has_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        median([])
    with pytest.raises(ValueError, match="not defined"):
        quantile([], 0.5)
    with pytest.raises(ValueError, match="not defined"):
        quantile([1.0], 1.5)


def test_drift_is_the_last_third_over_the_first() -> None:
    assert drift([1.0, 1.0, 5.0, 5.0, 1.1, 1.1]) == pytest.approx(0.1)
    assert drift([2.0, 2.0, 9.0, 9.0, 9.0, 9.0, 1.0, 1.0]) == -0.5, "thirds of eight are of two"
    assert drift([1.0] * 5) is None
    assert drift([0.0] * 6) is None


def test_a_trend_is_more_than_noise() -> None:
    assert has_trend([1.0] * 5 + [1.2] * 5), "a step"
    assert has_trend([1.0 + 0.01 * index + 0.02 * (index % 3) for index in range(30)]), "a slope under noise"
    assert not has_trend([1.0, 1.3, 0.9, 1.2, 1.0, 1.25, 0.95, 1.3, 1.0, 1.2]), "noise"
    assert not has_trend([1.0] * 40)
    assert not has_trend([1.0, 2.0, 3.0, 4.0, 5.0]), "five values cannot tell"


def test_a_trend_by_hand() -> None:
    # Of 15 pairs 14 rise and 1 falls: S = 13, variance 6 * 5 * 17 / 18, and 12 / 5.32 = 2.25.
    assert has_trend([1.0, 2.0, 3.0, 4.0, 6.0, 5.0])
    # Two pairs fall: S = 11, and 10 / 5.32 = 1.88 is below 1.96.
    assert not has_trend([1.0, 2.0, 4.0, 3.0, 6.0, 5.0])


def test_a_trend_of_many_values_is_found_in_stretches() -> None:
    assert has_trend([1.0 + index / 50_000 for index in range(50_000)])
    assert not has_trend([1.0 + (index * 7919 % 1000) / 1000 for index in range(50_000)])


@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=30))
def test_a_trend_is_the_same_backwards(values: list[float]) -> None:
    assert has_trend(values) == has_trend(values[::-1])


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40))
def test_drift_turns_round_with_the_samples(values: list[float]) -> None:
    there, back = drift(values), drift(values[::-1])
    if there is None or back is None:
        assert len(values) < 6
        return
    assert (1 + there) * (1 + back) == pytest.approx(1)


def test_outliers_lie_beyond_three_interquartile_ranges() -> None:
    # Quartiles 2.25 and 6.75 of 0 … 9: the fences lie at -11.25 and 20.25.
    values = [float(value) for value in range(10)]
    assert outliers(values) == 0
    assert outliers([*values[:-1], 20.2]) == 0
    assert outliers([*values[:-1], 20.3]) == 1
    assert outliers([-11.3, *values[1:]]) == 1
    assert outliers([1.0] * 9 + [1.001]) == 1, "without any spread every other value is far out"
    assert outliers([1.0] * 4 + [99.0]) is None


def test_the_width_of_an_interval_is_told_in_percent_of_the_median() -> None:
    assert interval_percent([float(value) for value in range(1, 11)]) == pytest.approx(100 * 7 / 5.5)
    assert interval_percent([2.0] * 6) == 0
    assert interval_percent([1.0] * 5) is None
    assert interval_percent([0.0] * 6) is None
    assert interval_percent([]) is None
