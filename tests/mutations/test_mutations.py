"""One mistake at a time, put into a Plan, its binding or a device: each must be caught, and by the check that is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from runner.errors import CaseFailed, PlanError
from runner.plan import (
    Alloc,
    Buffer,
    Copy,
    Drain,
    Free,
    HostWait,
    KernelCopy,
    Launch,
    Plan,
    Register,
    Release,
    StreamWait,
    Unregister,
)
from runner.plan_check import check_order, check_plan
from runner.scenarios.base import Scenario
from tests.cuda.recording import Expectation, RecordingBench
from tests.lazy_player import LazyPlayer
from tests.mutations.mutants import Change, Lying, case_of, mutant, places, row_of, with_null_stream, with_operation
from tests.plans import without

RING = case_of(kind="pipeline", schedule="overlapped", staging="copy", total=4000, chunk=400, streams=3)
MODELS: dict[str, Scenario] = {
    "upload": case_of(kind="transfer", direction="h2d", size=4000),
    "download over streams": case_of(kind="transfer", direction="d2h", size=4000, chunk=1000, streams=2),
    "both ways": case_of(kind="transfer", direction="bidirectional", size=4000),
    "kernel": case_of(kind="transfer", direction="d2h", size=4000, mover="kernel"),
    "gated": case_of(kind="transfer", direction="h2d", size=4000, batch=3, lead_in=2, gated=True, opposite="doubled"),
    "ring": RING,
    "direct": case_of(kind="pipeline", schedule="overlapped", staging="direct", total=4000, chunk=400, streams=3),
    "stream an engine": case_of(
        kind="pipeline", schedule="overlapped", staging="direct", layout="per_engine", total=4000, chunk=400, streams=3
    ),
    "graph": case_of(kind="pipeline", schedule="overlapped", submit="graph", total=4000, chunk=400, streams=3),
    "graph in place": case_of(
        kind="pipeline", schedule="overlapped", submit="graph", staging="register", total=4000, chunk=400, streams=3
    ),
    "batches": case_of(
        kind="pipeline",
        schedule="overlapped",
        submit="batch",
        layout="per_engine",
        issue="breadth_first",
        total=4000,
        chunk=400,
        streams=3,
        slots=6,
    ),
    "pool": case_of(kind="pipeline", schedule="overlapped", allocate="pool", total=4000, chunk=400, streams=3),
    "serialized": case_of(kind="pipeline", schedule="serialized", staging="copy", total=4000, chunk=1000),
    "concurrency": case_of(kind="concurrency", copies=("h2d", "d2h"), size=4000),
    "blocking": case_of(kind="blocking", direction="h2d", size=4000, busy_ms=1.0),
    "submission": case_of(kind="submission", operation="copy", size=4000, count=5),
    "in place": case_of(kind="access", by="kernel", pattern="increment", size=4000),
}
PIPELINES = ["ring", "direct", "stream an engine", "serialized", "graph", "graph in place", "batches", "pool"]


@pytest.fixture
def recording() -> Iterator[RecordingBench]:
    bench = RecordingBench()
    yield bench
    bench.close()


@pytest.mark.parametrize("name", MODELS)
def test_without_its_final_waits_a_plan_is_refused(name: str) -> None:
    plan = MODELS[name].plan()
    waits = list(places(plan, HostWait, Drain))
    after_work = [index for index in waits if index > max(places(plan, Copy, KernelCopy, Launch), default=0)]
    check_plan(plan)
    with pytest.raises(PlanError):
        check_plan(without(plan, *after_work))


@pytest.mark.parametrize("name", ["upload", "kernel", "gated", "concurrency", "blocking", "submission", "in place"])
def test_without_its_very_last_wait_a_plan_is_refused_where_no_other_does_the_same(name: str) -> None:
    plan = MODELS[name].plan()
    with pytest.raises(PlanError):
        check_plan(without(plan, max(places(plan, HostWait, Drain))))


@pytest.mark.parametrize("name", MODELS)
def test_each_copy_or_kernel_on_the_null_stream_is_refused(name: str) -> None:
    plan, null = with_null_stream(MODELS[name].plan())
    moved = list(places(plan, Copy, KernelCopy, Launch))
    for index in moved:
        with pytest.raises(PlanError):
            check_plan(with_operation(plan, index, stream=null))
    assert moved or name == "in place"


@pytest.mark.parametrize("name", ["upload", "gated", "ring", "direct", "pool"])
def test_a_binding_to_the_null_stream_shows_in_the_recorded_calls(
    recording: RecordingBench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plan = MODELS[name].plan()
    assert recording.timed_calls(plan).calls == Expectation(plan).timed()
    upload = recording.driver.memcpy_htod_async
    monkeypatch.setattr(recording.driver, "memcpy_htod_async", lambda address, view, stream: upload(address, view, None))
    timed = recording.timed_calls(plan)
    assert "copy h2d null" in timed.calls
    assert timed.calls != Expectation(plan).timed()


def test_memory_that_is_not_page_locked_is_refused_when_it_is_allocated(recording: RecordingBench) -> None:
    recording.driver.pinned_is_really = "unknown"
    with pytest.raises(CaseFailed, match="buffer h2d host should be pinned, but the driver says that its memory is pageable"):
        recording.open(MODELS["upload"].plan())


def test_a_buffer_that_was_bound_to_pageable_memory_instead_is_refused_after_the_first_play(recording: RecordingBench) -> None:
    ordinary = np.zeros(4096, dtype=np.uint8)

    def rebind(session: Any) -> None:
        regions = session._memory._regions
        regions[0] = replace(regions[0], address=ordinary.ctypes.data, array=ordinary)

    with pytest.raises(CaseFailed, match="h2d host should be pinned, but the driver says that its memory is pageable"):
        recording.timed_calls(MODELS["upload"].plan(), rebind)


@pytest.mark.parametrize("name", ["upload", "gated", "ring", "serialized", "submission"])
def test_an_allocation_between_the_operations_shows_in_the_recorded_calls(recording: RecordingBench, name: str) -> None:
    plan = MODELS[name].plan()
    (first, *_) = places(plan, Copy)
    buffers = (*plan.buffers, Buffer("scratch", "device", 64))
    lane = plan.lanes[0]
    spoilt = (*lane[:first], Alloc(len(plan.buffers)), Free(len(plan.buffers)), *lane[first:])
    timed = recording.timed_calls(replace(plan, buffers=buffers, lanes=(spoilt,)))
    assert timed.slow() == ["allocate device", "free device"]
    assert recording.timed_calls(plan).slow() == []


def test_an_allocation_inside_a_bound_call_shows_in_the_recorded_calls(
    recording: RecordingBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, upload = recording.driver, recording.driver.memcpy_htod_async

    def through_a_buffer_of_its_own(address: int, view: Any, stream: Any) -> None:
        own = driver.mem_alloc(len(view))
        upload(address, view, stream)
        own.free()

    monkeypatch.setattr(driver, "memcpy_htod_async", through_a_buffer_of_its_own)
    plan = MODELS["upload"].plan()
    timed = recording.timed_calls(plan)
    assert timed.slow() == ["allocate device", "free device"]
    assert timed.calls != Expectation(plan).timed()
    assert timed.wrong_bytes == 0, "the data are right all the same, so only the calls tell"


def test_a_copy_that_a_batch_leaves_out_shows_in_the_recorded_calls_though_its_data_are_right(recording: RecordingBench) -> None:
    plan = MODELS["gated"].plan()

    def leave_one_out(session: Any) -> None:
        (lane,) = session._lanes
        place = lane.owners.index(max(places(plan, Copy)))
        del lane.calls[place], lane.owners[place]

    timed = recording.timed_calls(plan, leave_one_out)
    assert timed.wrong_bytes == 0
    assert len(timed.calls) == len(Expectation(plan).timed()) - 1


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_every_early_refill_of_a_slot_is_refused_and_would_be_wrong(slots: int) -> None:
    model = case_of(kind="pipeline", schedule="overlapped", staging="copy", total=2400, chunk=400, streams=slots)
    plan = model.plan()
    assert LazyPlayer(plan).wrong_bytes() == 0
    waits = list(places(plan, HostWait))
    assert len(waits) == 6
    for index in waits:
        early = without(plan, index)
        with pytest.raises(PlanError):
            check_order(early)
        assert LazyPlayer(early).wrong_bytes() > 0


def test_every_stream_wait_between_engines_is_needed() -> None:
    plan = MODELS["stream an engine"].plan()
    for index in places(plan, StreamWait):
        with pytest.raises(PlanError):
            check_order(without(plan, index))


@pytest.mark.parametrize("name", ["graph", "graph in place", "batches"])
def test_every_stream_wait_of_what_is_handed_over_together_is_needed(name: str) -> None:
    plan = MODELS[name].plan()
    # The host waits for the stream of a graph alone; a wait before a batch may follow from that before the one behind it.
    for index in places(plan, StreamWait):
        with pytest.raises(PlanError):
            check_plan(without(plan, index))


def test_a_graph_that_leaves_a_copy_out_shows_in_its_nodes(recording: RecordingBench) -> None:
    plan = MODELS["graph"].plan()
    seen = recording.timed_calls(plan, lambda session: next(iter(session._of.graphs._made.values())).pop())
    assert seen.calls == Expectation(plan).timed()
    assert seen.wrong_bytes > 0


def test_a_graph_in_place_is_made_and_launched_behind_the_registration(recording: RecordingBench) -> None:
    plan = MODELS["graph in place"].plan()
    assert recording.timed_calls(plan).calls == Expectation(plan).timed()
    for index in places(plan, Register, Unregister):
        with pytest.raises(PlanError):
            check_plan(without(plan, index))


def test_a_gate_that_nobody_opens_is_refused() -> None:
    plan = MODELS["gated"].plan()
    with pytest.raises(PlanError, match="never released"):
        check_plan(without(plan, *places(plan, Release)))


def halved_copy(plan: Plan) -> Plan:
    place = max(places(plan, Copy))
    operation = plan.lanes[0][place]
    assert isinstance(operation, Copy)
    return with_operation(plan, place, size=operation.size // 8 * 4)


def skipped_copy(plan: Plan) -> Plan:
    return without(plan, max(places(plan, Copy, KernelCopy)))


def shifted_copy(plan: Plan) -> Plan:
    place = max(places(plan, Copy))
    operation = plan.lanes[0][place]
    assert isinstance(operation, Copy)
    return with_operation(plan, place, size=operation.size - 4, src_offset=operation.src_offset + 4)


def doubled_pass(plan: Plan) -> Plan:
    return with_operation(plan, next(places(plan, Launch)), passes=2)


def skipped_pass(plan: Plan) -> Plan:
    return without(plan, next(places(plan, Launch)))


def moves(name: str) -> list[Change]:
    """Return the mistakes that fit a case: an earlier copy of a batch may be missing, of which its bytes can tell nothing."""
    copies = [] if name in ("kernel", "gated", "submission", "in place") else [halved_copy, skipped_copy, shifted_copy]
    return [*copies, *([doubled_pass, skipped_pass] if name in PIPELINES else []), *([skipped_copy] if name == "kernel" else [])]


WRONG = [(name, change) for name in MODELS for change in moves(name)]
IDS = [f"{change.__name__} of {name}" for name, change in WRONG]


@pytest.mark.parametrize(("name", "change"), WRONG, ids=IDS)
def test_a_case_that_moves_or_computes_too_little_or_too_much_is_corrupt(name: str, change: Change) -> None:
    result = row_of(mutant(MODELS[name], change))
    assert (result.status, bool(result.corrupt_bytes), result.samples) == ("corrupt", True, ())
    assert "wrong bytes after play 0" in result.reason
    assert row_of(MODELS[name]).status == "ok"


@pytest.mark.parametrize(("name", "change"), WRONG, ids=IDS)
def test_the_stand_in_of_the_real_device_sees_the_same_wrong_bytes(recording: RecordingBench, name: str, change: Change) -> None:
    wrong = recording.timed_calls(change(MODELS[name].plan())).wrong_bytes
    assert wrong > 0
    assert recording.timed_calls(MODELS[name].plan()).wrong_bytes == 0


@pytest.mark.parametrize(("name", "change"), WRONG, ids=IDS)
def test_a_device_that_skips_or_adds_work_is_caught_by_verification_and_by_nothing_else(name: str, change: Change) -> None:
    plan = MODELS[name].plan()
    caught = row_of(MODELS[name], lambda device: Lying(device, plan, change))  # type: ignore[arg-type, return-value]
    assert (caught.status, caught.samples) == ("corrupt", ())
    unseen = row_of(MODELS[name], lambda device: Lying(device, plan, change, looks=False))  # type: ignore[arg-type, return-value]
    assert unseen.status == "ok", "verification is what catches it, so taking it out must not go unnoticed here"


def test_every_play_is_verified_warm_ups_too() -> None:
    """A device whose data are wrong only in one play is caught in that play."""

    class WrongOnce:
        deterministic = False

        def __init__(self, device: Any, play: int) -> None:
            self._device, self._play, self.plays = device, play, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._device, name)

        def open(self, plan: Plan) -> Any:
            if plan != MODELS["upload"].plan():
                return self._device.open(plan)
            right, wrong = self._device.open(plan), self._device.open(skipped_copy(plan))
            return Turns(self, right, wrong)

    class Turns:
        def __init__(self, device: WrongOnce, right: Any, wrong: Any) -> None:
            self.device, self.right, self.wrong, self.now = device, right, wrong, right

        def play(self, sample: int, **options: Any) -> Any:
            self.now = self.wrong if self.device.plays == self.device._play else self.right
            self.device.plays += 1
            return self.now.play(sample, **options)

        def verify(self) -> Any:
            return self.now.verify()

        def close(self) -> None:
            self.right.close()
            self.wrong.close()

    for play in range(3):
        result = row_of(MODELS["upload"], lambda device, play=play: WrongOnce(device, play))  # type: ignore[misc]
        assert result.status == "corrupt", play
        assert f"after play {play}" in result.reason
