from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.report.answer import answer, baseline_of, warnings
from runner.report.reading import RunTables, read_run
from runner.rows import Row
from tests.report.folders import LEAD, MIB, grid_rows, pipeline, run_folder, transfer


def made(path: Path, rows: Sequence[Row], **more: Any) -> RunTables:
    return read_run(run_folder(path, rows, **more))


def test_with_a_baseline_the_answer_is_the_best_speedup(tmp_path: Path) -> None:
    assert answer(made(tmp_path, grid_rows())) == [
        "ring (chunk 4MiB, streams 3) is the best: 60 ms against 200 ms, 3.33 times as fast as serial "
        "(3.25 to 3.417 by the ends of both 95 % intervals).",
        "Overlap itself gives 1.67 times: the same work from the same buffers, one chunk at a time, takes 100 ms. "
        "The rest comes from what the two differ in besides: chunk 4MiB instead of 32MiB.",
    ]
    assert baseline_of(grid_rows()) == "serial"


def test_a_gain_within_the_noise_is_no_gain(tmp_path: Path) -> None:
    rows = [pipeline(MIB, 1, 100, scenario="serial", speedup=1.0)]
    rows.append(pipeline(MIB, 2, 98, speedup=1.02, ci_low_speedup=0.97, ci_high_speedup=1.07))
    assert answer(made(tmp_path, rows))[0].startswith("No difference is seen between serial and the best other case, ring")


def test_where_nothing_beats_the_baseline_the_answer_says_so(tmp_path: Path) -> None:
    rows = [pipeline(MIB, 1, 100, scenario="serial", speedup=1.0), pipeline(MIB, 2, 125, speedup=0.8)]
    assert answer(made(tmp_path, rows)) == [
        "Nothing beats serial; the best of the others is ring: 125 ms against 100 ms, 0.8 times as fast as serial."
    ]


def test_without_a_baseline_the_answer_is_the_best_rate_of_each_direction(tmp_path: Path) -> None:
    rows = [
        transfer(size, rate * factor, buffer=buffer, direction=direction)
        for direction, factor in (("h2d", 1), ("d2h", 2))
        for buffer, rate in (("pageable", 4.0), ("pinned", 20.0))
        for size in (MIB, 4 * MIB)
    ]
    rows.append(transfer(16 * MIB, 22.0))
    assert answer(made(tmp_path, rows)) == [
        "h2d: copy (buffer pinned, size 16MiB) is the fastest, 22 GB/s (20 … 24.44), 35 % of the link's limit.",
        "d2h: copy (buffer pinned, size 1MiB) is the fastest, 40 GB/s (36.36 … 44.44), 63 % of the link's limit; "
        "pageable memory reaches 8 there, 5 times less.",
    ]


def test_without_rates_the_answer_is_the_range_of_the_time(tmp_path: Path) -> None:
    rows = [LEAD | {"case_id": "c_1", "size_bytes": size, "median_wall_ms": wall} for size, wall in ((MIB, 1.0), (4 * MIB, 3.5))]
    assert answer(made(tmp_path, rows)) == ["Wall time goes from 1 ms (copy (size 1MiB)) to 3.5 ms (copy (size 4MiB))."]
    assert answer(made(tmp_path / "one", rows[:1])) == ["Wall time is 1 ms (copy)."]
    untimed = [LEAD | {"case_id": "c_1"}]
    assert answer(made(tmp_path / "none", untimed))[0].startswith("1 case ended well and timed nothing")


def test_of_several_experiments_the_verdicts_are_counted(tmp_path: Path) -> None:
    rows = [transfer(MIB, 1.0), transfer(MIB, 2.0, experiment="other")]
    verdicts = [{"claim": str(place), "verdict": word} for place, word in enumerate(("confirmed", "refuted", "confirmed"))]
    assert answer(made(tmp_path, rows, verdicts=verdicts)) == ["Of 3 claims: 2 confirmed, 1 refuted."]


def test_with_verdicts_figures_of_several_kinds_are_not_set_against_each_other(tmp_path: Path) -> None:
    verdicts = [{"claim": "one", "verdict": "confirmed"}]
    alike = [transfer(MIB, 1.0, kind="transfer"), transfer(2 * MIB, 2.0, kind="transfer")]
    told = answer(made(tmp_path, alike, verdicts=verdicts))
    assert told[0] == "Of 1 claim: 1 confirmed."
    assert told[1].startswith("copy (size 2MiB) is the fastest, 2 GB/s")
    mixed = [*alike, transfer(MIB, 100.0, kind="access")]
    assert answer(made(tmp_path / "mixed", mixed, verdicts=verdicts)) == ["Of 1 claim: 1 confirmed."]


def test_memory_that_is_as_fast_is_called_so(tmp_path: Path) -> None:
    rows = [transfer(MIB, 10.0), transfer(MIB, 9.9, buffer="registered")]
    assert answer(made(tmp_path, rows))[0].endswith("; registered memory reaches 9.9 there, as good as the same.")


@pytest.mark.parametrize("rows", [[], [LEAD | {"status": "failed", "reason": "out of memory"}]])
def test_without_numbers_there_is_no_answer(tmp_path: Path, rows: list[Row]) -> None:
    assert answer(made(tmp_path, rows)) == ["No case gave a number, so there is no answer."]


def test_doubts_tell_what_is_missing_wrong_or_changed(tmp_path: Path) -> None:
    rows = [
        transfer(MIB, 1.0, flags="noisy drift"),
        transfer(2 * MIB, 1.0, flags="noisy", samples=3),
        transfer(4 * MIB, 1.0, status="failed", reason="no memory"),
        transfer(8 * MIB, 1.0, status="not_run", reason="the run stopped early"),
        transfer(8 * MIB, 1.0, run_id="r_other"),
    ]
    run = made(tmp_path, rows, status="incomplete", overrides=["measure.samples=3"])
    found = {doubt.sentence: doubt.grave for doubt in warnings(run)}
    assert found["The run is incomplete: 3 of 4 cases were reached before it stopped."]
    assert found["1 of 4 cases failed: no memory"]
    assert not found["noisy, 2 of 2 measured cases: the interval of the median is wider than 5 % of it."]
    assert not found["1 of 2 measured cases have fewer than 6 samples, and so no interval."]
    assert found["summary.csv has 1 row of other runs, left out here."]
    assert "The file was changed for this run: measure.samples=3." in found
    assert sum(sentence.startswith("drift, 1 of 2") for sentence in found) == 1


def test_a_run_without_faults_has_no_doubts(tmp_path: Path) -> None:
    assert warnings(made(tmp_path, [transfer(MIB, 1.0)])) == []


def test_of_many_reasons_the_commonest_are_told(tmp_path: Path) -> None:
    rows = [transfer(MIB, 1.0, status="failed", reason=f"reason {place}") for place in range(8)]
    sentences = [doubt.sentence for doubt in warnings(made(tmp_path, rows))]
    assert len(sentences) == 6
    assert sentences[-1] == "… and 3 other reasons, in the table below."


def predictions(rows: Sequence[Row], *errors: float) -> list[Row]:
    pairs = zip(rows, errors, strict=True)
    return [
        {"case_id": row["case_id"], "figure": "event_ms", "measured_ms": 1.0, "predicted_ms": 1.0, "error_percent": error}
        for row, error in pairs
    ]


def test_a_run_that_asks_of_a_profile_is_answered_by_its_errors(tmp_path: Path) -> None:
    rows = [transfer(size * MIB, 50.0) for size in (1, 2, 4)]
    run = made(tmp_path / "model" / "run", rows, experiment="validate", predicted=predictions(rows, 3.0, -28.4, 1.0))
    expected = "The profile predicts half of 3 cases within 3.0 %; its largest error is 28.4 %, of copy (size 2MiB)."
    assert answer(run) == [expected]
    (run.folder / "predicted.csv").rename(tmp_path / "model" / "predicted.csv")
    assert answer(read_run(run.folder)) == [expected], "a validation lies beside the run"
    (tmp_path / "model" / "predicted.csv").unlink()
    (way,) = answer(read_run(run.folder))
    assert way.startswith("How well a profile predicts this run is told by: dmalab compare ")


def test_predictions_of_any_run_are_told_behind_its_answer(tmp_path: Path) -> None:
    rows = [transfer(MIB, 50.0)]
    first, second = answer(made(tmp_path / "run", rows, predicted=predictions(rows, 4.0)))
    assert "50 GB/s" in first
    assert second == "The profile predicts half of 1 case within 4.0 %; its largest error is 4.0 %, of copy."


def test_predictions_of_other_cases_beside_a_run_are_not_its_own(tmp_path: Path) -> None:
    rows = [transfer(MIB, 50.0)]
    made(tmp_path, rows, predicted=predictions([{"case_id": "c_other"}], 4.0))
    assert len(answer(made(tmp_path / "run", rows))) == 1
