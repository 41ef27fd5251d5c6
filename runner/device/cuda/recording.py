"""Recording one play: the host's clock around each call, CUPTI's records between, both told by one clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from runner.device.activities import Interval, device_activity, host_activities, in_order, with_groups
from runner.device.contract import Activity
from runner.device.cuda.cupti import Recorder
from runner.device.cuda.kernels import Call
from runner.device.cuda.records import Record, Unmatched, engine_of, match
from runner.device.cuda.resources import BoundLane
from runner.plan import Batch, Plan


class Unrecorded(AbstractContextManager["Unrecorded"]):
    """Stands for a recording where none is asked for: the lanes are played as they are."""

    activities: tuple[Activity, ...] = ()

    def __init__(self, lanes: Sequence[BoundLane], problem: str = "") -> None:
        self.lanes, self.problem = lanes, problem

    def __exit__(self, *raised: object) -> None:
        """Do nothing."""


class Recording(AbstractContextManager["Recording"]):
    """One recorded play. Within it `lanes` are to be played and waited for; after it there are `activities`, or a `problem`.

    The lanes read the host's clock before and after each of their calls, which costs some 0.2 µs a call.
    """

    def __init__(self, recorder: Recorder, plan: Plan, lanes: Sequence[BoundLane], streams: Sequence[Any]) -> None:
        self._recorder, self._plan, self._streams = recorder, plan, streams
        self._owners = [lane.owners for lane in lanes]
        self._stamps = [([0] * len(lane.calls), [0] * len(lane.calls)) for lane in lanes]
        self.lanes = [_stamping(lane, *stamps) for lane, stamps in zip(lanes, self._stamps, strict=True)]
        self.activities: tuple[Activity, ...] = ()
        self.problem = ""
        self._before = (0, 0)

    def __enter__(self) -> Recording:
        """Let CUPTI record; where it refuses, the play goes on without."""
        try:
            self._before = self._recorder.clocks()
            self._recorder.start()
        except Exception as error:
            self.problem = self._recorder.failed(error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop, and match what was recorded with the Plan unless the play failed."""
        for lane in self.lanes:
            # The calls hold streams and events, which must go where their session lets them go.
            lane.calls.clear()
        try:
            records = self._recorder.stop()
            if error is None and not self.problem:
                self._collect(records)
        except Unmatched as mismatch:
            self.problem = str(mismatch)
        except Exception as refused:
            self.problem = self.problem or self._recorder.failed(refused)

    def _collect(self, records: Sequence[Record]) -> None:
        several = len(self._plan.lanes) > 1
        asked = several or any(isinstance(operation, Batch) for operation in self._plan.lanes[0])
        ids = [self._recorder.stream_id(stream) for stream in self._streams] if asked else [0] * len(self._streams)
        matched = match(records, self._plan, ids, by_stream=several)
        calls = [
            with_groups(operations, _calls(len(operations), owners, *stamps))
            for operations, owners, stamps in zip(self._plan.lanes, self._owners, self._stamps, strict=True)
        ]
        convert = _conversion(self._before, self._recorder.clocks())
        found = []
        for (lane, index), work in matched.items():
            engine, at = engine_of(self._plan.lanes[lane][index]), (convert(work.begin_ns), convert(work.end_ns))
            done = device_activity(self._plan, (lane, index), engine, at, work.memory, calls[lane][index])
            found.append(replace(done, size_bytes=max(done.size_bytes, work.size_bytes)))
        self.activities = in_order([*found, *host_activities(self._plan, calls)])


def _stamping(lane: BoundLane, begins: list[int], ends: list[int]) -> BoundLane:
    """Return a lane whose calls note when they are made and when they return."""

    def stamped(place: int, call: Call) -> Call:
        clock = perf_counter_ns

        def timed() -> None:
            begins[place] = clock()
            call()
            ends[place] = clock()

        return timed

    return BoundLane([stamped(place, call) for place, call in enumerate(lane.calls)], lane.owners)


def _calls(operations: int, owners: Sequence[int], begins: Sequence[int], ends: Sequence[int]) -> list[Interval | None]:
    """Return for each operation of a lane when its first call was made and its last one returned, None for those without any."""
    calls: list[Interval | None] = [None] * operations
    for owner, begin, end in zip(owners, begins, ends, strict=True):
        known = calls[owner]
        calls[owner] = (begin if known is None else known[0], end)
    return calls


def _conversion(before: tuple[int, int], after: tuple[int, int]) -> Callable[[int], int]:
    """Return what turns CUPTI's time into the host's: a straight line through two readings of both clocks."""
    span = after[1] - before[1]
    drift = (after[0] - before[0]) - span

    def convert(theirs: int) -> int:
        passed = theirs - before[1]
        return before[0] + passed + (drift * passed // span if span > 0 else 0)

    return convert
