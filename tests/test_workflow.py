"""The workflow for pushes and pull requests does what .ci/run does, with every Python that has a lock, and may do no more."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.lock import PYTHONS

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8"))
JOBS: dict[str, Any] = WORKFLOW["jobs"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def commands(job: str) -> list[str]:
    return [line for step in JOBS[job]["steps"] for line in step.get("run", "").splitlines()]


def setup(job: str) -> dict[str, str]:
    (given,) = [step["with"] for step in JOBS[job]["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
    return dict(given)


def test_it_asks_all_that_the_script_asks_each_in_a_target_that_exists() -> None:
    asked = {" ".join(line.split()[:3]) for job in JOBS for line in commands(job) if line.startswith("make ")}
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    wanted = re.findall(r"^ *make (\S+(?: SHARE=\S+)?)$", script, re.MULTILINE)
    assert wanted == ["check", "test-slow", "soak SHARE=0.1", "docs"]
    assert [each for each in wanted if not any(line.startswith(f"make {each}") for line in asked)] == []
    targets = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)
    assert [line for line in asked if line.split()[1] not in targets] == []


def test_every_python_that_has_a_lock_is_tried() -> None:
    assert tuple(JOBS["check"]["strategy"]["matrix"]["python"]) == PYTHONS
    assert setup("check")["python-version"] == "${{ matrix.python }}"
    assert "make check PYTHON=python${{ matrix.python }}" in commands("check")
    assert tuple(setup("from-nothing")["python-version"].split()) == PYTHONS


def test_a_job_that_starts_from_nothing_has_no_cache_and_the_others_have_one() -> None:
    cached = {job: setup(job).get("cache") for job in JOBS}
    assert cached.pop("from-nothing") is None
    assert set(cached.values()) == {"pip"}
    assert all(list(ROOT.glob(setup(job)["cache-dependency-path"])) for job in cached)


def test_it_may_read_the_repository_and_nothing_else() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    # YAML 1.1 reads the key `on` as true. `pull_request_target` would run a stranger's code with the repository's rights.
    assert set(WORKFLOW[True]) == {"push", "pull_request"}
    for job in JOBS.values():
        assert "permissions" not in job
        (checkout,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert checkout["with"]["persist-credentials"] is False
    assert not any("github." in line for job in JOBS for line in commands(job)), "what a stranger writes never enters a shell"


def test_actions_are_named_with_their_major_version_and_no_job_runs_for_ever() -> None:
    used = [step["uses"] for job in JOBS.values() for step in job["steps"] if "uses" in step]
    assert [each for each in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", each)] == []
    assert all(1 <= job["timeout-minutes"] <= 60 for job in JOBS.values())
    assert WORKFLOW["concurrency"]["group"].endswith("${{ github.ref }}")


def test_make_check_asks_the_linter_the_type_checker_and_every_test() -> None:
    words = ["make", "-C", str(ROOT), "-n", "-o", ".venv/.installed", "check"]
    told = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "MAKEFLAGS": ""}).stdout
    for command in ("/ruff check runner tests", "/ruff format --check runner tests", "/mypy", "/python -m pytest -q -n auto"):
        assert told.count(f".venv/bin{command}") >= 1, told


@pytest.mark.parametrize("python", ["python0.0", "/nowhere/python3"])
def test_make_takes_the_python_that_is_named_or_says_that_it_is_none(tmp_path: Path, python: str) -> None:
    for name in ("Makefile", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    words = ["make", "-C", str(tmp_path), "list", f"PYTHON={python}"]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert f"needs Python 3.11 or newer with its module venv, and found none as PYTHON={python}; on Debian" in said.stderr
    assert not (tmp_path / ".venv").exists()
