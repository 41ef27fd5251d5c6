"""What the tools for a real GPU are made of and can be held without one: the grid for the sanitizer, and the table of peaks."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from runner.device.select import open_device
from runner.flow import run_experiment
from runner.scenarios import SCENARIOS
from runner.spec.load import load_experiment
from tests.scenarios.runs import Silent

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def peak_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("peak_table", BENCHMARKS / "peak_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["peak_table"] = module
    spec.loader.exec_module(module)
    return module


def test_the_grid_for_the_sanitizer_has_every_kind_and_runs(tmp_path: Path) -> None:
    loaded = load_experiment(BENCHMARKS / "sanitize.yaml")
    outcome = run_experiment(loaded, device="simulated:test", out=tmp_path, max_cases=1000, watcher=Silent())
    assert {result.case.model.kind for result in outcome.results} == set(SCENARIOS)
    assert {(result.status, result.reason) for result in outcome.results} == {("ok", "")}


def test_a_pair_keeps_its_limit_by_the_ratio_of_its_medians(peak_table: ModuleType) -> None:
    pair = peak_table.Pair("h2d", (1.0, 1.004, 9.0), (1.0, 1.0), limit=0.005)
    assert pair.ratio == pytest.approx(1.004)
    assert pair.met
    assert not peak_table.Pair("h2d", (1.0,), (1.006,), limit=0.005).met
    assert not peak_table.Pair("h2d", (1.0,), (), limit=0.005).met
    assert peak_table.Pair("h2d", (2.0,), (1.0,)).met


def test_a_pair_whose_samples_spread_too_far_is_undecided(peak_table: ModuleType) -> None:
    spread = tuple(1.0 + 0.02 * step for step in range(6))
    pair = peak_table.Pair("h2d", spread, (1.0,) * 6, limit=0.005)
    assert pair.interval == (1.0, 1.1)
    assert (pair.word, pair.met) == ("undecided", True)
    far = peak_table.Pair("h2d", (1.1,) * 6, (1.0,) * 6, limit=0.005)
    assert (far.word, far.met) == ("NOT within", False)


def test_the_table_says_what_is_within_its_goal_and_what_could_not_be_compared(peak_table: ModuleType) -> None:
    pairs = (peak_table.Pair("a", (1.0,), (1.0,), 0.01, "why"), peak_table.Pair("b", (1.1,), (1.0,), 0.01))
    kept = peak_table.Comparison("one", "One", "ours", "theirs", pairs)
    broken = peak_table.Comparison("two", "no recorder", "", "", (), broken=True)
    lines = peak_table.table_of([kept, broken], "a device").splitlines()
    assert lines == [
        "a device: medians in milliseconds; in brackets what their 95 % intervals allow the ratio to be.",
        "",
        "**One**",
        "",
        "| copy | ours | theirs | ratio | goal | |",
        "| --- | ---: | ---: | ---: | --- | --- |",
        "| a | 1.00000 | 1.00000 | 1.0000 | within 1.0% | why |",
        "| b | 1.10000 | 1.00000 | 1.1000 | NOT within 1.0% |  |",
        "",
        "**no recorder**",
    ]
    assert (kept.met, broken.met) == (False, False)
    assert [pair["word"] for pair in kept.as_json()["pairs"]] == ["within", "NOT within"]


def test_gated_batches_agree_with_the_engine_of_a_simulated_device_where_single_copies_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    peak = importlib.import_module("peak")
    monkeypatch.setattr(peak, "SIZES", (1 << 20, 32 << 20))
    with closing(open_device("simulated:h200").device) as device:
        batches, singles = peak.batches_against_engine(device), peak.singles_against_engine(device)
        empty = peak.empty_pair(device)
    assert batches.met
    assert [pair.ratio < 1.004 for pair in batches.pairs] == [True] * 4
    assert [(pair.name, pair.ratio > 1.2) for pair in singles.pairs] == [
        ("h2d 1MiB", True),
        ("h2d 32MiB", False),
        ("d2h 1MiB", True),
        ("d2h 32MiB", False),
    ]
    assert not singles.met, "the first call of a play takes longer the larger its copy is, so no one constant makes up for it"
    assert "events add 7.51 us" in singles.pairs[0].note
    assert empty.pairs[0].left_ms[0] >= 0
