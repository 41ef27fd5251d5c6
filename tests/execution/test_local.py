"""The sweep over the cases: what is played here, what apart, and what follows the loss of a device."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from runner.device.contract import DeviceFacts, DeviceKind
from runner.device.simulated import SimulatedDevice, load_profile
from runner.errors import CaseFailed
from runner.execution import local
from runner.execution.local import play_cases
from runner.execution.worker import Job
from runner.expand import Case
from runner.measure.result import CaseResult
from runner.plan import Plan
from runner.scenarios.allocation import Allocation
from runner.scenarios.base import Scenario
from runner.scenarios.hazard import Hazard
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from tests.execution.hostile import case

MEASURE = Measure(warmup=1, samples=2)
COPY = Transfer(kind="transfer", direction="h2d", size=2**20)


class Fragile(SimulatedDevice):
    """A simulated device that claims to be another kind and is lost by its case number `breaks_at`."""

    lost = False

    def __init__(self, kind: DeviceKind, breaks_at: int) -> None:
        super().__init__(load_profile("test"))
        self.kind, self.left = kind, breaks_at

    def facts(self) -> DeviceFacts:
        facts = super().facts()
        return DeviceFacts(facts.name, self.kind, 2**30, 2**30, 2, {"ordinal": 1}, host_bytes=2**34)

    def open(self, plan: Plan):  # type: ignore[no-untyped-def]
        self.left -= 1
        if self.left == 0:
            self.lost = True
        if self.lost:
            raise CaseFailed("the device broke")
        return super().open(plan)


@dataclass
class Apart:
    """Stands for `play_apart` and notes what it was given."""

    jobs: list[Job] = field(default_factory=list)

    def __call__(self, job: Job) -> CaseResult:
        self.jobs.append(job)
        return CaseResult(job.case, "ok", "apart")


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Apart:
    stand_in = Apart()
    monkeypatch.setattr(local, "play_apart", stand_in)
    return stand_in


def played(device: SimulatedDevice, models: Sequence[Scenario]) -> list[CaseResult]:
    cases = [case(model, f"c_{index}") for index, model in enumerate(models)]
    return list(play_cases(device, device.facts(), cases, MEASURE))


def test_a_dangerous_case_is_played_apart_on_a_real_device_and_the_others_here(apart: Apart) -> None:
    hazard = Hazard(kind="hazard", fault="pageable_pointer", buffer="pageable")
    results = played(Fragile("cuda", 10**9), [COPY, hazard, COPY])
    assert [(result.status, result.reason) for result in results] == [("ok", ""), ("ok", "apart"), ("ok", "")]
    assert [(job.device, job.case.case_id, job.host_bytes, job.measure) for job in apart.jobs] == [
        ("cuda:1", "c_1", 2**34, MEASURE)
    ]


def test_a_case_with_a_lock_limit_is_played_apart_on_a_real_device_and_here_on_a_simulated_one(apart: Apart) -> None:
    limited = Allocation(kind="allocation", size=2**20, memlock_limit=2**16)
    (real,) = played(Fragile("cuda", 10**9), [limited])
    assert (real.status, real.reason) == ("ok", "apart")
    (simulated,) = played(SimulatedDevice(load_profile("test")), [limited])
    assert (simulated.status, simulated.reason) == (
        "failed",
        "1MiB of page-locked memory for buffer memory was refused; this case already holds 0B of it, the process may lock 64KiB",
    )


def test_a_request_beyond_all_memory_is_tried_and_refused_and_the_next_case_runs() -> None:
    beyond = Allocation(kind="allocation", size=2**46, beyond_memory=True)
    large = Allocation(kind="allocation", size=2**46)
    skipped, failed, after = played(
        SimulatedDevice(load_profile("test")), [large, beyond, Allocation(kind="allocation", size=2**20)]
    )
    assert [skipped.status, failed.status, after.status] == ["skipped", "failed", "ok"]
    assert failed.reason.startswith(
        "64TiB of pinned memory for buffer memory was refused; this case already holds 2MiB of it, the host"
    )


def test_after_a_real_device_is_lost_the_rest_is_played_apart(apart: Apart) -> None:
    results = played(Fragile("cuda", 2), [COPY] * 4)
    assert [(result.status, result.reason) for result in results] == [
        ("ok", ""),
        ("failed", "the device broke"),
        ("ok", "apart"),
        ("ok", "apart"),
    ]


def test_a_lost_simulated_device_is_opened_anew_for_the_next_case(apart: Apart) -> None:
    results = played(Fragile("simulated", 2), [COPY] * 4)
    assert [result.status for result in results] == ["ok", "failed", "ok", "ok"]
    assert not apart.jobs


@pytest.mark.parametrize(
    "model",
    [
        COPY,
        Transfer(kind="transfer", direction="bidirectional", size=2**20, buffer="pageable"),
        Pipeline(kind="pipeline", schedule="overlapped", total=2**20, chunk=2**18, streams=2),
        Pipeline(kind="pipeline", schedule="serialized", total=2**50, chunk=2**50),
        Hazard(kind="hazard", fault="refill_early"),
    ],
    ids=repr,
)
def test_every_result_survives_the_way_between_two_processes(model: Scenario) -> None:
    device = SimulatedDevice(load_profile("test"))
    (result,) = play_cases(device, device.facts(), [case(model)], MEASURE)
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert again.case.model.plan() == model.plan()
    assert isinstance(again.case, Case)
