"""The events of one session.

PyCUDA's events do all but one thing: its null stream, which has no object, cannot wait for one. Where a Plan asks for that, all
of its events come from cuda.bindings instead, on the same context.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from runner.device.cuda.driver import CudaContext, abandon
from runner.device.cuda.kernels import Call
from runner.plan import Plan, StreamWait

_BLOCKING_SYNC: Final = 1
"""CU_EVENT_BLOCKING_SYNC of cuda.h."""


class Events:
    """All events of a Plan by index, each of them made when the session is opened."""

    def __init__(self, context: CudaContext, plan: Plan) -> None:
        self._context, self._plan = context, plan
        null = {index for index, stream in enumerate(plan.streams) if stream.kind == "null"}
        raw = any(isinstance(operation, StreamWait) and operation.stream in null for operation in plan.operations())
        timing, silent = context.cuda.event_flags.DEFAULT, context.cuda.event_flags.DISABLE_TIMING
        # Events have their own way to wait, whatever the context's is.
        sleeping = _BLOCKING_SYNC if context.wait == "block" else 0
        make = partial(RawEvent, context) if raw else context.cuda.Event
        self._events: list[Any] = [make(int(timing if event.timed else silent) | sleeping) for event in plan.events]

    def record(self, event: int, stream: Any) -> Call:
        """Return a ready call that records an event in a stream, None being the null stream."""
        return partial(self._events[event].record, stream)

    def host_wait(self, event: int) -> Call:
        """Return a ready call that waits for an event."""
        wait: Call = self._events[event].synchronize
        return wait

    def stream_wait(self, event: int, stream: Any) -> list[Call]:
        """Return the ready call that lets a stream wait for an event."""
        if stream is None:
            return [self._events[event].null_stream_waits]
        if isinstance(self._events[event], RawEvent):
            return [partial(self._events[event].stream_waits, stream)]
        return [partial(stream.wait_for_event, self._events[event])]

    def times(self, recorded: set[int]) -> tuple[int | None, ...]:
        """Return the nanoseconds of each timed event since the first timed one; all work has been waited for."""
        timed = [index for index, event in enumerate(self._plan.events) if event.timed and index in recorded]
        answers: list[int | None] = [None] * len(self._events)
        for index in timed:
            answers[index] = round(self._events[index].time_since(self._events[timed[0]]) * 1e6)
        return tuple(answers)

    def close(self) -> None:
        """Destroy the events; all work has been waited for."""
        if self._context.lost:
            abandon(self._events.copy())
        for event in self._events:
            if isinstance(event, RawEvent) and not self._context.lost:
                event.destroy()
        self._events.clear()


class RawEvent:
    """An event of cuda.bindings with the calls of PyCUDA's, and a wait of the null stream besides."""

    def __init__(self, context: CudaContext, flags: int) -> None:
        self._context, self._raw = context, context.raw
        status, self._event = self._raw.cuEventCreate(flags)
        context.check("cuEventCreate", (status,))

    def record(self, stream: Any) -> None:
        """Record in a stream of PyCUDA, None being the null stream."""
        handle = 0 if stream is None else stream.handle
        self._context.check("cuEventRecord", self._raw.cuEventRecord(self._event, handle))

    def synchronize(self) -> None:
        """Wait until it has happened."""
        self._context.check("cuEventSynchronize", self._raw.cuEventSynchronize(self._event))

    def stream_waits(self, stream: Any) -> None:
        """Let a stream of PyCUDA wait for it."""
        self._context.check("cuStreamWaitEvent", self._raw.cuStreamWaitEvent(stream.handle, self._event, 0))

    def null_stream_waits(self) -> None:
        """Let the null stream wait for it."""
        self._context.check("cuStreamWaitEvent", self._raw.cuStreamWaitEvent(0, self._event, 0))

    def time_since(self, other: RawEvent) -> float:
        """Return the milliseconds since another event."""
        status, ms = self._raw.cuEventElapsedTime(other._event, self._event)
        self._context.check("cuEventElapsedTime", (status,))
        return float(ms)

    def destroy(self) -> None:
        """Give it back."""
        self._context.check("cuEventDestroy", self._raw.cuEventDestroy(self._event))
