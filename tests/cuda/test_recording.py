"""Every driver call that the lane of a play makes, of every kind of scenario, on a stand-in that records them.

All that any clock times lies within the lane: marks and events are operations of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.expand import Case, expand
from runner.scenarios import SCENARIOS
from runner.scenarios.base import Known
from runner.spec.load import load_experiment
from tests.cuda.recording import Expectation, RecordingBench

EVERY = "buffer: [pageable, pinned, registered, write_combined, mapped, managed]"
COPIED = "buffer: [pageable, pinned, registered, write_combined, mapped]"
IN_PLACE = "buffer: [pinned, registered, write_combined, mapped, managed]"
RING = "kind: pipeline, schedule: overlapped, total: 1000, chunk: 300"
NOTHING: frozenset[str] = frozenset()
DEVICE_MEMORY = frozenset({"allocate device", "free device"})
LOCKING = frozenset({"register", "unregister"})
POOL = frozenset({f"pool {verb} s{stream}" for verb in ("allocate", "free") for stream in range(3)})
ALL_MEMORY = DEVICE_MEMORY | LOCKING | {"allocate pinned", "free pinned", "allocate managed", "free managed"}
CASES = {
    "transfer": (f"kind: transfer, {EVERY}, direction: [h2d, d2h, bidirectional], size: 1000, chunk: 300, streams: 2", NOTHING),
    "transfer by plain calls": (
        f"kind: transfer, {EVERY}, direction: [h2d, d2h, bidirectional], size: 1000, call: sync",
        NOTHING,
    ),
    "transfer by kernels": (
        "kind: transfer, buffer: [pinned, registered, write_combined, mapped], direction: [h2d, d2h, bidirectional], size: 1000, "
        "mover: kernel, call: [async, sync], batch: [1, 3]",
        NOTHING,
    ),
    "transfer by faults": ("kind: transfer, buffer: managed, direction: [h2d, d2h], size: 4000, migration: fault", NOTHING),
    "transfer in batches": (
        f"kind: transfer, {COPIED}, direction: [h2d, d2h, bidirectional], size: 1000, batch: [1, 4, auto], lead_in: [0, 2]",
        NOTHING,
    ),
    "transfer behind a gate": (
        "kind: transfer, buffer: [pinned, mapped], direction: [h2d, d2h], size: 1000, chunk: 300, streams: 2, "
        "batch: [1, 4], lead_in: [0, 2], gated: true, opposite: doubled",
        NOTHING,
    ),
    "ring": (
        f"{RING}, streams: 3, staging: [direct, copy], stream_kind: [non_blocking, blocking, null], "
        "issue: [depth_first, breadth_first]",
        NOTHING,
    ),
    "ring of other shapes": (
        f"{RING}, streams: 3, slots: [3, 4], staging: [direct, copy], compute: {{passes: [1, 3]}}, "
        "direction: [round_trip, upload, download]",
        NOTHING,
    ),
    "stream an engine": (f"{RING}, streams: 3, layout: per_engine, staging: [direct, copy]", NOTHING),
    "null stream between": (f"{RING}, streams: 3, null_stream_work: true, stream_kind: [blocking, non_blocking]", NOTHING),
    "ring by threads": (f"{RING}, streams: 2, staging: copy, staging_threads: 3, output_ratio: [0.4, 2]", NOTHING),
    "registered in the loop": (f"{RING}, streams: 2, staging: register", LOCKING),
    "serialized": (f"kind: pipeline, schedule: serialized, total: 1000, chunk: 300, {COPIED}", NOTHING),
    "allocated in the loop": (
        "kind: pipeline, schedule: serialized, total: 1000, chunk: 300, allocate: per_chunk, buffer: [pageable, pinned]",
        DEVICE_MEMORY | {"allocate pinned", "free pinned"},
    ),
    "by one graph": (
        f"{RING}, streams: [1, 3], submit: graph, issue: [depth_first, breadth_first], direction: [round_trip, upload, download]",
        NOTHING,
    ),
    "by one graph, a stream an engine": (f"{RING}, streams: 3, slots: 2, layout: per_engine, submit: graph", NOTHING),
    "by batches": (
        "kind: pipeline, schedule: overlapped, total: 1000, chunk: 100, streams: 3, slots: [3, 6], layout: per_engine, "
        "issue: breadth_first, submit: batch",
        NOTHING,
    ),
    "by batches of a transfer": (
        "kind: transfer, buffer: [pinned, mapped], direction: [h2d, d2h, bidirectional], size: 1000, chunk: 300, "
        "streams: [1, 3], submit: batch, batch: [1, 2]",
        NOTHING,
    ),
    "from the pool": (f"{RING}, streams: 3, allocate: pool, staging: [direct, copy]", POOL),
    "from the pool, a stream an engine": (f"{RING}, streams: 3, slots: 4, layout: per_engine, allocate: pool", POOL),
    "concurrency": ("kind: concurrency, copies: [[h2d, h2d], [h2d, d2h], [d2h]], size: 1000", NOTHING),
    "blocking": ("kind: blocking, buffer: [pageable, pinned], direction: [h2d, d2h], size: 1000, busy_ms: 5", NOTHING),
    "submission": ("kind: submission, operation: [copy, launch, record], size: 1000, count: 5", NOTHING),
    "submission of graphs": ("kind: submission, operation: graph, nodes: [1, 4], size: 1000, count: 5", NOTHING),
    "allocation": (f"kind: allocation, {EVERY}, size: 5000", ALL_MEMORY),
    "allocation on the device": ("kind: allocation, where: device, size: 5000", DEVICE_MEMORY),
    "allocation from the pool": ("kind: allocation, where: device, allocator: pool, size: 5000", POOL),
    "access by the processor": (f"kind: access, by: cpu, {EVERY}, pattern: [read, write, increment], size: 1000", NOTHING),
    "access by kernels": (f"kind: access, by: kernel, {IN_PLACE}, pattern: [read, write, increment], size: 1000", NOTHING),
    "access on the device": (
        "kind: access, by: kernel, place: device, pattern: [read, write, increment], size: 1000, passes: 3",
        NOTHING,
    ),
    "hazard": (
        "kind: hazard, fault: [refill_early, read_early, no_event, with_event], buffer: pinned, size: 1000",
        NOTHING,
    ),
    "hazard that frees": ("kind: hazard, fault: free_in_flight, buffer: [pageable, pinned, registered], size: 1000", ALL_MEMORY),
    "pressure": ("kind: pressure, fraction: 0.1, ballast_limit: 5000, size: 1000", ALL_MEMORY),
}
KNOWN = Known(2**20, {"probe": 0.3, "leg_h2d": 1.0, "leg_d2h": 1.0, "leg_kernel": 0.5})


@pytest.fixture
def recording() -> Iterator[RecordingBench]:
    bench = RecordingBench()
    yield bench
    bench.close()


def cases_of(tmp_path: Path, fields: str) -> list[Case]:
    path = tmp_path / "small.yaml"
    path.write_text(f"name: small\nquestion: Which calls?\nscenarios:\n  one: {{{fields}}}\n")
    return list(expand(load_experiment(path)))


def test_every_kind_is_recorded() -> None:
    assert {fields.split(",")[0].removeprefix("kind: ") for fields, _ in CASES.values()} == set(SCENARIOS)


@pytest.mark.parametrize("name", CASES)
def test_a_lane_gives_the_driver_the_calls_of_the_plan_and_no_others(
    tmp_path: Path, recording: RecordingBench, name: str
) -> None:
    fields, own = CASES[name]
    seen: set[str] = set()
    for case in cases_of(tmp_path, fields):
        plan = case.model.resolved(KNOWN).plan()
        timed = recording.timed_calls(plan)
        assert timed.calls == Expectation(plan).timed(), case.axes
        assert set(timed.slow()) <= own, case.axes
        assert case.model.TOLERATES or not timed.wrong_bytes, case.axes
        seen |= set(timed.slow())
    assert bool(seen) == bool(own), "what a kind may time for itself is what it does time"


EXACT = {
    "kind: transfer, direction: h2d, size: 1000": ["record s0 e0", "copy h2d s0", "record s0 e1", "wait event e1"],
    "kind: transfer, direction: d2h, size: 1000, batch: 3": [
        "record s0 e0",
        *["copy d2h s0"] * 3,
        "record s0 e1",
        "wait event e1",
    ],
    "kind: transfer, direction: h2d, size: 1000, batch: 2, lead_in: 1, gated: true": [
        *("copy h2d s0", "wait stream s0", "launch gate s0"),
        *("record s0 e0", "copy h2d s0", "copy h2d s0", "record s0 e1", "wait event e1"),
    ],
    "kind: pipeline, schedule: overlapped, staging: copy, total: 12, chunk: 4, streams: 2": [
        *("copy h2d s0", "launch increment s0", "copy d2h s0", "record s0 e0"),
        *("copy h2d s1", "launch increment s1", "copy d2h s1", "record s1 e1", "wait event e0"),
        *("copy h2d s0", "launch increment s0", "copy d2h s0", "record s0 e2", "wait event e1"),
        *("wait event e2", "wait stream s0", "wait stream s1"),
    ],
    "kind: pipeline, schedule: serialized, buffer: pageable, total: 8, chunk: 4, allocate: per_chunk": [
        *("allocate device", "copy h2d s0", "launch increment s0", "copy d2h s0", "record s0 e0", "wait event e0", "free device"),
        *("allocate device", "copy h2d s0", "launch increment s0", "copy d2h s0", "record s0 e1", "wait event e1", "free device"),
    ],
    "kind: concurrency, copies: [h2d, d2h], size: 1000": [
        *("record s0 e0", "copy h2d s0", "record s0 e1", "wait event e1"),
        *("record s1 e2", "copy d2h s1", "record s1 e3", "wait event e3"),
        *("record s0 e4", "stream waits s1 e4", "copy h2d s0", "copy d2h s1"),
        *("record s1 e5", "stream waits s0 e5", "record s0 e6", "wait event e6"),
    ],
    "kind: blocking, direction: h2d, size: 1000, busy_ms: 2": [
        *("record s0 e0", "launch busy 2000000 s0", "copy h2d s0", "record s0 e1", "wait event e1"),
    ],
    "kind: submission, operation: launch, size: 1000, count: 3": [
        *("record s0 e0", *["launch increment s0"] * 3, "record s0 e1", "wait stream s0"),
    ],
    "kind: allocation, buffer: pinned, size: 5000": ["allocate pinned", "free pinned"],
    "kind: access, by: cpu, pattern: read, size: 1000": [],
    "kind: access, by: kernel, pattern: read, size: 1000": ["record s0 e0", "launch read s0", "record s0 e1", "wait event e1"],
    "kind: hazard, fault: refill_early, size: 1000": ["launch gate s0", "copy h2d s0", "record s0 e0", "wait event e0"],
    "kind: pressure, fraction: 0.1, ballast_limit: 5000, size: 1000": ["allocate pinned", "free pinned"],
}


@pytest.mark.parametrize("fields", EXACT)
def test_the_calls_of_small_cases_are_exactly_these(tmp_path: Path, recording: RecordingBench, fields: str) -> None:
    (case,) = cases_of(tmp_path, fields)
    assert recording.timed_calls(case.model.resolved(KNOWN).plan()).calls == EXACT[fields]
