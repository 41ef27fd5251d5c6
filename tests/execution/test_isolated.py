"""A case in a process of its own: its result comes back, and whatever happens in there costs one row."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runner.device.contract import DeviceFacts
from runner.device.simulated import SimulatedDevice, load_profile
from runner.execution.deadline import START_S, deadline_of
from runner.execution.isolated import address_of, play_apart
from runner.execution.worker import Job
from runner.measure.case import measure_case
from runner.measure.companions import CompanionBook
from runner.scenarios.pressure import Pressure
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from tests.execution.hostile import FILE, Chatters, Dies, DiesLater, Hangs, Limited, Raises, case, case_of

MEASURE = Measure(warmup=1, samples=3)
HOST = 2**34
PATIENCE_S = 120
"""How long a test waits for something that must happen; it is over as soon as it has."""


def job(kind: type[Transfer] = Transfer, device: str = "simulated:test", measure: Measure = MEASURE) -> Job:
    return Job(device, case_of(kind), HOST, measure)


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until_gone(pid: int) -> bool:
    pause = threading.Event()
    return any(gone(pid) or pause.wait(0.05) for _ in range(PATIENCE_S * 20))


def test_the_result_is_the_one_that_this_process_would_have_measured() -> None:
    one = case_of()
    device = SimulatedDevice(load_profile("test"))
    here = measure_case(device, device.facts(), CompanionBook(device, HOST, MEASURE).prepare(one), MEASURE)
    assert here.status == "ok"
    assert play_apart(Job("simulated:test", one, HOST, MEASURE)) == here


def test_a_process_that_dies_is_failed_with_its_signal_and_its_last_words() -> None:
    result = play_apart(job(Dies), PATIENCE_S)
    assert result.status == "failed"
    assert result.reason == "its process was ended by SIGKILL; its last words: two / three / the link fell off"


def test_a_process_that_raises_is_failed_with_what_it_raised() -> None:
    result = play_apart(job(Raises), PATIENCE_S)
    assert result.status == "failed"
    assert result.reason.startswith("its process ended with exit code 1 and without a result; its last words: ")
    assert result.reason.endswith("RuntimeError: nothing of this was foreseen")


def test_what_is_printed_in_there_does_not_spoil_the_result() -> None:
    assert play_apart(job(Chatters), PATIENCE_S).status == "ok"


def test_a_process_that_breaks_after_its_measurement_has_measured() -> None:
    assert play_apart(job(DiesLater), PATIENCE_S).status == "ok"


def test_a_lock_limit_is_that_of_its_process_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    result = play_apart(job(Limited), PATIENCE_S)
    # Nobody may raise a limit, so where this process may lock less, so may the other.
    least = min(65_536, *(bound for bound in before if bound != resource.RLIM_INFINITY))
    assert (result.status, result.reason) == ("failed", f"may lock {least:,} bytes")
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == before


def test_a_device_that_cannot_be_opened_again_is_not_run() -> None:
    result = play_apart(job(device="simulated:h20"))
    assert result.status == "not_run"
    assert "could not open the device: device simulated:h20 cannot be used" in result.reason


@pytest.mark.slow
def test_a_process_that_hangs_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "pids"))
    result = play_apart(job(Hangs), deadline_s=12)
    assert result.status == "timeout"
    assert result.reason == "its process had not ended after 12 s and was killed"
    assert all(until_gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_a_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = "from tests.execution.test_isolated import *\nplay_apart(job(Hangs), 1000)"
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=root, env=os.environ | {FILE: str(tmp_path / "pids")})
    pause = threading.Event()
    assert any((tmp_path / "pids").exists() or pause.wait(0.05) for _ in range(PATIENCE_S * 20))
    worker, child = map(int, (tmp_path / "pids").read_text().split())
    try:
        parent.kill()
        parent.wait()
        assert until_gone(worker)
    finally:
        # Its own child outlives it, as no process group is killed by a dead parent.
        os.kill(child, signal.SIGKILL)


def test_a_large_case_has_more_time_than_a_small_one() -> None:
    small, many = deadline_of(case_of(), MEASURE, HOST), deadline_of(case_of(), Measure(warmup=1, samples=300), HOST)
    pressure = Pressure(kind="pressure", fraction=0.25)
    assert START_S < small < many
    assert deadline_of(case(pressure), MEASURE, HOST) > START_S + 1


def test_a_deadline_in_the_file_holds_for_every_case() -> None:
    assert deadline_of(case_of(), Measure(deadline_s=3.5), HOST) == 3.5


@pytest.mark.parametrize(
    ("kind", "environment", "address"),
    [("cuda", {"ordinal": 3}, "cuda:3"), ("cuda", {}, ""), ("simulated", {"ordinal": 0}, "")],
)
def test_only_a_real_device_has_an_address_for_workers(kind: str, environment: dict[str, int], address: str) -> None:
    assert address_of(DeviceFacts("one", kind, 1, 1, 1, environment)) == address  # type: ignore[arg-type]
