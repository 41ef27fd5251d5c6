"""Playing a case in a fresh process, so that a lost context, a crash or a hang costs one row and nothing else."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import runner
from runner.device.contract import DeviceFacts
from runner.device.select import open_twin
from runner.errors import CaseError
from runner.execution.worker import Job
from runner.measure.result import CaseResult
from runner.plan import Fill
from runner.plan_check import check_plan
from runner.scenarios.base import Known

START_S: Final = 60.0
"""Seconds that every worker has: imports, the context, and compiling the kernels where no cache has them."""
PATIENCE: Final = 20.0
"""How many times its estimate a case may take before it counts as hung; the estimate is of another machine."""
FILLED_BYTES_PER_SECOND: Final = 4e9
"""Assumed rate at which patterns are written and compared between the plays."""
LAST_WORDS: Final = 3
"""Lines of a dead worker's standard error that its row quotes."""
MOST_WORDS: Final = 2000
"""Bytes of them that are looked at."""


def play_apart(job: Job, deadline_s: float | None = None) -> CaseResult:
    """Measure a case in a process of its own and return its result; never raises for what happens in there.

    A worker that has not answered after `deadline_s` seconds (by default `deadline_of(job)`) is killed with all that it has
    started: `timeout`. One that ends without an answer is `failed`, with its signal or exit code and its last words.
    """
    limit_s = deadline_of(job) if deadline_s is None else deadline_s
    with tempfile.TemporaryFile() as words, _started(words.fileno()) as worker:
        hung = False
        try:
            answer, _ = worker.communicate(pickle.dumps(job), timeout=limit_s)
        except subprocess.TimeoutExpired:
            hung = True
            _kill(worker)
            answer, _ = worker.communicate()
        result = _result_in(answer)
        if result is not None:
            return result
        if hung:
            said = f"its process had not ended after {limit_s:.0f} s and was killed{_last_words(words)}"
            return CaseResult(job.case, "timeout", said)
        return CaseResult(job.case, "failed", f"its process {_end_of(worker.returncode)}{_last_words(words)}")


def deadline_of(job: Job) -> float:
    """Return the seconds after which a worker counts as hung: START_S, and PATIENCE times what a simulated device estimates."""
    plays = job.measure.most_warmups() + job.measure.most_samples()
    try:
        plan = job.case.model.resolved(Known(job.host_bytes)).plan()
        check_plan(plan)
        with closing(open_twin("simulated")) as device, closing(device.open(plan)) as session:
            marks = [mark for mark in session.play(0).host_ns if mark is not None]
    except CaseError:
        # The simulated device may not know what the case needs; then only the start is allowed for.
        return START_S
    filled = sum(each.size for each in plan.prepare if isinstance(each, Fill)) + sum(each.size for each in plan.expects)
    timed_s = (max(marks, default=0) - min(marks, default=0)) / 1e9
    return START_S + PATIENCE * plays * (timed_s + filled / FILLED_BYTES_PER_SECOND)


def address_of(facts: DeviceFacts) -> str:
    """Return the name by which a worker opens the same real device; empty for any other, which no case can break."""
    ordinal = facts.environment.get("ordinal")
    return f"cuda:{ordinal}" if facts.kind == "cuda" and ordinal is not None else ""


@contextmanager
def _started(words: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker that ends with this process, and leave nothing of it or of what it has started behind."""
    theirs, ours = os.pipe()
    root = str(Path(runner.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    try:
        try:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "runner.execution.worker", str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                pass_fds=(theirs,),
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        with worker:
            try:
                yield worker
            finally:
                _kill(worker)
    finally:
        os.close(ours)


def _kill(worker: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)


def _result_in(answer: bytes) -> CaseResult | None:
    """Return the result that a worker wrote, None where it ended before it had written all of it."""
    try:
        result = pickle.loads(answer)
    except (EOFError, pickle.UnpicklingError):
        return None
    return result if isinstance(result, CaseResult) else None


def _end_of(code: int) -> str:
    """Say how a process ended that gave no answer."""
    if code >= 0:
        return f"ended with exit code {code} and without a result"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _last_words(words: IO[bytes]) -> str:
    size = words.seek(0, os.SEEK_END)
    words.seek(max(0, size - MOST_WORDS))
    lines = [line.strip() for line in words.read().decode(errors="replace").splitlines() if line.strip()]
    return f"; its last words: {' / '.join(lines[-LAST_WORDS:])}" if lines else ""
