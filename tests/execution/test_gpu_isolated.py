"""Mistakes on the real device, each in a process of its own, beside a device that stays usable and keeps its memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.device.contract import Device
from runner.device.select import open_device
from runner.errors import DeviceUnavailable
from runner.execution.local import play_cases, with_all_cases
from runner.measure.result import CaseResult
from runner.scenarios.allocation import Allocation
from runner.scenarios.base import Scenario
from runner.scenarios.hazard import Hazard
from runner.scenarios.pressure import Pressure
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from tests.execution.hostile import case

pytestmark = pytest.mark.gpu

SLACK = 64 * 2**20
"""Bytes of device memory that the driver may take for itself meanwhile."""
COPY = Transfer(kind="transfer", direction="h2d", size=2**20)
LARGER = Transfer(kind="transfer", direction="h2d", size=2**21)
"""Shares no buffers with COPY, so it is not measured beside it."""


@pytest.fixture(scope="module")
def cuda() -> Iterator[Device]:
    try:
        device = open_device("cuda").device
    except DeviceUnavailable as error:
        pytest.skip(str(error))
    yield device
    device.close()


def played(device: Device, *models: Scenario) -> list[CaseResult]:
    cases = [case(model, f"c_{index}") for index, model in enumerate(models)]
    return with_all_cases(cases, list(play_cases(device, device.facts(), cases, Measure(warmup=1, samples=3))), "not played")


def test_forced_mistakes_spoil_what_is_used_in_place_and_nothing_that_is_staged(cuda: Device) -> None:
    faults = [(fault, buffer) for fault in ("refill_early", "read_early") for buffer in ("pinned", "registered", "pageable")]
    results = played(cuda, *(Hazard(kind="hazard", fault=fault, buffer=buffer, size=2**16) for fault, buffer in faults))  # type: ignore[arg-type]
    assert [(result.status, result.reason, result.flags) for result in results] == [("ok", "", ())] * 6
    assert [result.corrupt_bytes > 0 for result in results] == [True, True, False] * 2


def test_freeing_in_flight_ends_well_or_is_counted(cuda: Device) -> None:
    pinned, pageable = played(
        cuda,
        Hazard(kind="hazard", fault="free_in_flight", buffer="pinned"),
        Hazard(kind="hazard", fault="free_in_flight", buffer="pageable"),
    )
    assert (pinned.status, pageable.status) == ("ok", "ok")
    assert pageable.corrupt_bytes == 0
    for result in (pinned, pageable):
        assert all(sample.figures.get("faulted") == 1 or sample.figures["free_ms"] > 0 for sample in result.samples)


@pytest.mark.alone
def test_a_pointer_that_the_device_cannot_use_costs_its_own_process_only(cuda: Device) -> None:
    free = cuda.facts().free_bytes
    before, pointer, after = played(cuda, COPY, Hazard(kind="hazard", fault="pageable_pointer", buffer="pageable"), LARGER)
    assert [result.status for result in (before, pointer, after)] == ["ok"] * 3
    faulted = pointer.samples[-1].figures["faulted"] == 1
    assert faulted == bool(pointer.reason)
    assert faulted != bool(cuda.facts().environment["pageable_memory_access"])
    assert not cuda.lost
    assert cuda.facts().free_bytes > free - SLACK


def test_a_second_stream_sees_the_first_ones_work_behind_an_event_only(cuda: Device) -> None:
    without, behind = played(cuda, Hazard(kind="hazard", fault="no_event"), Hazard(kind="hazard", fault="with_event"))
    assert [(result.status, result.reason, result.flags) for result in (without, behind)] == [("ok", "", ())] * 2
    assert all(sample.figures["corrupt_bytes"] > 0 for sample in without.samples)
    assert behind.corrupt_bytes == 0


def test_a_lock_limit_is_met_in_a_process_of_its_own(cuda: Device) -> None:
    within = Allocation(kind="allocation", size=2**20, memlock_limit=2**26)
    beyond = Allocation(kind="allocation", buffer="registered", size=2**26, memlock_limit=2**20)
    first, second = played(cuda, within, beyond)
    assert (first.status, first.reason) == ("ok", "")
    # Whether a driver keeps to the limit is what the claim asks; either way the case ends well, and nothing lasts.
    assert second.status == "ok" or (second.status == "failed" and second.reason)
    assert played(cuda, COPY)[0].status == "ok"


def test_a_request_beyond_all_memory_is_refused_and_the_next_case_runs(cuda: Device) -> None:
    beyond = [
        Allocation(kind="allocation", size=2**46, beyond_memory=True),
        Allocation(kind="allocation", where="device", size=2**46, beyond_memory=True),
    ]
    host, device, after = played(cuda, *beyond, COPY)
    assert [host.status, device.status, after.status] == ["failed", "failed", "ok"]
    for result in (host, device):
        assert result.reason.startswith("64TiB of ")
        assert "was refused" in result.reason
        assert "already holds" in result.reason
    assert not cuda.lost


def test_what_pinning_adds_to_the_process_is_counted(cuda: Device) -> None:
    (result,) = played(cuda, Allocation(kind="allocation", buffer="registered", size=2**26))
    figures = result.samples[-1].figures
    # Pages that were touched are resident; whether the driver tells the system of its pins is what the claim asks.
    assert abs(figures["resident_bytes"] - 2**26) < 2**23
    assert figures["locked_bytes"] >= 0


def test_the_ballast_goes_with_its_process(cuda: Device) -> None:
    (result,) = played(cuda, Pressure(kind="pressure", fraction=0.02, size=2**24))
    assert (result.status, result.reason) == ("ok", "")
    figures = result.samples[-1].figures
    assert figures["pinned_bytes"] > 2**20
    assert min(figures[name] for name in ("copy_alone_ms", "copy_pinned_ms", "touch_alone_ms", "touch_pinned_ms", "pin_ms")) > 0
