"""CUPTI in this process: what the engines themselves say of their work, by activity records.

cupti-python wraps CUPTI one to one: while a kind of record is enabled, each copy and each kernel leaves one with begin and end
by the engine (https://docs.nvidia.com/cupti/main/main.html, "CUPTI Activity API"), by the clock of `get_timestamp`. Kinds are
enabled only for a recorded play and flushed after it, and CUPTI is detached before the next play that is not recorded, since an
attached one makes every later call slower. It comes and goes in some 15 ms, so recorded plays are best made one after another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from runner.device.cuda.driver import CudaContext
from runner.device.cuda.records import Record

BUFFER_BYTES: Final = 2 << 20
"""Of a buffer that CUPTI fills with records, some ten thousand of them; it asks for more as it needs. Every recorded play waits
for its first one until all pages of it are there.
"""
CLOCK_READINGS: Final = 20
WARM_UP_BYTES: Final = 64
_FORCED: Final = 1
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: also buffers that are not full."""
_WAYS: Final = {1: "h2d", 2: "d2h"}
"""CUpti_ActivityMemcpyKind; whatever else is no copy across the link."""
_MEMORY: Final = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device", 7: "managed"}
"""CUpti_ActivityMemoryKind."""


class Recorder:
    """CUPTI in this process, attached when it is first needed; `load` imports it."""

    def __init__(self, context: CudaContext, load: Callable[[str], Any] = importlib.import_module) -> None:
        self._context, self._load = context, load
        self._cupti: Any = None
        self._attached = False
        self._why: str | None = None
        self._records: list[Record] = []
        self._begun_ns = 0

    def why_not(self) -> str:
        """Return why nothing can be recorded here, in a sentence; empty where it can. CUPTI is tried once, then detached."""
        if self._why is None:
            self._why = self._try()
        return self._why

    def start(self) -> None:
        """Let CUPTI record from here on; raises its error."""
        self._records = []
        if not self._attached:
            self._attached = True
            self._cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self._received)
        for kind in self._kinds():
            self._cupti.activity_enable(kind)
        self._warm_up()

    def stop(self) -> list[Record]:
        """Stop recording and return what was recorded; all work has been waited for. Raises CUPTI's error."""
        self._cupti.activity_flush_all(_FORCED)
        for kind in self._kinds():
            self._cupti.activity_disable(kind)
        records, self._records = self._records, []
        return [record for record in records if record.begin_ns >= self._begun_ns]

    def detach(self) -> None:
        """Take CUPTI out of the way of later calls; nothing where it is not attached."""
        if not self._attached:
            return
        self._attached = False
        with suppress(self._cupti.cuptiError):
            self._cupti.finalize()

    def clocks(self) -> tuple[int, int]:
        """Return the host's clock and CUPTI's at one moment (ns): of some readings that which took the least time."""
        best = (1 << 62, 0, 0)
        for _ in range(CLOCK_READINGS):
            before, theirs, after = perf_counter_ns(), int(self._cupti.get_timestamp()), perf_counter_ns()
            best = min(best, (after - before, (before + after) // 2, theirs))
        return best[1], best[2]

    def stream_id(self, stream: Any) -> int:
        """Return the number by which records name a stream of PyCUDA, None being the null stream."""
        handle = 0 if stream is None else int(stream.handle)
        return int(self._cupti.get_stream_id_ex(self._context.cuda.Context.get_current().handle, handle, 0))

    def failed(self, error: Exception) -> str:
        """Say that CUPTI refused something; raises any error that is not CUPTI's own again."""
        if not isinstance(error, self._cupti.cuptiError):
            raise error
        return f"CUPTI refused: {error}"

    def _warm_up(self) -> None:
        """Let a copy each way meet CUPTI before the play does: the first one waits 0.6 to 0.8 ms for a buffer of records.

        Their own records stay in that buffer, since handing it over would make the play wait for the next; `stop` leaves them
        out.
        """
        cuda = self._context.cuda
        host, device = cuda.pagelocked_empty(WARM_UP_BYTES, np.uint8), cuda.mem_alloc(WARM_UP_BYTES)
        try:
            cuda.memcpy_htod(int(device), host)
            cuda.memcpy_dtoh(host, int(device))
        finally:
            device.free()
            host.base.free()
        self._begun_ns = int(self._cupti.get_timestamp())

    def _kinds(self) -> tuple[Any, Any]:
        return self._cupti.ActivityKind.MEMCPY, self._cupti.ActivityKind.CONCURRENT_KERNEL

    def _try(self) -> str:
        try:
            self._cupti = self._load("cupti.cupti")
        except ImportError as error:
            return f"cupti-python is not installed ({error}); install it with: pip install cupti-python"
        try:
            # CUPTI serves one subscriber: where a profiler or a sanitizer is it, its records would not be ours alone.
            self._cupti.unsubscribe(self._cupti.subscribe(_no_callback, None))
        except Exception as error:
            return f"CUPTI is held by another profiler or does not work here: {error}"
        try:
            self.start()
            self.stop()
        except Exception as error:
            return f"CUPTI cannot record here: {error}"
        finally:
            self.detach()
        return ""

    def _received(self, activities: Sequence[Any]) -> None:
        """Keep what CUPTI hands over as plain numbers, since its records live no longer than their buffer."""
        memcpy = int(self._kinds()[0])
        for activity in activities:
            where = (int(activity.correlation_id), int(activity.stream_id))
            times = (int(activity.start), int(activity.end))
            node = int(getattr(activity, "graph_node_id", 0))
            if int(activity.kind) != memcpy:
                self._records.append(Record(*where, "compute", *times, node=node))
                continue
            way = _WAYS.get(int(activity.copy_kind), "copy")
            side = int(activity.src_kind if way == "h2d" else activity.dst_kind)
            # Older bindings do not tell it.
            copies = max(1, int(getattr(activity, "copy_count", 1)))
            memory = _MEMORY.get(side, "unknown")
            self._records.append(Record(*where, way, *times, int(activity.bytes), memory, node, copies))


def _no_callback(*_: object) -> None:
    """Subscribed only to find out whether that is possible."""
