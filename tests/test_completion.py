"""What the tab key gets in a shell: verbs, options and the words that they take, experiments, and runs that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner import cli
from runner.spec.load import list_experiments
from tests.runs_for_tests import noisy, write_run


def completed(*words: str) -> list[str]:
    """Return what bash is told for the last of the words."""
    asked = {"_DMALAB_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["dmalab", *words]), "COMP_CWORD": str(len(words))}
    return CliRunner().invoke(cli.app, [], env=asked, prog_name="dmalab").stdout.split()


def test_verbs_and_options_are_completed() -> None:
    assert set(completed("val")) == {"validate", "validate-model"}
    assert completed("run", "overlap", "--dev") == ["--device"]
    assert completed("run", "overlap", "--device", "") == ["auto", "all", "cuda", "simulated"]
    assert completed("plan", "overlap", "--device", "s") == ["simulated"]
    assert completed("init", "mine.yaml", "--about", "") == ["link", "overlap", "pinning", "calls"]


@pytest.mark.parametrize("verb", ["run", "plan", "validate"])
def test_experiments_are_completed_by_name(verb: str) -> None:
    assert completed(verb, "over") == [name for name in list_experiments() if name.startswith("over")] != []


@pytest.mark.parametrize("verb", ["show", "report", "pivot", "export", "timeline", "compare"])
def test_runs_that_are_there_are_completed_by_the_name_of_their_experiment(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed(verb, "") == []
    for name in ("mine", "mine-too", "other"):
        for day in ("1", "2"):
            write_run(tmp_path / "results" / name / day, [noisy(1, 1)])
    assert completed(verb, "mi") == ["mine", "mine-too"]
