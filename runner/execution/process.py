"""Processes that belong to this one: started fresh, never forked from what has used a device, and gone when this one is gone."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import runner
from runner.errors import EnvironmentProblem

LAST_WORDS: Final = 3
"""Lines of a dead process's standard error that are quoted."""
MOST_WORDS: Final = 2000
"""Bytes of them that are looked at."""
REAPED_S: Final = 90.0
"""Seconds that a killed process may take to go: a driver lets a kernel that runs end first."""
LEAVE_S: Final = 5.0
"""Seconds that a process may take to go after it has closed what it answers by."""
_SET_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class Child:
    """A process that runs `python -m module FD…`: descriptors `theirs`, and last one that ends with this process.

    What it prints, to either stream unless `stdout` is asked for, are its words. Raises EnvironmentProblem where it cannot be
    started.
    """

    def __init__(self, module: str, theirs: Sequence[int] = (), *, stdin: int | None = None, stdout: int | None = None) -> None:
        try:
            self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close
            try:
                self._start(module, theirs, stdin, stdout)
            except BaseException:
                self._words.close()
                raise
        except OSError as error:
            raise EnvironmentProblem(
                f"a process could not be started: {error.strerror or error}; "
                "raise what limits processes and open files (ulimit -a shows it), or end some"
            ) from error

    def _start(self, module: str, theirs: Sequence[int], stdin: int | None, stdout: int | None) -> None:
        end, self._alive = os.pipe()
        fds = (*theirs, end)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, fds)],
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=self._words if stdout is None else stdout,
                stderr=self._words,
                pass_fds=fds,
                env=os.environ | {"PYTHONPATH": _python_path()},
                # A Ctrl-C of the terminal is not for it, and what it starts can be killed with it.
                start_new_session=True,
            )
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(end)

    def kill(self) -> None:
        """End it and all that it has started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Leave nothing of it behind; safe to call twice."""
        if self._words.closed:
            return
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(REAPED_S)
        os.close(self._alive)
        self._words.close()

    def end_in_words(self) -> str:
        """Say how it ended, and its last words."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVE_S)
        return f"{_end_of(self.process.poll())}{self.last_words()}"

    def last_words(self) -> str:
        """Return what it said last, as the end of a sentence; empty where it said nothing."""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - MOST_WORDS))
        lines = [line.strip() for line in self._words.read().decode(errors="replace").splitlines() if line.strip()]
        return f"; its last words: {' / '.join(lines[-LAST_WORDS:])}" if lines else ""


def spoken_with(module: str) -> tuple[Child, socket.socket]:
    """Start a process whose first descriptor is an end of a pair of sockets; return it and the other end, which is the caller's.

    Raises EnvironmentProblem where that cannot be had.
    """
    try:
        mine, theirs = socket.socketpair()
    except OSError as error:
        raise EnvironmentProblem(f"no process can be spoken with: {error.strerror or error}; raise ulimit -n") from error
    try:
        return Child(module, (theirs.fileno(),)), mine
    except BaseException:
        mine.close()
        raise
    finally:
        theirs.close()


def end_with_parent(pipe: int) -> None:
    """End this process, whatever it does, as soon as the one that started it is gone: nobody waits for its answers any more.

    The kernel does that (Linux), and a thread that waits for the other end of `pipe` to close.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)

    def wait() -> None:
        os.read(pipe, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="dmalab-parent", daemon=True).start()


def _python_path() -> str:
    root = str(Path(runner.__file__).parents[1])
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))


def _end_of(code: int | None) -> str:
    """Say how a process ended that gave no answer."""
    if code is None:
        return "gave its answer up"
    if code >= 0:
        return f"ended with exit code {code} and without a result"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
