"""The sentences with which a run answers what is fastest: the best case, how far it is from its bound, and what is simpler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.figures import Figure, figure_of, unit_of_time
from runner.findings import Measured, quotient
from runner.measure.result import CaseResult
from runner.rows import RunInfo, summary_rows
from runner.spec.answers import Fastest
from runner.spec.experiment import Experiment

_BOUND = "bound_full_ms"


def answers(experiment: Experiment, results: Sequence[CaseResult], run: RunInfo) -> list[str]:
    """Return one sentence for each job that the file asks about."""
    if not experiment.fastest:
        return []
    cases = [Measured(result, row) for result, row in zip(results, summary_rows(run, results), strict=True)]
    return [_sentence(asked, cases, run) for asked in experiment.fastest]


@dataclass(frozen=True, slots=True)
class _Rung:
    """The best case of one scenario."""

    case: Measured
    figure: Figure

    def told(self, unit: str) -> str:
        """Say the figure and, where there is one, its interval."""
        interval = "" if self.figure.low is None else f" ({self.figure.low:.4g} … {self.figure.high:.4g})"
        return f"{self.figure.value:.4g} {unit}{interval}"


def _sentence(asked: Fastest, cases: Sequence[Measured], run: RunInfo) -> str:
    """Say which case is fastest, how far it is from its bound, and what the fastest of the simpler scenarios costs instead."""
    unit = unit_of_time(asked.metric)
    rungs = [_best(cases, scenario, asked.metric, run) for scenario in asked.among]
    found = [rung for rung in rungs if rung is not None]
    missing = [scenario for scenario, rung in zip(asked.among, rungs, strict=True) if rung is None]
    lost = f"; no case of {', '.join(missing)} could be measured" if missing else ""
    if not found:
        return f"For {asked.job} nothing can be said of {run.device}{lost}."
    best = min(found, key=lambda rung: rung.figure.value)
    simpler = found[: found.index(best)]
    head = (
        f"For {asked.job} the fastest on {run.device} is {best.case.label()}: {best.told(unit)}{_from_bound(best, asked.metric)}"
    )
    if not simpler:
        return f"{head}; nothing simpler was measured{lost}." if len(found) == 1 else f"{head}; it is the simplest, too{lost}."
    return f"{head}; {_cost(min(simpler, key=lambda rung: rung.figure.value), best, unit)}{lost}."


def _best(cases: Sequence[Measured], scenario: str, metric: str, run: RunInfo) -> _Rung | None:
    """Return the case of a scenario with the lowest figure; None where none has one."""
    rungs = []
    for case in cases:
        own = case.result.case
        if own.scenario == scenario and case.result.status == "ok":
            figure = figure_of(case.row, metric, run.clock or own.model.CLOCK)
            if figure is not None:
                rungs.append(_Rung(case, figure))
    return min(rungs, key=lambda rung: rung.figure.value, default=None)


def _from_bound(best: _Rung, metric: str) -> str:
    """Say how far wall time is from the least that its parts allow; empty where that is not known, or for another time."""
    bound = figure_of(best.case.row, _BOUND, best.case.result.case.model.CLOCK)
    if bound is None or metric != "wall_ms" or not bound.value:
        return ""
    return f", {best.figure.value / bound.value:.3g} times the {bound.value:.4g} ms of its slowest part alone"


def _cost(simpler: _Rung, best: _Rung, unit: str) -> str:
    """Say how much longer the simpler one takes, and where its interval does not tell the two apart."""
    told = f"the next simpler, {simpler.case.label()}, takes {simpler.told(unit)}"
    ratio = quotient(simpler.figure, best.figure)
    if ratio is None:
        return told
    if ratio.low is not None and ratio.low <= 1:
        return f"{told}, which is not surely longer"
    return f"{told}, {ratio.value:.3g} times as long"
