"""One opened Plan on the real device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns
from typing import Any

from runner.device.contract import Mismatch, Trace
from runner.device.cuda.bind import Binder
from runner.device.cuda.buffers import SessionMemory
from runner.device.cuda.cupti import Recorder
from runner.device.cuda.data import DataWorkers
from runner.device.cuda.driver import CudaContext, abandon
from runner.device.cuda.events import Events
from runner.device.cuda.gates import Gates
from runner.device.cuda.graphs import Graphs
from runner.device.cuda.host_copier import CopierLibrary, make_copier
from runner.device.cuda.host_work import make_helpers
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.lanes import Failure, play_lanes
from runner.device.cuda.pool import HostPool
from runner.device.cuda.recording import Recording, Unrecorded
from runner.device.cuda.resources import BoundLane, PlayState, Resources
from runner.errors import CaseError, CaseFailed, DmalabError
from runner.plan import KernelAccess, Operation, Plan, PoolAlloc, Record, Register, Stream

_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING of cuda.h."""


class CudaSession:
    """Buffers, streams, events and ready calls of one Plan; see `runner.device.contract.Session`."""

    def __init__(
        self,
        context: CudaContext,
        kernels: Kernels,
        pool: HostPool,
        workers: DataWorkers,
        plan: Plan,
        on_close: Callable[[CudaSession], None],
        recorder: Recorder | None = None,
        copying: CopierLibrary | None = None,
    ) -> None:
        self._context, self._plan, self._on_close, self._recorder = context, plan, on_close, recorder
        self._closed = self._failed = self._asked = False
        self._host_copier = ""
        self._lanes: list[BoundLane] = []
        self._prepare, self._teardown = BoundLane(), BoundLane()
        self._recorded = {operation.event for lane in plan.lanes for operation in lane if isinstance(operation, Record)}
        several = len(plan.lanes) > 1
        self._barrier = threading.Barrier(len(plan.lanes)) if several else None
        self._start = threading.Barrier(len(plan.lanes)) if several else None
        self._workers = workers
        self._memory = SessionMemory(context, pool, plan.buffers)
        self._of: Resources | None = None
        try:
            self._open(kernels, copying)
        except BaseException as error:
            self._failed = True
            self.close()
            if isinstance(error, context.cuda.Error):
                raise CaseFailed(f"opening the case failed: {error}") from error
            raise

    def play(self, sample: int, *, record: bool = False) -> Trace:
        """Play the Plan once. Raises CaseFailed, naming the operation, where the driver refuses one; no play is possible then."""
        self._context.require_usable()
        of = self._resources()
        if self._failed:
            raise CaseFailed("an earlier play of this case failed, so no other can be trusted")
        if self._recorder is not None and not record:
            self._recorder.detach()
        of.state.begin(sample)
        of.graphs.begin_play()
        begun = perf_counter_ns()
        try:
            self._run("prepare", self._prepare)
            of.gates.shut_all()
            self._context.synchronize()
            prepared = perf_counter_ns()
            with self._recording(of) if record else Unrecorded(self._lanes) as played:
                started = perf_counter_ns()
                failure = play_lanes(played.lanes, self._context.current, self._start, self._unblock)
                if failure is not None:
                    raise self._explain(failure, self._plan.lanes[failure[0]], f"lane {failure[0]}")
                self._context.synchronize()
                ended = perf_counter_ns()
            of.graphs.end_play()
            times = of.events.times(self._recorded)
            if not self._asked:
                self._memory.ask_all()
                self._asked = True
        except BaseException as error:
            self._failed = True
            if isinstance(error, self._context.cuda.Error):
                self._context.check_lost()
                raise CaseFailed(f"the work of this play failed on the device: {error}{self._suspect()}") from error
            raise
        return Trace(
            tuple(of.state.host_ns),
            times,
            tuple(self._memory.facts),
            played.activities,
            gate_timeout=of.gates.timed_out(),
            cpu_ns=tuple(of.state.cpu_ns),
            memory_bytes=tuple(of.state.memory_bytes),
            not_recorded=played.problem,
            numa_nodes=tuple(self._memory.numa_nodes),
            host_copier=self._host_copier,
            instantiate_ns=of.graphs.making_ns(),
            spent_ns=(prepared - begun, ended - started),
        )

    def verify(self) -> tuple[Mismatch, ...]:
        """Compare the Plan's expects with the bytes of the last play."""
        self._context.require_usable()
        of = self._resources()
        try:
            found = (
                of.workers.check(
                    self._plan.buffers[expect.buffer].name, self._memory.region(expect.buffer), expect, of.state.sample
                )
                for expect in self._plan.expects
            )
            return tuple(mismatch for mismatch in found if mismatch is not None)
        except self._context.cuda.Error as error:
            self._failed = True
            self._context.check_lost()
            raise CaseFailed(f"reading the data back failed: {error}") from error

    def close(self) -> None:
        """Wait for all work, then free everything; safe to call twice and after a failure."""
        if self._closed or not self._context.of_this_process:
            return
        self._closed = True
        of, self._of = self._of, None
        if of is not None:
            of.gates.open_all()
            with suppress(self._context.cuda.Error):
                # Nothing may be freed while the device still uses it, also after an exception.
                self._context.synchronize()
            if not self._failed:
                self._tear_down()
        self._context.check_lost()
        self._forget(of)
        self._memory.close()
        self._on_close(self)

    def _open(self, kernels: Kernels, copying: CopierLibrary | None) -> None:
        plan, context, marks = self._plan, self._context, len(self._plan.marks)
        copier = make_copier(copying, plan)
        self._host_copier = (copying.name if copying and copier else "numpy") if plan.copying_threads() else ""
        of = self._of = Resources(
            context=context,
            kernels=kernels,
            memory=self._memory,
            workers=self._workers,
            streams=[make_stream(context.cuda, stream) for stream in plan.streams],
            events=Events(context, plan),
            gates=Gates(context, kernels, plan.gates),
            graphs=Graphs(context),
            barrier=self._barrier,
            helpers=make_helpers(plan, copies=copier is None),
            copier=copier,
            state=PlayState(0, [None] * marks, [None] * marks, [None] * marks),
        )
        binder = Binder(plan, of)
        if any(isinstance(operation, PoolAlloc) for operation in plan.operations()):
            self._memory.use_ordered_pool()
        for buffer in binder.late_buffers():
            self._memory.try_huge_pages(buffer)
        for operation in plan.setup:
            for call in binder.bind_setup(operation):
                call()
        self._prepare = binder.bind(plan.prepare)
        self._lanes = [binder.bind(lane) for lane in plan.lanes]
        self._teardown = binder.bind(plan.teardown)

    def _recording(self, of: Resources) -> Recording | Unrecorded:
        why_not = "this session was opened without a recorder" if self._recorder is None else self._recorder.why_not()
        if self._recorder is None or why_not:
            return Unrecorded(self._lanes, why_not)
        return Recording(self._recorder, self._plan, self._lanes, of.streams)

    def _run(self, part: str, bound: BoundLane) -> None:
        """Make untimed calls, naming the operation that fails."""
        for owner, call in zip(bound.owners, bound.calls, strict=True):
            try:
                call()
            except self._context.cuda.Error as error:
                operations = self._plan.prepare if part == "prepare" else self._plan.teardown
                raise self._explain((0, owner, error), operations, part) from error

    def _tear_down(self) -> None:
        # What teardown cannot free is freed by `close` all the same, and a case that was measured stays measured.
        with suppress(CaseError):
            self._run("teardown", self._teardown)
        with suppress(self._context.cuda.Error):
            self._context.synchronize()

    def _forget(self, of: Resources | None) -> None:
        """Drop every ready call, then streams, events and threads.

        PyCUDA destroys a stream or event with its last reference, and only in the thread that has its context; so the lists are
        emptied here, and nothing is left for the garbage collector, which runs in any thread.
        """
        bounds = (self._prepare, *self._lanes, self._teardown)
        if self._context.lost:
            abandon((of and of.streams.copy(), [bound.calls.copy() for bound in bounds]))
        for bound in bounds:
            bound.calls.clear()
        if of is None:
            return
        of.streams.clear()
        of.graphs.close()
        of.events.close()
        of.gates.close()
        if of.helpers is not None:
            of.helpers.shutdown()
        if of.copier is not None:
            of.copier.close()

    def _unblock(self) -> None:
        if self._of is not None:
            self._of.gates.open_all()
        for barrier in (self._barrier, self._start):
            if barrier is not None:
                barrier.abort()

    def _explain(self, failure: Failure, operations: tuple[Operation, ...], part: str) -> BaseException:
        _, index, error = failure
        if isinstance(error, CaseError):
            return error
        self._context.check_lost()
        if not isinstance(error, self._context.cuda.Error):
            return error
        operation = operations[index]
        if isinstance(operation, Register) and not self._context.lost:
            told = self._memory.refusal(operation.buffer, "page-locked", error)
        else:
            told = f"{error} in operation {index} of {part}, {operation}{self._suspect()}"
        # Its traceback is the timed loop, which says nothing and would keep the failed call's stream alive.
        return _caused(CaseFailed(told), error.with_traceback(None))

    def _suspect(self) -> str:
        """Name the kernel that a lost Plan wanted to go astray: the error shows at whatever call comes after it."""
        wanted = self._plan.faults_wanted if self._context.lost else frozenset()
        for number, lane in enumerate(self._plan.lanes):
            for index, operation in enumerate(lane):
                if isinstance(operation, KernelAccess) and operation.buffer in wanted:
                    name = self._plan.buffers[operation.buffer].name
                    return f"; the kernel of operation {index} of lane {number}, {operation}, used the host's address of {name}"
        return ""

    def _resources(self) -> Resources:
        if self._of is None:
            raise DmalabError("the session is closed")
        return self._of


def make_stream(cuda: Any, stream: Stream) -> Any:
    """Return a PyCUDA stream of the kind asked for, None for the null stream, which has no object there."""
    if stream.kind == "null":
        return None
    return cuda.Stream(_NON_BLOCKING if stream.kind == "non_blocking" else 0)


def _caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer
