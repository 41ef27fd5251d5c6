"""What the benchmark of the runner says of its own cost, by manifests with known seconds."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from runner.measure.spent import SPENT

PATH = Path(__file__).parents[1] / "benchmarks" / "bench.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench"] = module
    spec.loader.exec_module(module)
    return module


def test_the_runners_own_cost_is_that_of_its_fastest_run_by_the_time_of_the_plays(bench: ModuleType, tmp_path: Path) -> None:
    for number, plays in enumerate((4.0, 2.0)):
        seconds = dict.fromkeys(SPENT, 0.0) | {"samples": plays, "start_up": 0.1, "tables": 0.5, "plans": 0.6, "rest": 0.4}
        folder = tmp_path / f"2026-{number}"
        folder.mkdir()
        manifest = {"seconds": seconds | {"total": sum(seconds.values())}, "cases": {"total": 10}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
    told = {figure.name.strip(): (pytest.approx(figure.value), figure.unit, figure.met) for figure in bench.own_cost(tmp_path)}
    assert told == {
        "a case beside its plays": (100.0, "ms", None),
        "start-up, of the time of the plays": (5.0, "%", None),
        "expansion, of the time of the plays": (0.0, "%", None),
        "tables, of the time of the plays": (25.0, "%", None),
        "cases beside their plays, of the time of the plays": (50.0, "%", None),
    }


def test_a_figure_says_whether_it_met_its_goal_where_it_has_one(bench: ModuleType) -> None:
    assert bench.Figure("a", 1.0, 2.0, "s").line(3) == "a        1.00 s    goal    2.0 s   met"
    assert bench.Figure("a", 3.0, 2.0, "s").line(3).endswith("MISSED")
    assert bench.Figure("a", 3.0, None, "s").line(3) == "a        3.00 s  "
