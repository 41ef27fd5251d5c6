"""When a case is warm, when it has samples enough, and the order of a round."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from runner.errors import SpecError
from runner.measure.sampling import is_warm, order_of, stop_of
from runner.spec.experiment import Measure, Until
from runner.spec.load import load_experiment

UNTIL = Measure(until=Until(ci_percent=1.0, samples=40, seconds=5))


@pytest.mark.parametrize(
    ("times", "warmup", "warm"),
    [
        ([], 0, True),
        ([], 1, False),
        ([9.0], 1, False),
        ([9.0, 8.6], 1, True),
        ([9.0, 8.5], 1, False),
        ([9.0, 8.6], 3, False),
        ([9.0, 3.0, 2.0, 2.09], 3, True),
        ([1.0, 2.0] * 6, 3, False),
        ([1.0, 2.0] * 7, 3, True),
        ([math.nan], 2, False),
        ([math.nan] * 2, 2, True),
        ([0.0, 0.0], 2, True),
    ],
)
def test_a_case_is_warm_when_two_plays_agree_or_no_more_are_allowed(times: list[float], warmup: int, warm: bool) -> None:
    assert is_warm(times, Measure(warmup=warmup)) == warm


def test_a_fixed_number_of_samples_is_that_number() -> None:
    measure = Measure(samples=3)
    assert [stop_of([1.0] * count, 1e9, measure) for count in range(1, 4)] == [None, None, "samples"]


def test_sampling_ends_as_soon_as_the_interval_is_narrow() -> None:
    assert stop_of([1.0] * 9, 0, UNTIL) is None, "a few alike mean nothing"
    assert stop_of([1.0] * 10, 0, UNTIL) == "interval"
    # Of ten samples the interval reaches from the second to the ninth.
    assert stop_of([1.0] * 5 + [1.0099] * 5, 0, UNTIL) == "interval"
    assert stop_of([1.0] * 5 + [1.0103] * 5, 0, UNTIL) is None


def test_sampling_ends_at_its_limits_all_the_same() -> None:
    wide = [1.0, 2.0] * 20
    assert stop_of(wide[:39], 4.9, UNTIL) is None
    assert stop_of(wide, 4.9, UNTIL) == "cap_samples"
    assert stop_of(wide[:12], 5.0, UNTIL) == "cap_seconds"
    assert stop_of([1.0], 5.0, UNTIL) == "cap_seconds"
    assert stop_of([math.nan] * 40, 0, UNTIL) == "cap_samples"


def test_a_narrow_interval_at_the_limit_counts() -> None:
    assert stop_of([1.0] * 41, 9.0, UNTIL) == "interval"


def test_every_round_has_an_order_of_its_own_that_never_changes() -> None:
    orders = [order_of(4, number) for number in range(50)]
    assert orders == [order_of(4, number) for number in range(50)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert {order[0] for order in orders} == {0, 1, 2, 3}
    assert order_of(1, 7) == [0]


FILE = """
name: until
question: When is it enough?
measure: {warmup: 1, %s}
scenarios:
  copy: {kind: transfer, direction: h2d, size: 1MiB}
"""


def read(folder: Path, end: str) -> Measure:
    path = folder / "until.yaml"
    path.write_text(FILE % end)
    return load_experiment(path).experiment.measure


def test_a_file_says_how_well_the_median_shall_be_known(tmp_path: Path) -> None:
    measure = read(tmp_path, "until: {ci_percent: 1, seconds: 3}")
    assert measure.until == Until(ci_percent=1, samples=200, seconds=3)
    assert (measure.most_samples(), measure.most_warmups()) == (200, 8)
    assert read(tmp_path, "samples: 7").most_samples() == 7


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("samples: 3, until: {ci_percent: 1}", "samples and until cannot both be given"),
        ("until: {samples: 30}", "ci_percent is missing"),
        ("until: {ci_percent: 0}", "ci_percent"),
        ("until: {ci_percent: 1, sample: 30}", "did you mean samples?"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, end: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(tmp_path, end)
    assert told in str(caught.value)
    assert ":4:" in str(caught.value)
