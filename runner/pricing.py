"""What a file would cost before it runs: cases, bytes, memory, and the likely time, all without opening a real device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from runner.device.contract import Device
from runner.device.select import open_twin
from runner.device.simulated.profile_files import newest_calibrated
from runner.errors import CaseError
from runner.expand import Case, expand
from runner.measure.companions import CompanionBook, companion_plays
from runner.measure.engine import ENGINE_PLAYS
from runner.measure.preflight import Limits, available_host_bytes
from runner.plan import Demand, Fill, Plan
from runner.plan_check import check_plan
from runner.scenarios.base import Known, Scenario
from runner.spec.experiment import Measure
from runner.spec.load import LoadedExperiment

PRICED_CASES: Final = 60
"""Cases that are really played on the simulated device; the others are taken to cost the mean of these."""
PRICED_OPERATIONS: Final = 30_000
"""Operations after which no further case is played, so that the price of large pipelines does not take seconds itself."""
SHOWN_CASES: Final = 12
FILLED_BYTES_PER_SECOND: Final = 20e9
"""Rate at which patterns are written and compared outside the timed region, as beside an H200 (16 processors)."""
CASE_S: Final = 0.1
"""What a case costs beside its plays and its data: allocating, binding, reading recorded plays, judging; as beside an H200."""
START_S: Final = 2.0
"""What a run on a real device costs before its first case."""


@dataclass(frozen=True, slots=True)
class ScenarioPrice:
    """One scenario of a file: how many cases, how many of them excluded and why, and in words what its first case does."""

    name: str
    cases: int
    excluded: dict[str, int]
    description: str


@dataclass(frozen=True, slots=True)
class Price:
    """What a file would cost. `seconds` is an estimate by `profile` from `priced` cases; `demand` is the largest of those.

    `skipped` counts those of them that would be skipped for their memory, by the reason.
    """

    scenarios: tuple[ScenarioPrice, ...]
    total: int
    excluded: int
    plays: int
    payload_bytes: int
    demand: Demand
    seconds: float
    priced: int
    profile: str
    skipped: Mapping[str, int]
    shown: tuple[Case, ...]


@dataclass(slots=True)
class _Tally:
    cases: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    description: str = ""


def price(loaded: LoadedExperiment, *, device: str | None, max_cases: int, most_pinned: int | None = None) -> Price:
    """Go through the grid once, keeping only counts and a spread of cases, and play that spread on a simulated device.

    A file for a real device is priced as `stand_in` says; the estimate is no promise. `most_pinned` is as in
    `runner.measure.preflight`.
    """
    measure = loaded.experiment.measure
    tallies: dict[str, _Tally] = {}
    payload, runnable = 0, 0
    shown: list[Case] = []
    spread = _Spread()
    for case in expand(loaded, max_cases):
        tally = tallies.get(case.scenario)
        if tally is None:
            tally = tallies[case.scenario] = _Tally()
        tally.cases += 1
        tally.description = tally.description or case.model.describe()
        if len(shown) < SHOWN_CASES:
            shown.append(case)
        if case.excluded:
            tally.excluded[case.excluded] += 1
            continue
        runnable += 1
        payload += case.model.payload_bytes()
        spread.add(case)
    seen = _glance(spread, runnable, measure, device or loaded.experiment.device, most_pinned)
    plays = measure.warmup + measure.most_samples()
    return Price(
        scenarios=tuple(ScenarioPrice(name, t.cases, dict(t.excluded), t.description) for name, t in tallies.items()),
        total=sum(tally.cases for tally in tallies.values()),
        excluded=sum(tally.excluded.total() for tally in tallies.values()),
        plays=plays * runnable,
        payload_bytes=payload * plays,
        demand=seen.demand,
        seconds=seen.seconds,
        priced=seen.priced,
        profile=seen.profile,
        skipped=seen.skipped,
        shown=tuple(shown),
    )


@dataclass(frozen=True, slots=True)
class Glance:
    """What `priced` cases of a grid tell of all of it by `profile`: the seconds of all, and the most memory of those.

    `skipped` counts those that a run would skip, by the reason; they take no time.
    """

    seconds: float
    demand: Demand
    priced: int
    profile: str
    skipped: Mapping[str, int]


def glance(cases: Sequence[Case], measure: Measure, device: str) -> Glance:
    """Play a spread of these cases, none of them excluded, on the simulated device that stands for `device`."""
    spread = _Spread()
    for case in cases:
        spread.add(case)
    return _glance(spread, len(cases), measure, device)


def stand_in(device: str) -> str:
    """Return the name of the simulated device that a real one is priced by: the newest calibrated here, if there is one."""
    if device.startswith("simulated"):
        return device
    calibrated = newest_calibrated()
    return f"simulated:{calibrated}" if calibrated else device


def largest(demands: Iterable[Demand]) -> Demand:
    """Return the most of each sort of memory; zeros where there is nothing."""
    sorts = ("pageable_bytes", "pinned_bytes", "device_bytes")
    found = list(demands)
    return Demand(*(max((getattr(demand, sort) for demand in found), default=0) for sort in sorts))


def _glance(spread: _Spread, count: int, measure: Measure, device: str, most_pinned: int | None = None) -> Glance:
    with closing(open_twin(stand_in(device))) as simulated:
        facts = simulated.facts()
        limits = Limits(facts, available_host_bytes() if facts.host_bytes is None else facts.host_bytes, most_pinned)
        skipped: Counter[str] = Counter()
        seconds, demand, priced = _play(simulated, spread.scattered(), measure, limits, skipped)
        whole = START_S + seconds / priced * count if priced else 0.0
        return Glance(whole, demand, priced, facts.name, dict(skipped))


class _Spread:
    """Keeps some PRICED_CASES cases, evenly spaced over a stream of unknown length: when full, every second one goes."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self._stride = 1
        self._seen = 0

    def add(self, case: Case) -> None:
        if self._seen % self._stride == 0:
            self.cases.append(case)
            if len(self.cases) == PRICED_CASES * 2:
                self.cases = self.cases[::2]
                self._stride *= 2
        self._seen += 1

    def scattered(self) -> list[Case]:
        """Return the cases so that the first few of them are spread over the grid, too: by steps of the golden ratio."""
        return [self.cases[place] for place in sorted(range(len(self.cases)), key=lambda place: place * 0.618034 % 1)]


def _play(
    device: Device, cases: Sequence[Case], measure: Measure, limits: Limits, skipped: Counter[str]
) -> tuple[float, Demand, int]:
    """Return the seconds that these cases would take on a real device, the most memory that any of them holds, and how many
    were played before PRICED_OPERATIONS were spent.

    What is beyond the limits is counted in `skipped`, by the reason, and not played. Companions are counted once each: those that
    cases share, and that the cases which were not looked at have of their own, too.
    """
    till = _Till(device, measure)
    demands: list[Demand] = []
    for case in cases:
        if till.operations > PRICED_OPERATIONS:
            break
        demands.append(case.model.demand())
        if refusal := limits.refusal_of(demands[-1]):
            skipped[refusal] += 1
        else:
            till.add(case)
    return till.seconds, largest(demands), len(demands)


@dataclass(slots=True)
class _Till:
    """Adds up what cases would cost; `operations` is what the plays that tell it consisted of."""

    device: Device
    measure: Measure
    seconds: float = 0.0
    operations: int = 0
    book: CompanionBook = field(init=False)
    companions: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.book = CompanionBook(self.device, self.device.facts().host_bytes or 0, self.measure)

    def add(self, case: Case) -> None:
        """Add a case with its warm-ups, samples and recorded plays, and those of its companions that no case before it had."""
        measure = self.measure
        try:
            model = _resolved(case, self.book)
            self._add(model.plan(), (max(2, measure.warmup) if measure.warmup else 0) + measure.most_samples() + ENGINE_PLAYS)
        except CaseError:
            return
        self.seconds += CASE_S
        for companion in model.companions().values():
            name = companion.model_dump_json()
            if name not in self.companions:
                self.companions.add(name)
                self._add(companion.plan(), companion_plays(measure))

    def _add(self, plan: Plan, plays: int) -> None:
        self.operations += sum(len(lane) for lane in plan.lanes)
        self.seconds += plays * (_wall_s(self.device, plan) + _untimed_bytes(plan) / FILLED_BYTES_PER_SECOND)


def _resolved(case: Case, book: CompanionBook) -> Scenario:
    """Return the case's model with its work as a number; its companions are played only where that needs them."""
    try:
        return case.model.resolved(Known(book.host_bytes))
    except CaseError:
        return book.prepare(case).case.model


def _wall_s(device: Device, plan: Plan) -> float:
    """Return the seconds between the first and the last mark of one play, or timed event where it has none, 0 where the device
    refuses the Plan.
    """
    try:
        check_plan(plan)
        with closing(device.open(plan)) as session:
            trace = session.play(0)
    except CaseError:
        return 0.0
    times = [ns for ns in trace.host_ns if ns is not None] or [ns for ns in trace.event_ns if ns is not None]
    return (max(times) - min(times)) / 1e9 if times else 0.0


def _untimed_bytes(plan: Plan) -> int:
    """Return the bytes that are written before and compared after each play."""
    return sum(operation.size for operation in plan.prepare if isinstance(operation, Fill)) + sum(
        each.size for each in plan.expects
    )
