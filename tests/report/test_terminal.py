from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from runner.report.reading import read_run
from runner.report.terminal import BAR_WIDTH, bar, show_run
from tests.report.folders import LEAD, MIB, grid_rows, run_folder, transfer


def drawn(folder: Path, *, colour: bool = False, rows: int = 40) -> str:
    console = Console(file=io.StringIO(), width=160, force_terminal=colour, color_system="standard" if colour else None)
    console.print(show_run(read_run(folder), rows))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_bars_are_in_eighths_of_a_column() -> None:
    assert bar(10, 10) == "█" * BAR_WIDTH
    assert bar(5, 10) == "█" * (BAR_WIDTH // 2)
    assert bar(10 / BAR_WIDTH / 2, 10) == "▌"
    assert bar(1e-9, 10) == "▏", "what is there can be seen"
    assert bar(None, 10) == bar(0, 10) == bar(1, 0) == ""


def test_the_table_shows_axes_time_interval_rate_speedup_and_a_bar(tmp_path: Path) -> None:
    lines = drawn(run_folder(tmp_path, grid_rows())).splitlines()
    header = next(line for line in lines if "scenario" in line)
    assert header.split() == [
        "scenario",
        "chunk",
        "streams",
        "wall",
        "ms",
        "95",
        "%",
        "interval",
        "GB/s",
        "speedup",
        "rate",
        "status",
    ]
    best = next(line for line in lines if " 3.333 " in line)
    assert best.split() == ["ring", "4MiB", "3", "60", "59.4", "…", "60.6", "4.474", "3.333", "█" * BAR_WIDTH, "ok"]


def test_verdicts_doubts_and_trouble_have_colours_where_there_are_any(tmp_path: Path) -> None:
    verdicts = [{"claim": "fast", "verdict": "refuted", "figure": 1.5, "low": 1.0, "high": 2.0, "limit": "at most 1"}]
    rows = [transfer(MIB, 1.0, flags="noisy"), transfer(2 * MIB, 1.0), LEAD | {"status": "failed", "reason": "no memory"}]
    rows.append(LEAD | {"status": "excluded", "reason": "too large"})
    folder = run_folder(tmp_path, rows, verdicts=verdicts)
    coloured = drawn(folder, colour=True)
    assert "\x1b[1;31mrefuted\x1b[0m" in coloured
    assert "\x1b[33m" in coloured
    assert "\x1b[2m" in coloured
    plain = drawn(folder)
    assert "\x1b[" not in plain
    assert "refuted: fast: 1.5 (1 … 2), expected at most 1" in plain


def test_a_simulated_run_says_so_first_and_long_tables_are_cut(tmp_path: Path) -> None:
    rows = [transfer(size * MIB, 1.0, device_kind="simulated") for size in range(1, 6)]
    lines = drawn(run_folder(tmp_path, rows), rows=2).splitlines()
    assert lines[0].startswith("SIMULATED")
    assert "… and 3 more in" in "".join(lines)
    assert sum(" ok" in line for line in lines) == 2


@pytest.mark.parametrize("rows", [[], [LEAD | {"status": "failed", "reason": "no memory", "flags": "[red]odd[/red]"}]])
def test_runs_without_numbers_are_shown(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    text = drawn(run_folder(tmp_path, rows))
    assert "No case gave a number" in text
    assert ("[red]odd[/red]" in text) == bool(rows)


def test_kinds_without_a_rate_have_bars_of_their_time(tmp_path: Path) -> None:
    rows = [LEAD | {"case_id": "c", "size_bytes": size, "median_wall_ms": wall} for size, wall in ((MIB, 2.0), (2 * MIB, 4.0))]
    lines = drawn(run_folder(tmp_path, rows)).splitlines()
    assert "GB/s" not in "".join(lines)
    assert [line.count("█") for line in lines if " ok" in line] == [BAR_WIDTH // 2, BAR_WIDTH]
