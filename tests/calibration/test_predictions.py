"""Predictions are held against a run case by case, and scored by sort and by rank."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runner.cli import app
from runner.columns import verdict_columns
from runner.device.simulated.profile import ALL
from runner.device.simulated.profile_files import load_profile
from runner.errors import InputError
from runner.expand import Case
from runner.observed import ObservedRun, read_observed
from runner.predict import Prediction, accuracy_of, predict, worst_first
from runner.profile_of_run import why_it_had_to_fit
from runner.report.reading import read_run
from runner.scenarios.base import Scenario
from runner.tables import write_csv
from runner.validation import ENGINES, HOST, engines_alone, scores, write_validation
from tests.calibration.runs import observed
from tests.results_for_tests import pipeline, transfer

MIB = 2**20
ASKED = """
name: asked
question: What does it take?
device: simulated:test
measure: {warmup: 0, samples: 3}
scenarios:
  copies: {kind: transfer, buffer: pinned, direction: h2d, size: [1MiB, 16MiB]}
  direct: {kind: pipeline, schedule: overlapped, total: 16MiB, chunk: 1MiB, streams: [1, 3]}
  staged: {kind: pipeline, schedule: overlapped, staging: copy, total: 16MiB, chunk: 1MiB, streams: 3, compute: {ratio: [1, 2]}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ObservedRun:
    return observed(ASKED, tmp_path_factory.mktemp("asked"))


def prediction(
    model: Scenario, measured: float, predicted: float | None, scenario: str = "one", spread: float = 0.0
) -> Prediction:
    case = Case("c_0", scenario, 0, model, "", {"size": 1})
    return Prediction(case, "wall_ms", measured, predicted, spread, "" if predicted else "why")


def test_a_profile_predicts_its_own_run_exactly(run: ObservedRun) -> None:
    predictions = predict(run, load_profile("test"))
    assert [each.error for each in predictions] == pytest.approx([0.0] * 6, abs=1e-12)
    assert [each.figure for each in predictions] == ["event_ms"] * 2 + ["wall_ms"] * 4


def test_another_profile_errs_and_the_worst_case_comes_first(run: ObservedRun) -> None:
    predictions = predict(run, load_profile("h200"))
    errors = [abs(each.error) for each in worst_first(predictions) if each.error is not None]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.5
    accuracy = accuracy_of(run, predictions)
    assert accuracy.sorts[ALL].cases == 6
    assert accuracy.sorts[ALL].worst_percent == pytest.approx(100 * errors[0], abs=0.01)
    assert set(accuracy.sorts) == {"copies", "direct", "staged", ALL}


def test_compare_predicted_writes_every_case_and_names_the_profile(run: ObservedRun, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    result = CliRunner().invoke(app, ["compare", str(run.folder), "--predicted", "--profile", "rtx-4090", "--csv", str(target)])
    assert result.exit_code == 0, result.output
    with target.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert {row["profile"] for row in rows} == {"rtx-4090"}
    errors = [abs(float(row["error_percent"])) for row in rows]
    assert errors == sorted(errors, reverse=True)
    assert "Profile rtx-4090 against run" in result.output


def test_predicted_stands_in_the_runs_folder_by_the_devices_own_profile(tmp_path: Path) -> None:
    mine = observed(ASKED, tmp_path)
    result = CliRunner().invoke(app, ["compare", str(mine.folder), "--predicted"])
    assert result.exit_code == 0, result.output
    assert (mine.folder / "predicted.csv").is_file()
    assert "Profile test against run" in result.output


def test_predicted_takes_one_run(run: ObservedRun) -> None:
    result = CliRunner().invoke(app, ["compare", str(run.folder), str(run.folder), "--predicted"])
    assert result.exit_code == 2


def test_validation_of_a_finished_run_leaves_its_tables(run: ObservedRun, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["validate-model", "--from", str(run.folder), "--profile", "h200", "--out", str(tmp_path / "model")]
    )
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"validation.md", "validation.csv", "predicted.csv"}
    page = (tmp_path / "model" / "validation.md").read_text(encoding="utf-8")
    assert page.startswith("# How well profile h200 predicts simulated:test\n")
    assert f"| {ENGINES} | 4 |" in page
    assert f"| {HOST} | 2 |" in page


def test_a_profile_that_knows_a_run_is_not_said_to_predict_it(run: ObservedRun, tmp_path: Path) -> None:
    known = "The run was simulated by this very profile, so it had to fit"
    result = CliRunner().invoke(app, ["validate-model", "--from", str(run.folder), "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert f"Profile test against run {run.run_id}:" in result.output
    assert known in result.output
    page = (tmp_path / "validation.md").read_text(encoding="utf-8")
    assert known in page
    assert "which the profile was not fitted to" not in page
    fitted = load_profile("h200").model_copy(update={"fit": accuracy_of(run, predict(run, load_profile("h200")))})
    assert why_it_had_to_fit(run, fitted) == [
        "The profile was fitted to this very run, so it had to fit: that says nothing about other cases."
    ]
    assert why_it_had_to_fit(run, load_profile("h200")) == []


@pytest.mark.parametrize("verb", [["compare", "--predicted"], ["validate-model", "--from"]])
def test_a_run_without_a_measured_case_is_refused_in_a_sentence(verb: list[str], tmp_path: Path) -> None:
    copy = "{copy: {kind: transfer, direction: h2d, size: 64TiB}}"
    none = f"name: none\nquestion: What is there?\ndevice: simulated:test\nscenarios: {copy}\n"
    folder = observed(none, tmp_path).folder
    result = CliRunner().invoke(app, [*verb, str(folder), *(["--out", str(tmp_path / "m")] if "--from" in verb else [])])
    assert result.exit_code == 2
    assert "has no case whose time was measured; allowed: a run in which a case is ok" in result.output
    assert not (tmp_path / "m").exists()


def test_a_run_of_which_no_case_can_be_predicted_is_told_with_the_reasons(tmp_path: Path) -> None:
    copy = "{copy: {kind: transfer, direction: h2d, size: 40GiB}}"
    large = f"name: large\nquestion: What is there?\ndevice: simulated:h200\nscenarios: {copy}\n"
    folder = observed(large, tmp_path).folder
    result = CliRunner().invoke(app, ["compare", "--predicted", str(folder), "--profile", "rtx-4090"])
    assert result.exit_code == 2
    assert "needs 40GiB of device memory, 24GiB are free on simulated:rtx-4090" in result.output
    assert "has both a measured and a predicted time" in result.output


def test_scores_count_what_is_near_and_what_its_spread_allows() -> None:
    pinned, staged = transfer(), pipeline(staging="copy")
    found = {
        each.sort: each
        for each in scores(
            [
                prediction(pinned, 10, 11.4, "near"),
                prediction(pinned, 10, 12, "near", spread=0.1),
                prediction(staged, 10, 5, "far", spread=0.1),
                prediction(staged, 10, None, "far"),
            ]
        )
    }
    assert list(found) == ["near", "far", ENGINES, HOST, ALL]
    assert (found["near"].near, found["near"].tolerated) == (0.5, 0.5)
    assert (found["far"].near, found["far"].tolerated, len(found["far"].errors)) == (0.0, 0.0, 1)
    assert found[ENGINES].errors == pytest.approx((0.14, 0.2))


def test_strategies_are_ranked_among_those_that_do_the_same_work() -> None:
    def ring(streams: int, **more: Any) -> Scenario:
        return pipeline(streams=streams, **more)

    (whole,) = (
        each
        for each in scores(
            [
                prediction(ring(1), 20, 21, "a"),
                prediction(ring(2), 10, 22, "a"),
                prediction(ring(3), 10.5, 9, "b"),
                prediction(ring(3, total=8 * MIB), 1, 100, "b"),
            ]
        )
        if each.sort == ALL
    )
    assert whole.pairs == 2, "10 and 10.5 do not differ by a tenth, and 8 MiB are other work"
    assert whole.ranked_right == 0.5


@pytest.mark.parametrize(
    ("model", "alone"),
    [
        (transfer(), True),
        (transfer(buffer="pageable"), False),
        (pipeline(streams=2), True),
        (pipeline(streams=2, staging="copy"), False),
        (pipeline(staging="register"), False),
        (pipeline(schedule="serialized", allocate="per_chunk"), False),
    ],
)
def test_engines_alone_decide_where_the_host_does_nothing(model: Scenario, alone: bool) -> None:
    assert engines_alone(model.plan()) is alone


def test_no_prediction_is_told_with_its_reason(run: ObservedRun, tmp_path: Path) -> None:
    write_validation(run, load_profile("h200"), [prediction(transfer(), 1, None), prediction(transfer(), 1, 1.1)], tmp_path)
    assert "| why |" in (tmp_path / "validation.md").read_text(encoding="utf-8")


def test_a_run_without_its_experiment_is_refused(tmp_path: Path) -> None:
    mine = observed(ASKED, tmp_path)
    (mine.folder / "experiment.yaml").unlink()
    with pytest.raises(InputError, match=r"experiment\.yaml"):
        read_observed(mine.folder)


def test_after_predictions_in_its_folder_a_run_with_verdicts_is_still_shown_reported_and_exported(tmp_path: Path) -> None:
    mine = observed(ASKED, tmp_path)
    row = {"claim": "fast", "verdict": "confirmed", "figure": 0.5}
    write_csv(mine.folder / "verdicts.csv", [row], verdict_columns())
    folder = str(mine.folder)
    for words in (["compare", folder, "--predicted"], ["show", folder], ["report", folder]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    assert "Predicted beside measured" in (mine.folder / "report.html").read_text(encoding="utf-8")
    run = read_run(mine.folder)
    assert {row["figure"] for row in run.predicted} == {"event_ms", "wall_ms"}
    assert run.doubts == ()
    result = CliRunner().invoke(app, ["export", folder, "--as", "csv-semicolon", "--as", "parquet"])
    assert result.exit_code == 0, result.output
    cells = (mine.folder / "predicted.semicolon.csv").read_text(encoding="utf-8-sig").splitlines()[1].split(";")
    assert "," in cells[4], "measured_ms is a number"


def test_a_run_that_the_profile_simulated_itself_proves_nothing_and_sizes_read_as_sizes(run: ObservedRun, tmp_path: Path) -> None:
    words = ["compare", str(run.folder), "--predicted", "--csv", str(tmp_path / "own.csv")]
    own = CliRunner().invoke(app, words).output
    assert "The run was simulated by this very profile, so it had to fit: that says nothing about a machine." in own
    assert "size=16MiB" in own
    assert "16777216" not in own
    other = CliRunner().invoke(app, [*words, "--profile", "h200"])
    assert other.exit_code == 0
    assert "this very profile" not in other.output


def test_the_profile_of_a_device_is_the_shipped_one_that_its_name_ends_with(run: ObservedRun, tmp_path: Path) -> None:
    for device, words in (
        ("NVIDIA H200", "Profile h200 against run"),
        ("NVIDIA H100", "there is no profile of NVIDIA H100"),
    ):
        folder = shutil.copytree(run.folder, tmp_path / device)
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["device"] |= {"name": device, "kind": "cuda"}
        path.write_text(json.dumps(manifest), encoding="utf-8")
        result = CliRunner().invoke(app, ["compare", str(folder), "--predicted"])
        assert words in result.output
        assert result.exit_code == (0 if device.endswith("H200") else 2)
    assert "name one by --profile (h200, rtx-4090" in result.output
    assert "dmalab calibrate" in result.output
