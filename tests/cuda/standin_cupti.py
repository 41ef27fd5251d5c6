"""A stand-in for cupti.cupti on top of the stand-in driver: each copy and each launch leaves records, as the real one's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

from runner.device.cuda.cupti import WARM_UP_BYTES, Recorder
from runner.device.cuda.session import CudaSession
from runner.plan import Plan
from tests.cuda.standin import Bench

AHEAD_NS = 1_000_000_000
"""By how much its clock is ahead of the host's."""
NULL_ID = 7
"""The number of the null stream in records."""


class Kind(IntEnum):
    MEMCPY = 1
    CONCURRENT_KERNEL = 10


class StandInCupti:
    """`fail` maps a call to its error; `edit` changes the records before they are handed over; `log` holds the calls.

    A copy of more than `piece` bytes leaves a record for each piece. The recorder's own copies to warm up are never edited.
    """

    ActivityKind = Kind

    class cuptiError(Exception):
        pass

    def __init__(self, bench: Bench) -> None:
        self.driver = bench.driver
        self.log: list[str] = []
        self.fail: dict[str, Exception] = {}
        self.edit: Callable[[list[Any]], list[Any]] = list
        self.piece = 1 << 30
        self.memory = {"h2d": 2, "d2h": 2}
        self.enabled: set[int] = set()
        self.records: list[Any] = []
        self.correlation = 0
        self._say, self._moved = self.driver.say, self.driver.moved
        self.driver.say, self.driver.moved = self.said, self.moved  # type: ignore[method-assign]

    def said(self, call: str) -> None:
        self.correlation += 1
        self._say(call)
        if call.startswith("launch") and call != "launch graph":
            self.driver.later(lambda: self.keep(Kind.CONCURRENT_KERNEL))

    def moved(self, dst: int, src: int, size: int, device: int) -> None:
        self._moved(dst, src, size, device)
        way = "h2d" if device == dst else "d2h"
        for offset in range(0, size, self.piece):
            side = self.memory[way]
            self.keep(
                Kind.MEMCPY,
                bytes=min(self.piece, size - offset),
                copy_kind={"h2d": 1, "d2h": 2}[way],
                src_kind=side if way == "h2d" else 3,
                dst_kind=3 if way == "h2d" else side,
            )

    def keep(self, kind: Kind, **more: int) -> None:
        if kind in self.enabled:
            now = self.get_timestamp()
            times = {
                "start": now,
                "end": now + 50,
                "correlation_id": self.correlation,
                "stream_id": self.stream_id(),
                "graph_node_id": self.driver.node,
            }
            self.records.append(SimpleNamespace(kind=int(kind), **times, **more))

    def stream_id(self) -> int:
        """Return the number of the stream that works now: another one for each where the driver tells them apart."""
        stream, _, _ = str(getattr(self.driver, "where", "")).strip().partition(" ")
        return NULL_ID + 1 + int(stream[1:]) if stream.startswith("s") else NULL_ID

    def get_stream_id_ex(self, context: int, handle: int, per_thread: int) -> int:
        return NULL_ID + handle

    def do(self, call: str) -> None:
        self.log.append(call)
        if call in self.fail:
            raise self.fail[call]

    def subscribe(self, callback: object, data: object) -> int:
        self.do("subscribe")
        return 1

    def unsubscribe(self, handle: int) -> None:
        self.do("unsubscribe")

    def activity_register_callbacks(self, requested: object, completed: Callable[[Sequence[Any]], None]) -> None:
        self.do("register")
        self.completed = completed

    def activity_enable(self, kind: Kind) -> None:
        self.do(f"enable {kind.name}")
        self.enabled.add(kind)

    def activity_disable(self, kind: Kind) -> None:
        self.do(f"disable {kind.name}")
        self.enabled.discard(kind)

    def activity_flush_all(self, flag: int) -> None:
        self.do("flush")
        warm = [record for record in self.records if getattr(record, "bytes", 0) == WARM_UP_BYTES]
        records, self.records = [*warm, *self.edit([record for record in self.records if record not in warm])], []
        if records:
            self.completed(records)

    def finalize(self) -> None:
        self.do("finalize")

    def get_timestamp(self) -> int:
        return perf_counter_ns() + AHEAD_NS


def open_recorded(bench: Bench, plan: Plan) -> tuple[CudaSession, StandInCupti]:
    """Open a Plan with a recorder on a stand-in CUPTI."""
    cupti = StandInCupti(bench)
    recorder = Recorder(bench.context, lambda name: cupti)
    session = CudaSession(bench.context, bench.kernels, bench.pool, bench.workers, plan, bench.closed.append, recorder)
    return session, cupti
