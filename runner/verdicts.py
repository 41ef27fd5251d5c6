"""Judging what a file expects of its own results: confirmed, refuted, or undecided and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from runner.expand import Case
from runner.measure.result import CaseResult
from runner.scenarios.base import Cell
from runner.spec.experiment import Expectation, Experiment
from runner.stats import Spread, spread

Word = Literal["confirmed", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim judged. `figure` is the measured ratio, `low` and `high` its interval (None: none), `limit` what was claimed."""

    claim: str
    verdict: Word
    figure: float | None
    low: float | None
    high: float | None
    limit: str
    reason: str


def judge(experiment: Experiment, results: Sequence[CaseResult]) -> list[Verdict]:
    """Judge every expectation of a file, in its order."""
    return [_judge_ratio(expectation, results) for expectation in experiment.expect]


def _judge_ratio(expectation: Expectation, results: Sequence[CaseResult]) -> Verdict:
    limit = expectation.ratio.text()

    def undecided(reason: str) -> Verdict:
        return Verdict(expectation.claim, "undecided", None, None, None, limit, reason)

    of = [result for result in results if expectation.of.selects(result.case.scenario, result.case.model)]
    against = [result for result in results if expectation.against.selects(result.case.scenario, result.case.model)]
    pairs = [(one, other) for one in of for other in against if _joined(one.case, other.case, expectation)]
    if not pairs:
        return undecided("no two cases match the selections")
    for result in (result for pair in pairs for result in pair):
        if result.status != "ok":
            return undecided(f"case {result.case.case_id} of {result.case.scenario} is {result.status}: {result.reason}")
    judged = [_judge_pair(expectation, limit, one, other) for one, other in pairs]
    for word in ("undecided", "refuted"):
        for verdict in judged:
            if verdict.verdict == word:
                return verdict
    bounds = [bound for bound in expectation.ratio.model_dump().values() if bound is not None]
    # All hold: the one that came nearest to a bound says most.
    return min(judged, key=lambda verdict: min(abs((verdict.figure or 0.0) - bound) for bound in bounds))


def _judge_pair(expectation: Expectation, limit: str, one: CaseResult, other: CaseResult) -> Verdict:
    """Judge one pair; the interval of a ratio is from the ends of its parts' intervals, which is wider than it need be."""
    above, below = _spread_of(one, expectation.metric), _spread_of(other, expectation.metric)
    if above.median is None or not below.median:
        return Verdict(
            expectation.claim,
            "undecided",
            None,
            None,
            None,
            limit,
            f"{expectation.metric} was not measured, or is zero, in one of the two",
        )
    figure = above.median / below.median
    low = high = None
    if above.ci_low is not None and below.ci_high and above.ci_high is not None and below.ci_low:
        low, high = above.ci_low / below.ci_high, above.ci_high / below.ci_low
    answers = {expectation.ratio.holds(value) for value in (low, figure, high) if value is not None}
    word: Word = "undecided" if len(answers) > 1 else "confirmed" if answers == {True} else "refuted"
    reason = f"{expectation.metric} {above.median:.6g} against {below.median:.6g}"
    return Verdict(
        expectation.claim,
        word,
        figure,
        low,
        high,
        limit,
        reason + ("; the interval straddles the limit" if len(answers) > 1 else ""),
    )


def _spread_of(result: CaseResult, metric: str) -> Spread:
    values = [sample.figures[metric] for sample in result.samples if sample.role == "sample" and metric in sample.figures]
    return spread(values, deterministic=result.deterministic)


def _joined(one: Case, other: Case, expectation: Expectation) -> bool:
    """Whether two cases agree on every axis that both have and neither selection fixes."""
    fixed = set(expectation.of.fields()) | set(expectation.against.fields())
    shared: Mapping[str, Cell] = {name: value for name, value in one.axes.items() if name in other.axes and name not in fixed}
    return all(other.axes[name] == value for name, value in shared.items())
