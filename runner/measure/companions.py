"""Measuring what a case is held against, its serialized twin and its legs, once for each distinct one of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final

from runner.device.contract import Device
from runner.errors import CaseError
from runner.expand import Case
from runner.measure.engine import EventConstant, figures_of, measure_event_constant
from runner.measure.result import Sample
from runner.measure.spent import Spent
from runner.plan_check import check_plan
from runner.scenarios.base import Known, Scenario
from runner.spec.experiment import Measure
from runner.stats import median

MOST_SAMPLES: Final = 5
"""Samples of a companion: its median enters bounds and shares, which need no narrow interval."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case ready to be measured: its model with every number resolved, what is known, and the samples taken on the way.

    `event_constant` is what a pair of events adds on the device; a case without it is not recorded. `seconds` are what all this
    has cost, by what they went to.
    """

    case: Case
    known: Known
    samples: tuple[Sample, ...]
    event_constant: EventConstant | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class CompanionBook:
    """The companions measured so far on one device; `medians` in ms by the JSON of their models, None for a refused one.

    `learnt` are those that nobody has taken note of yet: whoever does puts an empty one in its place. A `bare` book measures no
    companion without which a case can be resolved, and lets no case be recorded: for who wants times alone, and soon.
    """

    device: Device
    host_bytes: int
    measure: Measure
    medians: dict[str, float | None] = field(default_factory=dict)
    learnt: dict[str, float | None] = field(default_factory=dict)
    bare: bool = False
    _event_constants: list[EventConstant | None] = field(default_factory=list)

    def prepare(self, case: Case) -> Prepared:
        """Measure the companions of a case that are not known yet, and resolve it by them.

        A companion that the device refuses stays unknown; what follows from it is then missing. Raises CaseFailed where the case
        itself cannot be resolved without.
        """
        spent = Spent()
        if self.bare:
            return self._bare(case, spent)
        known, samples = self._known(case.model.companions(), spent)
        model = case.model.resolved(known)
        if model is not case.model:
            known, more = self._known(model.companions(), spent)
            samples += more
        if not self._event_constants:
            with spent.on("companions"):
                self._event_constants.append(measure_event_constant(self.device))
        return Prepared(replace(case, model=model), known, tuple(samples), self._event_constants[0], spent.seconds)

    def _bare(self, case: Case, spent: Spent) -> Prepared:
        """Resolve a case with nothing measured beside it, or where that cannot be, with as little as it takes."""
        known, samples = Known(self.host_bytes), list[Sample]()
        try:
            model = case.model.resolved(known)
        except CaseError:
            known, samples = self._known(case.model.companions(), spent)
            model = case.model.resolved(known)
        return Prepared(replace(case, model=model), known, tuple(samples), seconds=spent.seconds)

    def _known(self, companions: Mapping[str, Scenario], spent: Spent) -> tuple[Known, list[Sample]]:
        samples: list[Sample] = []
        keys = _keys_of(companions)
        for (name, key), model in zip(keys.items(), companions.values(), strict=True):
            if key not in self.medians:
                taken = self._play(name, model, spent)
                self.medians[key] = self.learnt[key] = (
                    median([sample.figures.get(model.own_time(), math.nan) for sample in taken]) if taken else None
                )
                samples += taken
        return _known_by(keys, self.medians, self.host_bytes), samples

    def _play(self, name: str, model: Scenario, spent: Spent) -> list[Sample]:
        """Play a companion some times, first to warm up; nothing where the device refuses it or its data are wrong."""
        count = 1 if self.device.deterministic else companion_plays(self.measure)
        taken: list[Sample] = []
        with spent.on("plans"):
            plan = model.plan()
            check_plan(plan)
        try:
            with spent.on("opening"):
                session = self.device.open(plan)
            with closing(session):
                for play in range(count):
                    begun = perf_counter()
                    trace = session.play(play)
                    spent.play("companion", trace, perf_counter() - begun)
                    with spent.on("verification"):
                        wrong = session.verify()
                    if wrong:
                        return []
                    taken.append(Sample(name, play, model.figures(plan, trace)))
        except CaseError:
            return []
        return taken[1:] or taken


def companion_plays(measure: Measure) -> int:
    """Return how often a companion is played on a device whose plays differ: once to warm up, then its samples."""
    return 1 + min(measure.samples, MOST_SAMPLES)


def known_of(companions: Mapping[str, Scenario], medians: Mapping[str, float | None], host_bytes: int) -> Known:
    """Return what is known of a case by the medians of its companions, in ms by the JSON of their models."""
    return _known_by(_keys_of(companions), medians, host_bytes)


def _keys_of(companions: Mapping[str, Scenario]) -> dict[str, str]:
    return {name: model.model_dump_json() for name, model in companions.items()}


def _known_by(keys: Mapping[str, str], medians: Mapping[str, float | None], host_bytes: int) -> Known:
    times = {name: medians.get(key) for name, key in keys.items()}
    return Known(host_bytes, {name: time for name, time in times.items() if time is not None})


def derive(prepared: Prepared, samples: Sequence[Sample], clock: str) -> dict[str, float]:
    """Return the figures of the summary that follow from a case's samples and what it is held against."""
    names = {name for sample in samples if sample.role == "sample" for name in sample.figures if name.endswith("_ms")}
    medians = {name: median(figures_of(samples, name)) for name in names}
    own = medians.get(f"{clock}_ms")
    return {} if own is None else prepared.case.model.derived(prepared.known, own, medians)
