"""Playing the cases of a grid on one device: side by side where they share buffers, or apart where one may break the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from runner.device.contract import Device, DeviceFacts
from runner.device.select import open_device
from runner.errors import CaseError, CaseUnsupported
from runner.execution.groups import Grouping
from runner.execution.isolated import address_of, play_apart
from runner.execution.records import Ended
from runner.execution.worker import Job
from runner.expand import Case
from runner.measure.case import measure_case, measure_together
from runner.measure.companions import CompanionBook, Prepared
from runner.measure.environment import placed_for
from runner.measure.listener import NOBODY, Listener
from runner.measure.preflight import Limits, available_host_bytes
from runner.measure.result import CaseResult, refused
from runner.measure.sentinel import SENTINEL, Sentinel
from runner.spec.experiment import Measure


def play_cases(
    device: Device, facts: DeviceFacts, cases: Sequence[Case], measure: Measure, sentinel: Sentinel | None = None
) -> Iterator[CaseResult]:
    """Yield one result for each case as soon as it is there, as `Sweep` does."""
    for ended in Sweep(device, facts, cases, measure, sentinel):
        yield ended.result


class Sweep:
    """The way through a grid on one device.

    It yields one result for each case as soon as it is there; cases that are measured side by side come before their turn.
    Excluded cases and those that do not fit the machine are not tried. A case that may break a real device, or lowers a limit of
    its process, is played in a process of its own, and so is every case after one that broke the device all the same, unless the
    sweep `ends_when_lost`; a simulated device is opened anew. Where neither can be done, the rest is `not_run`: no number of a
    lost device is worth anything. Where thread and memory cannot be placed as `measure` says, every case is `unsupported`.
    `sentinel` is read before the first case, between groups, and at the end; without one that is not done. `listener` hears of
    every step. `medians` are those of companions that are known already; `most_pinned` is as in `runner.measure.preflight`,
    `bare` as in `runner.measure.companions`.
    """

    def __init__(
        self,
        device: Device,
        facts: DeviceFacts,
        cases: Sequence[Case],
        measure: Measure,
        sentinel: Sentinel | None = None,
        listener: Listener = NOBODY,
        *,
        medians: Mapping[str, float | None] | None = None,
        most_pinned: int | None = None,
        ends_when_lost: bool = False,
        bare: bool = False,
    ) -> None:
        host = available_host_bytes() if facts.host_bytes is None else facts.host_bytes
        self.facts, self.cases, self.sentinel, self.listener = facts, cases, sentinel, listener
        self.book = CompanionBook(device, host, measure, dict(medians or {}), bare=bare)
        self.limits = Limits(facts, host, most_pinned)
        self.grouping = Grouping(cases, self.limits)
        self._ends_when_lost = ends_when_lost
        self._opened = ExitStack()
        self._lost_in = ""

    def __iter__(self) -> Iterator[Ended]:
        """Measure all cases."""
        with self._opened:
            try:
                self._opened.enter_context(placed_for(self.facts, self.book.measure.placement))
            except CaseUnsupported as error:
                yield from (Ended(_excluded(case) if case.excluded else refused(case, error)) for case in self.cases)
                return
            done: set[int] = set()
            for place in range(len(self.cases)):
                if place not in done:
                    for ended, result in self.turn(place, done):
                        done.add(ended)
                        yield Ended(result, self._learnt(), self.book.host_bytes)
                    if self._ends_when_lost and self.book.device.lost:
                        return
            self.read_sentinel(due=True)

    def _learnt(self) -> dict[str, float | None]:
        """Return what was learnt of companions since this was asked last."""
        learnt, self.book.learnt = self.book.learnt, {}
        return learnt

    def turn(self, place: int, done: set[int]) -> Iterator[tuple[int, CaseResult]]:
        """Yield place and result of the case whose turn it is, and of those that are measured beside it."""
        case = self.cases[place]
        if case.excluded:
            yield place, _excluded(case)
            return
        self.read_sentinel()
        self.listener.begins(case)
        for ended, result in self._measured(place, done):
            self.grouping.forget(ended)
            if self.book.device.lost and not self._lost_in:
                self._lost_in = result.case.case_id
            yield ended, replace(result, block=self.sentinel.block if self.sentinel else None)

    def read_sentinel(self, *, due: bool = False) -> None:
        """Read the sentinel if there is one; at the end (`due`) only where there was a reading before."""
        if self.sentinel is not None and (self.sentinel.readings or not due):
            self.listener.begins(SENTINEL)
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
            if alone or (self._ends_when_lost and device.lost):
                return
        yield place, self._alone(self.cases[place])

    def _side_by_side(self, places: Sequence[int]) -> Iterator[tuple[int, CaseResult]]:
        prepared: list[Prepared] = []
        where: dict[str, int] = {}
        for place in places:
            case = self.cases[place]
            where[case.case_id] = place
            self.listener.begins(case)
            try:
                prepared.append(self.book.prepare(case))
            except CaseError as error:
                yield place, refused(case, error)
        for result in measure_together(self.book.device, self.facts, prepared, self.book.measure, self.listener):
            yield where[result.case.case_id], result

    def _alone(self, case: Case) -> CaseResult:
        """Measure one case, here or in a process of its own, or say why it cannot be done."""
        if self.book.device.lost and self.facts.kind == "simulated":
            self.book.device = self._opened.enter_context(closing(open_device(self.facts.name).device))
        address = address_of(self.facts)
        if self.book.device.lost and not address:
            return CaseResult(case, "not_run", f"the device was lost in case {self._lost_in}")
        try:
            refusal = self.limits.refusal_of(case.model.demand())
            if refusal:
                return CaseResult(case, "skipped", refusal)
            apart = case.model.ISOLATED or case.model.memlock_bytes() is not None
            if address and (apart or self.book.device.lost):
                return play_apart(Job(address, case, self.book.host_bytes, self.book.measure))
            return measure_case(self.book.device, self.facts, self.book.prepare(case), self.book.measure, self.listener)
        except CaseError as error:
            return refused(case, error)


def _excluded(case: Case) -> CaseResult:
    return CaseResult(case, "excluded", case.excluded)


def with_all_cases(cases: Sequence[Case], results: Iterable[CaseResult], why: str) -> list[CaseResult]:
    """Return one result for every case, in the order of the cases: `not_run` for each that has none."""
    found = {result.case.case_id: result for result in results}
    return [found.get(case.case_id) or CaseResult(case, "not_run", why) for case in cases]
