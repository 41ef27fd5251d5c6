"""The history of a machine from runs with known times: which steps are certain, and which of them stay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner.cli import app
from runner.errors import InputError
from runner.history import HISTORY_COLUMNS, history_grid, history_lines, history_rows, read_histories
from runner.measure.result import CaseResult
from tests.results_for_tests import RUN
from tests.runs_for_tests import noisy, write_run


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this machine lie nine hours east of Greenwich."""
    monkeypatch.setenv("TZ", "UTC-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def run_on(folder: Path, day: int, *results: CaseResult, **more: str) -> Path:
    return write_run(folder / f"202601{day:02}", results, started_utc=f"2026-01-{day:02}T10:00:00Z", **more)


def test_a_step_that_stays_is_told_from_one_runs_own(tmp_path: Path) -> None:
    for day, (steady, stepping, once) in enumerate([(1, 1, 1), (1, 1, 1.3), (1, 1.2, 1), (1, 1.2, 1)], 1):
        run_on(tmp_path, day, noisy(1, steady), noisy(2, stepping), noisy(3, once))
    (history,) = read_histories(tmp_path)
    found = {series.label: [(each.place, each.word, each.stays) for each in series.changes] for series in history.series}
    assert found == {
        "copy size 1MiB": [],
        "copy size 2MiB": [(2, "slower", True)],
        "copy size 3MiB": [(1, "slower", False), (2, "faster", True)],
    }
    assert "slower from r_20260103 (01-03 19:00) on, and stays so: copy size 2MiB, 1.2 times" in history_lines(history)
    assert "slower from r_20260102 (01-02 19:00) on, in that run only: copy size 3MiB, 1.3 times" in history_lines(history)
    grid = history_grid(history)
    assert grid.headers[2:] == ("01-01 19:00", "01-02 19:00", "01-03 19:00", "01-04 19:00"), "one zone throughout"
    assert [row[4] for row in grid.rows] == ["1.001", "1.201+", "1.001-"]


def test_runs_are_in_the_order_of_time_and_gaps_are_stepped_over(tmp_path: Path) -> None:
    failed = CaseResult(noisy(1, 1).case, "failed", "it broke")
    for day, result in ((3, noisy(1, 1.5)), (1, noisy(1, 1)), (2, failed)):
        run_on(tmp_path, day, result)
    (history,) = read_histories(tmp_path)
    (series,) = history.series
    assert [run.run_id for run in history.runs] == ["r_20260101", "r_20260102", "r_20260103"]
    assert series.medians == (pytest.approx(1.001), None, pytest.approx(1.5015))
    assert [(change.place, change.word) for change in series.changes] == [(2, "slower")]
    rows = list(history_rows(history))
    assert {name for row in rows for name in row} == {column.name for column in HISTORY_COLUMNS}
    assert [row["change"] for row in rows] == ["", "", "slower"]
    assert rows[2]["ratio"] == pytest.approx(1.5)


def test_devices_and_experiments_have_histories_of_their_own(tmp_path: Path) -> None:
    run_on(tmp_path / "demo", 1, noisy(1, 1))
    run_on(tmp_path / "demo", 2, noisy(1, 9), run=RUN)
    (tmp_path / "demo" / "latest").symlink_to("20260102", target_is_directory=True)
    both = read_histories(tmp_path)
    assert [(each.runs[0].device, len(each.runs)) for each in both] == [("NVIDIA Test", 1), ("simulated:test", 1)]
    assert history_lines(both[1])[0].startswith("SIMULATED")
    assert history_lines(both[0])[-1] == "No case changed by more than 2 % for certain."


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no runs"):
        read_histories(tmp_path)


def test_an_experiment_that_has_run_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_on(tmp_path / "results" / "demo", 1, noisy(1, 1))
    assert [len(each.runs) for each in read_histories(Path("demo"))] == [1]
    (tmp_path / "demo").mkdir()
    with pytest.raises(InputError, match=r"^demo holds no runs; give the name of an experiment that has run,"):
        read_histories(Path("demo"))


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["compare", *words])
    return result.exit_code, result.stdout + result.stderr


def test_the_verb_compares_and_fails_where_it_is_asked_to(tmp_path: Path) -> None:
    a, b = str(run_on(tmp_path, 1, noisy(1, 1), noisy(2, 1))), str(run_on(tmp_path, 2, noisy(1, 1.1), noisy(2, 1)))
    code, said = invoke(a, b)
    assert (code, "2 cases in both: 1 slower, 1 same." in said) == (0, True)
    code, said = invoke(a, b, "--fail-on", "slower:5%", "--csv", str(tmp_path / "cases.csv"))
    assert code == 5
    assert "regression: 1 case slower by more than 5 % for certain: copy size 1MiB (1.1 times as long)" in said
    assert (tmp_path / "cases.csv").read_text(encoding="utf-8").count("\n") == 3
    assert invoke(a, b, "--fail-on", "slower:20%", "--fail-on", "missing")[0] == 0
    assert invoke(b, a, "--fail-on", "slower")[0] == 0


def test_the_verb_shows_a_history(tmp_path: Path) -> None:
    for day, level in enumerate((1, 1, 1.1), 1):
        run_on(tmp_path / "demo", day, noisy(1, level))
    code, said = invoke(str(tmp_path), "--csv", str(tmp_path / "history.csv"))
    assert code == 0, said
    assert "demo on NVIDIA Test: 3 runs from 2026-01-01 to 2026-01-03." in said
    assert (tmp_path / "history.csv").read_text(encoding="utf-8").count("slower") == 1
    code, said = invoke(str(tmp_path), "--fail-on", "slower")
    assert (code, "needs two runs" in said) == (2, True)


def test_the_verb_wants_leave_to_compare_measured_with_simulated(tmp_path: Path) -> None:
    a, b = str(run_on(tmp_path, 1, noisy(1, 1))), str(run_on(tmp_path, 2, noisy(1, 1), run=RUN))
    code, said = invoke(a, b)
    assert (code, "--allow simulated" in said) == (2, True)
    code, said = invoke(a, b, "--allow", "simulated")
    assert code == 0
    assert said.startswith("SIMULATED: the times of B are computed")
