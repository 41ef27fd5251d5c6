"""The cases of a run, asked for by what they do and not by their names, and their figures as witnesses of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from runner.calibration.parameters import Parameter, Path
from runner.calibration.simulator import Witness
from runner.errors import CaseError
from runner.memory import kind_of
from runner.observed import Observation
from runner.scenarios.base import Scenario
from runner.scenarios.transfer import Transfer

Model = TypeVar("Model", bound=Scenario)
Found = tuple[Parameter, Witness]

HALF: Final = 0.5
"""Share of the earlier work from which on a call that was held for it counts as having waited, and of a time in which kernels
work from which on they, not calls, take it."""
DISTURBED: Final = 0.25
"""Samples that spread more than this share of their median were disturbed, so that their 5th percentile stands for them: much can
make a play longer, nothing shorter."""


@dataclass(frozen=True, slots=True)
class Cases:
    """The observations of a run."""

    observations: Sequence[Observation]

    @classmethod
    def that_can_be_played(cls, observations: Sequence[Observation]) -> Cases:
        """Return those whose plan is known from their fields alone: work as a ratio of copies has to be measured first."""
        return cls([each for each in observations if _has_plan(each.case.model)])

    def of(self, model: type[Model], *holds: Callable[[Model], bool]) -> Iterator[tuple[Model, Observation]]:
        """Yield the observations of a kind of which all of this holds."""
        for observation in self.observations:
            if isinstance(observation.case.model, model) and all(each(observation.case.model) for each in holds):
                yield observation.case.model, observation

    def single(self) -> Iterator[tuple[Transfer, Observation]]:
        """Yield transfers of one copy by an engine, each timed by itself."""
        yield from self.of(Transfer, lambda it: is_plain(it) and it.copies() == 1 and it.batch_n() == 1)


def _has_plan(model: Scenario) -> bool:
    try:
        model.plan()
    except CaseError:
        return False
    return True


def witness(model: Scenario, observation: Observation, figure: str) -> Witness:
    """Return a measured figure as a witness."""
    spread = observation.spreads.get(figure, 0.0)
    measured = observation.figures[figure]
    return Witness(model, figure, observation.lows.get(figure, measured) if spread > DISTURBED else measured, spread)


def pair(path: Path, at: int | None, model: Scenario, observation: Observation, figure: str) -> Iterator[Found]:
    """Yield a parameter and its witness where the figure was measured."""
    if figure in observation.figures:
        yield Parameter(path, at), witness(model, observation, figure)


def reached(buffer: str) -> bool:
    """Whether a copy engine reaches memory of a kind."""
    return kind_of(buffer).asynchronous


def is_plain(model: Transfer) -> bool:
    """Whether a transfer is of async copies in one direction by an engine, with nothing beside them."""
    return (
        model.mover == "engine"
        and model.moves_by() is None
        and model.direction != "bidirectional"
        and model.call == "async"
        and model.submit == "calls"
        and model.opposite is None
        and not model.gated
        and model.pages == "normal"
    )
