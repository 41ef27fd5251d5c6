"""What scripts get: one JSON object, nothing with --quiet, and names to complete in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from runner import cli
from runner.cli_shell import hushed, is_hushed
from runner.units import local_time

ROOT = Path(__file__).resolve().parents[1]
SMALL = """\
name: small
question: Does it run?
measure: {warmup: 0, samples: 3}
scenarios:
  a:
    {kind: transfer, direction: [h2d, d2h], size: [64KiB, 1MiB], exclude: [{because: none, where: {size: 64KiB, direction: d2h}}]}
  slow: {kind: pipeline, schedule: overlapped, buffer: pageable, total: 1MiB, chunk: 256KiB, streams: 2}
expect:
  - {claim: It takes a while, of: {scenario: slow}, metric: wall_ms, value: {above: LIMIT}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace("LIMIT", "0"))
    return path


def dmalab(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def told(*arguments: object) -> tuple[int, Any]:
    result = dmalab(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_a_run_tells_folder_cases_and_verdicts(small: Path, tmp_path: Path) -> None:
    code, content = told("run", small, "--device", "simulated:test", "--out", tmp_path / "out", "--export", "csv-semicolon")
    (run,) = content["runs"]
    assert (code, content["exit_code"], run["exit_code"]) == (0, 0, 0)
    assert (run["experiment"], run["status"], run["device"]) == ("small", "complete", "simulated:test")
    assert run["cases"] == {"ok": 4, "excluded": 1}
    assert [(each["claim"], each["verdict"]) for each in run["verdicts"]] == [("It takes a while", "confirmed")]
    assert run["started_utc"].endswith("Z")
    folder = Path(run["folder"])
    assert (folder / "summary.csv").is_file()
    assert (folder / "report.html").is_file()
    assert (tmp_path / "out" / "small" / "latest").resolve() == folder.resolve()


def test_the_exit_code_is_in_the_object_too(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace("LIMIT", "1000000"))
    code, content = told("run", path, "--device", "simulated:test", "--no-report", "--out", tmp_path / "out")
    assert (code, content["exit_code"], content["runs"][0]["verdicts"][0]["verdict"]) == (5, 5, "refuted")


def test_quiet_says_nothing_but_errors(small: Path, tmp_path: Path) -> None:
    run = dmalab("run", small, "--device", "simulated:test", "--out", tmp_path / "out", "-q")
    assert (run.exit_code, run.output) == (0, "")
    assert (dmalab("validate", small, "--quiet").output, is_hushed()) == ("", False)
    bad = dmalab("validate", tmp_path / "none.yaml", "--quiet")
    assert bad.exit_code == 2
    assert "there is no such file" in bad.stderr


def test_a_plan_is_told_in_numbers(small: Path) -> None:
    code, content = told("plan", small, "--device", "simulated:test")
    assert code == 0
    assert (content["experiment"], content["cases"], content["excluded"]) == ("small", 5, 1)
    assert content["seconds"] > 0
    assert content["payload_bytes"] > 0
    assert content["scenarios"][0]["excluded"] == {"none": 1}
    assert content["scenarios"][1]["first"]


def test_validate_tells_advice_and_every_problem_with_its_place(small: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(SMALL.replace("LIMIT", "0").replace("samples: 3", "sampels: 3").replace("size: [64KiB, 1MiB]", "size: 1Mb"))
    code, content = told("validate", small, bad, "nowhere")
    good, wrong, absent = content["files"]
    assert code == 2
    assert (good["ok"], good["cases"], good["excluded"]) == (True, 5, 1)
    assert good["advice"][0]["scenario"] == "slow"
    assert not wrong["ok"]
    assert {(each["line"], each["path"]) for each in wrong["problems"]} >= {(3, "measure.sampels"), (6, "scenarios.a.size")}
    assert "there is no such file" in absent["problems"][0]["message"]
    assert told("validate", small)[0] == 0


@pytest.mark.parametrize(
    ("topic", "keys"), [("experiments", ["experiments"]), ("profiles", ["profiles"]), ("kinds", ["kinds", "buffers"])]
)
def test_what_there_is_can_be_listed_by_topic(topic: str, keys: list[str]) -> None:
    content = told("list", topic)[1]
    assert list(content) == keys
    assert content.items() <= told("list")[1].items()


def test_two_runs_are_compared_row_by_row(small: Path, tmp_path: Path) -> None:
    folders = []
    for size in ("1MiB", "2MiB"):
        changed = ("--set", f"scenarios.slow.total={size}", "--device", "simulated:test", "--no-report")
        folders.append(told("run", small, *changed, "--out", tmp_path / size)[1]["runs"][0]["folder"])
    code, content = told("compare", *folders, "--allow", "simulated", "--fail-on", "missing")
    assert code == 5
    assert content["failures"]
    assert {row["word"] for row in content["cases"]} >= {"missing", "added"}
    code, content = told("compare", tmp_path / "1MiB" / "small")
    assert code == 0
    assert len(content["cases"]) == 4
    assert dmalab("compare", folders[0], "--predicted", "--json").exit_code == 2


def test_hushing_ends_where_it_began_whatever_happens() -> None:
    with hushed(), hushed(False):
        assert is_hushed(), "an inner one that hushes nothing does not let an outer one speak"
    with pytest.raises(ZeroDivisionError), hushed():
        1 / 0  # noqa: B018
    assert not is_hushed()


# a person's time, and a shell's completion


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_times_on_the_screen_are_in_the_zone_of_who_reads() -> None:
    assert local_time("2026-11-29T18:09:45.123Z") == "2026-11-30 03:09"


@pytest.mark.parametrize(
    ("words", "among"), [("dmalab run over", "overlap"), ("dmalab ins", "install-cuda"), ("dmalab plan ban", "bandwidth")]
)
def test_a_shell_completes_verbs_and_experiments(words: str, among: str) -> None:
    asked = {"_DMALAB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-m", "runner"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert among in done.stdout.split(), done.stderr


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in dmalab("--help").stdout
