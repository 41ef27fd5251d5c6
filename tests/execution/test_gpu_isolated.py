"""Mistakes on the real device, each in a process of its own, beside a device that stays usable and keeps its memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.device.contract import Device
from runner.device.select import open_device
from runner.errors import DeviceUnavailable
from runner.execution.local import play_cases
from runner.measure.result import CaseResult
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
    return list(play_cases(device, device.facts(), cases, Measure(warmup=1, samples=3)))


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


def test_a_pointer_that_the_device_cannot_use_costs_its_own_process_only(cuda: Device) -> None:
    free = cuda.facts().free_bytes
    before, pointer, after = played(cuda, COPY, Hazard(kind="hazard", fault="pageable_pointer", buffer="pageable"), COPY)
    assert [result.status for result in (before, pointer, after)] == ["ok"] * 3
    faulted = pointer.samples[-1].figures["faulted"] == 1
    assert faulted == bool(pointer.reason)
    assert faulted != bool(cuda.facts().environment["pageable_memory_access"])
    assert not cuda.lost
    assert cuda.facts().free_bytes > free - SLACK


def test_the_ballast_goes_with_its_process(cuda: Device) -> None:
    (result,) = played(cuda, Pressure(kind="pressure", fraction=0.02, size=2**24))
    assert (result.status, result.reason) == ("ok", "")
    figures = result.samples[-1].figures
    assert figures["pinned_bytes"] > 2**20
    assert min(figures[name] for name in ("copy_alone_ms", "copy_pinned_ms", "touch_alone_ms", "touch_pinned_ms", "pin_ms")) > 0
