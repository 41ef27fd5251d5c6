"""Advice as a whole: searched on a profile, confirmed by a run, told in lines, and left behind as an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner.advise import Advice, advise, experiment_text, finalists, most_threads, profile_of
from runner.advise_job import Job, Work
from runner.advise_lines import advice_lines
from runner.advise_search import MIB, Search
from runner.calibration.profile_text import profile_text
from runner.cli import app
from runner.device.contract import DeviceFacts
from runner.device.simulated import SimulatedDevice, load_profile
from runner.device.simulated.profile_files import profile_data
from runner.expand import expand
from runner.spec.load import load_experiment
from tests.scenarios.runs import Silent

JOB = Job(8 * MIB, 8 * MIB, page_locked=False)


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> Advice:
    return advise(JOB, device="simulated:test", out=tmp_path_factory.mktemp("runs"), watcher=Silent())


def test_what_is_advised_was_run_and_took_what_was_expected(advice: Advice) -> None:
    assert advice.outcome.exit_code == 0
    for choice in (advice.naive, *advice.choices):
        assert choice.median_ms == pytest.approx(choice.expected_ms), choice.name
    assert advice.best.median_ms == min(choice.median_ms for choice in advice.choices)
    assert advice.best.median_ms < advice.naive.median_ms / 2


def test_the_simplest_is_within_3_percent_and_none_that_is_simpler_is(advice: Advice) -> None:
    assert advice.simplest.median_ms <= 1.03 * advice.best.median_ms
    good = [setting for setting, ms in advice.search.times_ms.items() if ms <= 1.03 * advice.best.median_ms]
    assert advice.simplest.setting is not None
    methods = advice.search.methods
    assert advice.simplest.setting.simplicity(methods) == min(setting.simplicity(methods) for setting in good)


def test_the_lines_say_all_that_was_asked(advice: Advice) -> None:
    told = "\n".join(advice_lines(advice))
    best = advice.best
    gain, bound = advice.naive.median_ms / best.median_ms, best.figure("bound_full_ms")
    assert f"{gain:.3g} times as fast as the naive loop" in told
    assert bound is not None
    assert f"{best.median_ms / bound:.3g} times its bound of {bound:.4g} ms" in told
    assert f"{best.expected_ms:.4g} ms expected, {best.median_ms:.4g} ms simulated" in told
    assert "Simplest within 3 %" in told or "It is the simplest within 3 %, too." in told
    assert str(advice.outcome.folder) in told
    assert all(choice.name in told for choice in advice.choices)


def test_the_experiment_that_it_leaves_holds_the_very_cases_that_were_run(advice: Advice, tmp_path: Path) -> None:
    path = tmp_path / "advised.yaml"
    path.write_text(advice.yaml())
    loaded = load_experiment(path)
    cases = {case.scenario: case.model for case in expand(loaded)}
    assert loaded.experiment.baseline == "naive"
    assert cases == {
        result.case.scenario: result.case.model for result in advice.outcome.results if result.case.scenario in cases
    }
    assert {"naive", advice.best.name, advice.simplest.name} == cases.keys()


@pytest.mark.parametrize("page_locked", [False, True])
@pytest.mark.parametrize("work", [Work(passes=3), Work(ratio=0.0)])
@pytest.mark.parametrize("sizes", [(4 * MIB, 2 * MIB), (4 * MIB, 0), (0, 2 * MIB)], ids=["both ways", "in", "out"])
def test_every_finalist_can_be_written_as_a_file_and_read_back(
    tmp_path: Path, page_locked: bool, work: Work, sizes: tuple[int, int]
) -> None:
    job = Job(*sizes, page_locked=page_locked, work=work)
    search = Search(SimulatedDevice(load_profile("test")), job, 4)
    named = {"naive": search.naive()} | {name: each.fields() for name, each in finalists(search).items()}
    path = tmp_path / "all.yaml"
    path.write_text(experiment_text(job, {name: search.all_fields(fields) for name, fields in named.items()}))
    assert {case.scenario: case.model for case in expand(load_experiment(path))} == {
        name: search.model(fields) for name, fields in named.items()
    }


def test_the_profile_is_the_devices_own_the_calibrated_one_or_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    simulated = SimulatedDevice(load_profile("test")).facts()
    card = DeviceFacts("NVIDIA Some Card", "cuda", 2**30, 2**30, 2, {})
    assert profile_of(simulated).name == "test"
    assert profile_of(card).name == "h200"
    folder = tmp_path / "dmalab" / "profiles"
    folder.mkdir(parents=True)
    (folder / "nvidia-some-card.yaml").write_text(profile_text({**profile_data("test"), "name": "nvidia-some-card"}))
    assert profile_of(card).name == "nvidia-some-card"
    assert most_threads(simulated, load_profile("test")) == 4
    assert most_threads(card, load_profile("test")) >= 1


def test_the_command_says_it_and_writes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    words = ["advise", "--in", "1MiB", "--data", "pinned", "--passes", "2", "--device", "simulated:test"]
    done = CliRunner().invoke(app, [*words, "--runs", str(tmp_path), "--yaml", str(path)])
    assert done.exit_code == 0, done.output
    assert "1MiB in, data in page-locked memory, 2 passes of the kernel, on simulated:test" in done.output
    assert "Best: " in done.output
    assert {case.scenario for case in expand(load_experiment(path))} >= {"naive"}


@pytest.mark.parametrize("way", [["--in", "1MiB"], ["--out", "1MiB"], ["--in", "1MiB", "--out", "1MiB"]])
@pytest.mark.parametrize("data", ["pageable", "pinned"])
def test_each_way_is_advised_wherever_the_data_lie(tmp_path: Path, way: list[str], data: str) -> None:
    words = ["advise", *way, "--data", data, "--device", "simulated:test", "--runs", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "times as fast as the naive loop" in done.output


def test_a_file_of_its_own_that_is_refused_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "naive", lambda self: {"schedule": "serialized", "chunk": MIB, "allocate": "never"})
    done = CliRunner().invoke(app, ["advise", "--in", "1MiB", "--device", "simulated:test", "--runs", str(tmp_path)])
    assert done.exit_code == 70
    assert "fault of its own" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--in", "1MiB", "--passes", "1", "--ratio", "2"], "one of --passes, --ratio and --kernel-ms"),
        (["--in", "1mib"], "--in: "),
        (["--in", "1MiB", "--pin", "lots"], "--pin: "),
        ([], "no bytes to move"),
        (["--in", "1MiB", "--device", "simulated:none"], "there is no such profile"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["advise", "--device", "simulated:test", *words])
    assert done.exit_code in (2, 3)
    assert said in done.output
