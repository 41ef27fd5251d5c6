from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from runner import cli
from tests.report.folders import MIB, grid_rows, run_folder, transfer

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "nvidia-h200"
SMALL = """\
name: small
question: Does a small file run?
device: simulated:test
measure: {warmup: 1, samples: 2}
scenarios:
  copy: {kind: transfer, direction: h2d, buffer: pinned, size: [1MiB, 2MiB]}
"""


def dmalab(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def folder_of(out: Path) -> Path:
    (folder,) = out.glob("small/2*")
    return folder


def test_a_run_ends_in_a_page_and_in_what_else_was_asked_for(small: Path, tmp_path: Path) -> None:
    result = dmalab("run", small, "--out", tmp_path / "out", "--export", "xlsx", "--export", "csv-semicolon")
    assert result.exit_code == 0, result.stderr
    folder = folder_of(tmp_path / "out")
    assert f"The page is {folder}/report.html." in result.stdout
    assert f"xlsx: {folder}/summary.xlsx" in result.stdout
    assert "SIMULATED" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "summary.semicolon.csv").exists()


def test_a_run_without_a_page_has_none(small: Path, tmp_path: Path) -> None:
    result = dmalab("run", small, "--out", tmp_path / "out", "--no-report")
    assert result.exit_code == 0
    assert not (folder_of(tmp_path / "out") / "report.html").exists()
    assert not result.stdout.endswith("\n\n")


def test_report_writes_the_page_anew_and_anywhere(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", grid_rows())
    assert dmalab("report", folder).stdout == f"The page is {folder}/report.html.\n"
    assert dmalab("report", folder, "--out", tmp_path / "page.html").exit_code == 0
    assert (tmp_path / "page.html").exists()
    missing = dmalab("report", tmp_path / "nothing")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "is no run" in missing.stderr


def test_show_shows_the_table_without_colours_in_a_pipe(tmp_path: Path) -> None:
    result = dmalab("show", run_folder(tmp_path, grid_rows()), "--rows", 3)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "ring (chunk 4MiB, streams 3) is the best" in result.stdout
    assert "… and 4 more in" in result.stdout


def test_show_wears_no_colours_on_a_terminal_that_wants_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.0, flags="noisy")])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33m" in dmalab("show", folder).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in dmalab("show", folder).stdout


def test_pivot_prints_or_writes_the_grid(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", grid_rows())
    asked = ("pivot", folder, "--rows", "chunk", "--columns", "streams", "--where", "scenario=ring")
    assert dmalab(*asked).stdout.splitlines()[1] == "1048576\t80.0\t70.0\t66.0"
    written = dmalab(*asked, "--values", "speedup", "--as", "markdown", "--out", tmp_path / "grid.md")
    assert written.stdout == f"The grid is {tmp_path / 'grid.md'}.\n"
    assert (tmp_path / "grid.md").read_text().startswith("| chunk_bytes \\ streams | 1 | 2 | 3 |\n")


def test_export_writes_into_a_folder_that_it_makes(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", grid_rows())
    result = dmalab("export", folder, "--as", "xlsx", "--as", "csv-semicolon", "--out", tmp_path / "new" / "deep")
    assert result.exit_code == 0
    names = sorted(path.name for path in (tmp_path / "new" / "deep").iterdir())
    assert names == ["columns.semicolon.csv", "samples.semicolon.csv", "summary.semicolon.csv", "summary.xlsx"]
    (tmp_path / "file").write_text("")
    refused = dmalab("export", folder, "--as", "xlsx", "--out", tmp_path / "file" / "deep")
    assert refused.exit_code == 3
    assert "cannot be made" in refused.stderr


def test_a_page_shows_what_the_devices_profile_predicts(tmp_path: Path) -> None:
    measured = REFERENCE / "overlap"
    result = dmalab("report", measured, "--predicted", "--out", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Predicted beside measured" in page
    assert "h200 predicts half of 17 cases within" in page
    assert not (measured / "predicted.csv").exists(), "a page alone was asked for"
    result = dmalab("report", measured, "--out", tmp_path / "plain.html")
    assert "Predicted beside measured" not in (tmp_path / "plain.html").read_text(encoding="utf-8")


def test_a_simulated_run_is_not_held_against_its_own_profile(small: Path, tmp_path: Path) -> None:
    assert dmalab("run", small, "--out", tmp_path).exit_code == 0
    result = dmalab("report", tmp_path / "small", "--predicted")
    assert result.exit_code == 2
    assert "is simulated: its times are themselves what a profile says" in result.output
