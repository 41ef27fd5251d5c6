from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.expand import Case, expand
from runner.measure.result import CaseResult, Sample
from runner.spec.load import load_experiment
from runner.verdicts import Verdict, judge

FILE = """
name: judged
question: Is the ring faster?
baseline: loop
scenarios:
  loop: {{kind: pipeline, schedule: serialized, buffer: pageable, total: 8MiB, chunk: [1MiB, 2MiB]}}
  ring: {{kind: pipeline, schedule: overlapped, total: 8MiB, chunk: [1MiB, 2MiB], streams: 2, compute: {{passes: [1, 2]}}}}
expect:
  - claim: the ring is faster
    of: {of}
    against: {{scenario: loop}}
    metric: {metric}
    ratio: {ratio}
"""


def judged(
    tmp_path: Path,
    walls: Sequence[Sequence[float]],
    ratio: str = "{at_most: 0.8}",
    of: str = "{scenario: ring, compute.passes: 1}",
    metric: str = "wall_ms",
    status: str = "ok",
) -> Verdict:
    """Judge loop 1 MiB, loop 2 MiB, then ring 1 MiB with 1 and 2 passes and ring 2 MiB likewise, with these samples each."""
    path = tmp_path / "judged.yaml"
    path.write_text(FILE.format(ratio=ratio, of=of, metric=metric))
    loaded = load_experiment(path)
    results = [_result(case, values, status) for case, values in zip(expand(loaded), walls, strict=True)]
    (verdict,) = judge(loaded.experiment, results)
    return verdict


def _result(case: Case, walls: Sequence[float], status: str) -> CaseResult:
    samples = tuple(Sample("sample", index, {"wall_ms": wall}) for index, wall in enumerate(walls))
    return CaseResult(case, status, "" if status == "ok" else "it broke", samples=samples)  # type: ignore[arg-type]


def test_pairs_are_joined_on_the_axes_that_both_have_and_the_worst_decides(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[10], [20], [5], [99], [15], [99]])
    assert (verdict.verdict, verdict.figure) == ("confirmed", 0.75)
    assert (verdict.low, verdict.high, verdict.limit) == (None, None, "at most 0.8")
    assert verdict.reason == "wall_ms 15 against 20"
    verdict = judged(tmp_path, [[10], [20], [5], [99], [17], [99]])
    assert (verdict.verdict, verdict.figure) == ("refuted", 0.85)


def test_an_interval_that_straddles_the_limit_is_undecided(tmp_path: Path) -> None:
    steady, wide = [10.0] * 8, [7.0, 7.5, 7.9, 7.9, 7.9, 8.2, 8.4, 8.5]
    verdict = judged(tmp_path, [steady, steady, wide, wide, wide, wide])
    assert verdict.verdict == "undecided"
    assert verdict.figure == pytest.approx(0.79)
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low < 0.8 < verdict.high
    assert verdict.reason.endswith("the interval straddles the limit")


def test_a_case_without_numbers_leaves_the_claim_undecided_with_its_reason(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [[1]] * 6, status="failed")
    assert verdict.verdict == "undecided"
    assert verdict.reason.endswith("of ring is failed: it broke")


def test_a_selection_without_a_case_and_a_figure_that_was_not_measured_are_undecided(tmp_path: Path) -> None:
    none = judged(tmp_path, [[1]] * 6, of="{scenario: ring, streams: 3}")
    assert (none.verdict, none.reason) == ("undecided", "no two cases match the selections")
    unmeasured = judged(tmp_path, [[1]] * 6, metric="event_ms")
    assert (unmeasured.verdict, unmeasured.reason) == ("undecided", "event_ms was not measured, or is zero, in one of the two")
    zero = judged(tmp_path, [[0]] * 6)
    assert zero.verdict == "undecided"
