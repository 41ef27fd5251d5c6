"""Who is an outlier: the numbers are worked by hand."""

from __future__ import annotations

import pytest

from runner.fleet_rule import centre_of
from runner.fleet_view import Value, view_of


def test_a_single_slow_gpu_among_alike_ones_is_beyond_the_floor() -> None:
    centre = centre_of([10.0, 10.0, 10.0, 12.0])
    assert (centre.median, centre.limit) == (10.0, 0.5), "the MAD is 0, so 5 % of the median counts"
    assert centre.is_outlier(12.0)
    assert not centre.is_outlier(10.5)


def test_a_wide_fleet_is_judged_by_its_own_spread() -> None:
    values = [8.0, 9.0, 10.0, 11.0, 12.0]
    centre = centre_of(values)
    assert centre.limit == pytest.approx(3.5 * 1.4826 * 1.0)
    assert not any(map(centre.is_outlier, values))
    assert centre.is_outlier(15.5)


def test_of_two_none_is_the_odd_one_but_they_can_lie_apart() -> None:
    centre = centre_of([10.0, 11.0])
    assert not centre.can_tell
    assert not centre.is_outlier(11.0)
    assert centre.is_apart(11.0)
    assert centre.is_apart(10.0)
    assert not centre_of([10.0, 10.4]).is_apart(10.4)


def test_a_case_that_a_gpu_did_not_come_to_counts_for_that_gpu_and_for_no_other() -> None:
    here = {"host": "a", "gpu_uuid": "GPU-1", "pci_bus_id": "01"}
    nowhere = dict.fromkeys(here, "")
    told = [(nowhere, "not_run", "c_1", None), (here, "ok", "c_2", 1.0)]
    view = view_of(
        Value({"run_id": "r_1", "scenario": "copy", "case_id": case, "status": status, **where}, "median_event_ms", value)
        for where, status, case, value in told
    )
    assert [(gpu.where, gpu.cases) for gpu in view.gpus] == [(("a", "GPU-1", "01"), 2)]
