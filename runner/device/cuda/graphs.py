"""Graphs: operations of a lane captured once, when a session is opened, and launched by one call.

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
    """The graphs of one session, each made once however often it is launched; `making_ns` is what making them took."""

    def __init__(self, context: CudaContext) -> None:
        self._context = context
        self._made: dict[Hashable, Any] = {}
        self.making_ns: int | None = None

    def launch(self, key: Hashable, stream: Any, calls: Sequence[Call]) -> Call:
        """Return the ready launch of what `calls` do, into a stream; a graph of the same `key` is not made again.

        What is copied from or to the host must be page-locked now, and stay so: a graph that was launched after its memory had
        been unlocked and page-locked anew, at the same address, cost an H200 its context. Raises the driver's error as PyCUDA's.
        """
        graph = self._made.get(key)
        if graph is None:
            graph = self._made[key] = self._make(stream, calls)
        launch, handle, check = self._context.raw.cuGraphLaunch, self._context.raw.CUstream(stream.handle), self._context.check

        def launched() -> None:
            check("cuGraphLaunch", launch(graph, handle))

        return launched

    def close(self) -> None:
        """Destroy the graphs; all work has been waited for."""
        if self._context.lost:
            abandon(self._made.copy())
        else:
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
        self.making_ns = (self.making_ns or 0) + perf_counter_ns() - begun
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
