"""Trying a profile: what the simulated device says with it of the cases that were measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from runner.calibration.parameters import Node
from runner.device.simulated import SimulatedDevice
from runner.device.simulated.profile import Profile
from runner.device.simulated.profile_files import as_profile
from runner.measure.engine import ENGINE_FIGURES, recorded_figures
from runner.plan import Plan
from runner.scenarios.base import Scenario


@dataclass(frozen=True, slots=True)
class Witness:
    """A figure of a case: what was measured, in the figure's own unit, and how widely its samples spread, as a share of that."""

    model: Scenario
    figure: str
    measured: float
    spread: float = 0.0


@dataclass(slots=True)
class Simulator:
    """Plays cases on profiles; Plans are written once."""

    _plans: dict[Scenario, Plan] = field(default_factory=dict)

    def figures(self, profile: Profile, model: Scenario, *, by_engines: bool) -> dict[str, float]:
        """Return the figures of one play; those of the engines cost as much again, so they are made where they are asked for."""
        plan = self._plans.get(model)
        if plan is None:
            plan = self._plans[model] = model.plan()
        with closing(SimulatedDevice(profile).open(plan)) as session:
            trace = session.play(0)
        figures = model.figures(plan, trace)
        return figures | recorded_figures(model, plan, trace, figures)[1] if by_engines else figures

    def shares(self, data: Node, witnesses: Sequence[Witness]) -> list[float]:
        """Return simulated over measured, less 1, of each witness; cases that several share are played once."""
        profile = as_profile(data, "calibrate")
        wanted: dict[Scenario, bool] = {}
        for witness in witnesses:
            wanted[witness.model] = wanted.get(witness.model, False) or witness.figure in ENGINE_FIGURES
        found = {model: self.figures(profile, model, by_engines=by_engines) for model, by_engines in wanted.items()}
        return [found[each.model].get(each.figure, 0.0) / each.measured - 1 for each in witnesses]

    def shares_of(self, data: Node, witnesses: Sequence[Witness], which: Iterable[int]) -> dict[int, float]:
        """Return the same of some witnesses, by their places; the others are not played."""
        places = list(which)
        return dict(zip(places, self.shares(data, [witnesses[place] for place in places]), strict=True))
