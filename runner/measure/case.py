"""Measuring cases: open their Plans, warm up, take samples in rounds, verify every play, and judge the numbers.

Nothing of this stands in the timed region, which is inside `Session.play`. The data of every play, warm-ups included, are
compared with what the Plan expects; a wrong byte ends the case as `corrupt`, without figures, unless wrong bytes are what the
case looks for: then they are a figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from time import monotonic, perf_counter

from runner.device.contract import Device, DeviceFacts, Mismatch, Session, Trace
from runner.errors import CaseError, CaseUnsupported
from runner.expand import Case
from runner.measure.companions import Prepared, derive
from runner.measure.engine import (
    LONG_PLAY_MS,
    engine_disagrees,
    engine_plays,
    has_event_overhead,
    recorded_figures,
    records_every_play,
    summarized,
    with_slowdowns,
)
from runner.measure.environment import Paging, numa_flags, paging_flags, read_paging
from runner.measure.flags import flags_of
from runner.measure.listener import NOBODY, Listener
from runner.measure.result import CaseResult, Role, Sample, StopWord, refused
from runner.measure.sampling import is_warm, order_of, stop_of
from runner.measure.spent import Spent
from runner.placement import allowed_cpus
from runner.plan import Plan
from runner.plan_check import check_plan
from runner.scenarios.base import Clock
from runner.spec.experiment import Measure
from runner.stats import median
from runner.timeline import Source, timeline_of
from runner.timeline_store import encoded


def measure_case(
    device: Device, facts: DeviceFacts, prepared: Prepared, measure: Measure, listener: Listener = NOBODY
) -> CaseResult:
    """Measure one case on an opened device, beside the companions that were measured before it.

    A case that the device refuses or breaks becomes a result with `failed` or `unsupported` and the reason; errors that are not
    the case's own (PlanError) fly on.
    """
    (result,) = measure_together(device, facts, [prepared], measure, listener)
    return result


def measure_together(
    device: Device, facts: DeviceFacts, prepared: Sequence[Prepared], measure: Measure, listener: Listener = NOBODY
) -> Iterator[CaseResult]:
    """Measure cases side by side and yield each one's result as soon as it has ended.

    All are opened, then all are warmed up, then each round plays every case that still needs samples once, in an order of its
    own, so that whatever drifts meets all alike. Recorded plays come last. A case that fails leaves the others alone, unless it
    costs the device: then its result is the last, and those without one were not measured. `listener` hears of every step.
    """
    runs = [CaseRun(device, facts, each, measure, listener) for each in prepared]
    with ExitStack() as opened:
        for run in runs:
            opened.callback(run.close)
        for run, step in _steps(runs):
            if run.result is None:
                listener.begins(run.prepared.case)
                run.attempt(step)
                if run.result is not None:
                    yield run.result
                    if device.lost:
                        return


@dataclass(slots=True)
class CaseRun:
    """One case on the way to its result, which is there as soon as the case has ended, well or not."""

    device: Device
    facts: DeviceFacts
    prepared: Prepared
    measure: Measure
    listener: Listener = NOBODY
    result: CaseResult | None = None
    _plan: Plan | None = None
    _session: Session | None = None
    _trace: Trace | None = None
    _samples: list[Sample] = field(default_factory=list)
    _times_ms: dict[Role, list[float]] = field(default_factory=lambda: {"warmup": [], "sample": [], "engine": []})
    _source: Source = "none"
    _not_recorded: str = ""
    _gate_timeout: bool = False
    _paging: Paging | None = None
    _seconds: float = 0.0
    _stopped: StopWord | None = None
    _spent: Spent = field(init=False)

    def __post_init__(self) -> None:
        self._spent = Spent(self.prepared.seconds)

    def attempt(self, step: Callable[[], None]) -> None:
        """Do one step; where it fails or ends the case, close the session and keep the result."""
        try:
            step()
        except CaseError as error:
            self._end(_broken(self.prepared.case, error, lost=self.device.lost))
        if self.result is not None:
            self.close()
            self.result = replace(self.result, seconds=self._spent.seconds)

    def open(self) -> None:
        """Write and check the Plan, and open it on the device."""
        if self._clock == "engine" and self.device.recording:
            raise CaseUnsupported(f"measure.clock is engine, but no play can be recorded: {self.device.recording}")
        with self._spent.on("plans"):
            case = self.prepared.case
            self._plan = replace(case.model.plan(), title=f"{case.scenario} {case.case_id}")
            check_plan(self._plan)
        with self._spent.on("opening"):
            self._session = self.device.open(self._plan)

    def warm_up(self) -> None:
        """Play until the case is warm; a device without noise needs none of it."""
        while not (self.device.deterministic or self.result or is_warm(self._times_ms["warmup"], self.measure)):
            self._play("warmup")
        if not self.device.deterministic:
            self._paging = read_paging()

    def sample(self, number: int, order: int) -> None:
        """Take the sample of a round, and end the case where that was its last."""
        if self.device.deterministic:
            self._play_for_all()
            return
        begun = monotonic()
        self._play("sample", number, order)
        self._seconds += monotonic() - begun
        if self.result is None:
            self._stopped = stop_of(self._times_ms["sample"], self._seconds, self.measure)
            if self._stopped is not None and not self._plays_to_record:
                self._finish(self._stopped)

    def record(self) -> None:
        """Play some more for what the engines say, after all that is quoted, and end the case."""
        assert self._stopped is not None, "a case is recorded after its samples"
        long = median(self._times_ms["sample"] or [0.0]) >= LONG_PLAY_MS
        for _ in range(min(1, self._plays_to_record) if long else self._plays_to_record):
            if self.result is None:
                self._play("engine")
        if self.result is None:
            self._finish(self._stopped)

    def close(self) -> None:
        """Close the session; safe to call twice."""
        session, self._session = self._session, None
        if session is not None:
            with self._spent.on("opening"):
                session.close()

    def _play(self, role: Role, number: int | None = None, order: int | None = None) -> None:
        """Play once with data of its own, verify them, and keep the figures; wrong bytes end the case."""
        assert self._session is not None, "the case is open"
        assert self._plan is not None, "what is open has a Plan"
        model, play = self.prepared.case.model, len(self._samples)
        record = role == "engine" or records_every_play(self.device, self._clock)
        begun = perf_counter()
        self._trace = trace = self._session.play(play, record=True) if record else self._session.play(play)
        self._spent.play(role, trace, perf_counter() - begun)
        self._gate_timeout |= trace.gate_timeout
        with self._spent.on("verification"):
            wrong = self._session.verify()
        if wrong and not model.TOLERATES:
            self._end(_corrupt(self.prepared.case, wrong, play, trace, self._plan))
            return
        figures = model.figures(self._plan, trace)
        if model.TOLERATES:
            figures["corrupt_bytes"] = float(sum(mismatch.wrong_bytes for mismatch in wrong))
        self._not_recorded = self._not_recorded or trace.not_recorded
        if record or trace.activities or not self._plays_to_record:
            quoted = self._quoted(figures) if role == "engine" else figures
            self._source, recorded = recorded_figures(model, self._plan, trace, quoted)
            figures |= recorded
        times = self._times_ms[role]
        self._samples.append(Sample(role, len(times), figures, number, order))
        if not self.device.deterministic:
            self.listener.played(self.prepared.case, self._samples[-1])
        times.append(figures.get(f"{self._clock}_ms", math.nan))

    def _quoted(self, figures: dict[str, float]) -> dict[str, float]:
        """Return the figures with the event time of the samples, since a recorded play's own events lie wider apart."""
        times = [
            sample.figures["event_ms"] for sample in self._samples if sample.role == "sample" and "event_ms" in sample.figures
        ]
        return {**figures, "event_ms": median(times)} if times else figures

    def _play_for_all(self) -> None:
        """Play once on a device that plays the same every time, and let that stand for every play that was asked for."""
        self._play("sample")
        if self.result is None:
            figures = self._samples[0].figures
            samples = self.measure.samples if self.measure.until is None else 1
            self._samples = [Sample("warmup", index, figures) for index in range(self.measure.warmup)]
            self._samples += [Sample("sample", index, figures) for index in range(samples)]
            self._finish("deterministic")

    def _finish(self, stopped_by: StopWord) -> None:
        """Judge the samples and make the result of a case that went well."""
        assert self._plan is not None, "a case with samples has a Plan"
        assert self._trace is not None, "a case with samples was played"
        flags = flags_of(
            self.prepared.case.model,
            self._clock,
            self._samples,
            self.facts,
            gate_timeout=self._gate_timeout,
            deterministic=self.device.deterministic,
            derived=derive(self.prepared, self._samples, self._clock),
            stopped_by=stopped_by,
            engine_disagrees=engine_disagrees(self.prepared.case.model, self._samples, self.prepared.event_constant),
            # Nothing of it differs from run to run on a device without noise.
            event_overhead=not self.device.deterministic and has_event_overhead(self.prepared.case.model, self._samples),
        )
        result = CaseResult(
            self.prepared.case,
            "ok",
            flags=tuple(sorted({*flags, *self._machine_flags(self._trace)})),
            samples=tuple(self._samples),
            memory_actual=_memory_actual(self._plan, self._trace),
            host_copier=self._trace.host_copier,
            corrupt_bytes=max(int(sample.figures.get("corrupt_bytes", 0)) for sample in self._samples),
            deterministic=self.device.deterministic,
            stopped_by=stopped_by,
            timeline_source=self._source,
            not_recorded=self._not_recorded,
            # A device that plays the same every time can play it again for whoever wants to see it.
            timeline="" if self.device.deterministic else encoded(self._plan, timeline_of(self._plan, self._trace)),
        )
        self._end(result)

    def _machine_flags(self, trace: Trace) -> tuple[str, ...]:
        """Return what this machine did to the samples; a device without noise has a host of its own."""
        processors = self.facts.processors if self.device.deterministic else len(allowed_cpus())
        threads = 0 if self._plan is None else self._plan.host_threads()
        crowded = ("oversubscribed",) if processors is not None and threads > processors else ()
        if self.device.deterministic:
            return crowded
        paging = () if self._paging is None else paging_flags(self._paging, read_paging())
        return (*paging, *crowded, *numa_flags(self.facts, trace.numa_nodes))

    def _end(self, result: CaseResult) -> None:
        derived = with_slowdowns(
            self.prepared.case.model, derive(self.prepared, result.samples, self._clock) | summarized(result.samples)
        )
        if result.samples and self.prepared.event_constant is not None:
            derived |= self.prepared.event_constant.figures()
        self.result = replace(result, companions=self.prepared.samples, derived=derived)

    @property
    def sampled(self) -> bool:
        """Whether this case needs no more samples."""
        return self.result is not None or self._stopped is not None

    @property
    def _plays_to_record(self) -> int:
        return 0 if self.prepared.event_constant is None else engine_plays(self.device, self._clock)

    @property
    def _clock(self) -> Clock:
        return self.measure.clock or self.prepared.case.model.CLOCK


def _steps(runs: Sequence[CaseRun]) -> Iterator[tuple[CaseRun, Callable[[], None]]]:
    """Yield what is to be done with each case, one after another, until every case has ended."""
    yield from ((run, run.open) for run in runs)
    yield from ((run, run.warm_up) for run in runs)
    for number in count():
        going = [run for run in runs if not run.sampled]
        if not going:
            break
        for order, place in enumerate(order_of(len(going), number)):
            yield going[place], partial(going[place].sample, number, order)
    # After all that is quoted: what records is slow to come and to go, and slows every other play while it is there.
    yield from ((run, run.record) for run in runs)


def _broken(case: Case, error: CaseError, *, lost: bool) -> CaseResult:
    """Say why a case has no numbers; an error that cost the device is what a hazard looks for, and it names itself."""
    if lost and case.model.TOLERATES:
        return CaseResult(case, "ok", str(error), samples=(Sample("sample", 0, {"faulted": 1.0}),))
    return refused(case, error)


def _corrupt(case: Case, wrong: Sequence[Mismatch], play: int, trace: Trace, plan: Plan) -> CaseResult:
    first = wrong[0]
    total = sum(mismatch.wrong_bytes for mismatch in wrong)
    values = f", expected {first.expected} and found {first.actual}" if first.expected else ""
    reason = f"{total:,} wrong bytes after play {play}, the first at byte {first.offset:,} of {first.buffer}{values}"
    return CaseResult(case, "corrupt", reason, memory_actual=_memory_actual(plan, trace), corrupt_bytes=total)


def _memory_actual(plan: Plan, trace: Trace) -> str:
    """Say what the driver saw, once for each sort of buffer: `input=pageable stager=pinned`; the device's own are left out."""
    seen = {
        buffer.name.rstrip("0123456789 "): fact
        for buffer, fact in zip(plan.buffers, trace.buffer_facts, strict=False)
        if not buffer.on_device
    }
    return " ".join(f"{name.replace(' ', '_')}={fact}" for name, fact in seen.items())
