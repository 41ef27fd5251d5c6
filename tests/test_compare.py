"""Two runs with known times: what becomes of each case, what is refused, what is doubted, and what a gate fails on."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import runner
from runner.cli import app
from runner.compare import Comparison, compare_runs
from runner.compare_gate import Gate, Judgement, parse_gate, parse_share
from runner.compare_page import COMPARISON_COLUMNS, comparison_grid, comparison_lines, comparison_rows, method_line
from runner.compared_run import compared_run
from runner.errors import UsageError
from runner.measure.result import CaseResult
from tests.results_for_tests import RUN, case, ok, transfer
from tests.runs_for_tests import CUDA, MIB, compared, copy, noisy, write_run


def held(a: Sequence[CaseResult], b: Sequence[CaseResult], **options: Any) -> Comparison:
    return compare_runs(compared(a, "r_a"), compared(b, "r_b"), **options)


def words(comparison: Comparison) -> dict[str, str]:
    return {each.label: each.word for each in comparison.differences}


def test_each_word_has_its_case() -> None:
    broken, mended = CaseResult(noisy(5, 1).case, "failed", "it broke"), CaseResult(noisy(6, 1).case, "corrupt", "one byte")
    lost = CaseResult(noisy(7, 1).case, "timeout", "hung")
    a = [noisy(1, 1), noisy(2, 1), noisy(3, 1), copy(4, 1.0, 2.0, 1.5), noisy(5, 1), mended, lost]
    b = [noisy(1, 1.2), noisy(2, 0.8), noisy(3, 1.0), copy(4, 1.1, 2.0, 1.6), broken, noisy(6, 1), lost]
    comparison = held(a, b)
    assert list(words(comparison).values()) == ["slower", "faster", "same", "undecided", "broken", "mended", "no_number"]
    slower, _, same, few, gone, *_ = comparison.differences
    assert slower.ratio is not None
    assert slower.ratio.value == pytest.approx(1.2)
    assert slower.ratio.ends()[0] > 1.18
    assert same.ratio is not None
    assert same.ratio.value == pytest.approx(1)
    assert few.reason == "3 and 3 samples are too few for an interval"
    assert gone.reason == "failed: it broke"
    assert (comparison.added, comparison.missing) == ((), ())


def test_cases_that_only_one_run_has_are_named() -> None:
    excluded = CaseResult(case(transfer(size=9 * MIB), "copy", excluded="too large"), "excluded", "too large")
    comparison = held([noisy(1, 1), noisy(2, 1), excluded], [noisy(1, 1), noisy(4, 1), noisy(8, 1)])
    assert comparison.missing == ("copy size 2MiB",)
    assert comparison.added == ("copy size 4MiB", "copy size 8MiB")
    lines = comparison_lines(comparison)
    assert "2 cases only in B: copy size 4MiB; copy size 8MiB." in lines
    assert {"word": "missing", "case": "copy size 2MiB"}.items() <= comparison_rows(comparison)[-1].items()


def test_cases_of_another_id_are_joined_by_their_axes() -> None:
    other = noisy(1, 1.0)
    renamed = replace(other, case=replace(other.case, case_id="c_another"))
    comparison = held([noisy(1, 1), noisy(2, 1)], [renamed, noisy(2, 1)])
    assert words(comparison) == {"copy size 1MiB": "same", "copy size 2MiB": "same"}
    assert comparison.differences[0].b.case_id == "c_another"


def test_many_cases_need_more_certainty_each() -> None:
    """Six samples of either side give p = 2/924: enough for one case, not for each of a hundred."""
    one, two = (1.0, 1.01, 1.02, 1.03, 1.04, 1.05), (1.2, 1.21, 1.22, 1.23, 1.24, 1.25)
    alone = held([copy(1, *one)], [copy(1, *two)])
    assert words(alone) == {"copy": "slower"}
    same = [copy(size, *one) for size in range(2, 102)]
    comparison = held([copy(1, *one), *same], [copy(1, *two), *same])
    first = comparison.differences[0]
    assert first.word == "undecided"
    assert first.reason.startswith("different by itself, but not certain among so many cases")


def test_the_threshold_decides_what_counts() -> None:
    assert words(held([noisy(1, 1)], [noisy(1, 1.05)])) == {"copy": "slower"}
    assert words(held([noisy(1, 1)], [noisy(1, 1.05)], threshold=0.1)) == {"copy": "same"}
    close = held([noisy(1, 1)], [noisy(1, 1.05)], threshold=0.05)
    assert close.differences[0].reason == "the interval reaches over the threshold of 5 %"


def simulated(folder: Path, time: float) -> Path:
    result = replace(copy(1, time, time), deterministic=True, stopped_by="deterministic")
    return write_run(folder, [result], run=RUN)


def test_simulated_times_differ_exactly_or_not_at_all(tmp_path: Path) -> None:
    runs = [compared_run(runner.read_results(simulated(tmp_path / str(time), time))) for time in (1.0, 1.01, 1.03)]
    assert words(compare_runs(runs[0], runs[1])) == {"copy": "same"}
    comparison = compare_runs(runs[0], runs[2])
    assert words(comparison) == {"copy": "slower"}
    assert comparison_lines(comparison)[0].startswith("SIMULATED: the times of A and B")


def test_measured_and_simulated_are_not_compared_unless_asked_for(tmp_path: Path) -> None:
    measured = compared_run(runner.read_results(write_run(tmp_path / "a", [noisy(1, 1)])))
    computed = compared_run(runner.read_results(simulated(tmp_path / "b", 1.5)))
    with pytest.raises(UsageError, match="--allow simulated"):
        compare_runs(measured, computed)
    comparison = compare_runs(measured, computed, allow_simulated=True)
    assert words(comparison) == {"copy": "slower"}
    assert "one run is measured and the other simulated" in comparison.doubts


def test_times_of_two_clocks_are_not_compared(tmp_path: Path) -> None:
    text = (
        "name: demo\nquestion: Is it?\nmeasure: {clock: wall}\nscenarios: {copy: {kind: transfer, direction: h2d, size: 1MiB}}\n"
    )
    both = ok(noisy(1, 1).case, 1.0, 1.1, name="wall_ms")
    a = write_run(tmp_path / "a", [both])
    (a / "experiment.yaml").write_text(text, encoding="utf-8")
    b = write_run(tmp_path / "b", [noisy(1, 1)])
    runs = [compared_run(runner.read_results(each)) for each in (a, b)]
    with pytest.raises(UsageError, match="wall_ms in the one run and by event_ms in the other"):
        compare_runs(*runs)
    with pytest.raises(UsageError, match="'gb_per_s' is no time"):
        compared_run(runner.read_results(b), "gb_per_s")
    forced = [compared_run(runner.read_results(each), "wall_ms") for each in (a, b)]
    assert words(compare_runs(*forced)) == {"copy": "broken"}


def test_surroundings_that_differ_are_doubts(tmp_path: Path) -> None:
    first = {"device": {"driver": "580.1", "wait": "spin"}, "host": {"cpu_governors": None, "transparent_huge_pages": "never"}}
    second = {"device": {"driver": "590.2", "wait": "spin"}, "host": {"cpu_governors": ["powersave"]}, "status": "incomplete"}
    a = write_run(tmp_path / "a", [noisy(1, 1)], sentinel=(0.3, 0.31, 0.32), spec_sha256="1", **first)
    b = write_run(tmp_path / "b", [noisy(1, 1)], sentinel=(0.4, 0.41, 0.42), spec_sha256="2", **second)
    doubts = compare_runs(*(compared_run(runner.read_results(each)) for each in (a, b))).doubts
    assert doubts == (
        "the driver differs: 580.1 in A, 590.2 in B",
        "the two files of the experiment, or what --set changed, are not the same",
        "B is incomplete: not every case was measured",
        "the sentinel, a small copy that is in every run, took 0.31 ms in A and 0.41 ms in B: the machine itself changed",
    )


def test_settings_that_differ_and_rows_of_other_runs_are_doubts(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [noisy(1, 1)], run=replace(CUDA, wait="spin", placement="local"))
    b = write_run(tmp_path / "b", [noisy(1, 1)], run=replace(CUDA, wait="block", placement="local"))
    foreign = (a / "summary.csv").read_text(encoding="utf-8").splitlines()[1]
    with open(b / "summary.csv", "a", encoding="utf-8") as file:
        file.write(f"{foreign}\n")
    comparison = compare_runs(*(compared_run(runner.read_results(each)) for each in (a, b)))
    assert comparison.doubts == (
        "how threads wait differs: spin in A, block in B",
        "B has 1 row of other runs in its summary.csv, which are left out",
    )
    assert words(comparison) == {"copy": "same"}


def test_a_run_against_itself_has_no_difference_and_only_that_is_doubted(tmp_path: Path) -> None:
    run = compared_run(runner.read_results(write_run(tmp_path / "a", [noisy(size, size) for size in (1, 2, 4)])))
    comparison = compare_runs(run, run)
    assert set(words(comparison).values()) == {"same"}
    assert comparison.doubts == ("both are called r_a: one may be a copy of the other, in which nothing can differ",)


def test_the_table_tells_the_worst_first_and_its_rows_fit_their_columns() -> None:
    a = [noisy(1, 1), noisy(2, 1, flags=("noisy",)), noisy(3, 1)]
    comparison = held(a, [noisy(1, 1), noisy(2, 1.1, flags=("drift",)), noisy(3, 1.3)])
    grid = comparison_grid(comparison)
    assert [row[:3] for row in grid.rows] == [
        ("copy size 3MiB", "slower", "1.3"),
        ("copy size 2MiB", "slower", "1.1"),
        ("copy size 1MiB", "same", "1"),
    ]
    assert [row[6] for row in grid.rows] == ["++++++++++", "+++++", "="]
    assert grid.rows[1][7] == "drift noisy"
    assert "by more than 2 %" in method_line(comparison)
    rows = comparison_rows(comparison)
    assert {name for row in rows for name in row} == {column.name for column in COMPARISON_COLUMNS}
    assert rows[2]["median_b"] == pytest.approx(1.3 * 1.001)


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.5 %", 0.005), ("100%", 1.0)])
def test_thresholds_are_percentages(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "2", "0%", "-1%", "2,5%", "5000%", "１%", "2%x"])
def test_other_thresholds_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="allowed: a percentage above 0"):
        parse_share(text)


def test_runs_without_a_case_in_common_are_told_so() -> None:
    lines = comparison_lines(held([noisy(1, 1)], [noisy(2, 1)]))
    assert lines[-1] == "The runs have no case in common, so nothing is compared; give two runs of one file."
    assert lines[-1] not in comparison_lines(held([noisy(1, 1)], [noisy(1, 1), noisy(2, 1)]))


def test_a_gate_names_what_it_fails_on() -> None:
    assert parse_gate(["slower:5%", "missing"]) == Gate(0.05, True)
    assert parse_gate(["slower"], 0.03) == Gate(0.03, False)
    for text in ("slower:", "faster", "slow:2%", "missing:2%"):
        with pytest.raises(UsageError, match="allowed"):
            parse_gate([text])
    broken = CaseResult(noisy(4, 1).case, "failed", "it broke")
    runs = [compared([noisy(size, 1) for size in (1, 2, 3, 4)]), compared([noisy(1, 1.04), noisy(2, 1.2), broken], "r_b")]
    assert Gate().judge(*runs, allow_simulated=False) == Judgement((), "")
    judged = Gate(0.05, True).judge(*runs, allow_simulated=False)
    assert list(judged.failures) == [
        "1 case slower by more than 5 % for certain: copy size 2MiB (1.2 times as long)",
        "1 case without a number that A has: copy size 4MiB (failed: it broke)",
        "1 case missing in B: copy size 3MiB",
    ]
    assert judged.left_open == ""
    assert Gate(0.3).judge(runs[1], runs[0], allow_simulated=False).lines() == []


def test_a_gate_that_can_judge_nothing_does_not_pass() -> None:
    broken = CaseResult(noisy(1, 1).case, "failed", "it broke")
    without, one, other = compared([broken], "r_a"), compared([noisy(1, 1)], "r_b"), compared([noisy(2, 1)], "r_c")
    for a, b, why in ((one, other, "the runs have no case in common"), (without, one, "none of the 1 case in both has a number")):
        with pytest.raises(UsageError, match=f"--fail-on can judge nothing: {why}"):
            Gate(0.05).judge(a, b, allow_simulated=False)
    assert Gate(0.05, missing=True).judge(one, other, allow_simulated=False).failures == ("1 case missing in B: copy",)
    assert Gate(missing=True).judge(one, one, allow_simulated=False).failures == ()


def test_a_gate_tells_of_undecided_cases_and_fails_on_them_where_asked() -> None:
    few = compared([copy(1, 1.0, 1.01)]), compared([copy(1, 1.2, 1.21)], "r_b")
    open_one = "1 case undecided at 5 %"
    judged = Gate(0.05).judge(*few, allow_simulated=False)
    assert judged.failures == ()
    assert judged.lines()[0].startswith(f"not judged: {open_one}, which do not fail: copy (1.1")
    strict = parse_gate(["slower:5%", "undecided"]).judge(*few, allow_simulated=False)
    assert strict.lines()[0].startswith(f"regression: {open_one}: copy (1.1")
    assert strict.left_open == ""


def test_a_run_is_not_compared_with_itself_and_its_copy_is_doubted(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", [noisy(1, 1)])
    twin = shutil.copytree(one, tmp_path / "twin")
    itself, copied = (CliRunner().invoke(app, ["compare", str(one), str(other)]) for other in (one / "summary.csv", twin))
    assert itself.exit_code == 2
    assert "A and B are one run, r_one" in itself.output
    assert copied.exit_code == 0, copied.output
    assert "doubt: both are called r_one: one may be a copy of the other, in which nothing can differ" in copied.output


@pytest.mark.parametrize(
    ("option", "name", "code", "words"),
    [
        ("--picture", "c.gif", 2, "names no format that can be drawn; allowed: .svg, .png, .pdf"),
        ("--csv", "none/c.csv", 3, "none/c.csv cannot be written: there is no folder "),
        ("--picture", "none/c.svg", 3, "cannot be written"),
        ("--csv", "", 2, "is a folder; name a file in it"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_the_work(
    tmp_path: Path, option: str, name: str, code: int, words: str
) -> None:
    a, b = (str(write_run(tmp_path / name, [noisy(1, 1)])) for name in "ab")
    for runs in ([a, b], [a]):
        result = CliRunner().invoke(app, ["compare", *runs, option, str(tmp_path / name)])
        assert (result.exit_code, result.stdout) == (code, "")
        assert words in result.stderr


def test_the_published_runs_of_one_machine_show_no_difference() -> None:
    """Two runs of a bandwidth file on the H200, minutes apart: pinned memory is the same, pageable undecided for its noise."""
    folder = Path(__file__).parents[1] / "results/reference/nvidia-h200/peak"
    runs = [compared_run(runner.read_results(folder / name)) for name in ("bandwidth-1", "bandwidth-2")]
    comparison = compare_runs(*runs)
    assert {each.word for each in comparison.differences} == {"same", "undecided"}
    assert all("pinned" in each.label for each in comparison.of("same"))
    assert len(comparison.of("same")) >= 5
    assert comparison.doubts == ()
    with open(folder / "bandwidth-1" / "summary.csv", encoding="utf-8") as file:
        assert len(comparison.differences) == len(list(csv.DictReader(file)))
