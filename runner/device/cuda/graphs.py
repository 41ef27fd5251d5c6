"""Graphs: operations of a lane captured once, when a session is opened, or anew in each play, and launched by one call.

A graph keeps the mapping of the memory that it was captured with. Launched after that had been unlocked and page-locked anew, at
the same address, it cost an H200 its context (driver 580): what a lane registers must be captured behind the registration.

PyCUDA has no calls for graphs, so those of cuda.bindings are used, on the same context and on PyCUDA's own streams: while a
stream is captured, its calls note what they would do. Capture is thread-local, so that no other thread's calls spoil it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import perf_counter_ns
from typing import Any

from runner.device.cuda.driver import CudaContext, abandon
from runner.device.cuda.kernels import Call


class Graphs:
    """The graphs of one session."""

    def __init__(self, context: CudaContext) -> None:
        self._context = context
        self._made: dict[Hashable, Any] = {}
        self._before_ns: list[int] = []
        # Lanes may make graphs at the same time, so that each only appends here.
        self._in_play_ns: list[int] = []
        self._of_play: list[tuple[Any, Any]] = []

    def launch(self, key: Hashable, stream: Any, calls: Sequence[Call]) -> Call:
        """Return the ready launch of what `calls` do, into a stream; a graph of the same `key` is not made again.

        What is copied from or to the host must be page-locked now, and stay so. Raises the driver's error as PyCUDA's.
        """
        graph = self._made.get(key)
        if graph is None:
            graph = self._made[key] = self._make(stream, calls)
        launch, handle, check = self._context.raw.cuGraphLaunch, self._context.raw.CUstream(stream.handle), self._context.check

        def launched() -> None:
            check("cuGraphLaunch", launch(graph, handle))

        return launched

    def make_and_launch(self, stream: Any, calls: Sequence[Call]) -> Call:
        """Return a call that captures what `calls` do, instantiates and launches it, all of it anew whenever it is made."""
        raw, check, handle = self._context.raw, self._context.check, self._context.raw.CUstream(stream.handle)
        instantiate, launch, clock = raw.cuGraphInstantiate, raw.cuGraphLaunch, perf_counter_ns

        def made_and_launched() -> None:
            begun = clock()
            captured = self._capture(stream.handle, calls)
            status, graph = instantiate(captured, 0)
            check("cuGraphInstantiate", (status,))
            self._in_play_ns.append(clock() - begun)
            # Destroying it is none of the play's work, so it is put off.
            self._of_play.append((captured, graph))
            check("cuGraphLaunch", launch(graph, handle))

        return made_and_launched

    def begin_play(self) -> None:
        """Count what is made from here on as made in this play."""
        self._in_play_ns.clear()

    def end_play(self) -> None:
        """Destroy what was made in the play; all work has been waited for."""
        while self._of_play:
            captured, graph = self._of_play.pop()
            self._context.check("cuGraphExecDestroy", self._context.raw.cuGraphExecDestroy(graph))
            self._context.check("cuGraphDestroy", self._context.raw.cuGraphDestroy(captured))

    def making_ns(self) -> int | None:
        """Return what making the graphs took, beforehand and in the play just done; None where there are none."""
        made = self._before_ns + self._in_play_ns
        return sum(made) if made else None

    def close(self) -> None:
        """Destroy the graphs; all work has been waited for."""
        if self._context.lost:
            abandon((self._made.copy(), self._of_play.copy()))
            self._of_play.clear()
        else:
            self.end_play()
            for graph in self._made.values():
                self._context.check("cuGraphExecDestroy", self._context.raw.cuGraphExecDestroy(graph))
        self._made.clear()

    def _make(self, stream: Any, calls: Sequence[Call]) -> Any:
        """Capture, instantiate and upload; the device has done all of it when this returns."""
        raw, check, handle = self._context.raw, self._context.check, stream.handle
        begun = perf_counter_ns()
        captured = self._capture(handle, calls)
        status, graph = raw.cuGraphInstantiate(captured, 0)
        check("cuGraphInstantiate", (status,))
        check("cuGraphUpload", raw.cuGraphUpload(graph, handle))
        stream.synchronize()
        self._before_ns.append(perf_counter_ns() - begun)
        check("cuGraphDestroy", raw.cuGraphDestroy(captured))
        return graph

    def _capture(self, handle: int, calls: Sequence[Call]) -> Any:
        raw, check = self._context.raw, self._context.check
        mode = raw.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check("cuStreamBeginCapture", raw.cuStreamBeginCapture(handle, mode))
        try:
            for call in calls:
                call()
        except BaseException:
            # The stream must come out of its capture, whatever went wrong in it.
            raw.cuStreamEndCapture(handle)
            raise
        status, captured = raw.cuStreamEndCapture(handle)
        check("cuStreamEndCapture", (status,))
        return captured
