"""The stand-in driver with the stream of each call in its log, and what a Plan says that this log must hold while the clock runs.

The two are made apart: the log by the real binding on the stand-in, the expectation from the operations alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from runner.device.cuda.data import DataWorkers
from runner.device.cuda.driver import CudaContext
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.pool import HostPool
from runner.memory import DEVICE, kind_of
from runner.plan import (
    Alloc,
    Barrier,
    Batch,
    Busy,
    Copy,
    Drain,
    Free,
    Gate,
    Graph,
    GroupEnd,
    HostAccess,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    PoolAlloc,
    PoolFree,
    Prefetch,
    Record,
    Register,
    Release,
    StreamWait,
    Unregister,
)
from tests.cuda.standin import Bench, Event, Module, Raw, StandIn, Stream

KERNELS = {"read": "read", "write": "pattern", "increment": "increment"}
QUICK = ("copy", "plain copy", "launch", "record", "prefetch", "stream waits", "null stream waits", "wait event", "wait stream")
"""How calls begin that any lane may make."""


class RecordingDriver(StandIn):
    """Says with each call in which stream it is, and of which event: `copy h2d s0`, `record null e2`."""

    def __init__(self) -> None:
        super().__init__()
        self.where = ""
        self.made: list[RecordedStream] = []
        self.Stream = self.make_stream
        self.events_made = 0
        self.Event = self.make_event

    def forget(self) -> None:
        """Count streams and events from 0 again."""
        self.made.clear()
        self.events_made = 0

    def make_event(self, flags: int) -> RecordedEvent:
        self.events_made += 1
        return RecordedEvent(self, flags, self.events_made - 1)

    def make_stream(self, flags: int) -> RecordedStream:
        self.made.append(RecordedStream(self, flags, len(self.made)))
        return self.made[-1]

    def say(self, call: str) -> None:
        super().say(call)
        self.log[-1] += self.where

    @contextmanager
    def at(self, stream: Any, event: Any = None) -> Iterator[None]:
        """Let calls be said with a stream, None being the null stream, and an event."""
        self.where = (" null" if stream is None else f" {stream.name}") + (f" e{event.number}" if event is not None else "")
        try:
            yield
        finally:
            self.where = ""

    def at_handle(self, handle: int) -> Any:
        return self.at(None if handle == 0 else self.made[handle - 1])

    def memcpy_htod_async(self, address: int, view: Any, stream: Any) -> None:
        with self.at(stream):
            super().memcpy_htod_async(address, view, stream)

    def memcpy_dtoh_async(self, view: Any, address: int, stream: Any) -> None:
        with self.at(stream):
            super().memcpy_dtoh_async(view, address, stream)


class RecordedStream(Stream):
    def __init__(self, driver: RecordingDriver, flags: int, number: int) -> None:
        super().__init__(driver, flags)
        self.name, self.handle = f"s{number}", number + 1

    def synchronize(self) -> None:
        with self.driver.at(self):  # type: ignore[attr-defined]
            super().synchronize()

    def wait_for_event(self, event: Event) -> None:
        with self.driver.at(self, event):  # type: ignore[attr-defined]
            super().wait_for_event(event)


class RecordedEvent(Event):
    def __init__(self, driver: RecordingDriver, flags: int, number: int) -> None:
        super().__init__(driver, flags)
        self.number = number

    def record(self, stream: Any) -> None:
        with self.driver.at(stream, self):  # type: ignore[attr-defined]
            super().record(stream)

    def synchronize(self) -> None:
        self.driver.say(f"wait event e{self.number}")


class RecordingModule(Module):
    def get_function(self, name: str) -> Any:
        launch = getattr(self, name)

        def at_its_stream(grid: Any, block: Any, packed: Any, shared: int, stream: Any) -> None:
            with self.driver.at(stream):  # type: ignore[attr-defined]
                launch(grid, block, packed, shared, stream)

        return SimpleNamespace(_launch_kernel=at_its_stream)


class RecordingRaw(Raw):
    driver: RecordingDriver

    def cuMemPrefetchAsync(self, address: int, size: int, location: Any, flags: int, stream: int) -> tuple[int]:
        with self.driver.at_handle(stream):
            return super().cuMemPrefetchAsync(address, size, location, flags, stream)

    def cuGraphLaunch(self, graph: Any, stream: int) -> tuple[int]:
        with self.driver.at_handle(stream):
            return super().cuGraphLaunch(graph, stream)

    def cuMemcpyBatchAsync(self, *arguments: Any) -> tuple[int]:
        with self.driver.at_handle(arguments[-1]):
            return super().cuMemcpyBatchAsync(*arguments)

    def cuMemAllocAsync(self, size: int, stream: int) -> tuple[int, int]:
        with self.driver.at_handle(stream):
            return super().cuMemAllocAsync(size, stream)

    def cuMemFreeAsync(self, address: int, stream: int) -> tuple[int]:
        with self.driver.at_handle(stream):
            return super().cuMemFreeAsync(address, stream)

    def cuEventCreate(self, flags: int) -> tuple[int, Event]:
        return 0, self.driver.make_event(flags)

    def cuEventRecord(self, event: Event, stream: int) -> tuple[int]:
        event.record(None if stream == 0 else self.driver.made[stream - 1])  # type: ignore[arg-type]
        return (0,)

    def cuStreamWaitEvent(self, stream: int, event: Event, flags: int) -> tuple[int]:
        with self.driver.at(None if stream == 0 else self.driver.made[stream - 1], event):
            return super().cuStreamWaitEvent(stream, event, flags)


class RecordingBench(Bench):
    """Sessions on a recording driver."""

    driver: RecordingDriver

    def __init__(self) -> None:
        self.driver = RecordingDriver()
        self.context = CudaContext(self.driver, RecordingRaw(self.driver), 0)
        self.kernels = Kernels(RecordingModule(self.driver), 4)
        self.pool = HostPool(1 << 24)
        self.workers = DataWorkers(self.context, scratch_bytes=4096)
        self.closed = []

    def timed_calls(self, plan: Plan, mutate: Callable[[Any], None] = lambda session: None) -> Timed:
        """Return the calls that the lane of the second play makes, and whether its data were right.

        `mutate` may change the opened session. A lane begins and ends with nothing under way, which the session sees to.
        """
        self.driver.forget()
        session = self.open(plan)
        try:
            mutate(session)
            session.play(0)
            self.driver.log.clear()
            session.play(1)
            log = list(self.driver.log)
            wrong = sum(mismatch.wrong_bytes for mismatch in session.verify())
        finally:
            session.close()
        quiet = [index for index, call in enumerate(log) if call == "synchronize context"]
        return Timed(log[quiet[-2] + 1 : quiet[-1]], wrong)


@dataclass(frozen=True)
class Timed:
    """The calls of one lane, and how many bytes were wrong after it."""

    calls: list[str]
    wrong_bytes: int = 0

    def slow(self) -> list[str]:
        """Return the calls that only a kind which times them itself may make."""
        return [call for call in self.calls if not call.startswith(QUICK)]


@dataclass(frozen=True)
class Expectation:
    """The calls that the operations of a Plan come to, written down without the binding."""

    plan: Plan

    def timed(self) -> list[str]:
        """Return the calls of the Plan's one lane."""
        (lane,) = self.plan.lanes
        # A drain of the null stream has an event of its own, made when it is bound.
        markers = itertools.count(len(self.plan.events))
        calls, handed_over = [], False
        # Graphs of what a lane registers are made in the play; where one of these Plans registers anything, its graph uses it.
        in_place = any(isinstance(operation, Register) for operation in lane)
        for index, operation in enumerate(lane):
            if isinstance(operation, GroupEnd):
                handed_over = False
            elif not handed_over:
                if isinstance(operation, Graph) and in_place:
                    captured = lane[index + 1 : lane.index(GroupEnd(), index)]
                    calls += [call for each in captured for call in self._calls_of(each, markers)] + ["instantiate"]
                calls += self._calls_of(operation, markers)
                handed_over = isinstance(operation, (Graph, Batch))
        return calls

    def _calls_of(self, operation: Operation, markers: Iterator[int]) -> Sequence[str]:
        where = self._stream(operation.stream) if hasattr(operation, "stream") else ""
        match operation:
            case Mark() | HostCopy() | HostAccess() | Barrier() | Release():
                return []
            case Copy(direction=direction, blocking=blocking):
                plain = blocking and where == "null"
                copy = f"plain copy {direction}" if plain else f"copy {direction} {where}"
                return [copy, f"wait stream {where}"] if blocking and not plain else [copy]
            case Launch(passes=passes):
                return [f"launch increment {where}"] * passes
            case KernelCopy():
                return [f"launch copy {where}"]
            case KernelAccess(access=access):
                return [f"launch {KERNELS[access]} {where}"]
            case Busy(duration_ns=duration):
                return [f"launch busy {duration} {where}"]
            case Gate():
                return [f"launch gate {where}"]
            case Prefetch():
                return [f"prefetch {where}"]
            case Record(event=event):
                return [f"record {where} e{event}"]
            case StreamWait(event=event):
                return [f"{'null stream' if where == 'null' else 'stream'} waits {where} e{event}"]
            case HostWait(event=event):
                return [f"wait event e{event}"]
            case Drain():
                return [f"wait stream {where}"] if where != "null" else self._null_drain(next(markers))
            case Alloc(buffer=buffer):
                return self._memory_calls(buffer, "allocate", "register")
            case Free(buffer=buffer):
                return self._memory_calls(buffer, "free", "unregister")
            case PoolAlloc():
                return [f"pool allocate {where}"]
            case PoolFree():
                return [f"pool free {where}"]
            case Graph():
                return [f"launch graph {where}"]
            case Batch():
                return [f"copy batch {where}"]
            case Register():
                return ["register"]
            case Unregister():
                return ["unregister"]
        raise AssertionError(operation)

    def _null_drain(self, marker: int) -> list[str]:
        return [f"record null e{marker}", f"wait event e{marker}"]

    def _stream(self, stream: int) -> str:
        of_its_own = [index for index, each in enumerate(self.plan.streams) if each.kind != "null"]
        return f"s{of_its_own.index(stream)}" if stream in of_its_own else "null"

    def _memory_calls(self, buffer: int, verb: str, in_place: str) -> list[str]:
        memory = self.plan.buffers[buffer].memory
        if memory == DEVICE:
            return [f"{verb} device"]
        kind = kind_of(memory)
        if kind.registers:
            return [in_place]
        if kind.migrates:
            return [f"{verb} managed"]
        return [f"{verb} pinned"] if kind.page_locked else []
