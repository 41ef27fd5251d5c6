"""NVTX ranges around plays and operations, by which nsys and other profilers show our names.

They are bound only where they are asked for: a session without them has the same ready calls as ever. With them two more calls
stand around the calls of each operation, also in the timed loop, so every row of such a run is flagged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import Any, Final

from runner.device.activities import size_of, stream_of
from runner.device.contract import Trace
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.resources import BoundLane
from runner.device.cuda.session import CudaSession
from runner.device.ranges import NVTX, ranges_wanted
from runner.errors import EnvironmentProblem
from runner.plan import Copy, Mark, Operation, Plan

DOMAIN: Final = "dmalab"
UNTITLED: Final = "what cases are held against"


class Ranges:
    """The ranges of one process, in a domain of their own; `module` is the package nvtx."""

    def __init__(self, module: Any) -> None:
        self._domain = module.get_domain(DOMAIN)

    def around(self, plan: Plan, operations: Sequence[Operation], lane: BoundLane) -> BoundLane:
        """Return a lane with a range around the calls of each operation but marks, whose clocks shall read nothing of it."""
        ranged = BoundLane()
        calls = zip(lane.owners, lane.calls, strict=True)
        for owner, group in groupby(calls, key=lambda each: each[0]):
            own = [call for _, call in group]
            if not isinstance(operations[owner], Mark):
                own = [self._push(operation_name(plan, operations[owner])), *own, self._domain.pop_range]
            ranged.calls += own
            ranged.owners += [owner] * len(own)
        return ranged

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Put a range around a block."""
        self._push(name)()
        try:
            yield
        finally:
            self._domain.pop_range()

    def _push(self, name: str) -> Callable[[], Any]:
        return partial(self._domain.push_range, self._domain.get_event_attributes(message=name))


class NvtxSession(CudaSession):
    """A session with ranges: one a play, named by the Plan's title, and in it one for each operation of a lane."""

    def __init__(self, ranges: Ranges, *resources: Any) -> None:
        self._ranges = ranges
        super().__init__(*resources)

    def play(self, sample: int, *, record: bool = False) -> Trace:
        """Play the Plan once, inside a range."""
        with self._ranges.named(f"{self._plan.title or UNTITLED}, play {sample}{', recorded' if record else ''}"):
            return super().play(sample, record=record)

    def _open(self, kernels: Kernels, copying: Any) -> None:
        super()._open(kernels, copying)
        pairs = zip(self._plan.lanes, self._lanes, strict=True)
        self._lanes = [self._ranges.around(self._plan, operations, lane) for operations, lane in pairs]


def load_ranges(environment: Mapping[str, str], load: Callable[[str], Any] = import_module) -> Ranges | None:
    """Return the ranges where the variable DMALAB_NVTX asks for them, None where it does not.

    Raises EnvironmentProblem where the package nvtx is missing.
    """
    if not ranges_wanted(environment):
        return None
    try:
        return Ranges(load("nvtx"))
    except ImportError as error:
        raise EnvironmentProblem(
            f"--nvtx (or {NVTX}) asks for ranges, but the package nvtx cannot be imported ({error}); pip install nvtx"
        ) from error


def operation_name(plan: Plan, operation: Operation) -> str:
    """Return what a range is called: `Copy h2d 4194304 B, h2d 0` (type, direction, bytes, the stream's name)."""
    words = [type(operation).__name__]
    if isinstance(operation, Copy):
        words.append(operation.direction)
    size, stream = size_of(plan, operation), stream_of(operation)
    if size:
        words.append(f"{size} B")
    return " ".join(words) + (f", {plan.streams[stream].name}" if stream >= 0 else "")
