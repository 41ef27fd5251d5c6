from __future__ import annotations

import csv
import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from runner import cli, flow
from runner.errors import DeviceUnavailable, PlanError
from runner.execution import bench
from runner.measure.result import CaseResult

ROOT = Path(__file__).parents[1]
SMALL = """\
name: small
question: Does it run?
measure: {warmup: 1, samples: 3}
baseline: loop
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 64KiB, chunk: 16KiB}
  ring: {kind: pipeline, schedule: overlapped, total: 64KiB, chunk: [8KiB, 16KiB], streams: [1, 2]}
"""
FULL = "{name: full, question: q, scenarios: {a: {kind: transfer, direction: h2d, size: SIZE}}}\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def dmalab(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def run(file: Path, *arguments: object) -> Result:
    return dmalab("run", file, "--device", "simulated:test", "--out", file.parent / "out", *arguments)


def rows(folder: Path) -> list[dict[str, str]]:
    (path,) = folder.glob("out/*/2*/summary.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# run


def test_run_writes_a_row_a_case_and_says_where(small: Path, tmp_path: Path) -> None:
    result = run(small)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("SIMULATED: ")
    assert "times as fast" in result.stdout
    assert f"The tables are in {tmp_path}/out/small/" in result.stdout
    assert result.stderr == ""
    table = rows(tmp_path)
    assert [row["scenario"] for row in table] == ["loop", "ring", "ring", "ring", "ring"]
    assert {row["device_kind"] for row in table} == {"simulated"}
    assert [row["samples"] for row in table] == ["3"] * 5
    assert float(table[0]["speedup"]) == 1
    assert all(float(row["gb_per_s"]) > 0 for row in table)


def test_run_takes_overrides(small: Path, tmp_path: Path) -> None:
    result = run(small, "--set", "measure.samples=2", "--set", "scenarios.ring.streams=[3]")
    assert result.exit_code == 0, result.stderr
    assert [row["streams"] for row in rows(tmp_path)] == ["1", "3", "3"]
    assert {row["samples"] for row in rows(tmp_path)} == {"2"}


def test_several_files_run_one_after_another(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SMALL.replace("small", "other"))
    result = dmalab("run", small, other, "--device", "simulated:test", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert {folder.name for folder in (tmp_path / "out").iterdir()} == {"small", "other"}


def test_all_problems_of_all_files_and_nothing_runs(small: Path, tmp_path: Path) -> None:
    bad, worse = tmp_path / "bad.yaml", tmp_path / "worse.yaml"
    bad.write_text(SMALL.replace("chunk: 16KiB", "chnk: 16KiB").replace("samples: 3", "samples: 1e6"))
    worse.write_text("- 1\n")
    result = dmalab("run", small, bad, worse, "--device", "simulated:test", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "chnk" in result.stderr
    assert "1e6" in result.stderr
    assert "worse.yaml:1:1" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_fault_that_only_the_grid_shows_stops_the_other_files_too(small: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text(SMALL.replace("[8KiB, 16KiB]", "[8KiB, 128KiB]"))
    result = dmalab("run", small, large, "--device", "simulated:test", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "large.yaml:7:" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_grid_above_max_cases_is_refused(small: Path) -> None:
    result = run(small, "--max-cases", 4)
    assert result.exit_code == 2
    assert "5 cases" in result.stderr


def test_a_missing_device_is_one_sentence_and_3(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise DeviceUnavailable("cuda", "no driver", "install one")

    monkeypatch.setattr(flow, "run_experiment", refuse)
    result = run(small)
    assert (result.exit_code, result.stderr) == (3, "device cuda cannot be used: no driver; install one\n")


def test_more_memory_than_there_is_skips_that_case_alone(tmp_path: Path) -> None:
    path = tmp_path / "full.yaml"
    path.write_text(FULL.replace("SIZE", "[1MiB, 1024TiB]"))
    result = run(path)
    assert result.exit_code == 4
    assert [row["status"] for row in rows(tmp_path)] == ["ok", "skipped"]
    assert "1 case skipped: " in result.stdout


def test_no_case_that_could_run_is_3(tmp_path: Path) -> None:
    path = tmp_path / "full.yaml"
    path.write_text(FULL.replace("SIZE", "1024TiB"))
    assert run(path).exit_code == 3


def test_a_missed_expectation_is_5(small: Path) -> None:
    side = "{scenario: loop}"
    small.write_text(
        SMALL
        + f"expect:\n  - {{claim: faster than itself, of: {side}, against: {side}, metric: wall_ms, ratio: {{below: 0.5}}}}\n"
    )
    result = run(small)
    assert result.exit_code == 5
    assert "refuted: faster than itself" in result.stdout


@pytest.mark.parametrize(("codes", "exit_code"), [([0, 5], 5), ([5, 4], 4), ([4, 3, 5], 3), ([0, 0], 0), ([5, 130, 3], 130)])
def test_the_worst_of_several_codes_is_told(
    small: Path, monkeypatch: pytest.MonkeyPatch, codes: list[int], exit_code: int
) -> None:
    class Outcome:
        def __init__(self, code: int) -> None:
            self.exit_code, self.folder = code, small.parent

    left = iter(codes)
    monkeypatch.setattr(flow, "run_experiment", lambda *_, **__: Outcome(next(left)))
    assert dmalab("run", "--no-report", *[small] * len(codes)).exit_code == exit_code
    assert list(left) == ([3] if 130 in codes else []), "nothing runs after an interrupt"


def test_an_interrupt_keeps_what_was_measured(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench.Here.sweep

    def interrupted(*arguments: Any) -> Any:
        for count, ended in enumerate(real(*arguments)):
            if count == 2:
                raise KeyboardInterrupt
            yield ended

    monkeypatch.setattr(bench.Here, "sweep", interrupted)
    assert run(small).exit_code == 130
    assert [row["status"] for row in rows(tmp_path)] == ["ok", "ok", "not_run", "not_run", "not_run"]


# Our own faults


def test_an_unforeseen_error_is_one_sentence(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> list[CaseResult]:
        return [{}["lost"]]

    monkeypatch.setattr(bench.Here, "sweep", fail)
    monkeypatch.delenv("DMALAB_TRACEBACK", raising=False)
    result = run(small)
    assert result.exit_code == 70
    assert len(result.stderr.splitlines()) == 1
    assert "KeyError ('lost') in runner" in result.stderr
    assert "report" in result.stderr
    monkeypatch.setenv("DMALAB_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in run(small).stderr


def test_a_plan_that_contradicts_itself_is_70(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PlanError("lane 0 races")

    monkeypatch.setattr(flow, "run_experiment", refuse)
    assert run(small).exit_code == 70


# plan, validate, list


def test_plan_says_what_would_happen_and_writes_nothing(small: Path, tmp_path: Path) -> None:
    result = dmalab("plan", small)
    assert result.exit_code == 0, result.stderr
    assert "loop: 1 case; the first would take 64KiB (65,536 bytes)" in result.stdout
    assert "5 cases, 0 of them excluded; 20 plays with warm-ups" in result.stdout
    estimate = r"^estimated time: .* on a real GPU \(by simulated:.*\); a simulated run only computes it$"
    assert re.search(estimate, result.stdout, re.MULTILINE)
    assert "memory at the peak: " in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


def test_plan_tells_why_cases_are_excluded(small: Path) -> None:
    small.write_text(SMALL[:-2] + ", exclude: [{because: too many, where: {streams: 2}}]}\n")
    result = dmalab("plan", small)
    assert "2 cases excluded: too many" in result.stdout
    assert "5 cases, 2 of them excluded" in result.stdout


def test_plan_shows_the_first_cases_and_counts_the_rest(small: Path) -> None:
    result = dmalab("plan", small, "--set", f"scenarios.ring.streams={list(range(1, 33))}")
    assert "... and 53 more" in result.stdout
    assert result.stdout.count("c_") == 12


def test_validate_counts_cases(small: Path) -> None:
    result = dmalab("validate", small, "overlap")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == f"{small}: all well, 5 cases"
    assert "overlap.yaml: all well, 17 cases" in result.stdout


def test_validate_warns_of_rings_that_cannot_overlap(tmp_path: Path) -> None:
    path = tmp_path / "ring.yaml"
    path.write_text(
        "name: ring\nquestion: Can it?\nscenarios:\n  ring:\n    kind: pipeline\n    schedule: overlapped\n"
        "    staging: [direct, copy]\n"
        "    buffer: [pinned, pageable, write_combined]\n    total: 4MiB\n    chunk: [1MiB, 2MiB]\n"
    )
    result = dmalab("validate", path)
    assert result.stdout.splitlines()[1:] == [
        "  ring, 2 cases: pageable memory is ordinary memory, which the driver stages through a pinned buffer of its own: "
        "a call that copies it waits, so this ring can hide little; take buffer: pinned, or compare both",
        "  ring, 2 cases: the stager is what `buffer` says: pageable memory is ordinary memory, which the driver stages through "
        "a pinned buffer of its own: a call that copies it waits, so this ring can hide little; take buffer: pinned, or compare "
        "both",
        "  ring, 2 cases: write_combined memory is page-locked memory that the processor writes past its caches and reads "
        "slowly: copying results out of it may take most of the time",
    ]


def test_validate_names_the_nearest_experiment() -> None:
    result = dmalab("validate", "overlapp")
    assert result.exit_code == 2
    assert "overlap" in result.stderr


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("experiments", ["bandwidth", "overlap", "serialized pageable loop"]),
        ("profiles", ["h200", "rtx-4090", "test"]),
        ("kinds", ["transfer", "pipeline", "pinned", "pageable", "chunk"]),
    ],
)
def test_list_lists_one_topic_or_all(topic: str, words: list[str]) -> None:
    for result in (dmalab("list", topic), dmalab("list")):
        assert result.exit_code == 0
        assert [word for word in words if word not in result.stdout] == []


# Use


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["fly"], ["list", "nothing"], ["run", "x", "--max-cases", "0"], ["plan", "a", "b"]]
)
def test_wrong_use_is_2(arguments: list[str]) -> None:
    result = dmalab(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stdout + result.stderr


def test_both_names_of_the_command_work() -> None:
    for command in (["-m", "runner"], ["-c", "from runner.cli import main; main()"]):
        result = subprocess.run([sys.executable, *command, "--version"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert result.stdout.startswith("dmalab ")


def test_a_closed_pipe_makes_no_noise(small: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "runner", "plan", str(small)]
    result = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


def test_a_terminal_without_signs_gets_question_marks(small: Path) -> None:
    small.write_text(SMALL.replace("Does it run?", "Läuft es in µs?"), encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "runner", "plan", str(small)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "L?uft es in ?s?" in result.stdout


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("", "'' is not a device; allowed: auto, cuda, cuda:N"),
        ("every", "'every' is not a device"),
        ("cuda:x", "did you mean cuda?"),
        ("simulated:h20", "is not a device that can be simulated; allowed: simulated:h200, simulated:rtx-4090"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_device_that_cannot_be_is_wrong_use(small: Path, verb: str, device: str, words: str) -> None:
    result = dmalab(verb, small, "--device", device)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_a_profile_that_there_is_not_is_a_fault_of_the_file(small: Path) -> None:
    small.write_text(SMALL + "device: simulated:h20\n")
    result = dmalab("validate", small)
    assert result.exit_code == 2
    assert "small.yaml:8:9: device: not a device that can be simulated, got simulated:h20" in result.stderr
    assert "did you mean h200?" in result.stderr


def test_a_full_disk_under_the_screen_is_3_and_the_tables_are_written(small: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runner", "run", small, "--device", "simulated:test", "--out", tmp_path / "out"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 3
    assert result.stderr == "the standard output cannot be written: No space left on device\n"
    assert [row["status"] for row in rows(tmp_path)] == ["not_run"] * 5


def test_a_full_disk_under_the_tables_is_one_sentence_and_3(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run(small)
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1
    assert "cannot be written: No space left on device" in result.stderr


@pytest.mark.slow
def test_a_run_that_is_ended_from_outside_keeps_what_was_measured(small: Path, tmp_path: Path) -> None:
    chunks = ", ".join(f"{4 * n}KiB" for n in range(1, 400))
    small.write_text(SMALL.replace("[8KiB, 16KiB]", f"[{chunks}]").replace("total: 64KiB, chunk: [", "total: 16MiB, chunk: ["))
    command = [sys.executable, "-m", "runner", "run", small, "--device", "simulated:test", "--out", tmp_path / "out"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("["):
            assert process.poll() is None, "the run was over before its first line"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    table = rows(tmp_path)
    assert len(table) == 1 + 399 * 2
    assert {row["status"] for row in table} == {"ok", "not_run"}


def test_an_interrupt_while_modules_are_read_is_no_traceback() -> None:
    code = """if True:
        import sys

        class Stop:
            def find_spec(self, name, path=None, target=None):
                if name == "typer":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Stop())
        from runner.__main__ import main
        main()
    """
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_a_grid_that_no_memory_could_hold_cannot_be_allowed(small: Path) -> None:
    assert run(small, "--max-cases", 10**9).exit_code == 2
