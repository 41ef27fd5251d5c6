"""Mistakes on purpose: what each spoils on the simulated device, what is harmless, and which mistakes cannot be made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from runner.device.contract import Trace
from runner.device.simulated import SimulatedDevice, load_profile
from runner.flow import RunOutcome
from runner.plan import Busy, Gate
from runner.plan_check import check_plan
from runner.results import read_results
from runner.scenarios.hazard import Hazard
from tests.scenarios.runs import run

KIB = 2**10


def hazard(**fields: Any) -> Hazard:
    return Hazard.model_validate({"kind": "hazard", "fault": "refill_early"} | fields)


def summary(outcome: RunOutcome) -> pd.DataFrame:
    return read_results(outcome.folder).summary


@pytest.mark.parametrize("fault", ["refill_early", "read_early"])
def test_a_buffer_used_in_place_is_spoilt_and_a_staged_one_is_not(tmp_path: Path, fault: str) -> None:
    kinds = "[pinned, registered, write_combined, mapped, pageable]"
    outcome = run(tmp_path, f"  one: {{kind: hazard, fault: {fault}, buffer: {kinds}, size: 64KiB}}\n")
    table = summary(outcome)
    assert table["status"].tolist() == ["ok"] * 5
    assert table["corrupt_bytes"].tolist() == [64 * KIB] * 4 + [0]
    assert outcome.exit_code == 0, "what a hazard looks for is no trouble"
    samples = read_results(outcome.folder).samples
    assert samples["corrupt_bytes"].tolist() == [64 * KIB] * 12 + [0] * 3
    assert not table["flags"].str.contains("gate_timeout").any()


def test_memory_freed_in_flight_is_spoilt_unless_freeing_waits_and_never_where_it_was_staged(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, "  one: {kind: hazard, fault: free_in_flight, buffer: [pinned, pageable], size: 64KiB, busy_ms: 30}\n"
    )
    table = summary(outcome)
    pinned, pageable = (row for _, row in table.iterrows())
    assert (pinned["corrupt_bytes"] > 0) == (pinned["median_free_ms"] < 30)
    assert pageable["corrupt_bytes"] == 0
    assert table["median_wall_ms"].min() >= 30


def test_a_second_stream_sees_the_first_ones_work_behind_an_event_only(tmp_path: Path) -> None:
    kinds = "[pinned, registered, write_combined, mapped]"
    outcome = run(tmp_path, f"  one: {{kind: hazard, fault: [no_event, with_event], buffer: {kinds}, size: 64KiB, busy_ms: 3}}\n")
    table = summary(outcome)
    assert table["status"].tolist() == ["ok"] * 8
    assert table["corrupt_bytes"].tolist() == [64 * KIB] * 4 + [0] * 4
    assert not table["flags"].str.contains("gate_timeout").any()
    assert table["median_wall_ms"].min() >= 3, "the gate is held for a while, so that the second stream surely comes first"


def test_the_second_stream_never_waits_for_ever_where_one_engine_does_all_copies() -> None:
    device = SimulatedDevice(load_profile("test").model_copy(update={"copy_engines": 1}))
    for fault in ("no_event", "with_event"):
        plan = hazard(fault=fault, size=4096).plan()
        check_plan(plan)
        session = device.open(plan)
        session.play(0)
        assert session.verify() == (), "the download stands behind the upload"
        session.close()


def test_a_kernel_given_memory_it_cannot_reach_names_its_error_and_costs_no_other_case(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        "  before: {kind: transfer, direction: h2d, size: 1MiB}\n"
        "  pointer: {kind: hazard, fault: pageable_pointer, buffer: pageable}\n"
        "  after: {kind: transfer, direction: h2d, size: 1MiB}\n",
    )
    table = summary(outcome)
    assert table["status"].tolist() == ["ok"] * 3
    assert table["median_faulted"].isna().tolist() == [True, False, True]
    assert table["median_faulted"][1] == 1
    assert "pageable" in table["reason"][1]
    assert table["median_event_ms"][0] == table["median_event_ms"][2]
    assert outcome.exit_code == 0


@pytest.mark.parametrize(
    ("buffer", "fault", "held_by"),
    [
        ("pinned", "refill_early", Gate),
        ("mapped", "read_early", Gate),
        ("pageable", "refill_early", Busy),
        ("pageable", "read_early", Busy),
        ("pinned", "free_in_flight", Busy),
        ("pageable", "with_event", Busy),
    ],
)
def test_a_gate_holds_the_stream_only_where_no_call_could_wait_for_it(buffer: str, fault: str, held_by: type) -> None:
    plan = hazard(buffer=buffer, fault=fault).plan()
    check_plan(plan)
    assert [type(operation) for operation in plan.lanes[0] if isinstance(operation, Gate | Busy)] == [held_by]
    assert plan.races_wanted == (frozenset() if buffer == "pageable" else frozenset({0}))


def test_a_pointer_that_the_device_can_use_has_not_faulted() -> None:
    model = hazard(fault="pageable_pointer", buffer="pageable")
    plan = model.plan()
    assert plan.faults_wanted == frozenset({0})
    assert [(expect.buffer, expect.size, expect.added) for expect in plan.expects] == [(0, 2**20, 1)]
    assert model.figures(plan, Trace((1_000_000, 3_500_000), (None,))) == {"wall_ms": 2.5, "faulted": 0.0}


def test_the_words_name_the_mistake_and_its_size() -> None:
    assert hazard(size=4096).describe() == (
        "copy 4KiB (4,096 bytes) to the device and write over their source before it was read; "
        "the host buffer is pinned, and the bytes that are wrong are counted"
    )
    assert (
        hazard(fault="no_event")
        .describe()
        .startswith("upload 1MiB (1,048,576 bytes) in one stream and download them in another that does not wait for it; ")
    )
    assert "that waits for an event of it" in hazard(fault="with_event").describe()
    assert "behind 2.5 ms of work" in hazard(fault="free_in_flight", busy_ms=2.5).describe()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"size": 4097}, "whole words"),
        ({"fault": "pageable_pointer"}, "a kernel may use pinned memory, so pageable_pointer does nothing wrong"),
        ({"fault": "pageable_pointer", "buffer": "managed"}, "a kernel may use managed memory"),
        ({"buffer": "managed"}, "managed memory has no copy that refill_early could spoil"),
        (
            {"fault": "unplug"},
            "Input should be 'refill_early', 'read_early', 'free_in_flight', 'pageable_pointer', 'no_event' or 'with_event'",
        ),
        ({"busy_ms": 0}, "greater than or equal to 0.1"),
        ({"busy_ms": 5000}, "less than or equal to 1000"),
        ({"direction": "h2d"}, "Extra inputs are not permitted"),
    ],
)
def test_a_mistake_that_cannot_be_made_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        hazard(**fields)
