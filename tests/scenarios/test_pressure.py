"""The ballast: how much of which machine it takes, and what one sample holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runner.device.contract import Trace
from runner.plan import Alloc, Demand, Free, HostAccess, HostCopy, Mark
from runner.plan_check import check_plan
from runner.results import read_results
from runner.scenarios.base import Known
from runner.scenarios.pressure import NOMINAL_HOST_BYTES, Pressure
from tests.scenarios.runs import run

GIB = 2**30


def pressure(**fields: Any) -> Pressure:
    return Pressure.model_validate({"kind": "pressure", "fraction": 0.25} | fields)


@pytest.mark.parametrize(
    ("fields", "host", "ballast"),
    [
        ({}, 8 * GIB, 2 * GIB),
        ({"fraction": 0.1}, 10 * GIB, GIB),
        ({"fraction": 0.1}, 10**9, 10**8 // 4096 * 4096),
        ({}, 1024 * GIB, 16 * GIB),
        ({"ballast_limit": "1GiB"}, 8 * GIB, GIB),
        ({"fraction": 0.01}, 100_000, 4096),
    ],
)
def test_the_ballast_is_a_share_of_the_host_in_whole_pages_up_to_its_limit(
    fields: dict[str, Any], host: int, ballast: int
) -> None:
    resolved = pressure(**fields).resolved(Known(host))
    assert resolved.ballast_bytes() == ballast
    plan = resolved.plan()
    assert [buffer.size for buffer in plan.buffers if buffer.memory == "pinned"] == [ballast]
    assert resolved.demand() == plan.demand()


def test_an_unknown_machine_is_priced_by_a_nominal_one_and_asks_for_no_ballast_yet() -> None:
    model = pressure(fraction=0.125, size="1MiB")
    assert model.ballast_bytes() == NOMINAL_HOST_BYTES // 8
    assert model.demand() == Demand(3 * 2**20, 0, 0)


def test_one_sample_holds_the_same_work_alone_and_beside_the_ballast() -> None:
    plan = pressure(size="1MiB").resolved(Known(8 * GIB)).plan()
    check_plan(plan)
    done = [type(operation) for operation in plan.lanes[0] if not isinstance(operation, Mark)]
    work = [HostCopy, Alloc, HostAccess, Free]
    assert done == [*work, Alloc, *work, Free]


def test_the_figures_are_the_times_between_the_marks() -> None:
    model = pressure().resolved(Known(8 * GIB))
    plan = model.plan()
    times = {
        "begin": 0,
        "copy_alone_begin": 0,
        "copy_alone_end": 10,
        "touch_alone_begin": 10,
        "touch_alone_end": 14,
        "pin_begin": 15,
        "pin_end": 115,
        "copy_pinned_begin": 115,
        "copy_pinned_end": 140,
        "touch_pinned_begin": 140,
        "touch_pinned_end": 142,
        "end": 150,
    }
    assert model.figures(plan, Trace(tuple(times[mark] * 10**6 for mark in plan.marks), ())) == {
        "wall_ms": 150,
        "copy_alone_ms": 10,
        "touch_alone_ms": 4,
        "pin_ms": 100,
        "copy_pinned_ms": 25,
        "touch_pinned_ms": 2,
        "pinned_bytes": 2 * GIB,
        "copy_slowdown": 2.5,
        "touch_slowdown": 0.5,
    }


def test_a_run_tells_what_was_pinned(tmp_path: Path) -> None:
    outcome = run(tmp_path, "  press: {kind: pressure, fraction: [0.05, 0.1], size: 1MiB}\n")
    table = read_results(outcome.folder).summary
    assert table["status"].tolist() == ["ok", "ok"]
    # The profile's host of 16 GiB, in whole pages: a simulated row is no matter of the machine that it was computed on.
    assert table["median_pinned_bytes"].tolist() == [16 * GIB // 20 // 4096 * 4096, 16 * GIB // 10 // 4096 * 4096]
    assert (table["median_pin_ms"] > 0).all()
    # The simulated host has no memory to run short of.
    assert table["median_copy_slowdown"].tolist() == [1, 1]
    assert table["flags"].tolist() == ["", ""]


def test_the_words_name_the_share_and_the_limit() -> None:
    assert pressure(fraction=0.1, size=4096).describe() == (
        "copy 4KiB (4,096 bytes) on the host and touch as many fresh ones, then pin 0.1 of the available host memory, at most "
        "16GiB (17,179,869,184 bytes), as pinned ballast, and do the same again beside it"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fraction": 0.26}, "less than or equal to 0.25"),
        ({"fraction": 0}, "greater than 0"),
        ({"ballast_limit": "65GiB"}, "less than or equal to 68719476736"),
        ({"buffer": "pageable"}, "pageable memory is not page-locked, so it presses on nobody"),
        ({"buffer": "managed"}, "managed memory is not page-locked"),
        ({"size": 4098}, "whole words"),
        ({"size": "2GiB"}, "less than or equal to 1073741824"),
        ({"share": 0.1}, "Extra inputs are not permitted"),
    ],
)
def test_a_ballast_that_could_hurt_or_not_press_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        pressure(**fields)
