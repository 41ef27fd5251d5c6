"""Two samples against each other: the exact distribution against counting, the interval against known ones, Holm by hand."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from runner.two_samples import MOST_VALUES, Times, chance_of_more, holm, ratio_of


def counted_chance(a: tuple[float, ...], b: tuple[float, ...], factor: float) -> float:
    """Return P(U >= u) by looking at every way in which the ranks can fall to the two samples."""
    seen = sum(theirs > factor * mine for mine in a for theirs in b)
    places = range(len(a) + len(b))
    ways = list(itertools.combinations(places, len(a)))
    above = sum(
        sum(theirs > mine for mine in first for theirs in places if theirs not in first) >= seen for first in map(set, ways)
    )
    return above / len(ways)


@pytest.mark.parametrize(
    ("a", "b", "factor"),
    [
        ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), 1.0),
        ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), 1.5),
        ((1.0, 2.0, 3.0, 9.0), (2.0, 5.0, 6.0), 1.0),
        ((5.0, 5.0), (5.0, 5.0, 5.0), 1.0),
        ((7.0, 3.0), (1.0,), 1.0),
    ],
)
def test_the_chance_is_that_of_counting_every_order(a: tuple[float, ...], b: tuple[float, ...], factor: float) -> None:
    assert chance_of_more(Times.of(a), Times.of(b), factor) == pytest.approx(counted_chance(a, b, factor))


def test_the_interval_is_that_of_the_tables() -> None:
    """The critical value of U for two samples of ten at 5 %, two-sided, is 23 (so k is 24), that for five and five 2."""
    ten = Times.of([math.exp(place) for place in range(10)])
    ratios = sorted(two / one for one in ten.values for two in ten.values)
    assert (ratio_of(ten, ten).low, ratio_of(ten, ten).high) == (ratios[23], ratios[-24])
    five = Times.of([1.0, 2.0, 4.0, 8.0, 16.0])
    ratios = sorted(two / one for one in five.values for two in five.values)
    assert ratio_of(five, five).low == ratios[2]


def test_too_few_values_have_a_ratio_and_no_interval() -> None:
    ratio = ratio_of(Times.of([1.0, 2.0]), Times.of([2.0, 4.0]))
    assert (ratio.value, ratio.low, ratio.high) == (2.0, None, None)
    assert ratio.ends() == (2.0, 2.0)


def test_exact_times_need_no_chance() -> None:
    one, two = Times.of([1.0] * 10, exact=True), Times.of([1.1] * 10, exact=True)
    assert ratio_of(one, two).value == pytest.approx(1.1)
    assert ratio_of(one, two).low is None
    assert (chance_of_more(one, two, 1.05), chance_of_more(one, two, 1.2)) == (0.0, 1.0)


def test_an_exact_side_stands_for_the_median_of_the_sign_test() -> None:
    exact, noisy = Times.of([2.0], exact=True), Times.of([2.2, 2.4, 2.6, 2.8, 3.0, 3.2])
    ratio = ratio_of(exact, noisy)
    assert (ratio.low, ratio.high) == (pytest.approx(1.1), pytest.approx(1.6))
    assert chance_of_more(exact, noisy, 1.0) == pytest.approx(1 / 64)
    assert chance_of_more(noisy, exact, 1.0) == 1.0


def test_intervals_hold_the_true_ratio_as_often_as_they_say() -> None:
    chance = random.Random(20261129)
    held = 0
    for _ in range(400):
        a = Times.of([chance.lognormvariate(0, 0.05) for _ in range(10)])
        b = Times.of([1.1 * chance.lognormvariate(0, 0.05) for _ in range(10)])
        low, high = ratio_of(a, b).ends()
        held += low <= 1.1 <= high
    assert 0.93 <= held / 400 <= 0.99


def test_many_values_are_thinned_and_taken_as_normal() -> None:
    chance = random.Random(1)
    a, b = (Times.of([level + chance.random() for _ in range(1000)]) for level in (10.0, 10.5))
    assert len(a.values) == MOST_VALUES
    ratio = ratio_of(a, b)
    assert ratio.low is not None
    assert ratio.low < 1.05 < ratio.ends()[1]
    assert chance_of_more(a, b, 1.0) < 1e-9
    assert chance_of_more(b, a, 1.0) > 0.999


@pytest.mark.parametrize("values", [[], [0.0, 1.0], [-1.0], [math.inf]])
def test_what_has_no_ratio_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        Times.of(values)


def test_holm_multiplies_the_smallest_most_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
