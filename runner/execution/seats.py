"""The GPUs of a fleet: each has a seat, which measures on it when it is its turn and writes its name under what it measured."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from runner.device.contract import DeviceFacts
from runner.errors import CaseError, DeviceUnavailable, EnvironmentProblem
from runner.execution.bench import Bench
from runner.execution.members import members_of
from runner.execution.messages import Opened
from runner.execution.records import Ended
from runner.execution.supervisor import Supervised
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.result import CaseResult
from runner.placement import Wait
from runner.spec.experiment import Alone

TURN: Final = 16
"""Cases that one GPU of a host measures before the next has its turn: as many as are measured side by side."""
LOOKED_S: Final = 0.2
"""How often whoever waits for a turn looks whether somebody wants the run to end."""


class SeatLost(EnvironmentProblem):
    """The process or the machine that measured on a GPU is gone; what it had not answered can be measured elsewhere."""


class Turns:
    """Who of a host may measure now: one GPU at a time (`alone: host`), or all at once (`alone: gpu`)."""

    def __init__(self, alone: Alone) -> None:
        self.all_at_once = alone == "gpu"
        self._locks: dict[str, threading.Lock] = {}
        self._making = threading.Lock()

    def of(self, host: str, check: Callable[[], None]) -> AbstractContextManager[None]:
        """Return a block that one GPU of `host` is in at a time; `check` is called now and then while it waits, and may raise."""
        if self.all_at_once:
            return nullcontext()
        with self._making:
            return _turn(self._locks.setdefault(host, threading.Lock()), check)


@contextmanager
def _turn(lock: threading.Lock, check: Callable[[], None]) -> Iterator[None]:
    while not lock.acquire(timeout=LOOKED_S):
        check()
    try:
        yield
    finally:
        lock.release()


class Abandonable(Bench, Protocol):
    """A bench that can be made to end at once from another thread."""

    def abandon(self) -> None:
        """Let the sweep under way raise StoppedAtOnce."""
        ...


@dataclass(slots=True)
class Seat:
    """One GPU of a fleet, itself a bench: `uuid` is the one that it must have, `host` the machine that it is in.

    `machine` is what the manifest says of that machine, None where it is this one.
    """

    inner: Abandonable
    host: str
    uuid: str
    turns: Turns
    measured: int = 0
    machine: Mapping[str, Any] | None = None
    where: dict[str, str] = field(default_factory=dict)
    _opened: Opened | None = None

    @property
    def name(self) -> str:
        """A short name for people."""
        return f"{self.host} {self.uuid}"

    def open(self) -> Opened:
        """Return what the GPU says of itself; raises DeviceUnavailable where another one was opened in its place."""
        if self._opened is None:
            with self.turns.of(self.host, _nobody_asks):
                opened = self.inner.open()
            told = opened.facts.environment
            if told.get("uuid") != self.uuid:
                why = f"the GPU that was opened is {told.get('uuid')}"
                raise DeviceUnavailable(self.uuid, why, "see whether something renumbers the GPUs, such as CUDA_VISIBLE_DEVICES")
            self.where = {"host": self.host, "gpu_uuid": self.uuid, "pci_bus_id": str(told.get("pci_bus_id") or "")}
            self._opened = opened
        return self._opened

    def sweep(self, work: Work) -> Iterator[Ended]:
        """Measure the cases in turns with the other GPUs of the host, where they could disturb each other."""
        for place, stretch in enumerate(stretches := self._stretches(work.cases)):
            part = replace(work, cases=stretch, more=work.more or place + 1 < len(stretches))
            disturbs = not self.open().deterministic and any(map(loads_host, stretch))
            turn = self.turns.of(self.host, partial(work.listener.begins, stretch[0])) if disturbs else nullcontext()
            with turn:
                for ended in self.inner.sweep(part):
                    self._sign(work.sentinel.readings)
                    self.measured += 1
                    yield replace(ended, result=replace(ended.result, where=self.where))
            self._sign(work.sentinel.readings)

    def facts_at_end(self) -> DeviceFacts | None:
        """Return the device's facts after the last case, None where it was lost by then."""
        return self.inner.facts_at_end()

    def notes(self) -> Mapping[str, Any]:
        """Return what the manifest says of the GPU's place in a fleet."""
        return {"where": self.where}

    def abandon(self) -> None:
        """End what is measured at once, from another thread."""
        self.inner.abandon()

    def close(self) -> None:
        """Give the device back; safe to call twice."""
        self.inner.close()

    def _stretches(self, cases: Sequence[Case]) -> list[Sequence[Case]]:
        size = len(cases) if self.turns.all_at_once else TURN
        return [cases[begin : begin + size] for begin in range(0, len(cases), max(1, size))]

    def _sign(self, readings: list[CaseResult]) -> None:
        """Write the GPU's name under the readings of the sentinel that have none."""
        for place in range(len(readings) - 1, -1, -1):
            if readings[place].where:
                return
            readings[place] = replace(readings[place], where=self.where)


class Hall(Protocol):
    """Where the seats of a fleet come from."""

    refused: dict[str, str]
    """Why GPUs do not take part, by their name."""

    def arrivals(self) -> list[Seat]:
        """Return the seats that have come since this was asked last, each open."""
        ...

    def expects_more(self) -> bool:
        """Whether seats may still come though none is there."""
        ...

    def short(self) -> bool:
        """Whether seats will come that belong to the fleet, so that it is not over when all others are done."""
        ...

    def close(self) -> None:
        """Let everybody go; safe to call twice."""
        ...


class LocalHall:
    """The GPUs of this machine, each in a process of its own; `device` is a name that stands for many."""

    def __init__(self, device: str, wait: Wait, alone: Alone) -> None:
        turns, host = Turns(alone), platform.node() or "localhost"
        self._seats = [Seat(Supervised(member.device, wait), host, member.uuid, turns) for member in members_of(device)]
        self._told = False
        self.refused: dict[str, str] = {}

    def arrivals(self) -> list[Seat]:
        """Return all seats at the first call; raises DeviceUnavailable or EnvironmentProblem where a GPU cannot be opened."""
        if self._told:
            return []
        self._told = True
        for seat in self._seats:
            seat.open()
        return list(self._seats)

    def expects_more(self) -> bool:
        """Return False: a machine gets no more GPUs."""
        return False

    def short(self) -> bool:
        """Return False: all came at once."""
        return False

    def close(self) -> None:
        """Give all devices back."""
        for seat in self._seats:
            seat.close()


def loads_host(case: Case) -> bool:
    """Whether a case moves or holds memory of the host, which its GPUs share."""
    try:
        demand = case.model.demand()
    except CaseError:
        return False
    return not case.excluded and demand.pageable_bytes + demand.pinned_bytes > 0


def _nobody_asks() -> None:
    """Let whoever waits go on waiting."""
