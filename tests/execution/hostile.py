"""Scenarios that do to their process what a real device may do to it; a worker imports them by this module's name."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

from runner.device.contract import Trace
from runner.errors import CaseFailed
from runner.expand import Case
from runner.plan import Plan
from runner.scenarios.base import Scenario
from runner.scenarios.hazard import Hazard
from runner.scenarios.transfer import Transfer

FILE = "DMALAB_TEST_PID_FILE"
"""The variable that names a file for the process ids of those who hang."""


class Dies(Transfer):
    def plan(self) -> Plan:
        sys.stderr.write("\n".join(["one", "two", "three", "the link fell off", ""]))
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class DiesPlayed(Transfer):
    """Ends its process once it was played."""

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Raises(Transfer):
    def plan(self) -> Plan:
        raise RuntimeError("nothing of this was foreseen")


class Hangs(Transfer):
    """Starts a child of its own first, which must not be left behind either."""

    def plan(self) -> Plan:
        child = subprocess.Popen(["sleep", "1000"])
        note, done = Path(os.environ[FILE] + ".part"), Path(os.environ[FILE])
        note.write_text(f"{os.getpid()} {child.pid}")
        note.rename(done)
        time.sleep(1000)
        raise AssertionError


class Chatters(Transfer):
    def plan(self) -> Plan:
        os.write(1, b"a compiler greets you\n")
        sys.stdout.write("so does a library\n")
        sys.stdout.flush()
        return super().plan()


class DiesLater(Transfer):
    """Breaks its process only after it was measured."""

    def plan(self) -> Plan:
        atexit.register(os.kill, os.getpid(), signal.SIGABRT)
        return super().plan()


class Limited(Transfer):
    """Says how much memory its process may lock."""

    def memlock_bytes(self) -> int | None:
        return 65_536

    def plan(self) -> Plan:
        raise CaseFailed(f"may lock {resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]:,} bytes")


def case_of(kind: type[Transfer] = Transfer, case_id: str = "c_1") -> Case:
    return case(kind(kind="transfer", direction="h2d", size=2**20), case_id)


def case(model: Scenario, case_id: str = "c_1") -> Case:
    return Case(case_id, "one", 0, model, "", {"size": 2**20})


class Breaks(Hazard):
    """A mistake that nobody expects: an illegal address, in the process that measures all the other cases."""

    ISOLATED: ClassVar[bool] = False
    TOLERATES: ClassVar[bool] = False
