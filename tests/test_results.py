from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import runner
from runner.errors import InputError, UsageError
from runner.measure.result import CaseResult
from runner.tables import write_tables
from runner.verdicts import Verdict
from tests.frames import samples_frame, summary_frame
from tests.results_for_tests import RUN, case, ok, pipeline, transfer

RESULTS = [
    ok(case(pipeline(), "serialized"), *(10.0 + n / 3 for n in range(7))),
    ok(case(transfer(size=9007199254740993 % 2**40)), 1 / 3, name="event_ms"),
    CaseResult(case(transfer(size=5)), "failed", "None"),
    CaseResult(case(transfer(size=6)), "skipped", "=1+1"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder inside the folder of its experiment."""
    run = tmp_path / "demo" / "20260101T000000Z-abcdef"
    run.mkdir(parents=True)
    write_tables(run, RUN, RESULTS)
    (run / "manifest.json").write_text(json.dumps({"run_id": RUN.run_id, "status": "complete"}), encoding="utf-8")
    return run


def test_tables_come_back_as_they_were_built(folder: Path) -> None:
    results = runner.read_results(folder)
    pd.testing.assert_frame_equal(results.summary, summary_frame(RUN, RESULTS))
    pd.testing.assert_frame_equal(results.samples, samples_frame(RUN, RESULTS))
    assert results.manifest["run_id"] == RUN.run_id
    assert results.verdicts is None


def test_types_hold_beside_empty_cells(folder: Path) -> None:
    summary = runner.read_results(folder).summary
    assert str(summary["size_bytes"].dtype) == "Int64"
    assert str(summary["speedup"].dtype) == "Float64"
    assert str(summary["reason"].dtype) == "string"
    assert list(summary["reason"]) == ["", "", "None", "=1+1"]
    assert list(summary["size_bytes"].isna()) == [True, False, False, False]


def test_a_table_that_a_spreadsheet_saved_is_read_too(folder: Path) -> None:
    for name in ("summary.csv", "columns.csv"):
        path = folder / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    pd.testing.assert_frame_equal(runner.read_results(folder).summary, summary_frame(RUN, RESULTS))


def test_verdicts_are_read_where_there_are_some(folder: Path) -> None:
    write_tables(folder, RUN, RESULTS, [Verdict("faster", "undecided", 0.9, 0.7, 1.1, "at most 1", "straddles")])
    verdicts = runner.read_results(folder).verdicts
    assert verdicts is not None
    assert verdicts.loc[0, "low"] == 0.7


def test_the_experiments_folder_gives_its_latest_run(folder: Path) -> None:
    (folder.parent / "latest").symlink_to(folder.name, target_is_directory=True)
    assert runner.read_results(folder.parent).folder == folder.resolve()
    assert runner.read_results(str(folder.parent / "latest")).folder == folder.resolve()


@pytest.mark.parametrize("given", [None, 7, ["results"]])
def test_what_is_no_path_is_refused_in_a_sentence(given: object) -> None:
    with pytest.raises(UsageError, match=r"no path of a run; allowed: a text or a pathlib\.Path"):
        runner.read_results(given)  # type: ignore[arg-type]


def test_a_damaged_number_is_refused_with_the_file(folder: Path) -> None:
    path = folder / "samples.csv"
    path.write_text(path.read_text().replace("sample,0,", "sample,zero,"))
    with pytest.raises(InputError, match=r"samples\.csv:\d+: sample: 'zero' is not what the column holds"):
        runner.read_results(folder)


def test_importing_the_package_does_not_import_pandas() -> None:
    code = "import sys, runner; assert 'pandas' not in sys.modules; runner.read_results; assert 'pandas' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'reed_results'"):
        runner.reed_results  # noqa: B018
