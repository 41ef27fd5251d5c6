"""Loads every experiment of the repository, and holds the two of the public example to what that example measured."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from runner.expand import expand
from runner.flow import run_experiment
from runner.scenarios.base import Known
from runner.spec.load import list_experiments, load_experiment
from tests.scenarios.runs import Silent

FOLDER = Path(__file__).parents[1] / "experiments"
FILES = sorted(FOLDER.rglob("*.yaml"))
MIB = 2**20
KNOWN = Known(2**36, {"leg_h2d": 1.0, "leg_d2h": 1.0, "leg_kernel": 0.5, "probe": 0.01})
"""A machine on which whatever depends on it becomes a number."""


def test_there_are_experiments() -> None:
    assert {"bandwidth.yaml", "overlap.yaml"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(FOLDER).as_posix() for path in FILES])
def test_every_experiment_is_sound_and_its_plans_can_be_written(path: Path) -> None:
    loaded = load_experiment(path)
    assert loaded.experiment.name == path.stem
    assert path.relative_to(FOLDER).with_suffix("").as_posix() in list_experiments()
    for case in expand(loaded):
        assert case.model.describe()
        if not case.excluded:
            assert case.model.resolved(KNOWN).plan().lanes


def test_bandwidth_is_exactly_the_twenty_cells() -> None:
    loaded = load_experiment(FOLDER / "bandwidth.yaml")
    sizes = [size * MIB for size in (1, 4, 16, 64, 256)]
    cells = [tuple(case.axes.values()) for case in expand(loaded) if not case.excluded]
    assert cells == list(itertools.product(("pageable", "pinned"), ("h2d", "d2h"), sizes))
    assert (loaded.experiment.measure.warmup, loaded.experiment.measure.samples, loaded.experiment.measure.clock) == (
        3,
        10,
        "event",
    )


def test_overlap_has_the_loop_and_the_ring_of_the_example() -> None:
    loaded = load_experiment(FOLDER / "overlap.yaml")
    cases = list(expand(loaded))
    loops = [case.model.columns() for case in cases if case.scenario == "serialized"]
    assert [(cells["buffer"], cells["schedule"], cells["allocate"], cells["chunk_bytes"]) for cells in loops] == [
        ("pageable", "serialized", "per_chunk", 32 * MIB)
    ]
    rings = [case for case in cases if case.scenario == "overlapped"]
    assert [tuple(case.axes.values()) for case in rings] == list(
        itertools.product((MIB, 4 * MIB, 16 * MIB, 32 * MIB), (1, 2, 3, 4))
    )
    for case in rings:
        cells = case.model.columns()
        assert (cells["buffer"], cells["staging"], cells["total_bytes"]) == ("pinned", "copy", 256 * MIB)
    (expectation,) = loaded.experiment.expect
    chosen = [case for case in cases if expectation.of.selects(case.scenario, case.model)]
    assert [tuple(case.axes.values()) for case in chosen] == [(32 * MIB, 3)]
    assert loaded.experiment.baseline == expectation.against.scenario == "serialized"


def test_fastest_has_every_strategy_and_answers_for_both_jobs(tmp_path: Path) -> None:
    loaded = load_experiment(FOLDER / "fastest.yaml")
    cases = [case.model.columns() for case in expand(loaded)]
    assert {cells["total_bytes"] for cells in cases} == {256 * MIB}
    columns = ("schedule", "staging", "allocate", "submit", "pages")
    assert {tuple(cells[column] for column in columns) for cells in cases} == {
        ("serialized", "direct", "per_chunk", "calls", "normal"),
        ("serialized", "direct", "once", "calls", "normal"),
        ("overlapped", "register", "once", "calls", "normal"),
        ("overlapped", "register", "once", "calls", "huge"),
        ("overlapped", "copy", "once", "calls", "normal"),
        ("overlapped", "direct", "once", "calls", "normal"),
        ("overlapped", "direct", "pool", "calls", "normal"),
        ("overlapped", "direct", "once", "batch", "normal"),
        ("overlapped", "direct", "once", "graph", "normal"),
    }
    asked = [name for answer in loaded.experiment.fastest for name in answer.among]
    assert asked == [spec.name for spec in loaded.scenarios], "every scenario is in one of the jobs"
    outcome = run_experiment(loaded, device="simulated:test", out=tmp_path, max_cases=1000, watcher=Silent())
    assert {result.status for result in outcome.results} == {"ok"}
    assert outcome.answers == (
        "For data that begin and end in ordinary memory the fastest on simulated:test is ring_two_lanes (chunk 4MiB, "
        "streams 4): 34.88 ms, 1.3 times the 26.84 ms of its slowest part alone; the next simpler, ring_threads (chunk 4MiB, "
        "staging_threads 4), takes 41.4 ms, 1.19 times as long.",
        "For data that are page-locked already the fastest on simulated:test is direct (chunk 1MiB, streams 3): 33.97 ms, "
        "1.27 times the 26.84 ms of its slowest part alone; the next simpler, pinned_loop (chunk 32MiB), takes 80.56 ms, "
        "2.37 times as long.",
    )
