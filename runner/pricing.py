"""What a file would cost before it runs: cases, bytes, memory, and the likely time, all without opening a real device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from runner.device.contract import Device
from runner.device.select import open_twin
from runner.errors import CaseError
from runner.expand import Case, expand
from runner.measure.companions import CompanionBook
from runner.plan import Demand, Fill, Plan
from runner.plan_check import check_plan
from runner.scenarios.base import Known, Scenario
from runner.spec.experiment import Measure
from runner.spec.load import LoadedExperiment

PRICED_CASES: Final = 60
"""Cases that are really played on the simulated device; the others are taken to cost the mean of these."""
PRICED_OPERATIONS: Final = 10_000
"""Operations after which no further case is played, so that the price of large pipelines does not take seconds itself."""
SHOWN_CASES: Final = 12
FILLED_BYTES_PER_SECOND: Final = 8e9
"""Rate at which patterns are written and compared outside the timed region; assumed, a host of 16 cores is faster."""


@dataclass(frozen=True, slots=True)
class ScenarioPrice:
    """One scenario of a file: how many cases, how many of them excluded and why, and in words what its first case does."""

    name: str
    cases: int
    excluded: dict[str, int]
    description: str


@dataclass(frozen=True, slots=True)
class Price:
    """What a file would cost. `seconds` is an estimate by `profile` from `priced` cases; `demand` is the largest of those."""

    scenarios: tuple[ScenarioPrice, ...]
    total: int
    excluded: int
    plays: int
    payload_bytes: int
    demand: Demand
    seconds: float
    priced: int
    profile: str
    shown: tuple[Case, ...]


@dataclass(slots=True)
class _Tally:
    cases: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    description: str = ""


def price(loaded: LoadedExperiment, *, device: str | None, max_cases: int) -> Price:
    """Go through the grid once, keeping only counts and a spread of cases, and play that spread on a simulated device.

    A file for a real device is priced with the `h200` profile; the estimate is no promise.
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
    seen = _glance(spread, runnable, measure, device or loaded.experiment.device)
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
        shown=tuple(shown),
    )


@dataclass(frozen=True, slots=True)
class Glance:
    """What `priced` cases of a grid tell of all of it by `profile`: the seconds of all, and the most memory of those."""

    seconds: float
    demand: Demand
    priced: int
    profile: str


def glance(cases: Sequence[Case], measure: Measure, device: str) -> Glance:
    """Play a spread of these cases, none of them excluded, on the simulated device that stands for `device`."""
    spread = _Spread()
    for case in cases:
        spread.add(case)
    return _glance(spread, len(cases), measure, device)


def largest(demands: Iterable[Demand]) -> Demand:
    """Return the most of each sort of memory; zeros where there is nothing."""
    sorts = ("pageable_bytes", "pinned_bytes", "device_bytes")
    found = list(demands)
    return Demand(*(max((getattr(demand, sort) for demand in found), default=0) for sort in sorts))


def _glance(spread: _Spread, count: int, measure: Measure, device: str) -> Glance:
    with closing(open_twin(device)) as simulated:
        seconds, demand, priced = _play(simulated, spread.scattered(), measure)
        return Glance(seconds / max(1, priced) * count, demand, priced, simulated.facts().name)


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


def _play(device: Device, cases: Sequence[Case], measure: Measure) -> tuple[float, Demand, int]:
    """Return the seconds that these cases would take on a real device, the most memory that any of them holds, and how many
    were played before PRICED_OPERATIONS were spent.
    """
    plays = measure.warmup + measure.most_samples()
    seconds, operations = 0.0, 0
    demands: list[Demand] = []
    book = CompanionBook(device, device.facts().host_bytes or 0, measure)
    for case in cases:
        if operations > PRICED_OPERATIONS:
            break
        demands.append(case.model.demand())
        try:
            plan = _resolved(case, book).plan()
        except CaseError:
            continue
        operations += sum(len(lane) for lane in plan.lanes)
        seconds += plays * (sum(_walls(device, plan)) + _untimed_bytes(plan) / FILLED_BYTES_PER_SECOND)
    return seconds, largest(demands), len(demands)


def _resolved(case: Case, book: CompanionBook) -> Scenario:
    """Return the case's model with its work as a number; its companions are played only where that needs them."""
    try:
        return case.model.resolved(Known(book.host_bytes))
    except CaseError:
        return book.prepare(case).case.model


def _walls(device: Device, plan: Plan) -> Iterator[float]:
    """Yield the seconds between the first and the last mark of one play, nothing where the device refuses the Plan."""
    try:
        check_plan(plan)
        with closing(device.open(plan)) as session:
            marks = [mark for mark in session.play(0).host_ns if mark is not None]
            yield (max(marks) - min(marks)) / 1e9
    except CaseError:
        return


def _untimed_bytes(plan: Plan) -> int:
    """Return the bytes that are written before and compared after each play."""
    return sum(operation.size for operation in plan.prepare if isinstance(operation, Fill)) + sum(
        each.size for each in plan.expects
    )
