"""A sweep in a process of its own: what happens in there costs the one case, and the others are measured as if nothing was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from runner.device.simulated import SimulatedDevice, load_profile
from runner.errors import DeviceUnavailable
from runner.execution.bench import WORKER, Bench, begin_bench
from runner.execution.local import play_cases
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.result import CaseResult, Sample
from runner.scenarios.hazard import Hazard
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from tests.execution.hostile import FILE, Breaks, Dies, Hangs, Raises, case, case_of
from tests.execution.test_isolated import PATIENCE_S, until_gone

MEASURE = Measure(warmup=1, samples=2)
RING = Pipeline(kind="pipeline", schedule="overlapped", total=2**20, chunk=2**18, streams=2)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv(WORKER, "process")
    with closing(begin_bench("simulated:test", "spin")) as bench:
        yield bench


def swept(bench: Bench, *cases: Case, measure: Measure = MEASURE) -> list[CaseResult]:
    bench.open()
    return [ended.result for ended in bench.sweep(Work(cases, measure))]


def test_the_results_are_those_of_this_process(bench: Bench) -> None:
    cases = [case_of(case_id="c_0"), case(RING, "c_1"), Case("c_2", "one", 2, RING, "not today", {})]
    device = SimulatedDevice(load_profile("test"))
    assert swept(bench, *cases) == list(play_cases(device, device.facts(), cases, MEASURE))
    assert bench.facts_at_end() == device.facts()
    assert bench.open().facts == device.facts()


def test_whatever_ends_the_process_costs_its_own_case_alone(bench: Bench) -> None:
    kinds = [Transfer, Dies, Transfer, Raises, Transfer]
    results = swept(bench, *(case_of(kind, f"c_{number}") for number, kind in enumerate(kinds)))
    assert [result.status for result in results] == ["ok", "failed", "ok", "failed", "ok"]
    assert results[1].reason == "its process was ended by SIGKILL; its last words: two / three / the link fell off"
    assert results[3].reason.startswith(
        "a fault of dmalab itself ended it, please report it: RuntimeError (nothing of this was foreseen) in line "
    )
    assert bench.facts_at_end() is not None


def test_a_device_that_a_case_has_lost_is_opened_anew(bench: Bench) -> None:
    hazard = Hazard(kind="hazard", fault="pageable_pointer", buffer="pageable")
    mistake = Breaks(kind="hazard", fault="pageable_pointer", buffer="pageable")
    meant, after, broken, last = swept(
        bench, case(hazard, "c_0"), case_of(case_id="c_1"), case(mistake, "c_2"), case_of(case_id="c_3")
    )
    assert [each.status for each in (meant, after, broken, last)] == ["ok", "ok", "failed", "ok"]
    assert meant.samples[-1].figures == {"faulted": 1.0}
    assert broken.reason


def test_a_case_that_hangs_is_given_up_at_its_deadline(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.close()
    monkeypatch.setenv(FILE, str(tmp_path / "pids"))
    with closing(begin_bench("simulated:test", "spin")) as other:
        first, hung, last = swept(
            other,
            case_of(case_id="c_0"),
            case_of(Hangs, "c_1"),
            case_of(case_id="c_2"),
            measure=Measure(warmup=1, samples=2, deadline_s=2),
        )
    assert (first.status, hung.status, last.status) == ("ok", "timeout", "ok")
    assert hung.reason == "it had not ended after 2 s, and its process was killed"
    assert all(until_gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_the_process_ends_with_its_supervisor(tmp_path: Path) -> None:
    code = """
from tests.execution.test_supervisor import *
swept(begin_bench("simulated:test", "spin"), case_of(Hangs), measure=Measure(deadline_s=1000))
"""
    environment = os.environ | {FILE: str(tmp_path / "pids"), WORKER: "process"}
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2], env=environment)
    pause = threading.Event()
    assert any((tmp_path / "pids").exists() or pause.wait(0.05) for _ in range(PATIENCE_S * 20))
    worker, child = map(int, (tmp_path / "pids").read_text().split())
    try:
        parent.kill()
        parent.wait()
        assert until_gone(worker)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_device_that_cannot_be_opened_is_refused_as_it_would_be_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER, "process")
    with closing(begin_bench("simulated:h20", "spin")) as bench, pytest.raises(DeviceUnavailable, match="h200") as there:
        bench.open()
    monkeypatch.delenv(WORKER)
    with pytest.raises(DeviceUnavailable) as here:
        begin_bench("simulated:h20", "spin")
    assert str(there.value) == str(here.value)


def test_where_no_process_can_open_the_device_any_more_the_rest_is_not_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.open()
    monkeypatch.setattr(bench._bench, "_device", "simulated:h20")  # type: ignore[attr-defined]
    results = swept(bench, case_of(Dies, "c_0"), case_of(case_id="c_1"), case_of(case_id="c_2"))
    assert [result.status for result in results] == ["failed", "not_run", "not_run"]
    assert results[1].reason.startswith("no process could go on with it: device simulated:h20 cannot be used")


class Ear:
    """Hears which cases begin; ends the sweep when it is told of a play."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begins(self, case: Case) -> None:
        self.heard.append(case.case_id)
        if len(self.heard) == 2:
            raise KeyboardInterrupt

    def played(self, case: Case, sample: Sample) -> None:
        raise AssertionError("a device without noise tells of no plays")


def test_whoever_listens_can_end_the_sweep_between_two_cases(bench: Bench) -> None:
    ear = Ear()
    bench.open()
    sweep = bench.sweep(Work([case_of(case_id=f"c_{number}") for number in range(3)], MEASURE, listener=ear))
    assert next(sweep).result.status == "ok"
    with pytest.raises(KeyboardInterrupt):
        next(sweep)
    assert ear.heard == ["c_0", "c_1"]
