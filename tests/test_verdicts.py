"""Judging by hand-made results: each form of clause confirmed, refuted and undecided, and what is refused when a file is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from runner.errors import SpecError
from runner.expand import expand
from runner.figures import Figure, figure_of, unit_of_axis
from runner.flow import run_experiment
from runner.measure.result import CaseResult, Sample, Status
from runner.rows import RunInfo, verdict_rows
from runner.spec.clauses import Bounds
from runner.spec.load import load_experiment
from runner.trends import Point, exponent, threshold
from runner.verdicts import Verdict, judge
from tests.scenarios.runs import Silent

HEAD = """
name: judged
question: Is the ring faster?
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 8MiB, chunk: [1MiB, 2MiB]}
  ring: {kind: pipeline, schedule: overlapped, total: 8MiB, chunk: [1MiB, 2MiB], streams: 2, compute: {passes: [1, 2]}}
  copy: {kind: transfer, direction: h2d, size: [1MiB, 2MiB, 4MiB, 8MiB], buffer: [pinned, pageable]}
expect:
"""
COPIES = 8
"""Cases of copy; 2 of loop and 4 of ring stand before them."""
STEADY = [10.0] * 8
WIDE = [7.0, 7.5, 7.9, 7.9, 7.9, 8.2, 8.4, 8.5]
RING = "{scenario: ring, compute.passes: 1}"
PINNED = "{scenario: copy, buffer: pinned}"


def judged(
    tmp_path: Path,
    clause: str,
    figures: Mapping[str, Sequence[Sequence[float]]] | None = None,
    statuses: Mapping[int, Status] | None = None,
    reason: str = "",
    **more: object,
) -> Verdict:
    """Judge one clause; `figures` are the samples of a figure for each of the 14 cases, in the order of the grid."""
    path = tmp_path / "judged.yaml"
    path.write_text(HEAD + f"  - {{claim: c, source: as it is written, {clause}}}\n")
    loaded = load_experiment(path)
    results = []
    for place, case in enumerate(expand(loaded)):
        taken = {name: values[place] for name, values in (figures or {}).items()}
        count = max(map(len, taken.values()), default=0)
        samples = tuple(
            Sample("sample", index, {name: values[index] for name, values in taken.items() if index < len(values)})
            for index in range(count)
        )
        status = (statuses or {}).get(place, "ok")
        results.append(CaseResult(case, status, reason if status == "ok" else "it broke", samples=samples, **more))  # type: ignore[arg-type]
    (verdict,) = judge(loaded.experiment, results, RunInfo("r_x", "judged", "test", "cuda"))
    return verdict


def walls(*first: Sequence[float]) -> dict[str, list[Sequence[float]]]:
    """Times of loop 1 and 2 MiB, then ring 1 MiB with 1 and 2 passes, then ring 2 MiB likewise."""
    return {"wall_ms": [*first, *[[1.0]] * COPIES]}


def copies(
    *pinned: Sequence[float], pageable: Sequence[float] = (99.0,), metric: str = "event_ms"
) -> dict[str, list[Sequence[float]]]:
    """Times of pinned copies of 1, 2, 4 and 8 MiB; sizes vary slower than buffers."""
    return {metric: [*[[1.0]] * 6, *(values for each in pinned for values in (each, pageable))]}


RATIO = f"of: {RING}, against: {{scenario: loop}}, metric: wall_ms, ratio: {{at_most: 0.8}}"


def test_pairs_are_joined_on_the_axes_that_both_have_and_the_worst_decides(tmp_path: Path) -> None:
    verdict = judged(tmp_path, RATIO, walls([10], [20], [5], [99], [15], [99]))
    assert (verdict.verdict, verdict.figure, verdict.form, verdict.source) == ("confirmed", 0.75, "ratio", "as it is written")
    assert (verdict.low, verdict.high, verdict.limit) == (None, None, "at most 0.8")
    assert "wall_ms 15 of ring (chunk 2MiB, compute.passes 1) against 20 of loop (chunk 2MiB)" in verdict.reason
    assert "no interval" in verdict.reason
    verdict = judged(tmp_path, RATIO, walls([10], [20], [5], [99], [17], [99]))
    assert (verdict.verdict, verdict.figure) == ("refuted", 0.85)
    assert verdict.reason.startswith("1 of 2 are refuted")


def test_one_refuted_case_outweighs_one_that_broke(tmp_path: Path) -> None:
    times = walls([10], [20], [5], [99], [17], [99])
    assert judged(tmp_path, RATIO, times, {2: "failed"}).verdict == "refuted"
    broken = judged(tmp_path, RATIO, times, {4: "failed"})
    assert broken.verdict == "undecided"
    assert broken.reason.endswith("of ring is failed: it broke")
    assert broken.figure is None


def test_an_interval_that_straddles_the_limit_is_undecided(tmp_path: Path) -> None:
    verdict = judged(tmp_path, RATIO, walls(STEADY, STEADY, WIDE, [1.0], WIDE, [1.0]))
    assert verdict.verdict == "undecided"
    assert verdict.figure == pytest.approx(0.79)
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low < 0.8 < verdict.high
    assert verdict.reason.endswith("the interval straddles the limit")


def test_a_zero_below_and_a_figure_that_was_not_measured_are_undecided(tmp_path: Path) -> None:
    zero = judged(tmp_path, RATIO, walls([0], [0], [1], [1], [1], [1]))
    assert zero.verdict == "undecided"
    assert zero.reason.endswith("the figure below the line may be zero")
    missing = judged(tmp_path, RATIO.replace("wall_ms", "event_ms"), walls(*[[1]] * 6))
    assert missing.verdict == "undecided"
    assert "event_ms of ring (chunk 1MiB, compute.passes 1) was not measured" in missing.reason


def test_two_figures_of_one_case_are_compared_in_one_unit(tmp_path: Path) -> None:
    clause = f"of: {PINNED}, against: {PINNED}, metric: call_us, against_metric: event_ms, ratio: {{below: 0.1}}"
    figures = copies([1], [2], [4], [8]) | copies([50], [50], [50], [50], metric="call_us")
    verdict = judged(tmp_path, clause, figures, deterministic=True)
    assert (verdict.verdict, verdict.figure) == ("confirmed", pytest.approx(0.05))
    assert "no interval" not in verdict.reason


def test_two_figures_of_the_same_samples_are_divided_sample_by_sample(tmp_path: Path) -> None:
    clause = "of: {scenario: copy, buffer: pinned, size: 1MiB}, against: {scenario: copy, buffer: pinned, size: 1MiB}, "
    clause += "metric: call_us, against_metric: event_ms, ratio: {at_most: 0.5}"
    times = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    figures = copies(times, [1], [1], [1]) | copies([450 * time for time in times], [1], [1], [1], metric="call_us")
    verdict = judged(tmp_path, clause, figures)
    assert (verdict.verdict, verdict.figure) == ("confirmed", pytest.approx(0.45))
    assert (verdict.low, verdict.high) == (pytest.approx(0.45), pytest.approx(0.45))


SAME = f"of: {RING}, against: {{scenario: loop}}, metric: wall_ms, same_within: 0.05"


@pytest.mark.parametrize(
    ("mine", "word"),
    [(STEADY, "confirmed"), ([12.0] * 8, "refuted"), ([8.0] * 8, "refuted"), ([9.0, *STEADY[:6], 11.0], "undecided")],
)
def test_the_same_is_confirmed_only_by_an_interval_within_the_tolerance(tmp_path: Path, mine: list[float], word: str) -> None:
    assert judged(tmp_path, SAME, walls(STEADY, STEADY, mine, [1.0], mine, [1.0])).verdict == word


def test_the_same_is_undecided_where_the_interval_reaches_over_both_limits(tmp_path: Path) -> None:
    mine = [8.0, 8.0, 8.0, 10.7, 10.7, 12.0, 12.0, 12.0]
    verdict = judged(tmp_path, SAME, walls(STEADY, STEADY, mine, [1.0], mine, [1.0]))
    assert (verdict.verdict, verdict.figure) == ("undecided", pytest.approx(1.07))
    assert verdict.limit == "at least 0.95 and at most 1.05"


def test_an_ordering_holds_where_each_is_below_the_next(tmp_path: Path) -> None:
    clause = f"order: [{RING}, {{scenario: loop}}], metric: wall_ms"
    assert judged(tmp_path, clause, walls([10], [20], [9], [1], [19], [1])).verdict == "confirmed"
    verdict = judged(tmp_path, clause, walls([10], [20], [9], [1], [21], [1]))
    assert (verdict.verdict, verdict.figure, verdict.limit) == ("refuted", 1.05, "each below the next")


def test_a_value_is_judged_in_the_unit_of_its_figure(tmp_path: Path) -> None:
    clause = f"of: {PINNED}, metric: event_ms, value: {{at_most: 8, above: 0}}"
    verdict = judged(tmp_path, clause, copies([1], [2], [4], [8]))
    assert (verdict.verdict, verdict.unit, verdict.limit) == ("confirmed", "ms", "at most 8 and above 0")
    assert judged(tmp_path, clause, copies([1], [2], [4], [8.1])).figure == 8.1
    rate = judged(tmp_path, f"of: {PINNED}, metric: gb_per_s, value: {{at_least: 1}}", copies(WIDE, [1.0], [1.0], [1.0]))
    assert rate.verdict == "refuted"
    assert rate.figure == pytest.approx(2**20 / 7.9e6)
    assert rate.low == pytest.approx(2**20 / 8.5e6)
    assert rate.high == pytest.approx(2**20 / 7.0e6)


def test_an_exponent_is_the_slope_of_the_logarithms(tmp_path: Path) -> None:
    clause = f"of: {PINNED}, metric: event_ms, over: size, exponent: {{at_least: 0.9, at_most: 1.1}}"
    linear = judged(tmp_path, clause, copies([1], [2], [4], [8]))
    assert (linear.verdict, linear.figure, linear.unit) == ("confirmed", pytest.approx(1), "")
    square = judged(tmp_path, clause, copies([1], [4], [16], [64]))
    assert (square.verdict, square.figure) == ("refuted", pytest.approx(2))
    zero = judged(tmp_path, clause, copies([0], [4], [16], [64]))
    assert (zero.verdict, zero.figure) == ("undecided", None)


def test_the_interval_of_an_exponent_holds_every_line_through_the_intervals() -> None:
    points = [Point(2.0**step, Figure(3.0**step, 3.0**step * 0.9, 3.0**step * 1.2)) for step in range(4)]
    found = exponent(points)
    assert found is not None
    assert found.value == pytest.approx(math.log2(3))
    steepest = exponent([Point(p.place, Figure(p.figure.value * (0.9 if step < 2 else 1.2))) for step, p in enumerate(points)])
    assert steepest is not None
    assert found.high == pytest.approx(steepest.value)
    assert exponent(points[:2]) is None


THRESHOLD = f"of: {PINNED}, metric: event_ms, over: size, holds: {{above: 3}}, threshold: {{above: 1MiB, at_most: 4MiB}}"


def test_a_threshold_is_where_the_condition_begins_to_hold_to_the_end(tmp_path: Path) -> None:
    verdict = judged(tmp_path, THRESHOLD, copies([5], [1], [4], [8]))
    assert (verdict.verdict, verdict.figure, verdict.unit) == ("confirmed", 4 * 2**20, "bytes")
    assert verdict.limit == "at most 4MiB and above 1MiB, where event_ms is above 3"
    assert judged(tmp_path, THRESHOLD, copies([5], [4], [4], [8])).verdict == "refuted"
    assert judged(tmp_path, THRESHOLD, copies([5], [4], [1], [8])).verdict == "refuted"
    never = judged(tmp_path, THRESHOLD, copies([5], [1], [4], [2]))
    assert (never.verdict, never.figure) == ("refuted", None)
    beyond = judged(tmp_path, THRESHOLD.replace("4MiB", "1GiB"), copies([5], [1], [4], [2]))
    assert beyond.verdict == "undecided"


def test_a_threshold_has_the_interval_of_the_places_that_are_not_sure() -> None:
    points = [Point(1, Figure(1, 0.5, 1.5)), Point(2, Figure(2.5, 2, 4)), Point(4, Figure(4, 3.5, 5)), Point(8, Figure(8, 7, 9))]
    assert threshold(points, Bounds(above=3)) == Figure(4, 2, 4)
    assert threshold(points[:2], Bounds(above=2)) == Figure(2, 2, math.inf)


def test_the_lowest_place_is_judged_with_all_places_that_may_be_it(tmp_path: Path) -> None:
    clause = f"of: {PINNED}, metric: event_ms, over: size, lowest: {{at_least: 2MiB, at_most: 4MiB}}"
    verdict = judged(tmp_path, clause, copies([5], [1], [4], [8]))
    assert (verdict.verdict, verdict.figure, verdict.unit, verdict.limit) == (
        "confirmed",
        2 * 2**20,
        "bytes",
        "at least 2MiB and at most 4MiB",
    )
    assert judged(tmp_path, clause, copies([0.5], [1], [4], [8])).verdict == "refuted"
    near = judged(tmp_path, clause, copies([11.0] * 8, [9.0, *STEADY[1:7], 11.5], STEADY, [8.0, *STEADY[1:7], 9.9]))
    assert near.verdict == "undecided"
    assert (near.low, near.high) == (2 * 2**20, 8 * 2**20)


def test_a_text_is_judged_of_every_case_that_was_tried(tmp_path: Path) -> None:
    memory = f"of: {PINNED}, cell: memory_actual, says: host=pinned"
    assert judged(tmp_path, memory, memory_actual="host=pinned").verdict == "confirmed"
    wrong = judged(tmp_path, memory, memory_actual="host=pageable")
    assert (wrong.verdict, wrong.form, wrong.figure) == ("refuted", "text", None)
    assert judged(tmp_path, memory, statuses={6: "failed"}, memory_actual="host=pinned").verdict == "undecided"
    failing = "of: {scenario: copy, buffer: pinned, size: 1MiB}, cell: status, says: failed"
    assert judged(tmp_path, failing, statuses={6: "failed"}).verdict == "confirmed"
    assert judged(tmp_path, failing).verdict == "refuted"
    assert judged(tmp_path, failing, statuses={6: "skipped"}).verdict == "undecided"


def test_a_case_that_failed_for_another_reason_says_nothing_of_the_one_claimed(tmp_path: Path) -> None:
    refused = "of: {scenario: copy, buffer: pinned, size: 1MiB}, cell: reason, says: "
    assert judged(tmp_path, refused + "broke", statuses={6: "failed"}).verdict == "confirmed"
    assert judged(tmp_path, refused + "was refused").verdict == "refuted"
    for status in ("failed", "timeout"):
        other = judged(tmp_path, refused + "was refused", statuses={6: status})  # type: ignore[dict-item]
        assert (other.verdict, other.reason.endswith(f"of copy is {status}: it broke")) == ("undecided", True)


def test_wrong_bytes_are_counted_of_a_corrupt_case_and_of_none_that_an_error_ended(tmp_path: Path) -> None:
    spoiled = "of: {scenario: copy, buffer: pinned, size: 1MiB}, metric: corrupt_bytes, value: {at_most: 0}"
    corrupt = judged(tmp_path, spoiled, statuses={6: "corrupt"}, corrupt_bytes=12)
    assert (corrupt.verdict, corrupt.figure) == ("refuted", 12)
    time = "of: {scenario: copy, buffer: pinned, size: 1MiB}, metric: event_ms, value: {at_most: 99}"
    assert judged(tmp_path, time, statuses={6: "corrupt"}, corrupt_bytes=12).verdict == "undecided"
    faulted = {"faulted": [[1.0]] * 14}
    assert judged(tmp_path, spoiled, faulted).verdict == "confirmed"
    ended = judged(tmp_path, spoiled, faulted, reason="an illegal memory access")
    assert ended.verdict == "undecided"
    assert ended.reason.endswith("ended before its bytes were counted: an illegal memory access")


def test_a_selection_by_a_whole_mapping_finds_its_cases_in_the_results(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(
        "name: mapping\nquestion: q\nmeasure: {warmup: 0, samples: 1}\nscenarios:\n"
        "  ring: {kind: pipeline, schedule: overlapped, total: 8MiB, chunk: 1MiB, compute: [{passes: 2}, {ratio: 1}]}\nexpect:\n"
        "  - {claim: c, of: {scenario: ring, compute: {ratio: 1}}, metric: wall_ms, value: {above: 0}}\n"
    )
    (verdict,) = run_experiment(
        load_experiment(path), device="simulated:test", out=tmp_path / "out", max_cases=9, watcher=Silent()
    ).verdicts
    assert verdict.verdict == "confirmed", verdict.reason
    assert "of 2" not in verdict.reason


REFUSED = [
    (RATIO.replace("wall_ms", "wal_ms"), "metric: there is no such figure, got wal_ms; did you mean wall_ms?"),
    (RATIO.replace("ratio: {at_most: 0.8}", "ratio: {at_most: 0.8, above: 0.9}"), "no number is at most 0.8 and above 0.9"),
    (f"of: {RING}, metric: wall_ms", "no form of expectation is given"),
    (RATIO + ", value: {above: 1}", "unknown key value; allowed: claim, source, of, against, metric, against_metric, ratio"),
    (RATIO.replace(RING, "{scenario: ring}"), None),
    (
        "of: {scenario: loop}, against: {scenario: ring}, metric: wall_ms, ratio: {above: 1}",
        "2 cases of ring stand against",
    ),
    (RATIO.replace(RING, "{scenario: ring, streams: 3}"), "no case of ring has this streams, got 3; allowed: 2"),
    (RATIO.replace(RING, "{scenario: ring, chunk: 4MiB}"), "no case of ring has this chunk, got 4MiB; allowed: 1MiB, 2MiB"),
    (RATIO.replace("loop}", "loop, chunk: 1MiB}").replace("1}, ", "1, chunk: 2MiB}, "), None),
    (
        f"of: {PINNED}, metric: event_ms, over: sise, exponent: {{above: 1}}",
        "copy has no such axis, got sise; allowed: size, buffer",
    ),
    (
        "of: {scenario: copy}, metric: event_ms, over: buffer, exponent: {above: 1}",
        "an axis of numbers or sizes is expected",
    ),
    (f"of: {RING}, metric: wall_ms, over: chunk, exponent: {{above: 1}}", "fewer than 3 values of chunk"),
    (f"of: {PINNED}, metric: event_ms, over: size, holds: {{above: 1}}, threshold: {{above: 1MB}}", None),
    (f"of: {PINNED}, metric: event_ms, over: size, holds: {{above: 1}}, threshold: {{above: 1Mb}}", "unknown unit 'Mb'"),
    (
        f"of: {PINNED}, against: {PINNED}, metric: event_ms, against_metric: gb_per_s, ratio: {{above: 1}}",
        "event_ms is in ms, gb_per_s in 10^9 bytes/s: they have no ratio",
    ),
    ("order: [{scenario: loop}], metric: wall_ms", "too few: at least 2"),
    (f"of: {PINNED}, cell: flags, says: noisy", "allowed: status, reason, memory_actual"),
]


@pytest.mark.parametrize(("clause", "sentence"), REFUSED, ids=[clause[:60] for clause, _ in REFUSED])
def test_what_the_grid_can_tell_is_refused_when_the_file_is_read(tmp_path: Path, clause: str, sentence: str | None) -> None:
    path = tmp_path / "judged.yaml"
    path.write_text(HEAD + f"  - {{claim: c, {clause}}}\n")
    if sentence is None:
        assert load_experiment(path).experiment.expect
        return
    with pytest.raises(SpecError) as caught:
        load_experiment(path)
    assert sentence in str(caught.value)
    assert all(problem.line == len(HEAD.splitlines()) + 1 for problem in caught.value.problems)


def test_a_selection_whose_cases_are_all_excluded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "judged.yaml"
    excluded = HEAD.replace("chunk: [1MiB, 2MiB]}\n", "chunk: [1MiB, 2MiB], exclude: [{because: b, where: {chunk: 2MiB}}]}\n")
    path.write_text(excluded + "  - {claim: c, of: {scenario: loop, chunk: 2MiB}, metric: wall_ms, value: {above: 1}}\n")
    with pytest.raises(SpecError, match="no case of loop matches"):
        load_experiment(path)


def test_a_trend_over_an_axis_that_moves_with_another_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "judged.yaml"
    zipped = HEAD.replace("buffer: [pinned, pageable]}", "chunk: [1MiB, 2MiB, 4MiB, 8MiB], zip: [[size, chunk]]}")
    path.write_text(zipped + "  - {claim: c, of: {scenario: copy}, metric: event_ms, over: size, exponent: {above: 1}}\n")
    with pytest.raises(SpecError, match="size moves together with chunk"):
        load_experiment(path)


def test_a_row_holds_all_of_a_verdict(tmp_path: Path) -> None:
    verdict = judged(tmp_path, RATIO, walls([10], [20], [5], [99], [15], [99]))
    (row,) = verdict_rows(RunInfo("r_x", "judged", "test", "cuda"), [verdict])
    assert {name: row[name] for name in ("claim", "source", "form", "verdict", "figure", "unit", "run_id", "device_kind")} == {
        "claim": "c",
        "source": "as it is written",
        "form": "ratio",
        "verdict": "confirmed",
        "figure": 0.75,
        "unit": "",
        "run_id": "r_x",
        "device_kind": "cuda",
    }


def test_units_of_axes_and_figures_that_a_row_lacks() -> None:
    assert (unit_of_axis("chunk"), unit_of_axis("streams"), unit_of_axis("compute.passes")) == ("bytes", "streams", "passes")
    assert figure_of({}, "wall_ms", "wall") is None
    assert figure_of({"overlap_efficiency": 0.5}, "overlap_efficiency", "wall") == Figure(0.5)
