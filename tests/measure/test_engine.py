"""Figures of recorded plays: apart from the samples, compared with what the events say, refused where nothing is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from runner.device.contract import Activity, DeviceFacts, Mismatch, Trace
from runner.expand import Case
from runner.measure.case import measure_case, measure_together
from runner.measure.companions import CompanionBook, Prepared
from runner.measure.engine import (
    ENGINE_PLAYS,
    EventConstant,
    describe_engines,
    engine_disagrees,
    engine_figures,
    measure_event_constant,
    with_slowdowns,
)
from runner.measure.result import CaseResult, Sample
from runner.plan import Copy, Plan
from runner.rows import RunInfo, summary_rows
from runner.scenarios.base import Known, Scenario
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from runner.timeline import timeline_of

MIB = 2**20
FACTS = DeviceFacts("NVIDIA Test", "cuda", 2**34, 2**34, 2, {}, link_gb_per_s=1e6)
COPY = Transfer(kind="transfer", direction="h2d", size=MIB)
RUN = RunInfo("r_1", "test", "NVIDIA Test", "cuda")


@dataclass
class RecordingDevice:
    """Copies take `copy_us` each and come `gap_us` apart; a pair of events says `extra_us` more. Logs `role of play`."""

    copy_us: int = 100
    gap_us: int = 2
    extra_us: int = 5
    recording: str = ""
    not_recorded: str = ""
    deterministic: bool = False
    lost: bool = False
    plan: Plan | None = None
    log: list[str] = field(default_factory=list)

    def facts(self) -> DeviceFacts:
        return FACTS

    def open(self, plan: Plan) -> RecordingDevice:
        self.plan = plan
        return self

    def play(self, sample: int, *, record: bool = False) -> Trace:
        assert self.plan is not None
        self.log.append(f"record {sample}" if record else f"play {sample}")
        done, now = [], 0
        for index, operation in enumerate(self.plan.lanes[0]):
            if isinstance(operation, Copy):
                done.append(Activity(0, index, operation.direction, now, now + self.copy_us * 1000, operation.stream))
                now += (self.copy_us + self.gap_us) * 1000
        engine = done[-1].end_ns if done else 0
        events = (0, engine + self.extra_us * 1000)
        marks = tuple(range(len(self.plan.marks)))
        told = record and not (self.recording or self.not_recorded)
        why = (self.recording or self.not_recorded) if record else ""
        return Trace(marks, events, activities=tuple(done) if told else (), not_recorded=why)

    def verify(self) -> tuple[Mismatch, ...]:
        return ()

    def close(self) -> None:
        self.log.append("close")


def measured(device: Any, model: Scenario = COPY, constant_us: float = 5.0, **measure: Any) -> CaseResult:
    prepared = Prepared(Case("c_1", "copy", 0, model, "", {}), Known(0), (), EventConstant(1.5, constant_us))
    return measure_case(device, FACTS, prepared, Measure(warmup=2, samples=2, **measure))


def row(result: CaseResult) -> dict[str, Any]:
    return dict(summary_rows(RUN, [result])[0])


def test_recorded_plays_follow_the_samples_and_only_the_engines_columns_are_theirs() -> None:
    device = RecordingDevice()
    result = measured(device)
    assert device.log == [*(f"play {number}" for number in range(4)), *(f"record {number}" for number in (4, 5, 6)), "close"]
    assert [sample.role for sample in result.samples] == ["warmup", "warmup", "sample", "sample", *["engine"] * ENGINE_PLAYS]
    cells = row(result)
    assert (cells["median_engine_ms"], cells["median_engine_busy_ms"], cells["samples"]) == (0.1, 0.1, 2)
    assert (cells["median_event_ms"], cells["median_event_excess_us"]) == (0.105, pytest.approx(5))
    assert (cells["event_pair_us"], cells["event_constant_us"], cells["timeline_source"]) == (1.5, 5.0, "engine")
    assert cells["gb_per_s"] == pytest.approx(MIB / 0.105e6)


def test_cases_side_by_side_are_recorded_one_after_another_once_all_have_their_samples() -> None:
    device = RecordingDevice()
    both = [Prepared(Case(f"c_{n}", "copy", n, COPY, "", {}), Known(0), (), EventConstant(1.5, 5.0)) for n in range(2)]
    results = list(measure_together(device, FACTS, both, Measure(warmup=1, samples=2)))
    assert [result.status for result in results] == ["ok", "ok"]
    assert [entry.split()[0] for entry in device.log] == [*["play"] * 8, *["record"] * 3, "close", *["record"] * 3, "close"]


def test_a_long_play_is_recorded_once() -> None:
    device = RecordingDevice(copy_us=60_000)
    assert [sample.role for sample in measured(device).samples].count("engine") == 1


def test_with_the_engines_clock_every_sample_is_recorded_and_gives_the_rate() -> None:
    device = RecordingDevice()
    result = measured(device, clock="engine")
    assert device.log == [*(f"record {number}" for number in range(4)), "close"]
    (cells,) = summary_rows(replace(RUN, clock="engine"), [result])
    assert cells["gb_per_s"] == pytest.approx(MIB / 0.1e6)


def test_the_engines_clock_is_refused_where_nothing_can_be_recorded() -> None:
    result = measured(RecordingDevice(recording="cupti-python is not installed"), clock="engine")
    assert (result.status, result.samples) == ("unsupported", ())
    assert "cupti-python is not installed" in result.reason


def test_where_nothing_can_be_recorded_the_cells_are_empty_and_nothing_is_played_for_them() -> None:
    device = RecordingDevice(recording="another profiler holds CUPTI")
    result = measured(device)
    cells = row(result)
    assert device.log == [*(f"play {number}" for number in range(4)), "close"]
    assert (cells["median_engine_ms"], cells["timeline_source"]) == (None, "events")


def test_plays_that_could_not_be_recorded_are_told_in_the_manifest() -> None:
    result = measured(RecordingDevice(not_recorded="6 calls gave the device work, but CUPTI recorded 5"))
    assert row(result)["median_engine_ms"] is None
    assert describe_engines([result, result])["not_recorded"] == {"6 calls gave the device work, but CUPTI recorded 5": 2}


@pytest.mark.parametrize(
    ("copy_us", "extra_us", "flagged"),
    [(100, 5, False), (100, 14, False), (100, 16, True), (100, -6, True), (10_000, 204, False), (10_000, 206, True)],
)
def test_events_that_say_something_else_than_the_engines_are_flagged(copy_us: int, extra_us: int, flagged: bool) -> None:
    result = measured(RecordingDevice(copy_us=copy_us, extra_us=extra_us))
    assert engine_disagrees(COPY, result.samples, EventConstant(1.5, 5.0)) == flagged
    assert not engine_disagrees(COPY, result.samples, EventConstant(1.5, None))
    assert "clock_disagree" in measured(RecordingDevice(extra_us=900)).flags


@pytest.mark.parametrize(("extra_us", "flagged"), [(4, False), (5, False), (6, True), (14, True)])
def test_a_copy_whose_events_tell_much_of_the_host_too_is_flagged_where_they_give_its_rate(extra_us: int, flagged: bool) -> None:
    device = RecordingDevice(copy_us=100, extra_us=extra_us)
    assert ("event_overhead" in measured(device).flags) == flagged
    assert "event_overhead" not in measured(device, clock="wall").flags


@pytest.mark.parametrize(
    "fields", [{"buffer": "pageable"}, {"call": "sync"}, {"chunk": MIB // 4, "streams": 2}, {"direction": "bidirectional"}]
)
def test_events_that_enclose_other_work_too_are_not_compared(fields: dict[str, Any]) -> None:
    model = COPY.model_copy(update=fields)
    plan = model.plan()
    places = [(index, each) for index, each in enumerate(plan.lanes[0]) if isinstance(each, Copy)]
    done = tuple(Activity(0, index, each.direction, 0, 1000, each.stream) for index, each in places)
    figures = engine_figures(model, plan, timeline_of(plan, Trace((), (), activities=done)), 1.0)
    assert figures["engine_ms"] == 0.001
    assert "event_excess_us" not in figures


def test_a_batch_is_its_busy_time_over_its_copies_and_the_gap_between_them_stands_beside() -> None:
    model = Transfer(kind="transfer", direction="h2d", size=MIB, batch=4)
    figures = measured(RecordingDevice(), model).samples[-1].figures
    assert (figures["engine_ms"], figures["engine_gap_us"]) == (0.1, 2.0)
    assert figures["event_excess_us"] == pytest.approx(5.0)


def test_chunks_are_one_copy_from_the_first_begin_to_the_last_end() -> None:
    figures = (
        measured(RecordingDevice(), Transfer(kind="transfer", direction="h2d", size=MIB, chunk=MIB // 4)).samples[-1].figures
    )
    assert (figures["engine_ms"], figures["engine_busy_ms"], figures["engine_gap_us"]) == (0.406, 0.4, 2.0)


def test_the_opposite_copies_are_not_what_is_measured() -> None:
    model = Transfer(kind="transfer", direction="h2d", size=MIB, opposite="doubled", gated=True, batch=2, lead_in=1)
    plan = model.plan()
    places = [(index, each) for index, each in enumerate(plan.lanes[0]) if isinstance(each, Copy)]
    done = tuple(
        Activity(0, index, each.direction, 1000 * place, 1000 * place + (400 if each.direction == "h2d" else 900), each.stream)
        for place, (index, each) in enumerate(places)
    )
    figures = engine_figures(model, plan, timeline_of(plan, Trace((), (), activities=done)), None)
    assert figures["engine_ms"] == pytest.approx(0.0004)


def test_what_a_pair_of_events_adds_is_measured_once_a_device() -> None:
    device = RecordingDevice(copy_us=3, extra_us=6)
    book = CompanionBook(device, 2**34, Measure())  # type: ignore[arg-type]
    case = Case("c_1", "copy", 0, COPY, "", {})
    first = book.prepare(case).event_constant
    played = len(device.log)
    assert first == EventConstant(6.0, 6.0)
    assert book.prepare(case).event_constant is first
    assert len(device.log) == played
    assert measure_event_constant(RecordingDevice(recording="no")) == EventConstant(5.0, None)  # type: ignore[arg-type]
    assert measure_event_constant(RecordingDevice(deterministic=True)) is None  # type: ignore[arg-type]


def test_samples_alone_never_borrow_from_recorded_plays() -> None:
    samples = (Sample("sample", 0, {"event_ms": 1.0}), Sample("engine", 0, {"event_ms": 9.0, "wall_ms": 9.0, "engine_ms": 0.9}))
    cells = row(CaseResult(Case("c_1", "copy", 0, COPY, "", {}), "ok", samples=samples))
    assert (cells["median_event_ms"], cells["median_wall_ms"], cells["median_engine_ms"]) == (1.0, None, 0.9)


def test_a_leg_that_took_longer_among_others_than_alone_is_told() -> None:
    derived = {"leg_h2d_ms": 2.0, "among_h2d_ms": 3.0, "leg_kernel_ms": 1.0, "among_d2h_ms": 4.0}
    assert with_slowdowns(COPY, derived) == derived | {"slowdown_h2d": 1.5}


@pytest.mark.parametrize(
    ("fields", "alone_ms", "told"),
    [
        ({}, 1.0, ["slowdown_d2h", "slowdown_h2d", "slowdown_kernel"]),
        # 64 chunks: 8 us each may be what their calls take.
        ({}, 0.5, []),
        ({"compute": {"passes": 2}}, 1.0, ["slowdown_d2h", "slowdown_h2d"]),
        ({"buffer": "pageable"}, 1.0, ["slowdown_kernel"]),
    ],
)
def test_a_leg_that_is_bound_by_calls_or_by_the_host_is_no_measure_of_the_engines_work(
    fields: dict[str, object], alone_ms: float, told: list[str]
) -> None:
    ring = {"kind": "pipeline", "schedule": "overlapped", "total": 64 << 20, "chunk": 1 << 20, "streams": 3}
    works = ("h2d", "kernel", "d2h")
    derived = {f"leg_{work}_ms": alone_ms for work in works} | {f"among_{work}_ms": 1.0 for work in works}
    found = with_slowdowns(Pipeline.model_validate(ring | fields), derived)
    assert sorted(found.keys() - derived.keys()) == told
