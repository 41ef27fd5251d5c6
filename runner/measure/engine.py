"""The engines' own time: figures of recorded plays, what a pair of events adds to it, and whether the two agree.

Recording costs a few percent, so recorded plays are apart from the samples that are quoted (role `engine`), unless a file asks
for the engines' clock, or the device plays the same whether it is recorded or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from runner.device.contract import Device, Trace
from runner.errors import CaseError
from runner.measure.result import CaseResult, Sample
from runner.memory import kind_of
from runner.plan import Copy, HostWait, Plan
from runner.plan_check import check_plan
from runner.scenarios.base import Clock, Scenario
from runner.scenarios.builder import PlanWriter
from runner.stats import median
from runner.timeline import OVERLAPPING, Overlap, Source, Span, Timeline, busy_stretches, overlap_fractions, timeline_of

ENGINE_PLAYS: Final = 3
"""Recorded plays after the samples of a case: a median of them bears one that was disturbed."""
LONG_PLAY_MS: Final = 50.0
"""Where the median of the samples is longer, one play is recorded: it has many copies, and one that is disturbed moves little."""
ENGINE_FIGURES: Final = frozenset({"engine_ms", "engine_busy_ms", "engine_gap_us", "event_excess_us"})
"""Figures with statistics in the summary that only recorded plays have."""
OVERLAP_FIGURES: Final = ("overlap_h2d_d2h", "overlap_copy_kernel", "among_h2d_ms", "among_kernel_ms", "among_d2h_ms")
"""Figures of a recorded play in which several sorts of work took turns or ran at once; the summary has their median."""
DISAGREE_US: Final = 10.0
DISAGREE_SHARE: Final = 0.02
"""Event and engine time disagree where they differ by more than the larger of both, beside what a pair of events adds."""
OVERHEAD_SHARE: Final = 0.05
"""Of this share of the engines' time what a pair of events adds makes two runs differ: it varies by half, the engines by 1 %."""
PROBE_BYTES: Final = 4096
PROBE_PLAYS: Final = 15
PROBE_WARMUPS: Final = 3


@dataclass(frozen=True, slots=True)
class EventConstant:
    """What a pair of events around a copy adds to it, in µs: `pair_us` of an empty pair, `copy_us` around PROBE_BYTES.

    `copy_us` is event time less engine time, and is what single copies are compared with; None where nothing is recorded.
    """

    pair_us: float
    copy_us: float | None

    def figures(self) -> dict[str, float]:
        """Return the columns that show it beside what was measured."""
        return {"event_pair_us": self.pair_us} | ({} if self.copy_us is None else {"event_constant_us": self.copy_us})


def records_every_play(device: Device, clock: Clock) -> bool:
    """Whether samples themselves are recorded: only where the engines' time is what they are quoted by."""
    return clock == "engine" and not device.deterministic


def engine_plays(device: Device, clock: Clock) -> int:
    """Return how many recorded plays follow the samples of a case."""
    return 0 if device.deterministic or device.recording or records_every_play(device, clock) else ENGINE_PLAYS


def describe_engines(results: Sequence[CaseResult]) -> dict[str, Any]:
    """Return what the manifest says of recorded plays: how many a case, how events are held against them, and what went wrong.

    `not_recorded` counts the cases of each reason for which a play that was to be recorded was not.
    """
    return {
        "plays": ENGINE_PLAYS,
        "plays_of_long_cases": 1,
        "long_play_ms": LONG_PLAY_MS,
        "disagree_us": DISAGREE_US,
        "disagree_share": DISAGREE_SHARE,
        "not_recorded": dict(Counter(result.not_recorded for result in results if result.not_recorded)),
    }


def engine_figures(model: Scenario, plan: Plan, timeline: Timeline, event_ms: float | None) -> dict[str, float]:
    """Return what a recorded play says of the measured work of its timed part; empty where nothing of it was recorded.

    `engine_ms` is the time of one copy on its engine; of several from the first begin to the last end; of a batch, their busy
    time over their number. `engine_busy_ms` is the time in which any engine worked, `engine_gap_us` the mean time between two
    stretches of it. `event_excess_us` is how much longer `event_ms` is than the engines' span, where events and engines enclose
    the same work.
    """
    spans = measured_spans(model, plan, timeline)
    if timeline.source != "engine" or not spans:
        return {}
    begin, end = min(span.begin_ns for span in spans), max(span.end_ns for span in spans)
    stretches, repeats = busy_stretches(spans), model.repeats()
    busy_ns = sum(last - first for first, last in stretches)
    figures = {
        "engine_ms": (end - begin if repeats == 1 else busy_ns / repeats) / 1e6,
        "engine_busy_ms": busy_ns / repeats / 1e6,
    }
    gaps = [after[0] - before[1] for before, after in pairwise(stretches)]
    if gaps:
        figures["engine_gap_us"] = sum(gaps) / len(gaps) / 1e3
    if event_ms is not None and _enclosed_alike(plan, timeline, spans):
        figures["event_excess_us"] = event_ms * repeats * 1e3 - (end - begin) / 1e3
    return figures


def overlap_figures(overlap: Overlap | None) -> dict[str, float]:
    """Return the shares of an overlap that tables have, and how long each sort of work took among the others (ms)."""
    if overlap is None:
        return {}
    among = {f"among_{work}_ms": length / 1e6 for work, length in overlap.work_ns.items()}
    return {"overlap_h2d_d2h": overlap.h2d_d2h, "overlap_copy_kernel": overlap.copy_kernel} | among


def recorded_figures(model: Scenario, plan: Plan, trace: Trace, figures: Mapping[str, float]) -> tuple[Source, dict[str, float]]:
    """Return what a play's timeline is made of, and the figures by it; `figures` are those by the other clocks."""
    timeline = timeline_of(plan, trace)
    overlap = overlap_figures(overlap_fractions(timeline))
    return timeline.source, engine_figures(model, plan, timeline, figures.get("event_ms")) | overlap


def measured_spans(model: Scenario, plan: Plan, timeline: Timeline) -> list[Span]:
    """Return the work of engines that a case measures: in its timed part, and not there to keep the device busy."""
    return [
        span
        for span in timeline.spans
        if span.timed
        and span.engine != "host"
        and span.work != "busy"
        and (span.index < 0 or model.is_measured(plan.lanes[span.lane][span.index]))
    ]


def summarized(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the medians of the figures of overlap, over the samples or, where those have none, over the recorded plays."""
    found: dict[str, float] = {}
    for name in OVERLAP_FIGURES:
        values = figures_of(samples, name)
        if values:
            found[name] = median(values)
    return found


def with_slowdowns(model: Scenario, derived: Mapping[str, float]) -> dict[str, float]:
    """Add how many times as long each leg took among the others as it does alone, where both are known and of the same work.

    Among the others it is the engines' own time, alone the time between two events, which is the same only where no engine waits
    for calls.
    """
    pairs = {work: (derived.get(f"among_{work}_ms"), derived.get(f"leg_{work}_ms")) for work in OVERLAPPING}
    return dict(derived) | {
        f"slowdown_{work}": among / alone
        for work, (among, alone) in pairs.items()
        if among and alone and model.is_work_alone(work, alone)
    }


def figures_of(samples: Sequence[Sample], name: str) -> list[float]:
    """Return a figure's values of the samples; one that only recorded plays have is theirs where no sample has it."""
    roles = ("sample", "engine") if name in ENGINE_FIGURES or name in OVERLAP_FIGURES else ("sample",)
    for role in roles:
        values = [sample.figures[name] for sample in samples if sample.role == role and name in sample.figures]
        if values:
            return values
    return []


def engine_disagrees(model: Scenario, samples: Sequence[Sample], constant: EventConstant | None) -> bool:
    """Whether events say something else than the engines, once what a pair of events adds is taken off.

    The limit is the larger of DISAGREE_US and DISAGREE_SHARE of the engines' time; both times are of the same plays.
    """
    excess = _excess(model, samples)
    if constant is None or constant.copy_us is None or excess is None:
        return False
    excess_us, engine_us = excess
    return abs(excess_us - constant.copy_us) > max(DISAGREE_US, DISAGREE_SHARE * engine_us)


def has_event_overhead(model: Scenario, samples: Sequence[Sample]) -> bool:
    """Whether a good part of what events say is not the engines' time (OVERHEAD_SHARE), by recorded plays."""
    excess = _excess(model, samples)
    return excess is not None and excess[0] > OVERHEAD_SHARE * excess[1]


def _excess(model: Scenario, samples: Sequence[Sample]) -> tuple[float, float] | None:
    """Return in µs by how much events say more than the engines, and the engines' time; None where no play tells both."""
    excesses = figures_of(samples, "event_excess_us")
    if not excesses:
        return None
    return median(excesses), median(figures_of(samples, "engine_ms")) * 1e3 * model.repeats()


def measure_event_constant(device: Device) -> EventConstant | None:
    """Measure what a pair of events adds, by an empty pair and by a copy of PROBE_BYTES from pinned memory.

    Returns None where the device refuses either, and for one that is simulated: its clocks are one.
    """
    if device.deterministic:
        return None
    try:
        (pair_us, _), (copy_us, engine_us) = _probe(device, 0), _probe(device, PROBE_BYTES)
    except CaseError:
        return None
    return EventConstant(pair_us, None if engine_us is None else copy_us - engine_us)


def _enclosed_alike(plan: Plan, timeline: Timeline, spans: Sequence[Span]) -> bool:
    """Whether a pair of events encloses just what the engines did: one stream, nothing but these copies or kernels in it.

    Copies that the host stages or waits for have its work between the events, too.
    """
    around = [span for span in timeline.spans if span.timed and span.engine != "host"]
    if len(around) != len(spans) or len({span.stream for span in spans}) != 1:
        return False
    operations = [plan.lanes[span.lane][span.index] for span in spans]
    copies = [operation for operation in operations if isinstance(operation, Copy)]
    return all(not copy.blocking and _reached_at_once(plan, copy) for copy in copies)


def _reached_at_once(plan: Plan, copy: Copy) -> bool:
    host = plan.buffers[copy.src if copy.direction == "h2d" else copy.dst]
    return kind_of(host.memory).asynchronous


def _probe(device: Device, size: int) -> tuple[float, float | None]:
    """Return the medians, in µs, of what lies between two events around a copy of `size` bytes (none where it is 0), by events of
    plain plays and by the engine of recorded ones; None where nothing was recorded.
    """
    writer = PlanWriter()
    stream = writer.stream("stream")
    if size:
        host, place = writer.buffer("host", "pinned", size), writer.device_buffer("device", size)
        writer.data(host)
    writer.record(stream, "start", timed=True)
    if size:
        writer.copy(stream, "h2d", (place, 0), (host, 0), size)
    writer.lane.append(HostWait(writer.record(stream, "stop", timed=True)))
    plan = writer.plan()
    check_plan(plan)
    with closing(device.open(plan)) as session:
        plain = [session.play(number) for number in range(PROBE_WARMUPS + PROBE_PLAYS)][PROBE_WARMUPS:]
        recorded = [session.play(number, record=True) for number in range(PROBE_PLAYS)] if size else []
    copies = [work for trace in recorded for work in trace.activities if work.engine != "host"]
    engine_us = median([(work.end_ns - work.begin_ns) / 1e3 for work in copies]) if copies else None
    return median([_pair_us(trace) for trace in plain]), engine_us


def _pair_us(trace: Trace) -> float:
    begin, end = trace.event_ns
    assert begin is not None, "both events are timed and recorded"
    assert end is not None, "both events are timed and recorded"
    return (end - begin) / 1e3
