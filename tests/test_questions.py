"""Every question in experiments/ that has expectations is answered on the simulated H200 as tests/golden/verdicts.csv has it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

import pytest

from runner.flow import run_experiment
from runner.spec.load import load_experiment
from tests.scenarios.runs import Silent

FOLDER: Final = Path(__file__).parents[1] / "experiments"
GOLDEN: Final = Path(__file__).parent / "golden" / "verdicts.csv"
FILES: Final = [path for path in sorted(FOLDER.glob("*.yaml")) if load_experiment(path).experiment.expect]
TOO_MANY_LINES: Final = {"overlap": 35}
"""Lines that are too many where it is not thirty: the public example explains itself."""


def golden() -> dict[str, list[tuple[str, str]]]:
    """Return what each experiment's claims come to, in the order of the file: experiment → claims with their verdicts."""
    found: dict[str, list[tuple[str, str]]] = {}
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["experiment"], []).append((row["claim"], row["verdict"]))
    return found


def test_there_are_many_questions_and_each_has_its_verdicts() -> None:
    assert len(FILES) >= 20
    assert sorted(golden()) == [path.stem for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_question_is_short_and_has_its_verdicts(path: Path, tmp_path: Path) -> None:
    loaded = load_experiment(path)
    assert loaded.experiment.question.endswith("?")
    assert len(path.read_text(encoding="utf-8").splitlines()) < TOO_MANY_LINES.get(path.stem, 30)
    outcome = run_experiment(loaded, device="simulated:h200", out=tmp_path, max_cases=1000, watcher=Silent())
    assert [(verdict.claim, verdict.verdict) for verdict in outcome.verdicts] == golden()[path.stem]
    assert {result.status for result in outcome.results} == {"ok"}
    missed = any(verdict.verdict == "refuted" for verdict in outcome.verdicts)
    assert outcome.exit_code == (5 if missed else 0)
