"""What a sweep in a process of its own and its supervisor say to each other, pickled, over one pair of sockets."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection
from typing import Final

from runner.device.contract import DeviceFacts
from runner.execution.records import Ended
from runner.expand import Case
from runner.measure.result import CaseResult, Sample
from runner.placement import Wait
from runner.spec.experiment import Measure

GO: Final = "go"
"""What the supervisor answers to `Played` and to `Ended`: it is noted, go on."""


@dataclass(frozen=True, slots=True)
class Open:
    """To the process: open the device called `device`, for which threads `wait` so."""

    device: str
    wait: Wait


@dataclass(frozen=True, slots=True)
class Task:
    """To the process: measure these cases. `readings` and `medians` are what was learnt before on the same device.

    After the one for which there is no `more` it gives the device back. `bare` is as in `runner.measure.companions`.
    """

    cases: tuple[Case, ...]
    measure: Measure
    readings: tuple[CaseResult, ...]
    medians: dict[str, float | None]
    most_pinned: int | None
    more: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """From it: the device is open; `note`, `recording` and `deterministic` as `runner.device` gives them."""

    facts: DeviceFacts
    note: str
    recording: str
    deterministic: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """From it: the device cannot be opened, as DeviceUnavailable says it; with no `device`, `why` is a whole sentence."""

    device: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Begins:
    """From it: what comes next is for this case."""

    case_id: str


Noted = tuple[str, Sample]
"""A play that is to be noted, and before it the case_id of its case."""


@dataclass(frozen=True, slots=True)
class Played:
    """From it: these plays are done and good. It waits for GO before what is timed goes on."""

    plays: tuple[Noted, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """From it: a reading of the sentinel."""

    reading: CaseResult


@dataclass(frozen=True, slots=True)
class Finished:
    """From it: its task is done, or the device is lost, which then has no facts any more, and the process ends."""

    facts: DeviceFacts | None


@dataclass(frozen=True, slots=True)
class OwnFault:
    """From it: an error that nobody foresaw, in one line; the process ends."""

    words: str


Message = Opened | Refused | Begins | Played | Read | Ended | Finished | OwnFault


class Wire(Connection):
    """A connection that looks whether something has come without making a selector anew each time, as its base does."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._coming = select.poll()
        self._coming.register(fd, select.POLLIN)

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Return whether there is something to receive, be it the end, within `timeout` seconds; None waits for ever."""
        if self.closed:
            raise OSError("handle is closed")
        return bool(self._coming.poll(None if timeout is None else ceil(timeout * 1000)))


def connection(fd: int) -> Connection:
    """Return the end of a pair of sockets as what sends and receives whole messages; it owns `fd` and closes it."""
    os.set_inheritable(fd, False)
    return Wire(fd)
