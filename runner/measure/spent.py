"""What a run spends its time on: seconds of the host's clock, by what they went to.

Each case brings its own seconds along with its result, also out of another process; the run adds what belongs to none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Final

from runner.device.contract import Trace

if TYPE_CHECKING:
    from runner.measure.result import CaseResult

SPENT: Final = {
    "start_up": "opening the device, reading its facts (at the end, too), making the run's folder",
    "expansion": "making the cases of the grid",
    "plans": "writing and checking Plans",
    "opening": "allocating memory, binding operations to calls, giving memory back",
    "filling": "writing the data and the poison before plays",
    "warm_ups": "the timed part of warm-up plays",
    "samples": "the timed part of the plays that are quoted",
    "recorded": "the timed part of plays that are recorded for the engines' time",
    "companions": "the timed part of twins, legs, and what tells the cost of a pair of events",
    "sentinel": "the timed part of the sentinel's plays",
    "reading": "reading what clocks and engines said of a play",
    "verification": "comparing every byte",
    "tables": "verdicts and tables",
    "rest": "everything else: choosing groups, making figures, judging samples, telling how far it came",
}
"""Everything that the seconds of a run go to; all but `rest` are measured, and together they are the whole."""
MEASURING: Final = ("warm_ups", "samples", "recorded", "companions", "sentinel")
"""The timed parts of plays, whatever they are for."""

_OF_ROLES: Final = {"warmup": "warm_ups", "sample": "samples", "engine": "recorded"}


class Spent:
    """Adds up seconds by what they went to, on top of those spent `before`; stretches do not lie within each other."""

    def __init__(self, before: Mapping[str, float] | None = None) -> None:
        self.seconds: dict[str, float] = dict(before or {})
        self._begun = perf_counter()

    def add(self, what: str, seconds: float) -> None:
        """Count seconds for one of SPENT."""
        self.seconds[what] = self.seconds.get(what, 0.0) + seconds

    def on(self, what: str) -> AbstractContextManager[None]:
        """Return a block whose time counts for one of SPENT, also where it ends by an exception."""
        return _Stretch(self, what)

    def passed(self) -> float:
        """Return the seconds since this was made."""
        return perf_counter() - self._begun

    def play(self, role: str, trace: Trace, passed: float) -> None:
        """Count a play that took `passed` seconds; a device that does not part them tells of its timed part only."""
        filling, lanes = (0.0, passed) if trace.spent_ns is None else (trace.spent_ns[0] / 1e9, trace.spent_ns[1] / 1e9)
        self.add("filling", filling)
        self.add(_OF_ROLES.get(role, "companions"), lanes)
        self.add("reading", passed - filling - lanes)


def spent_of_run(own: Spent, results: Iterable[CaseResult], sentinels: Iterable[CaseResult]) -> dict[str, float]:
    """Return the seconds of a run so far by SPENT, in its order; `own` began with it and has those that belong to no case."""
    whole = Spent(own.seconds)
    for result in results:
        for what, seconds in result.seconds.items():
            whole.add(what, seconds)
    for reading in sentinels:
        for what, seconds in reading.seconds.items():
            whole.add("sentinel" if what in MEASURING else what, seconds)
    rest = own.passed() - sum(whole.seconds.values())
    return {what: rest if what == "rest" else whole.seconds.get(what, 0.0) for what in SPENT}


def measuring_share(spent: Mapping[str, float]) -> float:
    """Return the share of a run's time, without that of verification, that the timed parts of plays have, 0 … 1."""
    rest = sum(spent.values()) - spent["verification"]
    return sum(spent[what] for what in MEASURING) / rest if rest > 0 else 0.0


class _Stretch(AbstractContextManager[None]):
    __slots__ = ("_begun", "_spent", "_what")

    def __init__(self, spent: Spent, what: str) -> None:
        self._spent, self._what = spent, what

    def __enter__(self) -> None:
        self._begun = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._spent.add(self._what, perf_counter() - self._begun)
