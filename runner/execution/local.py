"""Playing the cases of a grid on one device: side by side where they share buffers, or apart where one may break the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from runner.device.contract import Device, DeviceFacts
from runner.device.select import open_device
from runner.errors import CaseError, CaseUnsupported
from runner.execution.groups import Grouping
from runner.execution.isolated import address_of, play_apart
from runner.execution.worker import Job
from runner.expand import Case
from runner.measure.case import measure_case, measure_together
from runner.measure.companions import CompanionBook, Prepared
from runner.measure.environment import placed_for
from runner.measure.preflight import available_host_bytes, refusal_of
from runner.measure.result import CaseResult, refused
from runner.measure.sentinel import Sentinel
from runner.spec.experiment import Measure


def play_cases(
    device: Device, facts: DeviceFacts, cases: Sequence[Case], measure: Measure, sentinel: Sentinel | None = None
) -> Iterator[CaseResult]:
    """Yield one result for each case as soon as it is there; cases that are measured side by side come before their turn.

    Excluded cases and those that do not fit the machine are not tried. A case that may break a real device, or lowers a limit of
    its process, is played in a process of its own, and so is every case after one that broke the device all the same; a simulated
    device is opened anew. Where neither can be done, the rest is `not_run`: no number of a lost device is worth anything.
    Where thread and memory cannot be placed as `measure` says, every case is `unsupported`. `sentinel` is read before the first
    case, between groups, and at the end; without one that is not done.
    """
    host = available_host_bytes() if facts.host_bytes is None else facts.host_bytes
    with ExitStack() as opened:
        try:
            opened.enter_context(placed_for(facts, measure.placement))
        except CaseUnsupported as error:
            yield from (_excluded(case) if case.excluded else refused(case, error) for case in cases)
            return
        sweep = _Sweep(facts, cases, CompanionBook(device, host, measure), Grouping(cases, facts, host), sentinel, opened)
        done: set[int] = set()
        for place in range(len(cases)):
            if place not in done:
                for ended, result in sweep.turn(place, done):
                    done.add(ended)
                    yield result
        sweep.read_sentinel(due=True)


@dataclass(slots=True)
class _Sweep:
    """The way through a grid: what is known so far, and whether the device is still good."""

    facts: DeviceFacts
    cases: Sequence[Case]
    book: CompanionBook
    grouping: Grouping
    sentinel: Sentinel | None
    opened: ExitStack
    lost_in: str = ""

    def turn(self, place: int, done: set[int]) -> Iterator[tuple[int, CaseResult]]:
        """Yield place and result of the case whose turn it is, and of those that are measured beside it."""
        case = self.cases[place]
        if case.excluded:
            yield place, _excluded(case)
            return
        self.read_sentinel()
        for ended, result in self._measured(place, done):
            self.grouping.forget(ended)
            if self.book.device.lost and not self.lost_in:
                self.lost_in = result.case.case_id
            yield ended, replace(result, block=self.sentinel.block if self.sentinel else None)

    def read_sentinel(self, *, due: bool = False) -> None:
        """Read the sentinel if there is one; at the end (`due`) only where there was a reading before."""
        if self.sentinel is not None and (self.sentinel.readings or not due):
            self.sentinel.read(self.book.device, self.facts, due=due)

    def _measured(self, place: int, done: set[int]) -> Iterator[tuple[int, CaseResult]]:
        device = self.book.device
        together = [place] if device.deterministic or device.lost else self.grouping.group_of(place, done)
        alone = len(together) == 1
        if not alone:
            for ended, result in self._side_by_side(together):
                alone = alone or ended == place
                yield ended, result
            # A case that cost the device leaves those beside it without a result: each is played when its turn comes.
            if alone:
                return
        yield place, self._alone(self.cases[place])

    def _side_by_side(self, places: Sequence[int]) -> Iterator[tuple[int, CaseResult]]:
        prepared: list[Prepared] = []
        where: dict[str, int] = {}
        for place in places:
            case = self.cases[place]
            where[case.case_id] = place
            try:
                prepared.append(self.book.prepare(case))
            except CaseError as error:
                yield place, refused(case, error)
        for result in measure_together(self.book.device, self.facts, prepared, self.book.measure):
            yield where[result.case.case_id], result

    def _alone(self, case: Case) -> CaseResult:
        """Measure one case, here or in a process of its own, or say why it cannot be done."""
        if self.book.device.lost and self.facts.kind == "simulated":
            self.book.device = self.opened.enter_context(closing(open_device(self.facts.name).device))
        address = address_of(self.facts)
        if self.book.device.lost and not address:
            return CaseResult(case, "not_run", f"the device was lost in case {self.lost_in}")
        try:
            refusal = refusal_of(case.model.demand(), self.facts, self.book.host_bytes)
            if refusal:
                return CaseResult(case, "skipped", refusal)
            apart = case.model.ISOLATED or case.model.memlock_bytes() is not None
            if address and (apart or self.book.device.lost):
                return play_apart(Job(address, case, self.book.host_bytes, self.book.measure))
            return measure_case(self.book.device, self.facts, self.book.prepare(case), self.book.measure)
        except CaseError as error:
            return refused(case, error)


def _excluded(case: Case) -> CaseResult:
    return CaseResult(case, "excluded", case.excluded)


def with_all_cases(cases: Sequence[Case], results: Sequence[CaseResult], why: str) -> list[CaseResult]:
    """Return one result for every case, in the order of the cases: `not_run` for each that has none."""
    found = {result.case.case_id: result for result in results}
    return [found.get(case.case_id) or CaseResult(case, "not_run", why) for case in cases]
