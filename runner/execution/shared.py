"""One grid, shared between the GPUs of a fleet that are equal: whoever is idle gets the next stretch of it.

A GPU that is lost costs nothing but time: what it had not answered goes to the others. Cells of a simulated device are those that
one device alone would have given, whatever the number of GPUs and whoever was lost; there the answers come in the order of the
grid. Real ones come as they are, since each tells what its own GPU did.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from runner.device.contract import DeviceFacts
from runner.errors import EnvironmentProblem
from runner.execution.as_one import AsOne
from runner.execution.messages import Opened
from runner.execution.records import Ended
from runner.execution.seats import Hall, Seat
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.result import CaseResult, Sample
from runner.measure.sentinel import SENTINEL, Sentinel

WAITED_S: Final = 0.05
"""How often it is looked whether a GPU has come where none is there yet."""
LOOKED_S: Final = 0.2
"""How often it is looked whether somebody wants the run to end, or whether there are more GPUs."""
STRETCH: Final = 64
"""Cases that a GPU gets at once, at most."""
AHEAD: Final = 4
"""For each GPU so many stretches may be done before their turn, where the answers come in the order of the grid."""
MOST_ATTEMPTS: Final = 3
"""How often a case is tried whose GPU is lost meanwhile; then it is likely the case that costs it."""
OF_ONE_GPU: Final = frozenset({"uuid", "pci_bus_id", "ordinal", "numa_node"})
"""Facts that every GPU has its own of; none of them is a fact of the fleet."""
SAME: Final = ("driver", "cuda_driver_api", "profile_sha256", "compute_capability")
"""Facts in which GPUs must agree, beside name, memory and link, to be equal."""


@dataclass(frozen=True, slots=True)
class _Told:
    """A case that has ended on a GPU, a play of one that has not, or, with neither, that a stretch is over; `why` it is lost."""

    helper: _Helper
    ended: Ended | None = None
    play: tuple[Case, Sample] | None = None
    why: str = ""


class _Stopped(Exception):
    """Somebody wants the run to end."""


@dataclass(slots=True)
class _Stretch:
    place: int
    cases: list[Case]
    answers: list[Ended] = field(default_factory=list)
    over: bool = False


class Shared:
    """A bench of all equal GPUs of a hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._seats: list[Seat] = []
        self._opened: Opened | None = None
        self._attempts: Counter[str] = Counter()
        self._helpers: list[_Helper] = []
        self._idle: deque[_Helper] = deque()
        self._waiting: deque[_Stretch] = deque()
        self._inbox: queue.Queue[_Told] = queue.Queue()

    def open(self) -> Opened:
        """Return what the GPUs have in common, as the first says it; raises EnvironmentProblem where there is none."""
        while self._opened is None:
            self._welcome()
            if self._opened is None:
                if not self._hall.expects_more():
                    raise EnvironmentProblem(f"no GPU could take part{self._refusals()}")
                time.sleep(WAITED_S)
        return self._opened

    def sweep(self, work: Work) -> Iterator[Ended]:
        """Yield each case as it ends, where plays do not differ in the order of the grid."""
        opened = self.open()
        # Real devices measure cases side by side, which wants longer stretches, and each costs a look at the device.
        stretches = self._cut(work, 4 if opened.deterministic else 2)
        self._waiting.extend(stretches)
        as_one = AsOne(set(work.medians), len(self._seats))
        turn = 0
        while turn < len(stretches):
            self._hand_out(work, turn)
            told = self._heard(work)
            if told is None:
                if not self._seats and not self._hall.expects_more():
                    yield from self._given_up(stretches[turn:], in_order=opened.deterministic)
                    return
                continue
            if told.ended is not None and not opened.deterministic:
                yield self._with_block(work, told)
            if told.ended is not None or told.play is not None:
                told.helper.noted.set()
            while turn < len(stretches) and stretches[turn].over:
                if opened.deterministic:
                    yield from (as_one(each, case) for each, case in _in_order(stretches[turn]))
                stretches[turn].answers.clear()
                turn += 1

    def facts_at_end(self) -> DeviceFacts | None:
        """Return the facts of the first GPU that still tells them."""
        told = (seat.facts_at_end() for seat in self._seats)
        return next((_common(facts) for facts in told if facts is not None), None)

    def notes(self) -> Mapping[str, Any]:
        """Return how many cases each GPU measured, who took no part, and which cases took more than one attempt."""
        return {
            "spread": "cases",
            "gpus": [{**seat.where, "cases": seat.measured} for seat in self._seats],
            "refused": dict(self._hall.refused),
            "attempts": {case_id: count + 1 for case_id, count in self._attempts.items()},
        }

    def close(self) -> None:
        """Give all devices back; safe to call twice."""
        for helper in self._helpers:
            helper.stop()
        for helper in self._helpers:
            helper.thread.join()
        self._helpers.clear()
        self._idle.clear()
        self._hall.close()

    def _cut(self, work: Work, turns: int) -> list[_Stretch]:
        """Cut the grid so that each GPU has so many turns at least, unless that makes stretches longer than STRETCH."""
        size = max(1, min(STRETCH, len(work.cases) // (turns * len(self._seats))))
        return [
            _Stretch(place, list(work.cases[begin : begin + size])) for place, begin in enumerate(range(0, len(work.cases), size))
        ]

    def _welcome(self) -> list[Seat]:
        """Take in who has come and is equal to the first."""
        come = []
        for seat in self._hall.arrivals():
            opened = seat.open()
            if self._opened is None:
                self._opened = replace(opened, facts=_common(opened.facts))
            if different := _difference(self._opened.facts, opened.facts):
                self._hall.refused[seat.name] = f"it is not equal to the others: {different}"
                seat.close()
                continue
            self._hall.refused.pop(seat.name, None)
            self._seats.append(seat)
            come.append(seat)
        return come

    def _hand_out(self, work: Work, turn: int) -> None:
        """Start whoever is new, and give every idle GPU its next stretch."""
        if not self._helpers:
            self._welcome()
            come = list(self._seats)
        else:
            come = self._welcome()
        helpers = [_Helper(seat, work, self._inbox) for seat in come]
        self._helpers += helpers
        self._idle += helpers
        # This is asked for each case, so only who is idle is looked at: there may be a thousand others.
        while self._idle and self._waiting and (not self.open().deterministic or self._near(self._waiting[0], turn)):
            self._idle.popleft().give(self._waiting.popleft())

    def _near(self, stretch: _Stretch, turn: int) -> bool:
        """Whether a stretch comes soon enough after the one whose turn it is to be kept until its own."""
        return stretch.place < turn + AHEAD * len(self._helpers)

    def _heard(self, work: Work) -> _Told | None:
        """Return what a GPU tells next and note it, None where none tells anything."""
        try:
            told = self._inbox.get(timeout=LOOKED_S)
        except queue.Empty:
            work.listener.begins(SENTINEL)
            return None
        helper, stretch = told.helper, told.helper.stretch
        assert stretch is not None, "only who has a stretch tells"
        if told.play is not None:
            work.listener.played(*told.play)
        elif told.ended is not None:
            stretch.answers.append(told.ended)
        elif told.why:
            self._lose(helper, stretch, told.why)
        else:
            stretch.over, helper.stretch = True, None
            self._idle.append(helper)
        return told

    def _lose(self, helper: _Helper, stretch: _Stretch, why: str) -> None:
        """Do without a GPU, and let another one have what it has not answered."""
        helper.stretch = None
        self._hall.refused[helper.seat.name] = why
        self._seats.remove(helper.seat)
        helper.seat.close()
        answered = {each.result.case.case_id for each in stretch.answers}
        left = [case for case in stretch.cases if case.case_id not in answered]
        for case in left[:1]:  # the one that it was at, or those beside it: each of them comes first once
            self._attempts[case.case_id] += 1
            if self._attempts[case.case_id] == MOST_ATTEMPTS:
                told = f"{MOST_ATTEMPTS} GPUs were lost with it: {why}"
                stretch.answers.append(Ended(CaseResult(case, "failed", told, where=helper.seat.where)))
        self._waiting.appendleft(stretch)

    def _given_up(self, stretches: list[_Stretch], *, in_order: bool) -> Iterator[Ended]:
        """Yield what was kept back for its turn, and all else as not run: nobody is left and nobody will come."""
        why = f"no GPU is left{self._refusals()}"
        for stretch in stretches:
            yield from stretch.answers if in_order else ()
            answered = {each.result.case.case_id for each in stretch.answers}
            left = [] if stretch.over else [case for case in stretch.cases if case.case_id not in answered]
            yield from (Ended(CaseResult(case, "not_run", why)) for case in left)

    def _with_block(self, work: Work, told: _Told) -> Ended:
        """Return a case with the number that the sentinel's reading before it has among those of all GPUs."""
        assert told.ended is not None, "a case has ended"
        own = told.helper.sentinel.readings
        for reading in own[len(told.helper.blocks) :]:
            told.helper.blocks.append(len(work.sentinel.readings))
            work.sentinel.readings.append(replace(reading, block=len(work.sentinel.readings)))
        block = told.ended.result.block
        return replace(
            told.ended,
            result=replace(told.ended.result, block=None if block is None else told.helper.blocks[block]),
        )

    def _refusals(self) -> str:
        return "".join(f"; {name}: {why}" for name, why in self._hall.refused.items())


class _Helper:
    """A thread that measures on one GPU, stretch by stretch; `noted` is set when what it told last was noted."""

    def __init__(self, seat: Seat, work: Work, inbox: queue.Queue[_Told]) -> None:
        self.seat = seat
        self.stretch: _Stretch | None = None
        self.sentinel, self.blocks = Sentinel(), list[int]()
        self.noted = threading.Event()
        self._furthest = 0
        self._work = replace(work, sentinel=self.sentinel, listener=self, medians={}, more=True, workers=1)
        self._inbox, self._stopped = inbox, False
        self._tasks: queue.Queue[list[Case]] = queue.Queue()
        self.thread = threading.Thread(target=self._run, name=f"dmalab {seat.name}", daemon=True)
        self.thread.start()

    def give(self, stretch: _Stretch) -> None:
        """Let the GPU measure what of a stretch has no answer yet.

        One that lies before what it has measured gets companions of its own: each counts for the first case that needs it.
        """
        if stretch.place < self._furthest:
            self._work = replace(self._work, medians={})
        self._furthest = stretch.place
        self.stretch = stretch
        answered = {each.result.case.case_id for each in stretch.answers}
        self._tasks.put([case for case in stretch.cases if case.case_id not in answered])

    def stop(self) -> None:
        """End the thread, and what it measures, as soon as it can be."""
        self._stopped = True
        self._tasks.put([])
        if self.stretch is not None:
            self.seat.abandon()

    def begins(self, case: Case) -> None:
        """Let the thread end where that is wanted."""
        if self._stopped:
            raise _Stopped

    def played(self, case: Case, sample: Sample) -> None:
        """Have a play noted before the next."""
        self._tell(_Told(self, play=(case, sample)))

    def _run(self) -> None:
        while True:
            cases = self._tasks.get()
            if self._stopped:
                return
            try:
                self._measure(cases)
            except _Stopped:
                return
            except BaseException as error:
                if self._stopped:
                    return
                self._inbox.put(_Told(self, why=str(error) or type(error).__name__))
                return

    def _measure(self, cases: list[Case]) -> None:
        for ended in self.seat.sweep(replace(self._work, cases=cases)):
            if ended.result.status == "not_run":
                # Here a device does not come back; there are others.
                self._inbox.put(_Told(self, why=ended.result.reason))
                raise _Stopped
            self._tell(_Told(self, ended=ended))
        self._inbox.put(_Told(self))

    def _tell(self, told: _Told) -> None:
        self.noted.clear()
        self._inbox.put(told)
        while not self.noted.wait(LOOKED_S):
            self.begins(SENTINEL)
        self.begins(SENTINEL)


def _in_order(stretch: _Stretch) -> list[tuple[Ended, Case]]:
    """Return the answers of a stretch in the order of its cases, each without the GPU that gave it: all give the same."""
    found = {each.result.case.case_id: each for each in stretch.answers}
    return [(replace(found[case.case_id], result=replace(found[case.case_id].result, where={})), case) for case in stretch.cases]


def _common(facts: DeviceFacts) -> DeviceFacts:
    """Return the facts of one GPU without those that are its own alone."""
    return replace(facts, environment={name: value for name, value in facts.environment.items() if name not in OF_ONE_GPU})


def _difference(one: DeviceFacts, other: DeviceFacts) -> str:
    """Say in what two GPUs differ that makes them unequal, empty where they are equal."""
    compared: dict[str, tuple[object, object]] = {
        name: (getattr(one, name), getattr(other, name)) for name in ("name", "kind", "memory_bytes", "link_gb_per_s")
    }
    compared |= {name: (one.environment.get(name), other.environment.get(name)) for name in SAME}
    return "; ".join(f"{name} {theirs} instead of {ours}" for name, (ours, theirs) in compared.items() if ours != theirs)
