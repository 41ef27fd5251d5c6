from __future__ import annotations

import csv
import errno
import io
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from runner import columns
from runner.columns import Column, ColumnType, all_columns, case_columns, field_columns, sample_columns, summary_columns
from runner.errors import EnvironmentProblem
from runner.measure.result import CaseResult, Sample
from runner.measure.sentinel import SENTINEL
from runner.rows import Row, case_rows, number, sample_rows, summary_rows, text
from runner.scenarios import SCENARIOS
from runner.scenarios.base import Cell
from runner.scenarios.transfer import Transfer
from runner.tables import write_columns, write_csv, write_tables
from runner.verdicts import Verdict
from tests.frames import samples_frame, summary_frame
from tests.results_for_tests import MIB, RUN, case, ok, pipeline, transfer

LEAD = ["run_id", "experiment", "scenario", "case_id", "status", "reason", "flags", "device", "device_kind"]
AXES = [
    "buffer", "direction", "size_bytes", "chunk_bytes", "total_bytes", "streams", "slots", "staging", "staging_threads",
    "staging_lanes", "schedule", "issue", "submit", "allocate", "allocator", "nodes", "compute_passes", "compute_ratio",
]  # fmt: skip


def cell(table: pd.DataFrame, name: str, row: int = 0) -> object:
    return table[name].iloc[row]


def written(rows: Iterable[Row], columns: Sequence[Column], folder: Path) -> list[dict[str, str]]:
    write_csv(folder / "table.csv", rows, columns)
    return list(csv.DictReader(io.StringIO((folder / "table.csv").read_text(encoding="utf-8"))))


# Which columns there are


def test_tables_begin_with_the_lead_and_the_axes_in_order() -> None:
    for described in (summary_columns(), sample_columns()):
        assert [column.name for column in described][: len(LEAD + AXES)] == LEAD + AXES


def test_every_column_is_described_once_and_in_ascii() -> None:
    for described in (summary_columns(), sample_columns(), case_columns(), all_columns()):
        names = [column.name for column in described]
        assert len(set(names)) == len(names)
        assert all(name.isascii() and name.islower() for name in names)
        assert [column.name for column in described if not column.meaning] == []


@pytest.mark.parametrize("kind", SCENARIOS)
def test_every_field_of_every_kind_has_a_column_of_its_type(kind: str) -> None:
    described = {column.name: column for column in all_columns()}
    for column in field_columns(SCENARIOS[kind]):
        assert described[column.name].type == column.type, column.name
        assert column.meaning, f"{kind}.{column.name} has no description"


def test_what_the_models_give_is_described() -> None:
    described = {column.name for column in summary_columns()}
    assert set(transfer().columns()) <= described
    assert set(pipeline().columns()) <= described


def test_a_scenarios_own_column_says_whose_it_is() -> None:
    own = {column.name: column for column in columns.own_columns()}
    assert own["call"].meaning.startswith("transfer: ")
    assert "pipeline: " in own["kind"].meaning


def test_a_column_that_is_not_described_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not describe: surprise"):
        written([{"run_id": "r", "surprise": 1}], summary_columns(), tmp_path)
    result = CaseResult(case(transfer()), "ok", samples=(Sample("sample", 0, {"surprise_ms": 1.0}),))
    with pytest.raises(ValueError, match="surprise_ms"):
        written(sample_rows(RUN, [result]), sample_columns(), tmp_path)


@pytest.mark.parametrize(
    ("kind", "value", "told"), [("number", "fast", "'fast' is no number"), ("integer", 1.5, "1.5 is no whole")]
)
def test_what_is_not_of_its_columns_type_is_an_error(kind: ColumnType, value: Cell, told: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=told):
        written([{"x": value}], [Column("x", kind, "", "x")], tmp_path)


def test_numbers_are_written_as_their_column_has_them(tmp_path: Path) -> None:
    columns = [Column("n", "integer", "", "n"), Column("x", "number", "", "x"), Column("t", "text", "", "t")]
    rows: list[Row] = [{"n": 3.0, "x": 5, "t": "a, b"}, {"x": 1e-7, "t": True}, {"n": math.nan, "x": math.inf}]
    write_csv(tmp_path / "t.csv", rows, columns)
    assert (tmp_path / "t.csv").read_text() == 'n,x,t\n3,5.0,"a, b"\n,1e-07,true\n,,\n'


# Rows and figures


def test_summary_has_one_row_a_case_and_samples_one_a_play() -> None:
    results = [
        ok(case(transfer(size=MIB)), 1.0, 2.0, name="event_ms"),
        CaseResult(case(transfer(size=2 * MIB)), "failed", "out of memory"),
        CaseResult(case(transfer(size=3 * MIB), excluded="too large"), "excluded", "too large"),
    ]
    summary, samples = summary_frame(RUN, results), samples_frame(RUN, results)
    assert list(summary["status"]) == ["ok", "failed", "excluded"]
    assert list(summary["samples"]) == [2, 0, 0]
    assert list(samples["role"]) == ["warmup", "sample", "sample"]
    assert list(samples["event_ms"]) == [100.0, 1.0, 2.0]
    assert set(samples["case_id"]) == {results[0].case.case_id}


def test_integers_stay_integers_beside_rows_without_a_value(tmp_path: Path) -> None:
    results = [ok(case(transfer(size=33554432)), 1.0), CaseResult(case(pipeline()), "failed", "broke")]
    rows = written(summary_rows(RUN, results), summary_columns(), tmp_path)
    assert [row["size_bytes"] for row in rows] == ["33554432", ""]
    assert [row["total_bytes"] for row in rows] == ["", str(4 * MIB)]
    assert [row["corrupt_bytes"] for row in rows] == ["0", ""]


def test_integers_above_2_to_53_keep_their_digits(tmp_path: Path) -> None:
    rows = written([{"n": 9007199254740993, "m": 1}, {"m": 1}], [Column(name, "integer", "", name) for name in "nm"], tmp_path)
    assert [row["n"] for row in rows] == ["9007199254740993", ""]


def test_statistics_leave_warm_ups_out() -> None:
    row = summary_frame(RUN, [ok(case(pipeline()), *(float(n) for n in range(1, 11)))])
    got = {name: cell(row, f"{name}_wall_ms") for name in ("median", "min", "p05", "p95", "ci_low", "ci_high")}
    assert got == {"median": 5.5, "min": 1.0, "p05": 1.45, "p95": 9.55, "ci_low": 2.0, "ci_high": 9.0}
    assert cell(row, "median_event_ms") is pd.NA


def test_a_simulated_time_has_no_interval() -> None:
    row = summary_frame(RUN, [ok(case(pipeline()), *[2.0] * 10, deterministic=True)])
    assert cell(row, "median_wall_ms") == 2.0
    assert cell(row, "ci_low_wall_ms") is pd.NA
    assert cell(row, "ci_high_wall_ms") is pd.NA


SAMPLING = ("samples", "warmups", "stopped_by", "block", "noise_percent", "drift", "outliers", "first_over_median")


def test_a_row_says_how_it_was_sampled_and_how_steady_it_was() -> None:
    times = [10.0, 10.0, 10.0, 10.1, 10.2, 10.1, 11.0, 11.0, 99.0]
    row = summary_frame(RUN, [ok(case(pipeline()), *times, stopped_by="cap_samples", block=2)])
    got = [cell(row, name) for name in SAMPLING]
    # Of nine samples the interval reaches from the second to the eighth; a third has three of them.
    assert got[:4] == [9, 1, "cap_samples", 2]
    assert got[4:] == [pytest.approx(100 * 1.0 / 2 / 10.1), pytest.approx(0.1), 1, pytest.approx(1000 / 10.1)]


def test_steadiness_is_by_the_clock_that_gives_the_rate() -> None:
    samples = tuple(Sample("sample", n, {"event_ms": 1.0 if n < 3 else 2.0, "wall_ms": 5.0}) for n in range(6))
    result = CaseResult(case(transfer()), "ok", samples=samples)
    assert cell(summary_frame(RUN, [result]), "drift") == 1
    by_wall = type(RUN)(RUN.run_id, RUN.experiment, RUN.device, RUN.device_kind, clock="wall")
    assert cell(summary_frame(by_wall, [result]), "drift") == 0


def test_few_or_simulated_samples_say_nothing_of_steadiness() -> None:
    few = ok(case(pipeline()), 2.0, 3.0)
    simulated = ok(case(pipeline()), *[2.0] * 10, deterministic=True, stopped_by="deterministic")
    table = summary_frame(RUN, [few, simulated, CaseResult(case(transfer()), "failed", "broke")])
    for name in ("noise_percent", "drift", "outliers"):
        assert list(table[name].isna()) == [True] * 3, name
    assert list(table["first_over_median"].isna()) == [False, True, True]
    assert list(table["stopped_by"]) == ["", "deterministic", ""]


def test_the_sentinels_plays_are_samples_and_no_cases(tmp_path: Path) -> None:
    plays = (Sample("warmup", 0, {"event_ms": 3.0}), Sample("sentinel", 0, {"event_ms": 2.0}, 4, 0))
    sentinel = CaseResult(SENTINEL, "ok", samples=plays, block=1)
    write_tables(tmp_path, RUN, [ok(case(pipeline()), 1.0)], (), [sentinel])
    tables = {
        name: list(csv.DictReader(io.StringIO((tmp_path / f"{name}.csv").read_text("utf-8")))) for name in ("summary", "samples")
    }
    assert len(tables["summary"]) == 1
    told = [(row["scenario"], row["role"], row["block"], row["round"], row["order"]) for row in tables["samples"]]
    assert told == [
        ("one", "warmup", "", "", ""),
        ("one", "sample", "", "", ""),
        ("(sentinel)", "warmup", "1", "", ""),
        ("(sentinel)", "sentinel", "1", "4", "0"),
    ]


def test_a_gibibyte_in_a_second_is_both_its_rates() -> None:
    row = summary_frame(RUN, [ok(case(transfer(size=2**30)), 1000.0, name="event_ms")])
    assert cell(row, "gb_per_s") == 1.073741824
    assert cell(row, "gib_per_s") == 1.0


def test_a_pipeline_counts_its_payload_once_over_wall_time() -> None:
    row = summary_frame(RUN, [ok(case(pipeline(total=256 * MIB)), 100.0)])
    assert cell(row, "gb_per_s") == pytest.approx(2.68435456)


def test_the_files_clock_gives_the_rates() -> None:
    sample = Sample("sample", 0, {"event_ms": 1.0, "wall_ms": 2.0})
    result = CaseResult(case(transfer(size=10**6)), "ok", samples=(sample,))
    assert cell(summary_frame(RUN, [result]), "gb_per_s") == 1.0
    by_wall = type(RUN)(RUN.run_id, RUN.experiment, RUN.device, RUN.device_kind, clock="wall")
    assert cell(summary_frame(by_wall, [result]), "gb_per_s") == 0.5


def test_both_directions_have_their_own_rate_and_the_common_one() -> None:
    figures = {"event_ms": 2.0, "h2d_event_ms": 1.0, "d2h_event_ms": 1.6}
    result = CaseResult(case(transfer(direction="bidirectional", size=16 * 10**6)), "ok", samples=(Sample("sample", 0, figures),))
    row = summary_frame(RUN, [result])
    assert (cell(row, "gb_per_s"), cell(row, "h2d_gb_per_s"), cell(row, "d2h_gb_per_s")) == (16.0, 16.0, 10.0)


def test_a_zero_duration_gives_no_rate_and_no_speedup() -> None:
    results = [ok(case(pipeline(), "serialized"), 0.0), ok(case(pipeline(), "ring"), 0.0)]
    table = summary_frame(RUN, results)
    assert list(table["gb_per_s"].isna()) == [True, True]
    assert list(table["speedup"].isna()) == [True, True]
    assert list(table["median_wall_ms"]) == [0.0, 0.0]


@pytest.mark.parametrize("status", ["corrupt", "failed", "timeout", "not_run", "skipped", "unsupported"])
def test_only_an_ok_row_has_rates(status: str) -> None:
    good = ok(case(pipeline(), "ring"), 1.0)
    bad = CaseResult(good.case, status, "why", samples=good.samples)  # type: ignore[arg-type]
    table = summary_frame(RUN, [ok(case(pipeline(), "serialized"), 2.0), bad])
    for name in ("gb_per_s", "gib_per_s", "speedup"):
        assert cell(table, name, 1) is pd.NA, name


# Speedup


def speedups(*results: CaseResult) -> list[float | None]:
    return [None if value is pd.NA else float(value) for value in summary_frame(RUN, results)["speedup"]]


def test_speedup_is_against_the_only_case_of_the_baseline() -> None:
    loop = ok(case(pipeline(chunk=MIB), "serialized"), 10.0)
    assert speedups(loop, ok(case(pipeline(), "ring", chunk=MIB), 4.0), ok(case(pipeline(), "ring", chunk=2), 20.0)) == [
        1,
        2.5,
        0.5,
    ]


def test_speedup_joins_on_the_axes_that_both_have() -> None:
    loops = [ok(case(pipeline(), "serialized", chunk=chunk), 10.0 * chunk) for chunk in (1, 2)]
    rings = [ok(case(pipeline(), "ring", streams=3, chunk=chunk), 5.0) for chunk in (1, 2)]
    assert speedups(*loops, *rings) == [1, 1, 2, 4]


def test_speedup_is_empty_without_one_sound_case_to_compare_with() -> None:
    ring = ok(case(pipeline(), "ring", streams=3), 5.0)
    assert speedups(ring) == [None]
    loops = [ok(case(pipeline(), "serialized", chunk=chunk), 10.0) for chunk in (1, 2)]
    assert speedups(*loops, ring)[2] is None, "two cases fit"
    assert speedups(CaseResult(case(pipeline(), "serialized"), "failed", "broke"), ring) == [None, None]
    assert speedups(loops[0], CaseResult(loops[1].case, "failed", "broke"), ring)[2] is None, "two fit though one failed"
    assert speedups(loops[0], CaseResult(loops[1].case, "excluded", "large"), ring)[2] == 2, "an excluded case is none"


def test_a_speedup_needs_the_same_kind_and_payload_and_is_by_the_clock_that_gives_the_rate() -> None:
    loop = ok(case(pipeline(), "serialized"), 10.0)
    half = pipeline(total=pipeline().total // 2)
    copy = Transfer(kind="transfer", direction="h2d", size=loop.case.model.payload_bytes())
    assert speedups(loop, ok(case(half, "ring"), 5.0), ok(case(copy, "copy"), 5.0)) == [1, None, None]
    first, second = (
        CaseResult(case(copy, name), "ok", samples=(Sample("sample", 0, {"wall_ms": wall, "event_ms": event}),))
        for name, wall, event in (("serialized", 10.0, 8.0), ("other", 5.0, 2.0))
    )
    assert speedups(first, second) == [1, 4]


def test_no_baseline_no_speedup() -> None:
    run = type(RUN)(RUN.run_id, RUN.experiment, RUN.device, RUN.device_kind)
    assert cell(summary_frame(run, [ok(case(pipeline(), "serialized"), 1.0)]), "speedup") is pd.NA


def test_interval_of_a_speedup_is_from_the_ends_of_both() -> None:
    loop = ok(case(pipeline(), "serialized"), *(100.0 + n for n in range(10)))
    ring = ok(case(pipeline(), "ring"), *(50.0 + n for n in range(10)))
    table = summary_frame(RUN, [loop, ring])
    assert cell(table, "ci_low_speedup", 1) == pytest.approx(101 / 58)
    assert cell(table, "ci_high_speedup", 1) == pytest.approx(108 / 51)
    assert cell(table, "ci_low_speedup", 0) is pd.NA


# Cells


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "\n-", "\uff1d", "\u3000\uff0b"])
def test_no_text_starts_a_formula(start: str) -> None:
    assert text(f'{start}HYPERLINK("http://x")')[:1] == "'"


@pytest.mark.parametrize("plain", ["None", "NA", "null", "nan", "", "a,b", 'say "x"', "ü µ 数", "25921e05"])
def test_other_text_is_left_alone(plain: str) -> None:
    assert text(plain) == plain


def test_text_is_one_line() -> None:
    assert text("first\nsecond\r\nthird\x00") == "first second  third"
    assert text(None) == ""
    assert text(True) == "true"


def test_numbers_are_numbers_or_empty() -> None:
    assert number(-0.02) == -0.02
    assert number(1 / 3) == 0.333333333333333
    assert [number(value) for value in (None, "", math.nan, math.inf, -math.inf)] == [None] * 5
    with pytest.raises(TypeError):
        number(True)


def test_no_written_number_has_more_than_15_digits(tmp_path: Path) -> None:
    results = [ok(case(pipeline(), "serialized"), 10 / 3, 20 / 7, 1e-7 / 3), ok(case(pipeline(), "ring"), 2 / 3)]
    for row in written(summary_rows(RUN, results), summary_columns(), tmp_path):
        for column in summary_columns():
            if column.type == "number" and row[column.name]:
                mantissa = row[column.name].lower().split("e")[0]
                assert len(mantissa.replace(".", "").strip("-0")) <= 15, (column.name, row[column.name])
                assert math.isfinite(float(row[column.name]))


def test_a_hostile_reason_stays_in_its_cell(tmp_path: Path) -> None:
    result = CaseResult(case(transfer()), "failed", '=cmd|"/c calc"!A1\r\n, "quoted", None')
    (row,) = written(summary_rows(RUN, [result]), summary_columns(), tmp_path)
    assert row["reason"] == '\'=cmd|"/c calc"!A1  , "quoted", None'
    assert row["device_kind"] == "simulated"


# Files


def test_files_are_utf8_without_mark_with_lf(tmp_path: Path) -> None:
    write_csv(tmp_path / "samples.csv", sample_rows(RUN, [ok(case(transfer()), 1.0, name="event_ms")]), sample_columns())
    content = (tmp_path / "samples.csv").read_bytes()
    assert content.startswith(b"run_id,")
    assert b"\r" not in content
    assert content.endswith(b"\n")


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.csv"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(EnvironmentProblem, match="cannot be written: No space left on device"):
        write_columns(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.csv"]


def test_a_signal_that_comes_as_a_file_gets_its_name_is_not_mistaken_for_a_failed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def interrupted(source: str, target: Path) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_columns(tmp_path / "columns.csv")
    assert [entry.name for entry in tmp_path.iterdir()] == ["columns.csv"]


def test_all_tables_are_written_and_every_column_is_in_columns_csv(tmp_path: Path) -> None:
    verdict = Verdict("a ring wins", "confirmed", 0.5, None, None, "at most 0.8", "wall_ms 5 against 10")
    write_tables(tmp_path, RUN, [ok(case(pipeline()), 1.0)], [verdict])
    tables = {path.name: list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))) for path in tmp_path.iterdir()}
    assert set(tables) == {"summary.csv", "samples.csv", "cases.csv", "columns.csv", "verdicts.csv"}
    described = {row["name"] for row in tables.pop("columns.csv")}
    for name, rows in tables.items():
        assert set(rows[0]) <= described, name
    assert tables["verdicts.csv"][0]["figure"] == "0.5"


def test_cases_tell_which_are_excluded(tmp_path: Path) -> None:
    cases = [case(transfer()), case(transfer(size=2), excluded="too small")]
    rows = written(case_rows(RUN, cases), case_columns(), tmp_path)
    assert [row["excluded"] for row in rows] == ["", "too small"]
    assert [row["size_bytes"] for row in rows] == [str(MIB), "2"]


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    results = [ok(case(pipeline()), 1.0, 2.0, 3.0), CaseResult(case(transfer()), "skipped", "too large")]
    for name in ("a.csv", "b.csv"):
        write_csv(tmp_path / name, summary_rows(RUN, results), summary_columns())
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_empty_tables_keep_their_columns(tmp_path: Path) -> None:
    write_csv(tmp_path / "samples.csv", [], sample_columns())
    assert (tmp_path / "samples.csv").read_text().count("\n") == 1
    assert (tmp_path / "samples.csv").read_text().startswith("run_id,experiment,")
