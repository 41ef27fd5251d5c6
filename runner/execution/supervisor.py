"""A sweep in a process of its own, watched from here: whatever happens in there costs the case that it happens in, and no other.

The process is replaced where it dies, hangs or loses its device, and a fresh one goes on with the cases that have no result yet:
those that were measured side by side with the one that is to blame are measured again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, Final

from runner.device.contract import DeviceFacts
from runner.errors import DeviceUnavailable, DmalabError, EnvironmentProblem
from runner.execution.deadline import START_S, Deadline
from runner.execution.messages import (
    GO,
    Begins,
    Finished,
    Message,
    Open,
    Opened,
    OwnFault,
    Played,
    Read,
    Refused,
    Task,
    connection,
)
from runner.execution.ready import see_off, taken, wait_for_leaving
from runner.execution.records import Ended
from runner.execution.stopping import StoppedAtOnce
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.result import CaseResult, Status
from runner.placement import Wait

MOST_FRUITLESS: Final = 2
"""Processes in a row that may end before they have got anywhere; then the device is not coming back."""


class Supervised:
    """A device in a process of its own; a `Bench` of `runner.execution.bench`. It starts at once and is waited for later."""

    def __init__(self, device: str, wait: Wait) -> None:
        self._device, self._wait = device, wait
        self._worker: _Worker | None = _Worker(device, wait)
        self._opened: Opened | None = None
        self._facts_at_end: DeviceFacts | None = None

    def open(self) -> Opened:
        """Return what the device says of itself; raises DeviceUnavailable or EnvironmentProblem where it cannot be opened."""
        if self._opened is None:
            assert self._worker is not None, "the first process is there from the start"
            self._opened = self._worker.opened()
        return self._opened

    def sweep(self, work: Work) -> Iterator[Ended]:
        """Yield each case as it ends; a case that is yielded counts as noted when the next one is asked for."""
        left = {case.case_id: case for case in work.cases}
        fruitless, why = 0, ""
        while left:
            before = len(left)
            try:
                worker = self._usable()
            except EnvironmentProblem as error:
                why = str(error)
            else:
                why = yield from _Drive(worker, work, left).events()
                self._facts_at_end = worker.facts_at_end
                if not why:
                    return
                self._drop()
            fruitless = 0 if len(left) < before else fruitless + 1
            if fruitless == MOST_FRUITLESS:
                yield from (
                    Ended(CaseResult(case, "not_run", f"no process could go on with it: {why}")) for case in left.values()
                )
                return

    def facts_at_end(self) -> DeviceFacts | None:
        """Return the device's facts after the last case, None where it was lost by then."""
        return self._facts_at_end

    def notes(self) -> Mapping[str, Any]:
        """Return nothing: one device measured all."""
        return {}

    def close(self) -> None:
        """Give the device back; safe to call twice."""
        self._drop()

    def abandon(self) -> None:
        """End the process at once, from another thread: the sweep under way raises StoppedAtOnce, and blames nobody."""
        worker = self._worker
        if worker is not None:
            worker.abandoned = True
            worker.child.kill()

    def _usable(self) -> _Worker:
        """Return a process whose device is open, a fresh one where the last is gone."""
        if self._worker is None:
            self._worker = _Worker(self._device, self._wait)
            try:
                self._worker.opened()
            except EnvironmentProblem:
                self._drop()
                raise
        return self._worker

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


class _Worker:
    """The process and the way to speak with it."""

    def __init__(self, device: str, wait: Wait) -> None:
        started = taken()
        self.child = started.child
        self.wire: Connection = connection(started.wire.detach())
        self.facts_at_end: DeviceFacts | None = None
        self.abandoned = False
        self.device = device
        wait_for_leaving()  # a device that another process has open still has less memory, and less time
        self.wire.send(Open(device, wait))

    def opened(self) -> Opened:
        """Wait until the device is open; raises DeviceUnavailable or EnvironmentProblem where it cannot be."""
        try:
            if not self.wire.poll(START_S):
                raise EnvironmentProblem(f"device {self.device} was not open after {START_S:.0f} s{self.child.last_words()}")
            message = self.wire.recv()
        except (EOFError, ConnectionResetError):
            raise EnvironmentProblem(f"the process that opened {self.device} {self.child.end_in_words()}") from None
        if isinstance(message, Opened):
            return message
        if isinstance(message, Refused):
            if message.device:
                raise DeviceUnavailable(message.device, message.why, message.remedy)
            raise EnvironmentProblem(message.why)
        raise DmalabError(message.words if isinstance(message, OwnFault) else f"{message!r} opens no device")

    def close(self) -> None:
        """Let it end by itself if it has nothing to do any more, and make sure that it has."""
        self.wire.close()
        if self.facts_at_end is not None:
            see_off(self.child)  # it gives its device back properly; one that is lost, or still at work, could wait for ever
        else:
            self.child.close()


class _Drive:
    """One process on its way through the cases that are left."""

    def __init__(self, worker: _Worker, work: Work, left: dict[str, Case]) -> None:
        self.worker, self.work, self.left = worker, work, left
        self._deadline = Deadline(work.measure)

    def events(self) -> Generator[Ended, None, str]:
        """Yield the cases that end and take them from `left`; return why the process cannot go on, empty where all is done."""
        try:
            self.worker.wire.send(self._task())
            while True:
                message = self._next()
                if message is None:
                    return (yield from self._hung())
                if isinstance(message, Finished):
                    self.worker.facts_at_end = message.facts
                    return "" if message.facts is not None else "the device was lost"
                if isinstance(message, OwnFault):
                    return (yield from self._ended_by("a fault of dmalab itself ended it, please report it: " + message.words))
                yield from self._heard(message)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return (yield from self._ended_by(f"its process {self.worker.child.end_in_words()}"))

    def _task(self) -> Task:
        work = self.work
        readings = tuple(work.sentinel.readings)
        return Task(tuple(self.left.values()), work.measure, readings, dict(work.medians), work.most_pinned, work.more, work.bare)

    def _heard(self, message: Message) -> Iterator[Ended]:
        work = self.work
        if isinstance(message, Begins):
            case = self.left.get(message.case_id)
            self._deadline.begins(message.case_id, case)
            if case is not None:
                work.listener.begins(case)
        elif isinstance(message, Played):
            self._note(message)
        elif isinstance(message, Read):
            work.sentinel.readings.append(message.reading)
        elif isinstance(message, Ended):
            self.left.pop(message.result.case.case_id)
            work.medians.update(message.learnt)
            yield message
            self._deadline.pause()
            self.worker.wire.send(GO)

    def _note(self, played: Played) -> None:
        """Have every play noted, those behind one at which the run shall end too, and answer."""
        ends: KeyboardInterrupt | None = None
        for case_id, sample in played.plays:
            try:
                self.work.listener.played(self.left[case_id], sample)
            except StoppedAtOnce:
                raise
            except KeyboardInterrupt as asked:
                ends = asked
        if ends is not None:
            raise ends
        with suppress(BrokenPipeError, ConnectionResetError):  # what a process told before it was gone waits to be read
            self.worker.wire.send(GO)

    def _next(self) -> Message | None:
        """Return what the process says next, None where the case that it is at had its time."""
        wire = self.worker.wire
        while True:
            begun = monotonic()
            heard = wire.poll(self._deadline.left_s())
            self._deadline.passed(monotonic() - begun)
            if heard:
                message: Message = wire.recv()
                return message
            if not self._deadline.extended():
                return None

    def _hung(self) -> Generator[Ended, None, str]:
        self.worker.child.kill()
        why = f"it had not ended after {self._deadline.limit_s():.0f} s, and its process was killed"
        yield from self._blamed("timeout", f"{why}{self.worker.child.last_words()}")
        return why

    def _ended_by(self, why: str) -> Generator[Ended, None, str]:
        yield from self._blamed("failed", why)
        return why

    def _blamed(self, status: Status, why: str) -> Iterator[Ended]:
        """Yield the result of the case that the process was at; nobody is to blame where it was at none of the grid."""
        if self.worker.abandoned:
            raise StoppedAtOnce
        case = self.left.pop(self._deadline.case_id, None)
        if case is not None:
            yield Ended(CaseResult(case, status, why, block=self.work.sentinel.block))
