"""The real device in a process of its own: a mistake costs its own case, and processes that are replaced leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from runner.errors import DeviceUnavailable
from runner.execution.bench import Bench, begin_bench
from runner.execution.work import Work
from runner.measure.result import CaseResult
from runner.scenarios.base import Scenario
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from tests.execution.hostile import Breaks, DiesPlayed, case
from tests.soak.counts import count

pytestmark = pytest.mark.gpu

SLACK = 64 * 2**20
"""Bytes of device memory that the driver may take for itself meanwhile."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    try:
        bench = begin_bench("cuda", "spin")
        bench.open()
    except DeviceUnavailable as error:
        pytest.skip(str(error))
    with closing(bench):
        yield bench


def copy(mib: int) -> Transfer:
    return Transfer(kind="transfer", direction="h2d", size=mib * 2**20)


def swept(bench: Bench, *models: Scenario) -> list[CaseResult]:
    cases = [case(model, f"c_{number}") for number, model in enumerate(models)]
    return [ended.result for ended in bench.sweep(Work(cases, Measure(warmup=1, samples=3)))]


def test_an_illegal_address_costs_its_own_case_alone(bench: Bench) -> None:
    mistake = Breaks(kind="hazard", fault="pageable_pointer", buffer="pageable")
    results = swept(bench, copy(1), mistake, copy(2), copy(3))
    allowed = bool(bench.open().facts.environment["pageable_memory_access"])
    assert [result.status for result in results] == ["ok", "ok" if allowed else "failed", "ok", "ok"]
    assert bench.facts_at_end() is not None


@pytest.mark.alone
def test_processes_that_are_replaced_leave_no_memory_behind(bench: Bench) -> None:
    dies = DiesPlayed(kind="transfer", direction="h2d", size=2**24)
    results = swept(bench, *[dies, copy(1)] * count(2, 50), copy(64))
    assert {(type(result.case.model), result.status) for result in results} == {(DiesPlayed, "failed"), (Transfer, "ok")}
    before, after = bench.open().facts, bench.facts_at_end()
    assert after is not None
    assert after.free_bytes > before.free_bytes - SLACK
