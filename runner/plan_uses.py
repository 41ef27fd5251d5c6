"""The abstract play of all that uses memory: how it comes and goes, and the work of hosts, copy engines and kernels on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner import operations as ops
from runner.memory import kind_of
from runner.plan import Plan
from runner.plan_accesses import Accesses
from runner.plan_clocks import NOTHING, StreamClock
from runner.plan_words import name_of


class MemoryUse(Accesses):
    """The handlers of operations that use memory.

    A handler plays one operation of `lane` and returns whether the lane goes on; one that must wait is called again.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.direct = self.holdings.direct
        self.migrates = [not buffer.on_device and kind_of(buffer.memory).migrates for buffer in plan.buffers]
        self.host_used: dict[int, int] = {}
        self.faulted: set[int] = set()
        self.released: set[int] = set()
        self.copies_held = NOTHING
        self.launches_held = NOTHING
        self.grouped: set[int] = set()
        self.handlers: dict[type[Any], Callable[[Any], bool]] = {
            ops.Alloc: self._alloc,
            ops.Free: self._free,
            ops.PoolAlloc: self._pool_alloc,
            ops.PoolFree: self._pool_free,
            ops.Register: self._register,
            ops.Unregister: self._unregister,
            ops.HostCopy: self._host_copy,
            ops.HostAccess: self._host_access,
            ops.Copy: self._copy,
            ops.Launch: self._launch,
            ops.KernelCopy: self._kernel_copy,
            ops.KernelAccess: self._kernel_access,
            ops.Busy: self._busy,
            ops.Prefetch: self._prefetch,
        }

    def _alloc(self, operation: ops.Alloc) -> bool:
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, True))
        return self._whole(operation.buffer)

    def _free(self, operation: ops.Free) -> bool:
        if self._busy_behind_a_gate():
            return False
        self._whole(operation.buffer)
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, False))
        return True

    def _pool_alloc(self, operation: ops.PoolAlloc) -> bool:
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, True))
        return self._whole_in_stream(operation)

    def _pool_free(self, operation: ops.PoolFree) -> bool:
        self._whole_in_stream(operation)
        self._require(operation.buffer, self.holdings.change_alive(operation.buffer, False))
        return True

    def _whole_in_stream(self, operation: ops.PoolAlloc | ops.PoolFree) -> bool:
        """Memory of the pool comes and goes in the order of a stream: every use of it must be ordered with that."""
        stream = self.streams[operation.stream]
        stream.issue(self.lane)
        self.access(operation.buffer, 0, self.plan.buffers[operation.buffer].size, stream, True)
        return True

    def _register(self, operation: ops.Register) -> bool:
        self._require(operation.buffer, self.holdings.change_registered(operation.buffer, True))
        return self._whole(operation.buffer)

    def _unregister(self, operation: ops.Unregister) -> bool:
        if self._busy_behind_a_gate():
            return False
        self._require(operation.buffer, self.holdings.change_registered(operation.buffer, False))
        return self._whole(operation.buffer)

    def _busy_behind_a_gate(self) -> bool:
        """Whether a stream is held, for which giving memory up may wait."""
        return any(stream.held and stream.held - self.released for stream in self.streams)

    def _require(self, buffer: int, wrong: str) -> None:
        if wrong:
            self.refuse(f"{name_of(self.plan, buffer)} {wrong}")

    def _whole(self, buffer: int) -> bool:
        """A change of the memory itself conflicts with every use of it."""
        self.access(buffer, 0, self.plan.buffers[buffer].size, self.lane, True)
        return True

    def _host_copy(self, operation: ops.HostCopy) -> bool:
        lane = self.lane
        self.access(operation.src, operation.src_offset, operation.size, lane, False)
        self.access(operation.dst, operation.dst_offset, operation.size, lane, True)
        for buffer in (operation.src, operation.dst):
            if self.migrates[buffer]:
                self._require_quiet(buffer)
        lane.worked = lane.time
        return True

    def _host_access(self, operation: ops.HostAccess) -> bool:
        lane = self.lane
        self.access(operation.buffer, operation.offset, operation.size, lane, operation.access != "read")
        if self.migrates[operation.buffer]:
            self._require_quiet(operation.buffer)
        lane.worked = lane.time
        return True

    def _require_quiet(self, buffer: int) -> None:
        """Let the host use memory that migrates only after all work of all streams."""
        lane, size = self.lane, self.plan.buffers[buffer].size
        for stream in self.streams:
            if stream.worked and not lane.knows(stream.component, stream.worked):
                self.race(buffer, 0, size, stream.component, "of a kind that migrates, and work is still done")
        self.host_used[lane.component] = lane.time

    def _copy(self, operation: ops.Copy) -> bool:
        lane, stream = self.lane, self.streams[operation.stream]
        download = operation.direction == "d2h"
        host = operation.dst if download else operation.src
        staged = not self.direct[host]
        if (staged or self.migrates[host]) and lane.component in self.grouped:
            self.refuse(f"{name_of(self.plan, host)} is not page-locked now, so that only a call by itself can copy it")
        if not lane.issued:
            stream.issue(lane)
            if stream.held or self.copies_held:
                stream.held = self.copies_held = (stream.held | self.copies_held) - self.released
            reader = lane if staged and not download else stream
            self.access(operation.src, operation.src_offset, operation.size, reader, False)
            self.access(operation.dst, operation.dst_offset, operation.size, stream, True)
            stream.worked = stream.time
            if self.host_used:
                self._require_host_done(stream)
        if not (operation.blocking or staged or self.migrates[host]):
            return True
        if stream.held - self.released:
            lane.issued = True
            return False
        if operation.blocking or (staged and download):
            lane.learn(stream)
        return True

    def _launch(self, operation: ops.Launch) -> bool:
        stream = self._kernel(operation.stream)
        self._kernel_use(operation.buffer, operation.offset, operation.size, stream, True)
        return True

    def _kernel_copy(self, operation: ops.KernelCopy) -> bool:
        stream = self._kernel(operation.stream)
        self._kernel_use(operation.src, operation.src_offset, operation.size, stream, False)
        self._kernel_use(operation.dst, operation.dst_offset, operation.size, stream, True)
        return True

    def _kernel_access(self, operation: ops.KernelAccess) -> bool:
        stream = self._kernel(operation.stream)
        self._kernel_use(operation.buffer, operation.offset, operation.size, stream, operation.access != "read")
        return True

    def _busy(self, operation: ops.Busy) -> bool:
        self._kernel(operation.stream)
        return True

    def _prefetch(self, operation: ops.Prefetch) -> bool:
        """Pages that move are no use to anybody meanwhile, so it conflicts with reads, too."""
        stream = self._kernel(operation.stream)
        self.access(operation.buffer, operation.offset, operation.size, stream, True)
        return True

    def _kernel(self, number: int) -> StreamClock:
        """Issue a kernel, or what a driver may do by one, to a stream and return that."""
        stream = self.streams[number]
        stream.issue(self.lane)
        if stream.held or self.launches_held:
            stream.held = self.launches_held = (stream.held | self.launches_held) - self.released
        stream.worked = stream.time
        if self.host_used:
            self._require_host_done(stream)
        return stream

    def _require_host_done(self, stream: StreamClock) -> None:
        """Let a stream work only after all that the host did with memory that migrates."""
        for lane, time in self.host_used.items():
            if not stream.knows(lane, time):
                self.refuse(f"lane {lane} may be using memory that migrates, and nothing orders the two; a wait is missing")

    def _kernel_use(self, buffer: int, offset: int, size: int, stream: StreamClock, write: bool) -> None:
        """Note that a kernel reads or writes a range, which must be memory that it may use."""
        if not self.holdings.may_use(buffer):
            if buffer not in self.plan.faults_wanted:
                memory = self.plan.buffers[buffer].memory
                self.refuse(f"a kernel may not use {name_of(self.plan, buffer)}, whose memory is {memory}")
            self.faulted.add(buffer)
        self.access(buffer, offset, size, stream, write)
