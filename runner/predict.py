"""Predictions held against what was measured: the cases of a finished run, played again on the simulated device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runner.device.simulated import SimulatedDevice
from runner.device.simulated.profile import ALL, Accuracy, Profile, Residual
from runner.errors import InputError
from runner.execution.local import play_cases
from runner.expand import Case
from runner.measure.result import CaseResult
from runner.observed import Observation, ObservedRun
from runner.stats import median


@dataclass(frozen=True, slots=True)
class Prediction:
    """One case: its time by the clock that gives its rate, measured and predicted, in ms.

    `spread` is half the distance from the 5th to the 95th percentile of the measured samples, as a share of their median.
    `predicted_ms` is None where the simulated device has no number for the case, and `reason` says why.
    """

    case: Case
    figure: str
    measured_ms: float
    predicted_ms: float | None
    spread: float | None
    reason: str = ""

    @property
    def error(self) -> float | None:
        """Return predicted over measured, less 1."""
        return None if self.predicted_ms is None else self.predicted_ms / self.measured_ms - 1


def predict(run: ObservedRun, profile: Profile) -> tuple[Prediction, ...]:
    """Predict every case of a run that went well, in the order of the grid; a prediction knows the file and the profile alone."""
    device = SimulatedDevice(profile)
    measure = run.loaded.experiment.measure
    cases = [observation.case for observation in run.observations]
    results = {result.case.case_id: result for result in play_cases(device, device.facts(), cases, measure)}
    found = (_prediction(each, results[each.case.case_id], measure.clock) for each in run.observations)
    return tuple(each for each in found if each is not None)


def predict_some(run: ObservedRun, profile: Profile) -> tuple[Prediction, ...]:
    """Predict as `predict` does; raises InputError where no time was measured that a prediction could be held against."""
    found = predict(run, profile)
    if not found:
        raise InputError(f"{run.folder} has no case whose time was measured; allowed: a run in which a case is ok")
    return found


def accuracy_of(run: ObservedRun, predictions: Sequence[Prediction]) -> Accuracy:
    """Return how far the predictions lay from a run, for each scenario and for all cases.

    Raises InputError where no prediction has a number.
    """
    sorts: dict[str, list[float]] = {}
    for prediction in predictions:
        if prediction.error is not None:
            sorts.setdefault(prediction.case.scenario, []).append(abs(prediction.error))
    if not sorts:
        raise InputError(f"no case of {run.folder} has both a measured and a predicted time, so how near they are is not known")
    errors = {**sorts, ALL: [error for each in sorts.values() for error in each]}
    return Accuracy(
        run=run.run_id,
        date=str(run.manifest.get("started_utc", "")),
        sorts={name: _residual(each) for name, each in errors.items()},
    )


def worst_first(predictions: Iterable[Prediction]) -> list[Prediction]:
    """Return predictions by the size of their error, those without a number first."""
    return sorted(predictions, key=lambda each: -abs(each.error) if each.error is not None else -float("inf"))


def _prediction(observation: Observation, result: CaseResult, clock: str | None) -> Prediction | None:
    """Return measured and predicted time of a case, None for one whose time by its clock was not measured."""
    figure = f"{clock or observation.case.model.CLOCK}_ms"
    measured = observation.figures.get(figure)
    if not measured:
        return None
    values = [sample.figures[figure] for sample in result.samples if sample.role == "sample" and figure in sample.figures]
    predicted = median(values) if values else None
    return Prediction(observation.case, figure, measured, predicted, observation.spreads.get(figure), result.reason)


def _residual(errors: Sequence[float]) -> Residual:
    return Residual(cases=len(errors), median_percent=round(median(errors) * 100, 2), worst_percent=round(max(errors) * 100, 2))


def accuracy_lines(accuracy: Accuracy) -> list[str]:
    """Return a line a sort of cases: how many, the median error and the worst."""
    width = max(map(len, accuracy.sorts))
    return [f"{name.ljust(width)}  {each.words()}" for name, each in accuracy.sorts.items()]
