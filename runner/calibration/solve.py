"""Fitting: the parameters of a step are changed until the simulated device says what was measured of their witnesses.

Plays are what a fit costs. So a case is played again only where the parameter that moved changes what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from runner.calibration.parameters import Node, Parameter, with_values
from runner.calibration.simulator import Simulator, Witness

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
SETTLED: Final = 0.5
SETTLED_RATE: Final = 1e-7
"""A value that would change by less is found: in ns or millionths, of which a profile has whole ones, and in GB/s."""


@dataclass(frozen=True, slots=True)
class Step:
    """Parameters that are fitted together.

    `alone`: parameter i has witness i and no other says anything of it. Otherwise witnesses are weighed by their errors as shares
    of what was measured, those that spread more than NOISE the less. A fit begins with `start`, or with the profile's own values.
    """

    name: str
    parameters: tuple[Parameter, ...]
    witnesses: tuple[Witness, ...]
    alone: bool
    how: str = "measured"
    start: tuple[float, ...] = ()


def solve(data: Node, step: Step, simulator: Simulator) -> tuple[Node, tuple[Parameter, ...]]:
    """Return a profile's data with the step's parameters fitted, and which of them its witnesses could tell.

    The others keep their values; a point of a curve that no witness tells is left out of it, since its neighbours say more.
    """
    start = step.start or tuple(parameter.value(data) for parameter in step.parameters)
    fit = _one_by_one if step.alone else _all_at_once
    parameters, found = fit(data, step, start, simulator)
    return (with_values(data, parameters, found), tuple(parameters)) if parameters else (data, ())


def _one_by_one(
    data: Node, step: Step, start: Sequence[float], simulator: Simulator
) -> tuple[Sequence[Parameter], Sequence[float]]:
    """Follow each parameter's slope until its witness fits: Newton's method, for times that are nearly straight lines.

    No step makes a value more than four times smaller: a rate stands in a denominator, and the tangent may lead below nothing.
    """
    problem = _Problem(data, step.parameters, step.witnesses, simulator)
    slopes = problem.slopes(start, range(len(start)))
    seen = [
        place for place, (slope, move) in enumerate(zip(slopes, problem.moves(start), strict=True)) if abs(slope * move) > BLIND
    ]
    problem = _Problem(data, [step.parameters[at] for at in seen], [step.witnesses[at] for at in seen], simulator)
    values = [start[at] for at in seen]
    left = list(range(len(values)))
    for _ in range(MOST_ROUNDS):
        errors = problem.errors(values, left)
        left = [place for place in left if abs(errors[place]) >= CLOSE]
        if not left:
            break
        moving = []
        for place, slope in zip(left, problem.slopes(values, left), strict=True):
            old = values[place]
            new = old - errors[place] / slope if slope else old
            values[place] = max(new, old / 4 if new < old else 0.0)
            if abs(values[place] - old) >= _settled(problem.parameters[place]):
                moving.append(place)
        left = moving
    return problem.parameters, values


def _all_at_once(
    data: Node, step: Step, start: Sequence[float], simulator: Simulator
) -> tuple[Sequence[Parameter], Sequence[float]]:
    """Let scipy find the values with the least sum of squared errors."""
    problem = _Problem(data, step.parameters, step.witnesses, simulator)
    everyone = range(len(step.witnesses))
    here = problem.errors(start, everyone)
    followers: list[list[int]] = []
    for place in range(len(start)):
        there = problem.errors(problem.moved(start, [place]), everyone)
        followers.append([number for number in everyone if abs(there[number] - here[number]) > BLIND])
    seen = [place for place, group in enumerate(followers) if group]
    if not seen:
        return (), ()
    problem = _Problem(data, [step.parameters[at] for at in seen], step.witnesses, simulator)
    followers = [followers[at] for at in seen]
    weights = [NOISE / max(NOISE, each.spread) for each in step.witnesses]
    values = [start[at] for at in seen]
    # Squares first: from a start that is far off, a loss that bears outliers takes the cases that are left behind for some.
    for loss in ("linear", "soft_l1"):
        values = _least(problem, values, followers, weights, loss)
    return problem.parameters, values


def _least(
    problem: _Problem, start: Sequence[float], followers: Sequence[Sequence[int]], weights: Sequence[float], loss: str
) -> list[float]:
    """Return the values from `start` on with the least sum of the weighed errors, each counted as the loss says."""
    from scipy.optimize import least_squares

    everyone = range(len(weights))
    found = least_squares(
        lambda values: [problem.errors(values, everyone)[place] * weight for place, weight in enumerate(weights)],
        start,
        jac=lambda values: [
            [slope * weight for slope in row] for row, weight in zip(problem.jacobian(values, followers), weights, strict=True)
        ],
        bounds=(0.0, float("inf")),
        x_scale=[max(abs(value), _least_move(each)) for value, each in zip(start, problem.parameters, strict=True)],
        loss=loss,
        f_scale=NOISE,
        xtol=NEAR,
        ftol=NEAR,
        gtol=None,
        max_nfev=MOST_TRIALS,
    )
    return [float(value) for value in found.x]


@dataclass(slots=True)
class _Problem:
    """Parameters and their witnesses; errors are simulated over measured, less 1, by the witness's place."""

    data: Node
    parameters: Sequence[Parameter]
    witnesses: Sequence[Witness]
    simulator: Simulator
    _at: tuple[float, ...] = ()
    _known: dict[int, float] | None = None

    def errors(self, values: Sequence[float], which: Iterable[int]) -> dict[int, float]:
        """Return the errors of some witnesses; the last ones are kept, since slopes begin with them."""
        key, places = tuple(map(float, values)), list(which)
        if self._known is None or self._at != key:
            self._at, self._known = key, {}
        missing = [place for place in places if place not in self._known]
        if missing:
            self._known |= self._played(key, missing)
        return {place: self._known[place] for place in places}

    def slopes(self, values: Sequence[float], which: Sequence[int]) -> list[float]:
        """Return how each of these witnesses follows the parameter of its own place, all moved at once."""
        here, moves = self.errors(values, which), self.moves(values)
        there = self._played(self.moved(values, which), which)
        return [(there[place] - here[place]) / moves[place] for place in which]

    def jacobian(self, values: Sequence[float], followers: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return how the errors follow the values, by finite moves that are larger than the whole ns of simulated time.

        `followers` are the witnesses of each parameter; the others do not follow it, and are not played.
        """
        here, moves = self.errors(values, range(len(self.witnesses))), self.moves(values)
        rows = [[0.0] * len(moves) for _ in here]
        for column, (move, group) in enumerate(zip(moves, followers, strict=True)):
            for place, there in self._played(self.moved(values, [column]), group).items():
                rows[place][column] = (there - here[place]) / move
        return rows

    def moves(self, values: Sequence[float]) -> list[float]:
        """Return how far each value is moved to see what follows."""
        return [max(STEP_SHARE * abs(value), _least_move(each)) for value, each in zip(values, self.parameters, strict=True)]

    def moved(self, values: Sequence[float], which: Iterable[int]) -> list[float]:
        """Return the values with some of them moved."""
        places, moves = set(which), self.moves(values)
        return [value + (moves[place] if place in places else 0.0) for place, value in enumerate(values)]

    def _played(self, values: Sequence[float], which: Iterable[int]) -> dict[int, float]:
        return self.simulator.shares_of(with_values(self.data, self.parameters, values), self.witnesses, which)


def _least_move(parameter: Parameter) -> float:
    """Return the least move of a parameter; rates in GB/s are small numbers that change much with little."""
    return LEAST_RATE_STEP if _is_rate(parameter) else LEAST_STEP


def _settled(parameter: Parameter) -> float:
    return SETTLED_RATE if _is_rate(parameter) else SETTLED


def _is_rate(parameter: Parameter) -> bool:
    return parameter.path[-1].endswith("gb_per_s")
