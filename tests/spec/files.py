"""Writing small experiment files for tests, and reading back what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.errors import Problem, SpecError
from runner.expand import Case, expand
from runner.spec.load import LoadedExperiment, load_experiment

HEAD = "name: trial\nquestion: Does it work?\nscenarios:\n"
COPY = "  copy: {kind: transfer, direction: h2d, size: 1MiB}\n"


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "trial.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def load(folder: Path, content: str | bytes, overrides: Sequence[str] = ()) -> LoadedExperiment:
    return load_experiment(write(folder, content), overrides)


def cases(folder: Path, scenarios: str) -> list[Case]:
    return list(expand(load(folder, HEAD + scenarios)))


def problems(folder: Path, content: str | bytes, overrides: Sequence[str] = ()) -> list[Problem]:
    """Return what is wrong with a file, its grid included; empty where it is sound."""
    try:
        list(expand(load(folder, content, overrides)))
    except SpecError as error:
        return list(error.problems)
    return []


def only_problem(folder: Path, content: str | bytes, overrides: Sequence[str] = ()) -> Problem:
    found = problems(folder, content, overrides)
    assert len(found) == 1, [problem.sentence() for problem in found]
    return found[0]
