"""Proof that a Plan is safe to play, made before any device sees it.

`check_bounds` looks at each operation by itself: indices inside the tables, ranges inside their buffers, directions that agree
with where the buffers lie. `check_groups` (`runner.plan_group_rules`) looks at what one call hands over together. `check_order`
(`runner.plan_order`) looks at all of them: no deadlock, no use of memory that is not there, and no race but those that the Plan
declares. Real bytes do not reveal a missing wait, since a copy of half a millisecond never loses against a host copy of six, so
order is proven here and bytes prove coverage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from runner import operations as ops
from runner.errors import PlanError
from runner.memory import kind_of
from runner.pattern import FLAT, WORD
from runner.plan import Buffer, Expect, Plan
from runner.plan_group_rules import check_groups
from runner.plan_order import check_order
from runner.plan_words import place

__all__ = ["check_bounds", "check_groups", "check_order", "check_plan"]

_UNTIMED: Final = (ops.Alloc, ops.Free, ops.Register, ops.Unregister, ops.Fill)
"""What may stand outside the lanes; in `prepare` a Prefetch, too."""


def check_plan(plan: Plan) -> None:
    """Prove that every device can play `plan`; raises PlanError naming the lane, the operation and the buffer."""
    check_bounds(plan)
    check_groups(plan)
    check_order(plan)


def check_bounds(plan: Plan) -> None:
    """Check each operation and expectation of `plan` by itself; raises PlanError at the first that cannot be right.

    Indices lie in the tables, ranges in their buffers, kernels and accesses in place cover whole words, directions agree with
    where buffers lie, kinds can do what is asked of them, each event is recorded and each mark read at most once, each gate has
    its release, all lanes hold as many barriers. Whether a kernel may use a buffer is for `check_order`,
    since Register changes it.
    """
    bounds = _Bounds(plan)
    for phase, operations in (("setup", plan.setup), ("prepare", plan.prepare), ("teardown", plan.teardown)):
        bounds.check_untimed(phase, operations)
    for number, lane in enumerate(plan.lanes):
        bounds.check_lane(f"lane {number}", lane)
    bounds.check_whole()


class _Bounds:
    """One pass over a Plan; `phase`, `index` and `operation` say where it is."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.phase = ""
        self.index = 0
        self.operation: ops.Operation = ops.Barrier()
        self.recorded: set[int] = set()
        self.awaited: dict[int, str] = {}
        self.marked: set[int] = set()
        self.gated: dict[int, str] = {}
        self.released: set[int] = set()
        self.barriers: list[int] = []
        self.sizes = tuple(buffer.size for buffer in plan.buffers)
        self.on_device = tuple(buffer.on_device for buffer in plan.buffers)
        self.checks: dict[type[Any], Callable[[Any], None]] = {
            ops.Alloc: self._buffer_only,
            ops.Free: self._buffer_only,
            ops.PoolAlloc: self._pooled,
            ops.PoolFree: self._pooled,
            ops.Register: self._registration,
            ops.Unregister: self._registration,
            ops.Fill: self._refused_on_lanes,
            ops.HostCopy: self._host_copy,
            ops.Copy: self._copy,
            ops.Launch: self._launch,
            ops.KernelCopy: self._kernel_copy,
            ops.KernelAccess: self._kernel_access,
            ops.HostAccess: self._host_access,
            ops.Busy: self._busy,
            ops.Prefetch: self._prefetch,
            ops.Record: self._record,
            ops.StreamWait: self._stream_wait,
            ops.HostWait: self._host_wait,
            ops.Drain: self._drain,
            ops.Barrier: self._barrier,
            ops.Gate: self._gate,
            ops.Release: self._release,
            ops.Graph: self._drain,
            ops.Batch: self._drain,
            ops.GroupEnd: lambda operation: None,
            ops.Mark: self._mark,
        }

    def check_untimed(self, phase: str, operations: tuple[ops.Operation, ...]) -> None:
        """Check a part that runs by itself, outside what is timed."""
        self.phase = phase
        for self.index, self.operation in enumerate(operations):
            operation = self.operation
            if not (isinstance(operation, _UNTIMED) or (phase == "prepare" and isinstance(operation, ops.Prefetch))):
                also = " (and Prefetch)" if phase == "prepare" else ""
                self._refuse(f"only Alloc, Free, Register, Unregister and Fill{also} may stand in {phase}")
            if isinstance(operation, ops.Fill):
                self._range(operation.buffer, operation.offset, operation.size)
            else:
                self.checks[type(operation)](operation)

    def check_lane(self, phase: str, operations: tuple[ops.Operation, ...]) -> None:
        """Check the operations of one lane."""
        self.phase = phase
        self.barriers.append(0)
        checks = self.checks
        for index, operation in enumerate(operations):
            self.index, self.operation = index, operation
            checks[type(operation)](operation)

    def check_whole(self) -> None:
        """Check what only the whole Plan shows."""
        plan = self.plan
        if len(set(self.barriers)) > 1:
            raise PlanError(f"the lanes hold {self.barriers} barriers; all must hold the same number")
        for event, where in self.awaited.items():
            if event not in self.recorded:
                raise PlanError(f"{where}: event {plan.events[event].name!r} is never recorded")
        for gate, where in self.gated.items():
            if gate not in self.released:
                raise PlanError(f"{where}: gate {gate} is never released")
        for number, expect in enumerate(plan.expects):
            _check_expect(plan, number, expect)
        for buffer in plan.buffers:
            _check_pages(buffer)
        for what, wanted in (("races_wanted", plan.races_wanted), ("faults_wanted", plan.faults_wanted)):
            for index in wanted:
                if not 0 <= index < len(plan.buffers):
                    raise PlanError(f"{what} names buffer {index}, but the table has {len(plan.buffers)}")

    def _buffer_only(self, operation: ops.Alloc | ops.Free) -> None:
        self._buffer(operation.buffer)

    def _pooled(self, operation: ops.PoolAlloc | ops.PoolFree) -> None:
        self._stream(operation.stream)
        self._buffer(operation.buffer)
        if not self.on_device[operation.buffer]:
            self._refuse("the pool has memory of the device alone")

    def _registration(self, operation: ops.Register | ops.Unregister) -> None:
        self._buffer(operation.buffer)
        if self.on_device[operation.buffer]:
            self._refuse("only host memory can be registered")
        memory = self.plan.buffers[operation.buffer].memory
        if kind_of(memory).asynchronous:
            self._refuse(f"{memory} memory needs no registration, and a driver refuses it")

    def _refused_on_lanes(self, operation: ops.Fill) -> None:
        self._refuse("Fill may stand only in setup and prepare, since it is never timed")

    def _host_copy(self, operation: ops.HostCopy) -> None:
        self._range(operation.dst, operation.dst_offset, operation.size)
        self._range(operation.src, operation.src_offset, operation.size)
        if self.on_device[operation.dst] or self.on_device[operation.src]:
            self._refuse("a host copy goes between host buffers; memory of the device is reached by Copy")
        self._threads(operation.threads)
        if operation.dst == operation.src and abs(operation.dst_offset - operation.src_offset) < operation.size:
            self._refuse("source and destination overlap")

    def _copy(self, operation: ops.Copy) -> None:
        self._stream(operation.stream)
        self._range(operation.dst, operation.dst_offset, operation.size)
        self._range(operation.src, operation.src_offset, operation.size)
        sides = (self.on_device[operation.src], self.on_device[operation.dst])
        if sides != ((False, True) if operation.direction == "h2d" else (True, False)):
            src, dst = self.plan.buffers[operation.src], self.plan.buffers[operation.dst]
            self._refuse(
                f"direction {operation.direction} does not fit: "
                f"{src.name!r} lies in {src.memory} memory, {dst.name!r} in {dst.memory}"
            )

    def _launch(self, operation: ops.Launch) -> None:
        self._stream(operation.stream)
        self._words(operation.buffer, operation.offset, operation.size)
        if operation.passes < 1:
            self._refuse(f"{operation.passes} passes do nothing; at least 1")

    def _kernel_copy(self, operation: ops.KernelCopy) -> None:
        self._stream(operation.stream)
        self._words(operation.dst, operation.dst_offset, operation.size)
        self._words(operation.src, operation.src_offset, operation.size)
        if self.on_device[operation.dst] == self.on_device[operation.src]:
            self._refuse("a copy by a kernel goes between a host buffer and one of the device")

    def _kernel_access(self, operation: ops.KernelAccess) -> None:
        self._stream(operation.stream)
        self._access(operation)

    def _host_access(self, operation: ops.HostAccess) -> None:
        self._access(operation)
        if self.on_device[operation.buffer]:
            self._refuse("the processor cannot use memory of the device in place")
        self._threads(operation.threads)

    def _access(self, operation: ops.KernelAccess | ops.HostAccess) -> None:
        self._words(operation.buffer, operation.offset, operation.size)
        if operation.access == "write" and operation.salt < FLAT:
            self._refuse(f"salt {operation.salt} is not flat; what is written in place has a salt of {FLAT} or more")

    def _busy(self, operation: ops.Busy) -> None:
        self._stream(operation.stream)
        if operation.duration_ns < 1:
            self._refuse(f"{operation.duration_ns} ns keep nothing busy; at least 1")

    def _prefetch(self, operation: ops.Prefetch) -> None:
        self._stream(operation.stream)
        self._range(operation.buffer, operation.offset, operation.size)
        buffer = self.plan.buffers[operation.buffer]
        if buffer.on_device or not kind_of(buffer.memory).migrates:
            self._refuse(f"{buffer.memory} memory does not migrate, so nothing of it can be prefetched")

    def _record(self, operation: ops.Record) -> None:
        self._stream(operation.stream)
        self._event(operation.event)
        if operation.event in self.recorded:
            self._refuse(f"event {self.plan.events[operation.event].name!r} is recorded twice")
        self.recorded.add(operation.event)

    def _stream_wait(self, operation: ops.StreamWait) -> None:
        self._stream(operation.stream)
        self._host_wait(operation)

    def _host_wait(self, operation: ops.HostWait | ops.StreamWait) -> None:
        self._event(operation.event)
        if operation.event not in self.recorded:
            self.awaited.setdefault(operation.event, self._place())

    def _drain(self, operation: ops.Drain | ops.Graph | ops.Batch) -> None:
        self._stream(operation.stream)

    def _barrier(self, operation: ops.Barrier) -> None:
        self.barriers[-1] += 1

    def _gate(self, operation: ops.Gate) -> None:
        self._stream(operation.stream)
        self._inside("gate", operation.gate, self.plan.gates)
        self.gated.setdefault(operation.gate, self._place())

    def _release(self, operation: ops.Release) -> None:
        self._inside("gate", operation.gate, self.plan.gates)
        if operation.gate in self.released:
            self._refuse(f"gate {operation.gate} is released twice")
        self.released.add(operation.gate)

    def _mark(self, operation: ops.Mark) -> None:
        self._inside("mark", operation.mark, len(self.plan.marks))
        if operation.mark in self.marked:
            self._refuse(f"mark {self.plan.marks[operation.mark]!r} is read twice")
        self.marked.add(operation.mark)

    def _buffer(self, buffer: int) -> None:
        if not 0 <= buffer < len(self.sizes):
            self._inside("buffer", buffer, len(self.sizes))

    def _stream(self, stream: int) -> None:
        if not 0 <= stream < len(self.plan.streams):
            self._inside("stream", stream, len(self.plan.streams))

    def _event(self, event: int) -> None:
        if not 0 <= event < len(self.plan.events):
            self._inside("event", event, len(self.plan.events))

    def _range(self, buffer: int, offset: int, size: int) -> None:
        if not 0 <= buffer < len(self.sizes):
            self._inside("buffer", buffer, len(self.sizes))
        if size < 1 or offset < 0 or offset + size > self.sizes[buffer]:
            name, whole = self.plan.buffers[buffer].name, self.sizes[buffer]
            self._refuse(f"{size} bytes from byte {offset} on do not lie inside buffer {name!r} of {whole} bytes")

    def _words(self, buffer: int, offset: int, size: int) -> None:
        self._range(buffer, offset, size)
        if offset % WORD or size % WORD:
            self._refuse(f"offset {offset} and size {size} must be multiples of {WORD}")

    def _threads(self, threads: int) -> None:
        if threads < 1:
            self._refuse(f"{threads} threads do nothing; at least 1")

    def _inside(self, what: str, number: int, length: int) -> None:
        if not 0 <= number < length:
            self._refuse(f"there is no {what} {number}; the Plan has {length}")

    def _place(self) -> str:
        return place(self.plan, self.phase, self.index, self.operation)

    def _refuse(self, why: str) -> None:
        raise PlanError(f"{self._place()}: {why}")


def _check_pages(buffer: Buffer) -> None:
    allowed = frozenset({"normal"}) if buffer.on_device else kind_of(buffer.memory).pages
    if buffer.pages not in allowed:
        raise PlanError(
            f"buffer {buffer.name!r}: {buffer.memory} memory has no {buffer.pages} pages, only {', '.join(sorted(allowed))}"
        )


def _check_expect(plan: Plan, number: int, expect: Expect) -> None:
    if not 0 <= expect.buffer < len(plan.buffers):
        raise PlanError(f"expect {number}: there is no buffer {expect.buffer}; the Plan has {len(plan.buffers)}")
    buffer = plan.buffers[expect.buffer]
    if expect.size < 1 or expect.offset < 0 or expect.offset + expect.size > buffer.size:
        raise PlanError(
            f"expect {number}: {expect.size} bytes from byte {expect.offset} on do not lie inside buffer {buffer.name!r} "
            f"of {buffer.size} bytes"
        )
    if expect.source_offset < 0:
        raise PlanError(f"expect {number} of buffer {buffer.name!r}: source_offset {expect.source_offset} is negative")
    if expect.added and (expect.offset % WORD or expect.source_offset % WORD):
        raise PlanError(
            f"expect {number} of buffer {buffer.name!r}: words were added to, so offset {expect.offset} and source_offset "
            f"{expect.source_offset} must be multiples of {WORD}"
        )
