"""Cases of a simulated device, played by several processes side by side, and answered in the order of the grid.

Such a device gives the same whoever plays it, so the cells of a run do not depend on how many processes there are. Each plays
whole stretches of the grid, since neighbours share their companions. A companion may be played in several processes; only the
plays for the case that is the first to need it in the order of the grid are kept, as if one process had made them all. A stretch
whose process ends without an answer is played here, so a fault of a case shows as it does without processes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Final

from runner.device.select import open_device
from runner.errors import EnvironmentProblem
from runner.execution.as_one import AsOne
from runner.execution.local import Sweep
from runner.execution.messages import connection
from runner.execution.process import end_with_parent, spoken_with
from runner.execution.records import Ended
from runner.execution.work import Work
from runner.expand import Case
from runner.garbage import collect_seldom
from runner.placement import allowed_cpus
from runner.spec.experiment import Measure

WORTH_A_PROCESS: Final = 200
"""Cases for which one process more is started: it takes half a second of a processor to begin, as long as 150 small rings."""
STRETCH: Final = 32
"""Cases that are handed to a process at once, at most: the run is told of none of them before all are done."""
STRETCHES_AHEAD: Final = 4
"""For each process so many stretches may be done before their turn; an interrupted run loses no more than those."""
LOOKED_S: Final = 0.2
"""How often it is looked whether somebody wants the run to end, while nothing else happens."""
_Answers = tuple[Ended, ...]


@dataclass(frozen=True, slots=True)
class _Begin:
    """To a process: what it needs to know for all stretches."""

    device: str
    measure: Measure
    medians: dict[str, float | None]
    most_pinned: int | None


def workers_for(work: Work) -> int:
    """Return how many processes shall play the cases of `work`; 1 means that this one does it alone."""
    if os.name != "posix":  # where children cannot be handed descriptors
        return 1
    runnable = sum(not case.excluded for case in work.cases)
    if work.workers is not None:
        return max(1, min(work.workers, runnable))
    return max(1, min(len(allowed_cpus()), runnable // WORTH_A_PROCESS))


class Spread:
    """A sweep over the cases of `work` on the simulated device called `device`, by so many `workers`; to be iterated once."""

    def __init__(self, device: str, work: Work, workers: int) -> None:
        self._work, self._device = work, device
        self._stretches = _stretches(work.cases, workers)
        self._next = 0
        self._answers: dict[int, _Answers | None] = {}
        self._as_one = AsOne(set(work.medians), workers)
        begin = _Begin(device, work.measure, dict(work.medians), work.most_pinned)
        self._count, self._helpers = workers, list(_helpers(begin, workers))

    def __iter__(self) -> Iterator[Ended]:
        """Yield each case as `runner.execution.local.Sweep` does, in the order of the grid."""
        with closing(self):
            for place, stretch in enumerate(self._stretches):
                while place not in self._answers and self._helpers:
                    self._work.listener.begins(stretch[0])
                    self._hand_out(place)
                    self._gather()
                answers = self._answers.pop(place, None)
                for own, ended in zip(stretch, answers or self._here(stretch), strict=True):
                    self._work.listener.begins(own)
                    yield self._as_one(ended, own)

    def close(self) -> None:
        """End all processes; safe to call twice."""
        while self._helpers:
            self._helpers.pop().close()

    def _hand_out(self, turn: int) -> None:
        """Give every idle process its next stretch."""
        most = min(len(self._stretches), turn + STRETCHES_AHEAD * self._count)
        for helper in list(self._helpers):
            if helper.place is None and self._next < most:
                place, self._next = self._next, self._next + 1
                helper.place = place
                try:
                    helper.wire.send(self._stretches[place])
                except OSError:
                    self._lose(helper)

    def _gather(self) -> None:
        """Take what the processes answer within LOOKED_S."""
        by_wire = {helper.wire: helper for helper in self._helpers if helper.place is not None}
        for wire in wait(list(by_wire), LOOKED_S):
            assert isinstance(wire, Connection), "only wires were waited for"
            helper = by_wire[wire]
            assert helper.place is not None, "only a process that has work is listened to"
            try:
                self._answers[helper.place] = wire.recv()
            except (EOFError, OSError):
                self._lose(helper)
            else:
                helper.place = None

    def _lose(self, helper: _Helper) -> None:
        """Do without a process that is gone; its stretch is played here when its turn comes."""
        if helper.place is not None:
            self._answers[helper.place] = None
        self._helpers.remove(helper)
        helper.close()

    def _here(self, stretch: Sequence[Case]) -> Iterator[Ended]:
        work = self._work
        with closing(open_device(self._device).device) as device:
            yield from Sweep(
                device,
                device.facts(),
                stretch,
                work.measure,
                listener=work.listener,
                medians=work.medians,
                most_pinned=work.most_pinned,
            )


class _Helper:
    """A process, the way to speak with it, and the place of the stretch that it is at."""

    def __init__(self, begin: _Begin) -> None:
        self.child, wire = spoken_with("runner.execution.spread")
        self.wire = connection(wire.detach())
        self.wire.send(begin)
        self.place: int | None = None

    def close(self) -> None:
        self.wire.close()
        self.child.close()


def _helpers(begin: _Begin, most: int) -> Iterator[_Helper]:
    """Start as many processes as this machine lets us; where it lets us start none, all is played here."""
    with suppress(EnvironmentProblem, OSError):
        for _ in range(most):
            yield _Helper(begin)


def _stretches(cases: Sequence[Case], workers: int) -> list[Sequence[Case]]:
    """Cut the grid into stretches, short enough that all processes have work to the end."""
    size = max(1, min(STRETCH, len(cases) // (4 * workers)))
    return [cases[begin : begin + size] for begin in range(0, len(cases), size)]


def serve(wire: Connection) -> None:
    """Play stretches until there are no more."""
    begin: _Begin = wire.recv()
    medians = begin.medians
    with closing(open_device(begin.device).device) as device:
        while True:
            stretch: Sequence[Case] = wire.recv()
            sweep = Sweep(device, device.facts(), stretch, begin.measure, medians=medians, most_pinned=begin.most_pinned)
            ended = tuple(sweep)
            for each in ended:
                medians.update(each.learnt)
            wire.send(ended)


def main() -> None:
    """Serve the process that started this one, and end with it."""
    end_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides what an interrupt means
    collect_seldom()
    with connection(int(sys.argv[1])) as wire:
        try:
            serve(wire)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # nothing is left to do


if __name__ == "__main__":
    main()
