"""Each kind once through the whole flow on the simulated device: read from YAML, proven, played, verified, and in the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.results import read_results
from runner.scenarios import SCENARIOS
from tests.scenarios.runs import run

RUNS = {
    "transfer": (
        "buffer: [pageable, pinned, registered, write_combined, mapped, managed], direction: [h2d, d2h, bidirectional], "
        "size: 1MiB",
        ["event_ms", "wall_ms", "call_us", "cpu_ms", "host_free_ms"],
    ),
    "pipeline": (
        "schedule: overlapped, staging: [direct, copy, register], total: 2MiB, chunk: 1MiB, streams: 3, "
        "stream_kind: [non_blocking, blocking, null], output_ratio: [0.5, 1, 2]",
        ["wall_ms"],
    ),
    "concurrency": ("copies: [[h2d, h2d], [h2d, d2h]], size: 1MiB", ["solo_ms", "event_ms", "concurrency"]),
    "blocking": ("buffer: [pageable, pinned], direction: [h2d, d2h], size: 1MiB, busy_ms: 5", ["call_us", "wait_share"]),
    "submission": ("operation: [copy, launch, record], size: 4KiB, count: 20", ["call_us", "wall_ms", "cpu_ms"]),
    "allocation": ("buffer: [pageable, pinned, registered], size: 1MiB", ["allocate_ms", "touch_ms", "free_ms"]),
    "access": (
        "by: [cpu, kernel], pattern: [read, write, increment], buffer: [pinned, mapped, managed], size: 1MiB",
        ["access_ms"],
    ),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_kind_runs_from_yaml_to_table(tmp_path: Path, kind: str) -> None:
    fields, figures = RUNS[kind]
    outcome = run(tmp_path, f"  one: {{kind: {kind}, {fields}}}\n")
    summary = read_results(outcome.folder).summary
    assert set(summary["status"]) == {"ok"}, summary["reason"].tolist()
    assert set(summary["corrupt_bytes"]) == {0}
    assert set(summary["stream_kind"]) == ({"non_blocking", "blocking", "null"} if kind == "pipeline" else {""})
    for figure in figures:
        assert (summary[f"median_{figure}"] >= 0).all(), figure
    assert outcome.exit_code == 0


def test_a_list_of_copies_is_a_list_and_a_list_of_lists_an_axis(tmp_path: Path) -> None:
    outcome = run(tmp_path, "  one: {kind: concurrency, copies: [h2d, h2d], size: 1MiB}\n")
    assert read_results(outcome.folder).summary["copies"].tolist() == ["h2d h2d"]
    assert [result.case.axes for result in outcome.results] == [{}]


def test_the_kinds_with_a_file_of_their_own_here_are_among_those_of_the_program() -> None:
    assert set(RUNS) <= set(SCENARIOS)
