"""The GPU of one worker of a cluster: cases go there in batches, and come back as the records of a journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from runner.device.contract import DeviceFacts
from runner.execution import station
from runner.execution.cluster_line import Asked, Line
from runner.execution.messages import Opened
from runner.execution.records import Ended, ended_of, reading_of
from runner.execution.seats import SeatLost
from runner.execution.stopping import StoppedAtOnce
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.result import CaseResult

LOOKED_S: Final = 0.5
"""How often who waits for an answer looks whether its worker is still there."""
BATCH_S: Final = 5.0
"""Seconds that a batch shall take: long against the milliseconds that sending costs, short against what a lost worker costs."""
FIRST_BATCH: Final = 8
MOST_IN_BATCH: Final = 256


class WorkerBench:
    """The GPU of one worker; a bench whose sweeps go there in batches."""

    def __init__(
        self, line: Line, greeting: Asked, opened: Opened, run: str, spec: str, given_back: Callable[[str], None]
    ) -> None:
        address = greeting.address
        self._given_back, self._lost = given_back, False
        # As long as this is held no other run gets the worker.
        self._greeting: Asked | None = greeting
        self._line, self.address, self._opened = line, address, opened
        self._run, self._spec = run, spec
        self._told: dict[str, float | None] | None = None
        self._abandoned = self._closed = False
        self._size = FIRST_BATCH

    def open(self) -> Opened:
        """Return what the GPU said of itself when the worker was greeted."""
        return self._opened

    def sweep(self, work: Work) -> Iterator[Ended]:
        """Yield each case as its batch comes back; raises SeatLost where the worker is gone or cannot go on."""
        place = 0
        while place < len(work.cases):
            batch = work.cases[place : place + self._size]
            place += len(batch)
            to_run = [case for case in batch if not case.excluded]
            yield from (Ended(CaseResult(case, "excluded", case.excluded)) for case in batch if case.excluded)
            if to_run:
                try:
                    yield from self._measured(work, to_run)
                except SeatLost:
                    self._lost = True
                    raise

    def facts_at_end(self) -> DeviceFacts | None:
        """Return None: a worker is not asked again."""
        return None

    def notes(self) -> Mapping[str, Any]:
        """Return which worker it is."""
        return {"worker": self.address}

    def abandon(self) -> None:
        """Let who waits for an answer raise StoppedAtOnce."""
        self._abandoned = True

    def close(self) -> None:
        """Let the worker give its device back; safe to call twice."""
        if self._lost:
            self._lost = False
            self._given_back(self.address)
        elif not self._closed:
            self._line.ask(self.address, station.leave, json.dumps({"run": self._run}))
        self._closed, self._greeting = True, None

    def _measured(self, work: Work, cases: Sequence[Case]) -> Iterator[Ended]:
        begun = monotonic()
        answer = self._answer(work, cases)
        known = {case.case_id: case for case in cases}
        for record in answer["records"]:
            if record["type"] == "sentinel":
                work.sentinel.readings.append(reading_of(record))
            else:
                yield ended_of(record, known[record["case"]], work.medians)
        if answer["lost"]:
            raise SeatLost(f"worker {self.address} cannot go on: {answer['lost']}")
        per_case = (monotonic() - begun) / len(cases)
        self._size = max(1, min(MOST_IN_BATCH, 2 * self._size, round(BATCH_S / per_case)))

    def _answer(self, work: Work, cases: Sequence[Case]) -> Mapping[str, Any]:
        # The worker keeps what it learns of companions; only what somebody else has learnt is sent.
        medians = None if work.medians is self._told else dict(work.medians)
        self._told = work.medians
        job = {
            "run": self._run,
            "spec": self._spec,
            "measure": work.measure.model_dump_json(exclude_unset=True),
            "most_pinned": work.most_pinned,
            "medians": medians,
            "cases": [station.plain_case(case) for case in cases],
        }
        asked = self._line.ask(self.address, station.measure, json.dumps(job))
        while not asked.waited(LOOKED_S):
            work.listener.begins(cases[0])
            if self._abandoned:
                raise StoppedAtOnce
            if not self._line.holds(self.address):
                asked.forget()
                raise SeatLost(f"worker {self.address} is gone")
        answer = asked.answer()
        if answer is None:
            raise SeatLost(f"worker {self.address} is gone, or the scheduler")
        if answer.get("spec") != self._spec:
            raise SeatLost(f"worker {self.address} answered for another file")
        return answer
