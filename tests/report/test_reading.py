from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from runner.errors import InputError
from runner.report.answer import warnings
from runner.report.reading import read_run
from runner.results import read_results
from runner.run_files import NO_COLUMNS
from tests.report.folders import LEAD, MIB, run_folder, transfer


def test_cells_come_back_by_their_types_and_empty_ones_are_absent(tmp_path: Path) -> None:
    run = read_run(
        run_folder(tmp_path, [transfer(MIB, 0.1, reason="None")], samples=[LEAD | {"case_id": "c_1", "role": "sample"}])
    )
    (row,) = run.rows
    assert (row["size_bytes"], row["gb_per_s"], row["reason"]) == (MIB, 0.1, "None")
    assert "total_bytes" not in row
    assert [sample.get("role") for sample in run.samples()] == ["sample"]
    assert not run.simulated
    assert run.verdicts == run.predicted == ()


def test_rows_of_other_runs_are_counted_and_left_out(tmp_path: Path) -> None:
    run = read_run(run_folder(tmp_path, [transfer(MIB, 1.0), transfer(MIB, 2.0, run_id="r_other")]))
    assert [row["gb_per_s"] for row in run.rows] == [1.0]
    assert run.foreign == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("summary.csv", "case_id,run_id,samples\nc_1,r_1,many\n", r"summary\.csv:2: samples: 'many' .* allowed: a whole number"),
        ("summary.csv", "case_id,gb_per_s\nc_1,1.5\nc_2,nan\n", r"summary\.csv:3: gb_per_s: 'nan' .* allowed: a finite number"),
        ("summary.csv", "case_id,samples\nc_1\n", r"summary\.csv:2: the row has 1 cell and the header 2, so the file is cut"),
        (
            "summary.csv",
            "city,people\nBonn,1\n",
            r"no summary\.csv of a run: .* no column case_id, and begins with city, people",
        ),
        ("summary.csv", "", "it has no column case_id, and begins with nothing"),
        ("summary.csv", "run_id;case_id\nr_1;c_1\n", "parted by semicolons"),
        ("verdicts.csv", "run_id,claim\nr_1,fast\n", r"no verdicts\.csv of a run"),
        ("columns.csv", "a,b\n1,2\n", r"no columns\.csv of a run"),
        ("manifest.json", "[]", "it holds no JSON object"),
        ("manifest.json", '{"run_id": {"a": 1}}', "run_id is no text"),
        ("manifest.json", "{", r"manifest\.json cannot be read"),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, name: str, content: str, words: str) -> None:
    folder = run_folder(tmp_path, [])
    (folder / name).write_text(content)
    for read in (read_run, read_results):
        with pytest.raises(InputError, match=words) as caught:
            read(folder)
        assert "copy the run's folder anew, or run its experiment again" in str(caught.value)


def test_rows_that_are_missing_are_told_by_the_manifest(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.0), transfer(2 * MIB, 1.0, run_id="r_other")], cases={"total": 2, "ok": 2})
    for read in (read_run, read_results):
        with pytest.raises(InputError, match=r"has 1 row of its run, but manifest\.json tells of 2 cases, so rows are missing"):
            read(folder)
    run_folder(tmp_path, [transfer(MIB, 1.0), transfer(2 * MIB, 1.0)], cases={"total": 2, "ok": 2})
    assert len(read_run(folder).rows) == len(read_results(folder).summary) == 2


@pytest.mark.parametrize("name", ["manifest.json", "samples.csv"])
def test_a_file_that_is_missing_is_named_in_a_sentence(tmp_path: Path, name: str) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.0)])
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"^{name} is missing in .*: a run's folder has one; copy"):
        read_results(folder)


def test_without_columns_csv_the_columns_are_as_this_version_knows_them(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.5)], verdicts=[{"verdict": "confirmed", "figure": 0.5}])
    described = read_results(folder)
    (folder / "columns.csv").unlink()
    run, results = read_run(folder), read_results(folder)
    assert run.doubts == results.doubts == (NO_COLUMNS,)
    assert (run.rows[0]["gb_per_s"], run.verdicts[0]["figure"]) == (1.5, 0.5)
    pd.testing.assert_frame_equal(results.summary, described.summary)
    pd.testing.assert_frame_equal(results.columns, described.columns)
    assert any(doubt.sentence == f"{NO_COLUMNS}." for doubt in warnings(run))


def test_predictions_have_columns_of_their_own_beside_verdicts(tmp_path: Path) -> None:
    rows = [transfer(MIB, 1.5)]
    said = [{"case_id": rows[0]["case_id"], "figure": "event_ms", "measured_ms": 2.0, "predicted_ms": 1.0}]
    folder = run_folder(tmp_path, rows, verdicts=[{"verdict": "confirmed", "figure": 0.5}], predicted=said)
    run = read_run(folder)
    assert (run.verdicts[0]["figure"], run.predicted[0]["figure"]) == (0.5, "event_ms")
    assert run.doubts == ()


def test_predictions_that_cannot_be_read_are_a_doubt_alone(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.5)])
    (folder / "predicted.csv").write_text("case_id,measured_ms\nc_1,fast\n")
    run = read_run(folder)
    assert (len(run.rows), run.predicted) == (1, ())
    (doubt,) = run.doubts
    assert doubt.startswith("The predictions are left out: ")
    assert "predicted.csv:2: measured_ms: 'fast'" in doubt


def test_the_guard_against_formulas_stays_in_the_file(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.5, reason="=1+1"), transfer(2 * MIB, 1.5, reason="'quoted'")])
    assert "'=1+1" in (folder / "summary.csv").read_text()
    assert [row["reason"] for row in read_run(folder).rows] == ["=1+1", "'quoted'"]
    assert list(read_results(folder).summary["reason"]) == ["=1+1", "'quoted'"]


def test_a_table_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.5)])
    path = folder / "summary.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_run(folder).rows[0]["gb_per_s"] == 1.5
