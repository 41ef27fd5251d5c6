"""Every field of every kind through the whole flow, on both devices: read, proven, played, verified, and in the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runner.errors import DeviceUnavailable
from runner.flow import RunOutcome, run_experiment
from runner.results import read_results
from runner.scenarios import SCENARIOS
from runner.spec.load import load_experiment
from tests.scenarios.runs import HEADER, Silent

KINDS = "buffer: [pageable, pinned, registered, write_combined, mapped, managed]"
COPIED = "buffer: [pageable, pinned, registered, write_combined, mapped]"
IN_PLACE = "buffer: [pinned, registered, write_combined, mapped, managed]"
RING = "kind: pipeline, schedule: overlapped, total: 10MiB, chunk: 3MiB"
BATCHES = "kind: pipeline, schedule: overlapped, total: 10MiB, chunk: 1MiB, streams: 3, layout: per_engine, "
BATCHES += "issue: breadth_first, submit: batch"
RUNS = [
    (
        f"kind: transfer, {KINDS}, direction: [h2d, d2h, bidirectional], "
        "size: 1MiB, chunk: 300000, streams: 2, call: [async, sync]",
        ["event_ms", "wall_ms", "call_us", "cpu_ms", "host_free_ms"],
    ),
    (
        "kind: transfer, buffer: [pinned, registered, write_combined, mapped], direction: [h2d, d2h, bidirectional], "
        "size: 1MiB, mover: kernel, call: [async, sync]",
        ["event_ms", "wall_ms"],
    ),
    ("kind: transfer, buffer: managed, direction: [h2d, d2h], size: 4MiB, migration: [fault, prefetch]", ["event_ms"]),
    (
        "kind: transfer, buffer: [pageable, pinned], direction: [h2d, bidirectional], size: 64KiB, batch: [3, auto], lead_in: 2",
        ["event_ms", "wall_ms", "call_us"],
    ),
    (
        "kind: transfer, buffer: [pinned, registered, write_combined, mapped], direction: [h2d, d2h], size: 64KiB, "
        "batch: [1, auto], gated: true, opposite: doubled",
        ["event_ms", "wall_ms", "call_us"],
    ),
    ("kind: transfer, buffer: [pageable, registered], direction: [h2d, d2h], size: 4MiB, pages: huge", ["event_ms"]),
    (
        "kind: transfer, buffer: [pinned, registered, write_combined, mapped], direction: [h2d, d2h, bidirectional], size: 1MiB, "
        "chunk: 300000, streams: 2, submit: [calls, batch], batch: 2",
        ["event_ms", "wall_ms", "call_us"],
    ),
    (
        f"{RING}, streams: 3, staging: [direct, copy, register], stream_kind: [non_blocking, blocking, null], "
        "issue: [depth_first, breadth_first], output_ratio: [0.5, 1, 2]",
        ["wall_ms"],
    ),
    (f"{RING}, streams: 3, slots: [2, 4], layout: per_engine, staging: [direct, copy], compute: {{passes: [1, 3]}}", ["wall_ms"]),
    (f"{RING}, streams: 3, stream_kind: [blocking, non_blocking], null_stream_work: [false, true]", ["wall_ms"]),
    (f"{RING}, direction: [upload, download], staging: [direct, copy, register], streams: 2", ["wall_ms"]),
    (f"{RING}, staging: copy, staging_threads: [1, 3], streams: 2, compute: {{ratio: [0.5, 2]}}", ["wall_ms"]),
    (f"{RING}, staging: copy, staging_lanes: [1, 3], staging_threads: [1, 2], streams: 4", ["wall_ms"]),
    (
        f"{RING}, streams: [1, 3], submit: [calls, graph], issue: [depth_first, breadth_first]",
        ["wall_ms"],
    ),
    (
        f"{RING}, streams: 3, slots: 2, layout: per_engine, submit: graph, buffer: [pinned, registered, write_combined, mapped]",
        ["wall_ms", "instantiate_ms"],
    ),
    (f"{RING}, direction: [upload, download], streams: 2, submit: graph", ["instantiate_ms"]),
    (
        f"{RING}, streams: [1, 3], submit: graph, staging: register, pages: [normal, huge]",
        ["wall_ms", "register_ms", "instantiate_ms", "unregister_ms"],
    ),
    (f"{BATCHES}, direction: round_trip, staging: [direct, register], slots: [2, 6]", ["wall_ms"]),
    (f"{RING}, streams: 3, staging: [direct, copy, register], allocate: pool", ["wall_ms"]),
    (f"{RING}, streams: 3, slots: 4, layout: per_engine, allocate: pool", ["wall_ms"]),
    (f"{RING}, staging: register, pages: [normal, huge]", ["wall_ms", "register_ms", "unregister_ms"]),
    (
        "kind: pipeline, schedule: serialized, total: 10MiB, chunk: 3MiB, allocate: [once, per_chunk, pool], "
        "buffer: [pageable, pinned, registered, write_combined, mapped]",
        ["wall_ms"],
    ),
    (
        f"kind: concurrency, {COPIED}, copies: [[h2d, h2d], [h2d, d2h], [d2h]], size: 1MiB",
        ["solo_ms", "event_ms", "concurrency"],
    ),
    (f"kind: blocking, {COPIED}, direction: [h2d, d2h], size: 1MiB, busy_ms: 5", ["call_us", "wait_share"]),
    ("kind: submission, operation: [copy, launch, record], size: 4KiB, count: 20", ["call_us", "wall_ms", "cpu_ms"]),
    ("kind: submission, operation: graph, nodes: [1, 7], count: 20", ["call_us", "node_us", "instantiate_ms", "wall_ms"]),
    (f"kind: submission, operation: copy, {COPIED}, size: 4KiB, count: 20", ["submission_share"]),
    (f"kind: allocation, {KINDS}, size: 3MiB", ["allocate_ms", "touch_ms", "free_ms"]),
    ("kind: allocation, buffer: registered, pages: huge, size: 4MiB", ["register_ms", "unregister_ms"]),
    ("kind: allocation, where: device, allocator: [driver, pool], size: 3MiB", ["allocate_ms", "free_ms"]),
    ("kind: allocation, buffer: [pinned, registered], size: 3MiB, payback: true", ["allocate_ms", "free_ms"]),
    ("kind: allocation, buffer: [pinned, registered], size: 1MiB, memlock_limit: 64MiB", ["allocate_ms", "free_ms"]),
    (f"kind: access, by: cpu, {KINDS}, pattern: [read, write, increment], size: 1MiB, threads: [1, 3], passes: 2", ["access_ms"]),
    (
        f"kind: access, by: kernel, {IN_PLACE}, pattern: [read, write, increment], size: 1MiB, passes: 3, offset: [0, 4]",
        ["access_ms"],
    ),
    (
        "kind: access, by: kernel, place: device, buffer: [pageable, pinned], pattern: [read, write, increment], size: 1MiB",
        ["access_ms", "wall_ms"],
    ),
    ("kind: access, by: cpu, buffer: [pageable, registered], pattern: read, size: 4MiB, pages: huge", ["access_ms"]),
    (
        "kind: pressure, fraction: 0.001, ballast_limit: 4MiB, buffer: [pinned, registered], size: 1MiB",
        ["pin_ms", "copy_slowdown", "touch_slowdown"],
    ),
]
HAZARDS = (
    "kind: hazard, fault: [refill_early, read_early, free_in_flight, no_event, with_event], size: 64KiB, "
    "buffer: [registered, mapped, write_combined, pinned, pageable], busy_ms: 5"
)
"""Faults, each with a kind of memory of its own; a pointer that costs the device has a test by itself."""
ELSEWHERE = {("allocation", "beyond_memory")}
"""Fields of cases that end badly by design, which have tests of their own on both devices."""


def outcome_of(tmp_path: Path, fields: str, device: str) -> RunOutcome:
    path = tmp_path / "small.yaml"
    path.write_text(f"{HEADER}  one: {{{fields}}}\n")
    return run_experiment(load_experiment(path), device=device, out=tmp_path / "out", max_cases=100, watcher=Silent())


DEVICES = pytest.mark.parametrize("device", ["simulated:test", pytest.param("cuda", marks=pytest.mark.gpu)])


def test_no_field_of_any_kind_is_left_out() -> None:
    runs = [yaml.safe_load(f"{{{fields}}}") for fields in [HAZARDS, *(fields for fields, _ in RUNS)]]
    run = {(fields["kind"], field) for fields in runs for field in fields}
    assert {(kind, field) for kind, model in SCENARIOS.items() for field in model.model_fields} - run == ELSEWHERE


@DEVICES
@pytest.mark.parametrize(("fields", "figures"), RUNS, ids=[str(index) for index in range(len(RUNS))])
def test_every_field_runs_from_yaml_to_table(tmp_path: Path, fields: str, figures: list[str], device: str) -> None:
    outcome = tried(tmp_path, fields, device)
    summary = read_results(outcome.folder).summary
    assert set(summary["status"]) == {"ok"}, summary["reason"].tolist()
    assert set(summary["corrupt_bytes"]) == {0}
    for figure in figures:
        assert (summary[f"median_{figure}"] >= 0).all(), figure
    assert outcome.exit_code == 0


@DEVICES
def test_every_mistake_runs_from_yaml_to_table(tmp_path: Path, device: str) -> None:
    outcome = tried(tmp_path, f"{HAZARDS}, zip: [[fault, buffer]]", device)
    summary = read_results(outcome.folder).summary.set_index("fault")
    assert set(summary["status"]) == {"ok"}, summary["reason"].tolist()
    # Freed memory may be spoilt, or its freeing may wait; the rest is certain.
    assert (summary["corrupt_bytes"][["refill_early", "read_early", "no_event"]] > 0).all()
    assert summary["corrupt_bytes"]["with_event"] == 0
    assert outcome.exit_code == 0


def tried(tmp_path: Path, fields: str, device: str) -> RunOutcome:
    try:
        return outcome_of(tmp_path, fields, device)
    except DeviceUnavailable as error:
        if device != "cuda":
            raise
        pytest.skip(str(error))


def test_the_null_stream_is_told_by_name(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, f"{RING}, stream_kind: null", "simulated:test")
    assert read_results(outcome.folder).summary["stream_kind"].tolist() == ["null"]


def test_a_list_of_copies_is_a_list_and_a_list_of_lists_an_axis(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "kind: concurrency, copies: [h2d, h2d], size: 1MiB", "simulated:test")
    assert read_results(outcome.folder).summary["copies"].tolist() == ["h2d h2d"]
    assert [result.case.axes for result in outcome.results] == [{}]


def test_an_automatic_batch_stands_in_the_row_with_its_probe_and_its_copies(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "kind: transfer, direction: h2d, size: 64KiB, batch: auto, gated: true", "simulated:test")
    results = read_results(outcome.folder)
    (row,) = results.summary.to_dict("records")
    assert row["batch"] == "auto"
    assert row["batch_n"] * row["median_event_ms"] == pytest.approx(2.2, rel=0.05)
    probes = results.samples[results.samples["role"] == "probe"]
    assert (probes["event_ms"] > 0).all()
    assert len(probes) == 1
