"""The sentences with which a run answers what is fastest: the best case, how far it is from its bound, and what is simpler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from runner.figures import Figure, figure_of, unit_of_time
from runner.findings import Measured, quotient
from runner.measure.result import CaseResult
from runner.rows import RunInfo, summary_rows
from runner.spec.answers import Fastest
from runner.spec.experiment import Experiment
from runner.units import counted, digits

_BOUND: Final = "bound_full_ms"
_DOUBTFUL: Final = "implausible"
NO_FASTER: Final = 0.02
"""By how much less time a case must take to be called faster than a simpler one: runs of one file differ by as much."""


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
        low, high = self.figure.low, self.figure.high
        interval = "" if low is None or high is None else f" ({digits(low)} … {digits(high)})"
        return f"{digits(self.figure.value)} {unit}{interval}"

    def clock(self, metric: str) -> str:
        """Name the time where it is not the one that the rates of this case are by."""
        return "" if metric == f"{self.case.result.case.model.CLOCK}_ms" else f" of {metric}"

    def once_ms(self) -> float:
        """Return what is done once before the timing, in ms."""
        model = self.case.result.case.model
        found = [figure_of(self.case.row, name, model.CLOCK) for name in model.paid_once()]
        return sum(figure.value for figure in found if figure is not None)


def _sentence(asked: Fastest, cases: Sequence[Measured], run: RunInfo) -> str:
    """Say which case is fastest, how far it is from its bound, and what the fastest of the simpler scenarios costs instead.

    Of several that are within NO_FASTER of each other the simplest is named. Times that are flagged as implausible do not count.
    """
    unit = unit_of_time(asked.metric)
    rungs = {scenario: _best(cases, scenario, asked.metric, run) for scenario in asked.among}
    found = [rung for rung in rungs.values() if rung is not None]
    missing = [scenario for scenario, rung in rungs.items() if rung is None]
    lost = f"; no case of {', '.join(missing)} gave a time to believe" if missing else ""
    if not found:
        return f"For {asked.job} nothing can be said of {run.device}{lost}."
    least = min(found, key=lambda rung: rung.figure.value)
    best = next(rung for rung in found if rung.figure.value <= least.figure.value * (1 + NO_FASTER))
    simpler = found[: found.index(best)]
    next_simpler = min(simpler, key=lambda rung: rung.figure.value, default=None)
    head = (
        f"For {asked.job} the fastest on {run.device} is {best.case.label()}: {best.told(unit)}{best.clock(asked.metric)}"
        f"{_from_bound(best, asked.metric)}{_no_slower(best, least, unit)}"
    )
    if next_simpler is None:
        end = "nothing simpler was measured" if len(found) == 1 else "it is the simplest, too"
        return f"{head}{_paid_once(best, None, unit)}; {end}{lost}."
    return f"{head}; {_cost(next_simpler, best, unit)}{_paid_once(best, next_simpler, unit)}{lost}."


def _best(cases: Sequence[Measured], scenario: str, metric: str, run: RunInfo) -> _Rung | None:
    """Return the case of a scenario with the lowest figure to believe; None where none has one."""
    rungs = []
    for case in cases:
        own = case.result.case
        if own.scenario == scenario and case.result.status == "ok" and _DOUBTFUL not in case.result.flags:
            figure = figure_of(case.row, metric, run.clock or own.model.CLOCK)
            # No profile says what more threads than processors cost; on a real device that was measured.
            guessed = case.result.deterministic and "oversubscribed" in case.result.flags
            if figure is not None and not guessed:
                rungs.append(_Rung(case, figure))
    return min(rungs, key=lambda rung: rung.figure.value, default=None)


def _from_bound(best: _Rung, metric: str) -> str:
    """Say how far wall time is from the least that its parts allow; empty where that is not known, or for another time."""
    bound = figure_of(best.case.row, _BOUND, best.case.result.case.model.CLOCK)
    if bound is None or metric != "wall_ms" or not bound.value:
        return ""
    locking = " and page-locking" if best.case.row.get("median_register_ms") is not None else ""
    return f", {_times(best.figure.value / bound.value)} the {digits(bound.value)} ms of its slowest part{locking} alone"


def _no_slower(best: _Rung, least: _Rung, unit: str) -> str:
    """Say which less simple case was measured as a little faster, if one was."""
    if least is best:
        return ""
    return f"; {least.case.label()}, {least.told(unit)}, is no faster by the {NO_FASTER:.0%} that count here"


def _cost(simpler: _Rung, best: _Rung, unit: str) -> str:
    """Say how much longer the simpler one takes, and where its interval does not tell the two apart."""
    passes = {rung.case.row.get("compute_passes") for rung in (simpler, best)}
    told = f"the next simpler, {simpler.case.label()}, takes {simpler.told(unit)}"
    if len(passes) > 1:
        mine, theirs = (rung.case.row.get("compute_passes") for rung in (best, simpler))
        told += f" with {theirs} passes a chunk, not {mine}, for its own copies' ratio"
    ratio = quotient(simpler.figure, best.figure)
    if ratio is None:
        return told
    if ratio.low is not None and ratio.low <= 1:
        return f"{told}, which is not surely longer"
    return f"{told}, {_times(ratio.value)} as long"


def _paid_once(best: _Rung, simpler: _Rung | None, unit: str) -> str:
    """Say what was done once before the timing, and after how many repetitions that has paid; empty where nothing was."""
    cost_ms = best.once_ms()
    if not cost_ms:
        return ""
    told = f"; what it needs once before, making its graph, takes {digits(cost_ms, 3)} ms"
    if simpler is None or unit != "ms":
        return told
    beyond = max(0.0, cost_ms - simpler.once_ms())
    return f"{told} and has paid after {counted(ceil(beyond / (simpler.figure.value - best.figure.value)), 'repetition')}"


def _times(ratio: float) -> str:
    """Say a ratio, such as `1.5 times`; one that three digits cannot tell from 1 in words."""
    return "just" if digits(ratio, 3) == "1" else f"{digits(ratio, 3)} times"
