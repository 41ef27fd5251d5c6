"""Playing a case in a fresh process, so that a lost context, a crash or a hang costs one row and nothing else."""

from __future__ import annotations

import pickle
import subprocess
from contextlib import closing

from runner.device.contract import DeviceFacts
from runner.errors import EnvironmentProblem
from runner.execution.deadline import deadline_of
from runner.execution.process import Child
from runner.execution.worker import Job
from runner.measure.result import CaseResult


def play_apart(job: Job, deadline_s: float | None = None) -> CaseResult:
    """Measure a case in a process of its own and return its result; never raises for what happens in there.

    A worker that has not answered after `deadline_s` seconds (by default `deadline_of`) is killed with all that it has
    started: `timeout`. One that ends without an answer is `failed`, with its signal or exit code and its last words.
    """
    limit_s = deadline_of(job.case, job.measure, job.host_bytes) if deadline_s is None else deadline_s
    try:
        started = Child("runner.execution.worker", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except EnvironmentProblem as error:
        return CaseResult(job.case, "failed", str(error))
    with closing(started) as child:
        hung = False
        try:
            answer, _ = child.process.communicate(pickle.dumps(job), timeout=limit_s)
        except subprocess.TimeoutExpired:
            hung = True
            child.kill()
            answer, _ = child.process.communicate()
        result = _result_in(answer)
        if result is not None:
            return result
        if hung:
            said = f"its process had not ended after {limit_s:.0f} s and was killed{child.last_words()}"
            return CaseResult(job.case, "timeout", said)
        return CaseResult(job.case, "failed", f"its process {child.end_in_words()}")


def address_of(facts: DeviceFacts) -> str:
    """Return the name by which a worker opens the same real device; empty for any other, which no case can break."""
    ordinal = facts.environment.get("ordinal")
    return f"cuda:{ordinal}" if facts.kind == "cuda" and ordinal is not None else ""


def _result_in(answer: bytes) -> CaseResult | None:
    """Return the result that a worker wrote, None where it ended before it had written all of it."""
    try:
        result = pickle.loads(answer)
    except (EOFError, pickle.UnpicklingError):
        return None
    return result if isinstance(result, CaseResult) else None
