"""What `dmalab doctor` measures on a real device: copies by every clock, and whether async calls return at once.

Everything goes through the scenarios and the device that a run uses, so a fault of either shows here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from runner.device.contract import Device, DeviceFacts, Trace
from runner.errors import CaseError
from runner.memory import BufferKind
from runner.plan import Direction
from runner.plan_check import check_plan
from runner.scenarios.base import Scenario
from runner.scenarios.blocking import Blocking
from runner.scenarios.transfer import Transfer
from runner.stats import median

SIZE: Final = 256 << 20
SAMPLES: Final = 10
WARMUPS: Final = 2
BUSY_MS: Final = 20.0
DIRECTIONS: Final[tuple[Direction, ...]] = ("h2d", "d2h")
HELD_SHARE: Final = 0.1
"""An async call that holds the host longer than this share of its copy is not async."""
LINK_SHARE: Final = 0.75
"""What a copy of pinned memory should reach of the link; packet headers alone take a tenth."""
LINK_TOLERANCE: Final = 1.02
"""A rate above the link by more than this is a fault of the measurement."""
CLOCK_SHARE: Final = 0.02
"""How far the clocks may differ over a copy of SIZE: the call and the pair of events add some microseconds."""
SPREAD_WARN: Final = 0.05
SPREAD_BAD: Final = 0.25
"""Spread of the samples, (greatest - smallest) / median, above which medians are doubtful, and not to be believed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was found, and what to type or change where it is not `ok`."""

    name: str
    level: Literal["ok", "warn", "bad"]
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The figures of some plays of a case, the engine's own time of one more (None where it cannot be had), and wrong bytes."""

    figures: tuple[dict[str, float], ...]
    engine_ms: float | None
    wrong_bytes: int

    def middle(self, name: str) -> float:
        """Return the median of a figure."""
        return median([each[name] for each in self.figures])

    def spread(self, name: str) -> float:
        """Return (greatest - smallest) / median of a figure."""
        values = [each[name] for each in self.figures]
        return (max(values) - min(values)) / median(values)


def probe(device: Device, facts: DeviceFacts) -> Iterator[Check]:
    """Measure for some seconds and judge what comes out; a case that fails is a bad check with its reason."""
    why = device.recording
    remedy = "without it there are two clocks, and overlap is told by events alone" if why else ""
    yield Check("engine clock", "warn" if why else "ok", why or "CUPTI records what the engines do", remedy)
    for buffer in ("pinned", "pageable"):
        for direction in DIRECTIONS:
            yield from _copies(device, facts, buffer, direction)
    for direction in DIRECTIONS:
        yield _behind_work(device, direction)


def take(device: Device, model: Scenario, samples: int = SAMPLES) -> Taken:
    """Play a case some times after warming up, and once more recorded where that can be done. Raises CaseError."""
    plan = model.plan()
    check_plan(plan)
    wrong = 0
    figures: list[dict[str, float]] = []
    with closing(device.open(plan)) as session:
        for play in range(WARMUPS + samples):
            trace = session.play(play)
            wrong += sum(mismatch.wrong_bytes for mismatch in session.verify())
            figures.append(model.figures(plan, trace))
        engine = None if device.recording else engine_ms(session.play(WARMUPS + samples, record=True))
    return Taken(tuple(figures[WARMUPS:]), engine, wrong)


def engine_ms(trace: Trace) -> float | None:
    """Return the time from the begin of the first copy to the end of the last one by the engines' clock, None without records."""
    copies = [each for each in trace.activities if each.engine in (*DIRECTIONS, "copy")]
    return (max(each.end_ns for each in copies) - min(each.begin_ns for each in copies)) / 1e6 if copies else None


def _copies(device: Device, facts: DeviceFacts, buffer: BufferKind, direction: Direction) -> Iterator[Check]:
    name = f"{buffer} {direction}"
    try:
        taken = take(device, Transfer(kind="transfer", buffer=buffer, direction=direction, size=SIZE))
    except CaseError as error:
        yield Check(name, "bad", str(error), "see the sentence; nothing can be measured like that")
        return
    if taken.wrong_bytes:
        yield Check(name, "bad", f"{taken.wrong_bytes:,} wrong bytes arrived", "run compute-sanitizer and a memory test")
        return
    yield rate_check(name, taken, facts.link_gb_per_s, held_to_link=buffer == "pinned")
    if buffer == "pinned":
        yield clock_check(f"clocks {direction}", taken)
        yield async_check(f"async {direction}", taken.middle("call_us") / 1e3, taken.middle("event_ms"))


def rate_check(name: str, taken: Taken, link_gb_per_s: float | None, *, held_to_link: bool) -> Check:
    """Judge the rate of a copy against the link's limit, and how far its samples spread."""
    rate, spread = SIZE / taken.middle("event_ms") / 1e6, taken.spread("event_ms")
    share = rate / link_gb_per_s if link_gb_per_s else None
    found = f"{rate:.2f} GB/s" + (f", {share:.0%} of the link" if share else "") + f", samples within {spread:.1%}"
    if share is not None and share > LINK_TOLERANCE:
        return Check(name, "bad", found, "no copy is faster than its link: the events, or what NVML says of the link, are wrong")
    if spread > SPREAD_BAD and held_to_link:
        return Check(name, "bad", found, "end what else runs on this machine or GPU, and fix the clocks: nvidia-smi -lgc")
    if held_to_link and share is not None and share < LINK_SHARE:
        return Check(name, "warn", found, "look at the link's width, NUMA placement and IOMMU settings")
    if spread > SPREAD_WARN and held_to_link:
        return Check(name, "warn", found, "take more samples, and end what else runs on this machine")
    return Check(name, "ok", found)


def clock_check(name: str, taken: Taken) -> Check:
    """Judge whether the host's clock, events and the engine's own records tell the same time for a long copy."""
    told = {"wall": taken.middle("wall_ms"), "events": taken.middle("event_ms")}
    if taken.engine_ms is not None:
        told["engine"] = taken.engine_ms
    found = ", ".join(f"{clock} {ms:.3f} ms" for clock, ms in told.items())
    if max(told.values()) - min(told.values()) <= CLOCK_SHARE * told["events"]:
        return Check(name, "ok", found)
    return Check(name, "bad", found, "clocks that disagree over a long copy cannot both be right: end profilers and other work")


def async_check(name: str, held_ms: float, copy_ms: float) -> Check:
    """Judge whether an async call returned long before its copy was done."""
    found = f"the call returned after {held_ms * 1e3:.1f} µs of {copy_ms:.2f} ms"
    if held_ms < HELD_SHARE * copy_ms:
        return Check(name, "ok", found)
    return Check(name, "bad", found, "nothing can overlap: unset CUDA_LAUNCH_BLOCKING, end profilers and debuggers")


def _behind_work(device: Device, direction: Direction) -> Check:
    name = f"async {direction} behind work"
    model = Blocking(kind="blocking", buffer="pinned", direction=direction, size=SIZE, busy_ms=BUSY_MS)
    try:
        taken = take(device, model, samples=3)
    except CaseError as error:
        return Check(name, "bad", str(error), "see the sentence; nothing can be measured like that")
    return async_check(name, taken.middle("call_us") / 1e3, taken.middle("event_ms"))
