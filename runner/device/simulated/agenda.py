"""Simulated time: a heap of what is to happen, and resources whose rate is shared by all that use them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any


class Agenda:
    """What is to happen, in order of (ns, order of entry): the same Plan always gives the same run."""

    __slots__ = ("heap", "now", "serial")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self.now = 0
        self.serial = 0

    def at(self, ns: int, action: Callable[[Any], None], argument: Any) -> None:
        """Enter an action for a time that is not past."""
        self.serial += 1
        heappush(self.heap, (ns, self.serial, action, argument))


class Job:
    """Work that progresses at a rate shared with others; `weight` is its part in the sharing.

    `remaining` counts in units of which `speed` are done each ns; both are integers, so sharing is exact. At its end
    `action(argument)` is called.
    """

    __slots__ = ("action", "argument", "remaining", "speed", "version", "weight")

    def __init__(self, remaining: int, weight: int, action: Callable[[Any], None], argument: Any) -> None:
        self.remaining, self.weight, self.action, self.argument = remaining, weight, action, argument
        self.speed = 0
        self.version = 0


class Fluid:
    """A rate shared by the jobs that are active; it is shared anew whenever one begins or ends.

    `total(weight)` is the rate, in units a ns, of jobs whose weights have that sum; each has its weight's part of it. A job ends
    at the first whole ns at which nothing of it remains.
    """

    __slots__ = ("agenda", "jobs", "since", "speeds", "total", "weight")

    def __init__(self, agenda: Agenda, total: Callable[[int], int]) -> None:
        self.agenda, self.total = agenda, total
        self.jobs: list[Job] = []
        self.weight = 0
        self.since = 0
        self.speeds: dict[tuple[int, int], int] = {}

    def begin(self, job: Job) -> None:
        """Let a job begin now."""
        if self.jobs:
            self._settle()
            self.jobs.append(job)
            self.weight += job.weight
            self._share()
            return
        # Most jobs have it all for themselves.
        agenda, weight = self.agenda, job.weight
        self.since = agenda.now
        self.jobs.append(job)
        self.weight = weight
        job.speed = speed = self.speeds.get((weight, weight)) or self._speed(weight, weight)
        job.version = 1
        agenda.at(agenda.now - (-job.remaining // speed) if job.remaining > 0 else agenda.now, self._end, (job, 1))

    def _end(self, entry: tuple[Job, int]) -> None:
        job, version = entry
        if job.version != version:
            return
        self.jobs.remove(job)
        self.weight -= job.weight
        if self.jobs:
            self._settle()
            self._share()
        job.action(job.argument)

    def _settle(self) -> None:
        """Count what was done since the last change."""
        passed = self.agenda.now - self.since
        self.since = self.agenda.now
        for job in self.jobs:
            job.remaining -= job.speed * passed

    def _share(self) -> None:
        weight, agenda = self.weight, self.agenda
        for job in self.jobs:
            speed = self.speeds.get((job.weight, weight)) or self._speed(job.weight, weight)
            if speed != job.speed:
                job.speed = speed
                job.version += 1
                left = -(-job.remaining // speed) if job.remaining > 0 else 0
                agenda.at(agenda.now + left, self._end, (job, job.version))

    def _speed(self, part: int, whole: int) -> int:
        speed = self.speeds[part, whole] = max(1, self.total(whole) * part // whole)
        return speed
