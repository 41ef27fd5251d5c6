"""A device that a run is made on: one in a process of its own where it is real, one in this process where it is simulated."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from runner.device.contract import DeviceFacts
from runner.device.select import FAULTS, open_device
from runner.errors import EnvironmentProblem
from runner.execution.local import Sweep
from runner.execution.messages import Opened
from runner.execution.ready import WAYS, WORKER, discard
from runner.execution.records import Ended
from runner.execution.spread import Spread, workers_for
from runner.execution.supervisor import Supervised
from runner.execution.work import Work
from runner.placement import Wait


class Bench(Protocol):
    """What measures cases and outlives what they do to a device."""

    def open(self) -> Opened:
        """Return what the device says of itself; raises DeviceUnavailable, InputError or EnvironmentProblem."""
        ...

    def sweep(self, work: Work) -> Iterator[Ended]:
        """Yield each case as it ends; a case that is yielded counts as noted when the next one is asked for."""
        ...

    def facts_at_end(self) -> DeviceFacts | None:
        """Return the device's facts after the last case, None where it was lost by then."""
        ...

    def notes(self) -> Mapping[str, Any]:
        """Return what the manifest shall say of how the cases were shared; empty where one device measured them all."""
        ...

    def close(self) -> None:
        """Give the device back; safe to call twice."""
        ...


def begin_bench(device: str, wait: Wait) -> Bench:
    """Return the bench of the device called `device`; a process of its own is started, but not waited for before `open`."""
    asked = os.environ.get(WORKER, "")
    if asked not in ("", *WAYS):
        raise EnvironmentProblem(f"{WORKER} is {asked!r}; allowed: {', '.join(WAYS)}, or unset it")
    if _in_process(device):
        discard()
        return Here(device, wait)
    return _Elsewhere(device, wait)


class Here:
    """A device in this process."""

    def __init__(self, device: str, wait: Wait, note: str = "") -> None:
        opened = open_device(device, wait)
        self._device = opened.device
        self._opened = Opened(self._device.facts(), note or opened.note, self._device.recording, self._device.deterministic)
        self._spread: Spread | None = None

    def open(self) -> Opened:
        """Return what the device says of itself."""
        return self._opened

    def sweep(self, work: Work) -> Iterator[Ended]:
        """Measure the cases one after another, or in several processes where the device is simulated and they are many."""
        workers = workers_for(work) if self._opened.facts.kind == "simulated" else 1
        if workers > 1:
            self._spread = Spread(self._opened.facts.name, work, workers)
            yield from self._spread
            return
        sweep = Sweep(
            self._device,
            self._opened.facts,
            work.cases,
            work.measure,
            work.sentinel,
            work.listener,
            medians=work.medians,
            most_pinned=work.most_pinned,
            bare=work.bare,
        )
        yield from sweep

    def facts_at_end(self) -> DeviceFacts | None:
        """Return the device's facts now."""
        return None if self._device.lost else self._device.facts()

    def notes(self) -> Mapping[str, Any]:
        """Return nothing: one device measured all."""
        return {}

    def close(self) -> None:
        """Give the device back."""
        if self._spread is not None:
            self._spread.close()
        self._device.close()


class _Elsewhere:
    """A device in a process of its own; where `auto` finds no real one there, the simulated one runs here after all."""

    def __init__(self, device: str, wait: Wait) -> None:
        self._bench: Bench = Supervised(device, wait)
        self._wait = wait

    def open(self) -> Opened:
        opened = self._bench.open()
        if _in_process(opened.facts.name):
            self._bench.close()
            self._bench = Here(opened.facts.name, self._wait, opened.note)
            return self._bench.open()
        return opened

    def sweep(self, work: Work) -> Iterator[Ended]:
        return self._bench.sweep(work)

    def facts_at_end(self) -> DeviceFacts | None:
        return self._bench.facts_at_end()

    def notes(self) -> Mapping[str, Any]:
        return self._bench.notes()

    def close(self) -> None:
        self._bench.close()


def _in_process(device: str) -> bool:
    """Whether a device runs here: a simulated one cannot break it, others may not be startable, or it was asked for."""
    if os.name != "posix":
        return True
    if os.environ.get(WORKER) == "process" or os.environ.get(FAULTS):
        return False
    return os.environ.get(WORKER) == "here" or device.startswith("simulated") or importlib.util.find_spec("pycuda") is None
