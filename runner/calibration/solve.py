"""Fitting: the parameters of a step are changed until the simulated device says what was measured of their witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from runner.calibration.parameters import Node, Parameter, with_values
from runner.device.simulated import SimulatedDevice
from runner.device.simulated.profile import Profile
from runner.device.simulated.profile_files import as_profile
from runner.measure.engine import recorded_figures
from runner.plan import Plan
from runner.scenarios.base import Scenario

STEP_SHARE: Final = 0.02
"""How far a parameter is moved to see what follows, as a share of it."""
LEAST_STEP: Final = 200.0
LEAST_RATE_STEP: Final = 0.05
"""The least of such moves: in ns or millionths for whole numbers, in GB/s for rates."""
BLIND: Final = 1e-7
"""A witness whose time changes less than this share as its parameter moves says nothing of it."""
MOST_ROUNDS: Final = 25
MOST_TRIALS: Final = 20
NOISE: Final = 0.05
"""Errors that are larger than this share count less than by their square, so that one disturbed case does not bend the others."""
CLOSE: Final = 1e-6
"""Witnesses that are this near to what was measured fit."""
NEAR: Final = 1e-5
"""Parameters with many witnesses are found once a step changes them, or the squared errors, by less than this share."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A figure of a case: what was measured, in the figure's own unit."""

    model: Scenario
    figure: str
    measured: float


@dataclass(frozen=True, slots=True)
class Step:
    """Parameters that are fitted together.

    `alone`: parameter i has witness i and no other says anything of it. Otherwise all witnesses are weighed alike, by their
    errors as shares of what was measured. A fit begins with `start`, or with the profile's own values.
    """

    name: str
    parameters: tuple[Parameter, ...]
    witnesses: tuple[Witness, ...]
    alone: bool
    how: str = "measured"
    start: tuple[float, ...] = ()


@dataclass(slots=True)
class Simulator:
    """Plays cases on profiles; Plans are written once."""

    _plans: dict[Scenario, Plan] = field(default_factory=dict)

    def figures(self, profile: Profile, model: Scenario) -> dict[str, float]:
        """Return the figures of one play, the engines' own among them."""
        plan = self._plans.get(model)
        if plan is None:
            plan = self._plans[model] = model.plan()
        with closing(SimulatedDevice(profile).open(plan)) as session:
            trace = session.play(0)
        figures = model.figures(plan, trace)
        return figures | recorded_figures(model, plan, trace, figures)[1]

    def shares(self, data: Node, witnesses: Sequence[Witness]) -> list[float]:
        """Return simulated over measured, less 1, of each witness; cases that several share are played once."""
        profile = as_profile(data, "calibrate")
        found: dict[Scenario, dict[str, float]] = {}
        for witness in witnesses:
            if witness.model not in found:
                found[witness.model] = self.figures(profile, witness.model)
        return [found[each.model].get(each.figure, 0.0) / each.measured - 1 for each in witnesses]


def solve(data: Node, step: Step, simulator: Simulator) -> tuple[Node, tuple[Parameter, ...]]:
    """Return a profile's data with the step's parameters fitted, and which of them its witnesses could tell.

    The others keep their values; a point of a curve that no witness tells is left out of it, since its neighbours say more.
    """
    problem = _Problem(data, step.parameters, step.witnesses, step.alone, simulator)
    start = step.start or tuple(parameter.value(data) for parameter in step.parameters)
    seen = problem.seen(start)
    problem, start = problem.narrowed(seen), tuple(value for value, sees in zip(start, seen, strict=True) if sees)
    if not start:
        return data, ()
    found = _one_by_one(problem, start) if step.alone else _all_at_once(problem, start)
    return with_values(data, problem.parameters, found), tuple(problem.parameters)


def _one_by_one(problem: _Problem, start: Sequence[float]) -> list[float]:
    """Follow each parameter's slope until its witness fits: Newton's method, for times that are nearly straight lines.

    No step makes a value more than four times smaller: a rate stands in a denominator, and the tangent may lead below nothing.
    """
    values = list(start)
    for _ in range(MOST_ROUNDS):
        errors, slopes = problem.residuals(values), problem.slopes(values)
        if max(map(abs, errors)) < CLOSE:
            break
        moved = [value - error / slope if slope else value for value, error, slope in zip(values, errors, slopes, strict=True)]
        values = [max(new, old / 4 if new < old else 0.0) for new, old in zip(moved, values, strict=True)]
    return values


def _all_at_once(problem: _Problem, start: Sequence[float]) -> list[float]:
    """Let scipy find the values with the least sum of squared errors."""
    from scipy.optimize import least_squares

    found = least_squares(
        problem.residuals,
        start,
        jac=problem.jacobian,
        bounds=(0.0, float("inf")),
        x_scale=[max(abs(value), _least(each)) for value, each in zip(start, problem.parameters, strict=True)],
        loss="soft_l1",
        f_scale=NOISE,
        xtol=NEAR,
        ftol=NEAR,
        gtol=None,
        max_nfev=MOST_TRIALS,
    )
    return [float(value) for value in found.x]


@dataclass(slots=True)
class _Problem:
    data: Node
    parameters: Sequence[Parameter]
    witnesses: Sequence[Witness]
    alone: bool
    simulator: Simulator
    _last: tuple[tuple[float, ...], list[float]] | None = None

    def narrowed(self, seen: Sequence[bool]) -> _Problem:
        """Return the problem of those parameters alone that witnesses tell."""
        parameters = [each for each, sees in zip(self.parameters, seen, strict=True) if sees]
        witnesses = [each for each, sees in zip(self.witnesses, seen, strict=True) if sees] if self.alone else self.witnesses
        return _Problem(self.data, parameters, witnesses, self.alone, self.simulator)

    def residuals(self, values: Sequence[float]) -> list[float]:
        """Return the errors of all witnesses; the last ones are kept, since slopes begin where errors were asked for."""
        key = tuple(map(float, values))
        if self._last is None or self._last[0] != key:
            self._last = key, self.simulator.shares(with_values(self.data, self.parameters, key), self.witnesses)
        return self._last[1]

    def slopes(self, values: Sequence[float]) -> list[float]:
        """Return how each witness follows its own parameter, all moved at once."""
        moves = self._moves(values)
        here = self.residuals(values)
        moved = self.residuals([value + move for value, move in zip(values, moves, strict=True)])
        return [(there - before) / move for there, before, move in zip(moved, here, moves, strict=True)]

    def jacobian(self, values: Sequence[float]) -> list[list[float]]:
        """Return how the residuals follow the values, by finite moves that are larger than the whole ns of simulated time."""
        here, moves = self.residuals(values), self._moves(values)
        rows: list[list[float]] = [[] for _ in here]
        for place, move in enumerate(moves):
            moved = self.residuals([value + (move if index == place else 0.0) for index, value in enumerate(values)])
            for row, there, before in zip(rows, moved, here, strict=True):
                row.append((there - before) / move)
        return rows

    def seen(self, values: Sequence[float]) -> list[bool]:
        """Return of each parameter whether any witness follows it."""
        slopes = (
            self.slopes(values) if self.alone else [max(map(abs, column)) for column in zip(*self.jacobian(values), strict=True)]
        )
        return [abs(slope * move) > BLIND for slope, move in zip(slopes, self._moves(values), strict=True)]

    def _moves(self, values: Sequence[float]) -> list[float]:
        return [max(STEP_SHARE * abs(value), _least(each)) for value, each in zip(values, self.parameters, strict=True)]


def _least(parameter: Parameter) -> float:
    """Return the least move of a parameter; rates in GB/s are small numbers that change much with little."""
    return LEAST_RATE_STEP if parameter.path[-1].endswith("gb_per_s") else LEAST_STEP
