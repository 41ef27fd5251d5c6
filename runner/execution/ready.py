"""The process that will own a device, started before it is known which device that is, and seen off after its last case.

Starting Python and reading its modules takes that process as long as it takes this one: side by side nobody waits for it. So the
command line calls `make_ready` before anything else, and this module imports little. Giving a device back takes a driver up to a
second, which need not be waited for either before the command ends, or before the next device is opened.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from runner.errors import EnvironmentProblem
from runner.execution.process import Child, spoken_with

WORKER: Final = "DMALAB_WORKER"
"""A variable: `process` lets a simulated device, too, run in a process of its own, as all do that have faults injected; `here`
keeps a real one in the process of the command, where a case that breaks the device takes the rest of the run with it."""
WAYS: Final = ("process", "here")
LEAVES_S: Final = 60.0
"""Seconds that a process may take to give its device back."""

_MEASURE: Final = ("run", "claims", "advise")
"""Verbs that open a device for long."""
_ELSEWHERE: Final = ("simulated", "--cluster", "--help")
"""What says on the command line that no real device of this machine is asked for."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process that waits to be told which device to open, and this end of the sockets by which it is spoken with."""

    child: Child
    wire: socket.socket
    environment: Mapping[str, str]

    def close(self) -> None:
        """End it; it has opened nothing."""
        self.wire.close()
        self.child.close()


_ready: list[Started] = []
_leaving: list[Child] = []
_later: list[None] = []
"""One element for each block of `seen_off_later` that is open."""


def make_ready(arguments: Sequence[str]) -> None:
    """Start a process where these arguments of the command line will likely want one; one that nobody takes is ended."""
    if arguments[:1] not in [[verb] for verb in _MEASURE] or not _likely(arguments):
        return
    with suppress(EnvironmentProblem):  # whoever needs the process starts it, and says why it cannot
        _ready.append(_start())
        atexit.register(discard)


def taken() -> Started:
    """Return the process that is ready, or a new one where there is none or the variables it was given are others now.

    Raises EnvironmentProblem where none can be started.
    """
    if _ready:
        ready = _ready.pop()
        if ready.environment == os.environ and ready.child.process.poll() is None:
            return ready
        ready.close()
    return _start()


def discard() -> None:
    """End the process that is ready: nobody will take it."""
    while _ready:
        _ready.pop().close()


@contextmanager
def seen_off_later() -> Iterator[None]:
    """Let processes that have nothing more to do give their devices back beside what this block does; at its end they have."""
    _later.append(None)
    try:
        yield
    finally:
        _later.pop()
        if not _later:
            wait_for_leaving()


def see_off(child: Child) -> None:
    """Wait until a process that has nothing more to do has given its device back and is gone, in `seen_off_later` later."""
    _leaving.append(child)
    if not _later:
        wait_for_leaving()


def wait_for_leaving() -> None:
    """Wait until no process that was seen off has a device any more; one that does not go is killed."""
    while _leaving:
        child = _leaving.pop()
        try:
            with suppress(Exception):
                child.process.wait(LEAVES_S)
        finally:
            child.close()


def _start() -> Started:
    return Started(*spoken_with("runner.execution.sweeper"), dict(os.environ))


def _likely(arguments: Sequence[str]) -> bool:
    """Whether a real device may be opened here, or a simulated one in a process of its own."""
    if os.name != "posix":
        return False
    if os.environ.get(WORKER) == "process":
        return True
    if os.environ.get(WORKER) == "here":
        return False
    asked = any(word in argument for word in _ELSEWHERE for argument in arguments)
    return not asked and importlib.util.find_spec("pycuda") is not None
