"""The process that will own a device is started before anything else, taken by whoever opens one, and never left behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from runner.device.select import open_device
from runner.errors import EnvironmentProblem
from runner.execution import ready
from runner.execution.bench import Here, begin_bench
from runner.execution.isolated import play_apart
from runner.execution.ready import WORKER, discard, make_ready, see_off, seen_off_later, taken
from runner.execution.spread import Spread
from runner.execution.work import Work
from runner.execution.worker import Job
from runner.spec.experiment import Measure
from tests.execution.hostile import Dies, case_of
from tests.execution.test_isolated import until_gone

ROOT = Path(__file__).parents[2]
NOTING = """
import json, sys
from runner.execution import process
started = []
class Noted(process.Child):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        started.append(self.process.pid)
process.Child = Noted
sys.argv = ["dmalab", *json.loads(sys.argv[1])]
try:
    from runner.__main__ import main
    main()
finally:
    print(json.dumps(started), file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def _none_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(WORKER, "process")
    yield
    discard()


def command(*arguments: str, worker: str = "process") -> tuple[int, list[int], str]:
    """Run a command; return its exit code, the processes that it started, and what it said before that."""
    done = subprocess.run(
        [sys.executable, "-c", NOTING, json.dumps(arguments)],
        cwd=ROOT,
        env=os.environ | {WORKER: worker},
        capture_output=True,
        text=True,
        check=False,
    )
    *said, started = done.stderr.splitlines()
    return done.returncode, json.loads(started), "\n".join(said)


def test_who_opens_a_device_takes_the_process_that_is_ready() -> None:
    make_ready(["run", "overlap"])
    started = taken()
    other = taken()
    with closing(started), closing(other):
        assert started.child.process.pid != other.child.process.pid
    make_ready(["run", "overlap"])
    (waiting,) = ready._ready
    with closing(begin_bench("simulated:test", "spin")) as bench:
        assert not ready._ready
        assert waiting.child.process.poll() is None
        bench.open()
        assert [ended.result.status for ended in bench.sweep(Work([case_of()], Measure(warmup=1, samples=2)))] == ["ok"]


def test_a_process_that_was_started_with_other_variables_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    make_ready(["claims"])
    (waiting,) = ready._ready
    monkeypatch.setenv("DMALAB_NVTX", "1")
    with closing(taken()) as started:
        assert started.child.process.pid != waiting.child.process.pid
        assert waiting.child.process.poll() is not None


@pytest.mark.parametrize("arguments", [["validate", "overlap"], ["plan", "overlap"], ["list"], [], ["--version"]])
def test_no_process_is_started_for_what_measures_nothing(arguments: list[str]) -> None:
    make_ready(arguments)
    assert not ready._ready


@pytest.mark.parametrize("more", [["--device", "simulated"], ["--cluster", "local:2"], ["--help"]])
def test_no_process_is_started_where_no_real_device_is_asked_for(more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKER)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    make_ready(["run", "overlap", *more])
    assert not ready._ready


def test_a_variable_keeps_a_real_device_in_the_process_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER, "here")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    make_ready(["run", "overlap"])
    assert not ready._ready
    monkeypatch.setattr("runner.execution.bench.open_device", lambda name, wait: open_device("simulated:test", wait))
    with closing(begin_bench("cuda", "spin")) as bench:
        assert isinstance(bench, Here)


def test_another_word_in_that_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER, "Here")
    with pytest.raises(EnvironmentProblem, match="DMALAB_WORKER is 'Here'; allowed: process, here, or unset it"):
        begin_bench("simulated:test", "spin")


def test_a_run_takes_one_process_and_leaves_none(tmp_path: Path) -> None:
    given = ["run", "bandwidth", "--device", "simulated:test", "--out", str(tmp_path), "--set", "scenarios.copy.size=[1MiB]"]
    code, started, said = command(*given, "--no-report")
    assert (code, said) == (0, "")
    assert len(started) == 1
    assert all(map(until_gone, started))


def test_a_process_that_nobody_takes_is_gone_after_the_command(tmp_path: Path) -> None:
    code, started, said = command("run", str(tmp_path / "none.yaml"))
    assert code == 2
    assert "there is no such file" in said
    assert len(started) == 1
    assert all(map(until_gone, started))


def test_what_gives_its_device_back_is_waited_for_at_the_end_of_the_block() -> None:
    started = taken()
    with seen_off_later():
        see_off(started.child)
        assert started.child.process.poll() is None
        started.wire.close()
    assert started.child.process.returncode == 0, "it was waited for, not killed"
    assert not ready._leaving


def test_no_device_is_opened_before_another_process_has_given_it_back() -> None:
    started = taken()
    with seen_off_later():
        see_off(started.child)
        started.wire.close()
        with closing(begin_bench("simulated:test", "spin")) as bench:
            assert started.child.process.returncode == 0
            bench.open()


@pytest.fixture
def no_more_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.mark.usefixtures("no_more_processes")
def test_that_no_process_can_be_started_is_said_in_a_sentence() -> None:
    make_ready(["run", "overlap"])
    assert not ready._ready
    with pytest.raises(EnvironmentProblem, match="could not be started: Resource temporarily unavailable; raise what limits"):
        begin_bench("simulated:test", "spin")
    result = play_apart(Job("simulated:test", case_of(), 2**30, Measure(warmup=1, samples=2)))
    assert (result.status, result.reason[:31]) == ("failed", "a process could not be started:")


def test_a_process_that_cannot_be_replaced_leaves_the_rest_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case_of(Dies, "c_0"), case_of(case_id="c_1")]
    with closing(begin_bench("simulated:test", "spin")) as bench:
        bench.open()
        monkeypatch.setattr(ready, "_start", partial(_refused, "no more"))
        results = [ended.result for ended in bench.sweep(Work(cases, Measure(warmup=1, samples=2)))]
    assert [(each.status, each.reason.partition(":")[2]) for each in results[1:]] == [("not_run", " no more")]


def _refused(why: str) -> None:
    raise EnvironmentProblem(why)


@pytest.mark.usefixtures("no_more_processes")
def test_a_grid_whose_helpers_cannot_be_started_is_played_here() -> None:
    cases = [case_of(case_id=f"c_{number}") for number in range(4)]
    work = Work(cases, Measure(warmup=1, samples=2), workers=2)
    assert [ended.result.status for ended in Spread("simulated:test", work, 2)] == ["ok"] * 4
