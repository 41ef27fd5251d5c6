"""One case in a process of its own: what runs in that process, and the job and the result that cross between the two.

Started by `runner.execution.isolated` as `python -m runner.execution.worker FD`: the job comes by standard input, the result goes
by standard output, both pickled, and FD is a pipe that ends with the parent.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO

from runner.device.contract import Device
from runner.device.select import open_device
from runner.errors import CaseError, EnvironmentProblem
from runner.execution.process import end_with_parent
from runner.expand import Case
from runner.measure.case import measure_case
from runner.measure.companions import CompanionBook
from runner.measure.result import CaseResult, refused
from runner.spec.experiment import Measure


@dataclass(frozen=True, slots=True)
class Job:
    """One case for a worker: `device` is a name that `open_device` takes, `host_bytes` the host memory that buffers may take."""

    device: str
    case: Case
    host_bytes: int
    measure: Measure


def work(job: Job, answer: BinaryIO) -> None:
    """Open the job's device, measure its case with the companions that it has, and write the pickled result.

    Where the case asks for it, this process may lock less memory from here on. A device that cannot be opened gives `not_run`.
    The result is written before the device is closed: what a hazard has broken may break the closing, too, and the case was
    measured all the same.
    """
    limit = job.case.model.memlock_bytes()
    if limit is not None:
        lower_memlock(limit)
    try:
        opened = open_device(job.device, job.measure.wait)
    except EnvironmentProblem as error:
        _send(CaseResult(job.case, "not_run", f"a process of its own could not open the device: {error}"), answer)
        return
    with closing(opened.device) as device:
        _send(_measured(device, job), answer)


def lower_memlock(limit: int) -> None:
    """Let this process lock at most `limit` bytes of memory, or what it could before if that is less (RLIMIT_MEMLOCK, soft)."""
    # Only where there are such limits is there this module; workers start nowhere else.
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (least_limit(limit, (soft, hard), resource.RLIM_INFINITY), hard))


def least_limit(limit: int, bounds: tuple[int, int], unlimited: int) -> int:
    """Return the least of a limit and the bounds that are there already; `unlimited` stands for no bound."""
    return min([limit, *(bound for bound in bounds if bound != unlimited)])


def _measured(device: Device, job: Job) -> CaseResult:
    try:
        prepared = CompanionBook(device, job.host_bytes, job.measure).prepare(job.case)
        return measure_case(device, device.facts(), prepared, job.measure)
    except CaseError as error:
        return refused(job.case, error)


def _send(result: CaseResult, answer: BinaryIO) -> None:
    pickle.dump(result, answer)
    answer.flush()


def main() -> None:
    """Read one job and answer it."""
    answer = os.fdopen(os.dup(1), "wb")
    # Whatever a library or a compiler prints belongs to the words of this process, not into its answer.
    os.dup2(2, 1)
    end_with_parent(int(sys.argv[1]))
    with answer:
        work(pickle.load(sys.stdin.buffer), answer)


if __name__ == "__main__":
    main()
