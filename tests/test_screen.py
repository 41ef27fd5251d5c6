from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from runner.device.contract import DeviceFacts
from runner.flow import RunOutcome
from runner.measure import spent
from runner.measure.result import FLAGS, CaseResult
from runner.screen import (
    Grid,
    case_line,
    closing_lines,
    flag_lines,
    opening_lines,
    rows_of,
    summary_grid,
    trouble_lines,
    varying_axes,
    verdict_line,
)
from runner.spec.load import LoadedExperiment, load_experiment
from runner.verdicts import Verdict
from runner.watch import LineWatcher, TerminalWatcher, bar_columns
from tests.results_for_tests import MIB, case, ok, pipeline, transfer

SIMULATED = DeviceFacts("simulated:test", "simulated", 2**30, 2**30, 2, {})
REAL = DeviceFacts("NVIDIA H200", "cuda", 2**37, 2**37, 3, {})
SPENT = dict.fromkeys(spent.SPENT, 0.0) | {"verification": 2.0, "filling": 4.0, "samples": 3.0, "sentinel": 1.0}
LOOP = pipeline(schedule="serialized", buffer="pageable")


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedExperiment:
    path = tmp_path / "demo.yaml"
    path.write_text(
        "name: demo\nquestion: Which is best?\nmeasure: {warmup: 1, samples: 2}\nbaseline: serialized\nscenarios:\n"
        "  serialized: {kind: pipeline, schedule: serialized, total: 4MiB, chunk: 1MiB}\n"
        "  ring: {kind: pipeline, schedule: overlapped, total: 4MiB, chunk: [1MiB, 2MiB], streams: [2, 3]}\n"
    )
    return load_experiment(path)


def outcome(
    loaded: LoadedExperiment, *results: CaseResult, facts: DeviceFacts = REAL, verdicts: tuple[Verdict, ...] = ()
) -> RunOutcome:
    return RunOutcome(loaded, Path("results/demo/x"), "r_x", facts, results, verdicts, 0, SPENT)


def closing(of: RunOutcome) -> list[str]:
    return closing_lines(of, rows_of(of))


def summary(of: RunOutcome) -> Grid:
    return summary_grid(of, rows_of(of))


def ring(time: float, chunk: int, streams: int) -> CaseResult:
    return ok(case(pipeline(chunk=chunk, streams=streams), "ring", chunk=chunk, streams=streams), time)


def test_a_simulated_run_says_so_first(loaded: LoadedExperiment) -> None:
    lines = opening_lines(loaded, SIMULATED, "no GPU here", 5)
    assert lines[0].startswith("SIMULATED: ")
    assert lines[1] == "no GPU here"
    assert opening_lines(loaded, REAL, "", 1) == ["demo: Which is best?", "1 case on NVIDIA H200, each 1 warm-up and 2 samples"]


def test_the_opening_says_when_sampling_ends(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(
        "name: demo\nquestion: Which is best?\nmeasure: {warmup: 2, until: {ci_percent: 0.5}}\nscenarios:\n"
        "  copy: {kind: transfer, direction: h2d, size: 1MiB}\n"
    )
    told = opening_lines(load_experiment(path), REAL, "", 1)[-1]
    assert told == (
        "1 case on NVIDIA H200, each 2 warm-ups, then samples until the interval of the median is 0.5 % wide, at most 200 or 20 s"
    )


def test_speedup_is_one_sentence_about_the_best_case(loaded: LoadedExperiment) -> None:
    results = [ok(case(LOOP, "serialized"), 175.0), ring(120.0, MIB, 2), ring(100.0, 2 * MIB, 3)]
    sentence = closing(outcome(loaded, *results))[0]
    assert sentence == "ring (chunk 2MiB, streams 3) is the best: 100 ms against 175 ms of serialized, 1.75 times as fast."


def test_a_difference_within_the_intervals_is_none(loaded: LoadedExperiment) -> None:
    loop = ok(case(LOOP, "serialized"), *(100.0 + n for n in range(10)))
    other = ok(case(pipeline(), "ring"), *(98.0 + n for n in range(10)))
    sentence = closing(outcome(loaded, loop, other))[0]
    assert sentence.startswith(
        "No difference is seen between the best case, ring, and serialized: 1.02 times as fast (interval 0.9"
    )


def test_a_loss_is_called_a_loss(loaded: LoadedExperiment) -> None:
    sentence = closing(outcome(loaded, ok(case(LOOP, "serialized"), 50.0), ring(100.0, MIB, 2)))[0]
    assert "still slower" in sentence
    assert "0.5 times as fast" in sentence


def test_nothing_to_compare_says_so(loaded: LoadedExperiment) -> None:
    failed = CaseResult(case(LOOP, "serialized"), "failed", "out of memory")
    lines = closing(outcome(loaded, failed, ring(100.0, MIB, 2)))
    assert lines[0] == "No case can be compared with the baseline serialized."
    assert lines[1] == "1 case failed: out of memory"
    assert lines[-2].startswith("The tables are in results/demo/x/")
    assert lines[-1] == "It took 10.0 s, checking the data 2.0 s of that; the timed plays have 50% of the rest."


def test_verdicts_are_told(loaded: LoadedExperiment) -> None:
    verdict = Verdict("A ring wins", "refuted", 1.1, None, None, "at most 0.8", "wall_ms 11 against 10")
    lines = closing(outcome(loaded, ring(1.0, MIB, 2), verdicts=(verdict,)))
    assert "refuted: A ring wins: 1.1, expected at most 0.8 (wall_ms 11 against 10)" in lines
    interval = replace(verdict, low=1.0, high=1.2, unit="ms")
    assert verdict_line(interval) == "refuted: A ring wins: 1.1 ms (1 … 1.2 ms), expected at most 0.8 (wall_ms 11 against 10)"
    nothing = replace(verdict, verdict="undecided", figure=None, reason="no case ran")
    assert verdict_line(nothing) == "undecided: A ring wins (no case ran)"


def test_summary_shows_the_axes_that_vary(loaded: LoadedExperiment) -> None:
    results = [ok(case(LOOP, "serialized"), 8.0), ring(4.0, MIB, 2), ring(2.0, 2 * MIB, 2)]
    grid = summary(outcome(loaded, *results))
    assert grid.headers == ("scenario", "chunk", "median wall ms", "GB/s", "speedup", "status")
    assert grid.rows[2] == ("ring", "2MiB", "2", "2.097", "4", "ok")
    assert [row[1] for row in grid.rows] == ["1MiB", "1MiB", "2MiB"]


def test_a_long_summary_is_cut_with_a_note(loaded: LoadedExperiment) -> None:
    results = [ring(float(n), MIB, n) for n in range(1, 100)]
    grid = summary(outcome(loaded, *results))
    assert len(grid.rows) == 40
    assert grid.lines()[-1] == "... and 59 more in summary.csv"


def test_numbers_stand_at_the_right() -> None:
    grid = Grid(("name", "ms"), (("a", "1.5"), ("bcd", "")))
    assert grid.lines() == ["name   ms", "a     1.5", "bcd"]


def test_a_table_without_rows_is_its_headers() -> None:
    assert Grid(("name", "ms"), ()).lines() == ["name  ms"]


def test_numbers_stand_point_below_point_since_they_end_in_no_zeros() -> None:
    rows = (("a", "82.76", "1MiB", "1.5+"), ("b", "83", "16MiB", "2"), ("c", "", "4MiB", "10"), ("d", "1,234", "8MiB", ""))
    grid = Grid(("name", "ms", "chunk", "change"), rows)
    assert grid.lines() == [
        "name        ms  chunk  change",
        "a        82.76   1MiB    1.5+",
        "b        83     16MiB       2",
        "c                4MiB      10",
        "d     1,234      8MiB",
    ]
    console = Console(width=80)
    with console.capture() as captured:
        console.print(grid.drawn(80))
    lines = captured.get().splitlines()[3:]
    assert [line.rstrip() for line in lines if line.strip()] == [
        "  a         82.76    1MiB     1.5+",
        "  b         83      16MiB        2",
        "  c                  4MiB       10",
        "  d      1,234       8MiB",
    ]


def test_lines_about_cases_name_axes_and_time() -> None:
    assert case_line(ring(4.0, MIB, 2), 3, 17, 12.0) == "[3/17] ring chunk 1MiB streams 2: 4 ms (about 12.0 s left)"
    failed = CaseResult(case(transfer(), "copy"), "failed", "broke")
    assert case_line(failed, 17, 17, 0.0) == "[17/17] copy: failed: broke"


def test_equal_troubles_are_told_once() -> None:
    results = [CaseResult(case(transfer(size=n), "copy"), "skipped", "too large") for n in range(1, 4)]
    results += [CaseResult(case(transfer(), "copy"), "excluded", "because")]
    assert trouble_lines(results) == ["3 cases skipped: too large"]
    many = [CaseResult(case(transfer(size=n), "copy"), "failed", f"reason {n}") for n in range(1, 15)]
    assert trouble_lines(many)[-1] == "... and 4 other reasons in summary.csv"


def test_axes_with_one_value_do_not_vary() -> None:
    cases = [case(pipeline(chunk=chunk), chunk=chunk, streams=1) for chunk in (MIB, 2 * MIB)]
    assert varying_axes(cases) == ["chunk_bytes"]


def test_an_axis_of_mappings_is_told_by_their_keys() -> None:
    works = ({"passes": 2}, {"ratio": 1.5})
    cases = [case(pipeline(compute=work), compute=work) for work in works]
    assert varying_axes(cases) == ["compute_passes", "compute_ratio"]
    assert [case_line(ok(each, 4.0), 1, 2, 0.0) for each in cases] == [
        "[1/2] one compute_passes 2: 4 ms",
        "[1/2] one compute_ratio 1.5: 4 ms",
    ]


def test_each_flag_is_explained_below_the_table_with_how_many_cases_carry_it(loaded: LoadedExperiment) -> None:
    flagged = [("noisy",), ("bound_above_twin", "noisy"), ()]
    results = [replace(ring(4.0, MIB, 2), flags=flags) for flags in flagged]
    lines = closing(outcome(loaded, *results))
    assert lines[0] == "noisy, 2 of 3 cases: the interval of the median is wider than 5 % of it."
    assert lines[1].startswith("bound_above_twin, 1 of 3 cases: its parts, measured alone, took longer than all of its work")
    assert not any("of 3 cases" in line for line in lines[2:])
    assert len(flag_lines([replace(results[0], flags=tuple(FLAGS))])) == len(FLAGS), "every flag has a sentence"


def test_without_a_terminal_there_are_plain_lines(loaded: LoadedExperiment) -> None:
    shown: list[str] = []
    watcher = LineWatcher(shown.append)
    results = [ring(float(n), MIB, 1 + n % 9) for n in range(1, 401)]
    watcher.opened(loaded, REAL, "", len(results))
    for done, result in enumerate(results, 1):
        watcher.case_done(result, done, 0.0)
    watcher.finished(outcome(loaded, *results))
    about_cases = [line for line in shown if line.startswith("[")]
    assert len(about_cases) == 40
    assert about_cases[-1].startswith("[400/400] ")
    assert not any("\x1b" in line for line in shown)


def test_on_a_terminal_there_is_a_bar_and_a_table(loaded: LoadedExperiment) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, highlight=False, markup=False, color_system=None)
    watcher = TerminalWatcher(console.print, Progress(*bar_columns(), console=console, auto_refresh=False, transient=True))
    result = ring(4.0, MIB, 2)
    watcher.opened(loaded, SIMULATED, "", 1)
    watcher.case_done(result, 1, 0.0)
    watcher.finished(outcome(loaded, result, facts=SIMULATED))
    said = screen.getvalue()
    assert said.index("SIMULATED") < said.index("1/1") < said.index("median wall ms") < said.index("The tables are in")


def test_a_table_wider_than_the_terminal_is_plain_lines_with_whole_words() -> None:
    grid = Grid(("scenario", "median ms"), (("overlapped", "97.75"), ("serialized", "168.8")))
    assert isinstance(grid.drawn(26), Table)
    narrow = grid.drawn(25)
    assert isinstance(narrow, Text)
    assert narrow.plain.splitlines() == grid.lines()
