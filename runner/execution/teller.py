"""What a sweep in a process of its own tells its supervisor of each step, and when it waits until that is noted."""

from __future__ import annotations

from multiprocessing.connection import Connection
from time import monotonic
from typing import Final

from runner.execution.messages import Begins, Noted, Played
from runner.expand import Case
from runner.measure.result import Sample

HELD_S: Final = 0.05
"""Seconds after which samples held back are told before the next begins: whatever ends a run loses no more of a round."""
MOST_UNANSWERED: Final = 16
"""Messages that may be without an answer at once: once the sockets are full, each side would wait for the other."""


class Teller:
    """Tells the supervisor which case is next and of every play, and has each round of samples noted before the next begins.

    An answer takes as long as a play of a small case, most of it two processes that wake up. So samples are held back until
    their round is over and are told together, while nothing is timed. Warm-ups and recorded plays, whose time on the host's clock
    is not quoted, are told at once and noted beside what follows; all of them are before the first sample that comes after.
    """

    def __init__(self, wire: Connection) -> None:
        self._wire = wire
        self._case = ""
        self._round: set[str] = set()
        self._held: list[Noted] = []
        self._since = 0.0
        self._unanswered = 0

    def begins(self, case: Case) -> None:
        """Tell which case is next, where it is another one, once all is noted that has to be before it."""
        again, now = case.case_id in self._round, monotonic()
        if again or self._unanswered or (self._held and now - self._since > HELD_S):
            self.settle()
        if again:
            self._round.clear()
        if not self._held:
            self._since = now
        if case.case_id != self._case:
            self._case = case.case_id
            self._wire.send(Begins(case.case_id))

    def played(self, case: Case, sample: Sample) -> None:
        """Tell of a play, now or when its round is over."""
        self._held.append((case.case_id, sample))
        if sample.role == "sample":
            self._round.add(case.case_id)
            return
        self._tell()
        if self._unanswered == MOST_UNANSWERED:
            self.settle()

    def settle(self) -> None:
        """Return once every play is noted."""
        self._tell()
        while self._unanswered:
            self._wire.recv()
            self._unanswered -= 1

    def _tell(self) -> None:
        if self._held:
            self._wire.send(Played(tuple(self._held)))
            self._held.clear()
            self._unanswered += 1
