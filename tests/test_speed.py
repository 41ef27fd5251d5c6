"""What benchmarks/gpu.py makes of samples: figures, verdicts, tables, and the works themselves on a simulated device."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from runner.device.select import open_device
from runner.measure.spent import SPENT
from runner.scenarios import SCENARIOS

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def goals() -> ModuleType:
    return importlib.import_module("speed_goals")


@pytest.fixture
def works() -> ModuleType:
    return importlib.import_module("speed_works")


@pytest.fixture
def gpu() -> ModuleType:
    return importlib.import_module("gpu")


@pytest.fixture
def runs() -> ModuleType:
    return importlib.import_module("speed_runs")


def work(goals: ModuleType, name: str, native: Sequence[float], runner: Sequence[float], trouble: str = "") -> object:
    """Return a work of the group g; samples are of two rounds by turns."""
    taken = [[goals.Sample(place % 2, value) for place, value in enumerate(side)] for side in (native, runner)]
    return goals.Work(name, "g", "", {}, "wall_ms", "ms", 2, *taken, trouble)


def test_figures_are_of_medians_and_of_what_serves_each_best(goals: ModuleType) -> None:
    two = [work(goals, "a", [4, 5, 9], [6, 6, 6]), work(goals, "b", [8, 8], [4, 5])]
    assert goals.slowest_rate(two) == goals.Seen(5 / 6, "the lowest of 2, a")
    assert goals.best_time(two) == goals.Seen(4.5, "b")
    assert goals.best_ratio(two) == goals.Seen(0.9, "b: 4.5 ms; native a: 5 ms")
    empty = [work(goals, "a", [], [1.0])]
    assert (goals.slowest_rate(empty), goals.best_ratio(empty), goals.best_time([])) == (None, None, None)


def test_a_verdict_has_the_figure_of_each_round_and_what_failed(goals: ModuleType) -> None:
    goal = goals.Goal("as fast", "g", goals.best_ratio, at_most=1.1)
    verdict = goal.judged([work(goals, "a", [10, 10], [10, 14]), work(goals, "b", [], [], "broke")])
    assert (verdict.value, verdict.met, verdict.limit) == (1.2, False, "at most 1.1")
    assert verdict.by_round == (1.0, 1.4)
    assert verdict.told == "a: 12 ms; native a: 10 ms; 1 of 2 failed: broke"
    assert goals.Goal("t", "g", goals.best_time, "ms", at_most=12).judged([work(goals, "a", [], [12])]).met
    assert not goals.Goal("t", "g", goals.slowest_rate, at_least=0.99).judged([work(goals, "a", [98], [100])]).met


def test_a_goal_without_a_figure_is_missed_and_says_why(goals: ModuleType) -> None:
    goal = goals.Goal("as fast", "g", goals.best_ratio, at_most=1.1)
    verdict = goal.judged([work(goals, "a", [1.0], [], "runner: no such field")])
    assert (verdict.value, verdict.met, verdict.told) == (None, False, "1 of 1 failed: runner: no such field")
    assert goal.judged([]).told == "not measured"
    assert verdict.cells("x", "cuda")["figure"] == ""


def test_the_table_has_a_row_a_goal_and_a_row_a_work(goals: ModuleType) -> None:
    one = work(goals, "a", [2, 2], [2, 2])
    goal = goals.Goal("as fast", "g", goals.best_ratio, at_most=1.1)
    lines = goals.table_of([one], [goal.judged([one])], "x").splitlines()
    assert "| as fast | 1 | 1 … 1 | at most 1.1 | met | a: 2 ms; native a: 2 ms |" in lines
    assert "| a | ms | 2 | 2 | 1 |  |" in lines
    assert list(goals.sample_rows([one]))[-1] == {
        "work": "a",
        "group": "g",
        "side": "runner",
        "round": 1,
        "value": 2,
        "unit": "ms",
    }


def test_every_work_is_a_case_that_gives_its_figure_and_every_goal_has_works(works: ModuleType, gpu: ModuleType) -> None:
    listed = works.all_works()
    assert len({work.name for work in listed}) == len(listed)
    assert {goal.group for goal in works.GOALS} <= {work.group for work in listed}
    shown: set[str] = set()
    for each in [work for work in listed if work.case]:
        case = SCENARIOS[each.case["kind"]].model_validate(each.case)
        assert case.describe()
        words = each.request.split()
        assert not words or words[-1] == str(each.samples), "both take as many samples"
        if each.group not in shown and case.payload_bytes() <= 2**23:
            shown.add(each.group)
            with closing(open_device("simulated:test").device) as device:
                assert min(gpu.played(device, each)) > 0
    assert shown >= {"copy", "gated", "submit copy"}


def test_a_run_is_judged_by_what_its_manifest_says(runs: ModuleType) -> None:
    nothing = dict.fromkeys(SPENT, 0.0)
    both = [
        runs.Run("a", 10.0, nothing | {"samples": 5.0, "verification": 2.0}),
        runs.Run("b", 22.0, nothing | {"sentinel": 13.0, "rest": 4.0}),
    ]
    assert runs.seconds_of(both).value == 32.0
    assert runs.share_of(both).value == pytest.approx(18 / 30)
    few, many = (runs.Run("c", 3.0, nothing | {"samples": 1.0, "rest": rest}) for rest in (1.0, 1.99))
    assert runs.overhead_of(few, many).value == pytest.approx(5.0)


@pytest.mark.slow
def test_runs_are_made_in_processes_and_one_that_fails_is_a_goal_missed(
    runs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CASES", 4)
    monkeypatch.setattr(runs, "EXPERIMENTS", ("no such experiment",))
    made, verdicts = runs.judged_runs(tmp_path, "simulated:test")
    assert [run.name for run in made] == ["small", "small"]
    assert [(verdict.value is None, verdict.met) for verdict in verdicts] == [
        (True, False),
        (True, False),
        (True, False),
        (False, verdicts[3].met),
    ]
    assert "there is no such file" in verdicts[0].told
    assert min(run.measuring_s for run in made) > 0


def test_what_a_process_of_its_own_costs_is_told_by_the_faster_of_two_runs(
    runs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []
    takes = {
        ("bandwidth", "here"): [9.0, 8.0],
        ("bandwidth", ""): [8.4, 30.0],
        ("overlap", "here"): [2.0, 9.0],
        ("overlap", ""): [5.0, 2.1],
    }

    def run(name: str, out: Path, device: str, variables: dict[str, str]) -> object:
        (place,) = variables.values()
        made.append((name, place))
        return runs.Run(name, takes[name, place].pop(0), {})

    monkeypatch.setattr(runs, "run", run)
    seen = runs.isolation_of(tmp_path, "cuda")
    assert seen == runs.Seen(10.5 / 10.0, "bandwidth 8.40 for 8.00 s, overlap 2.10 for 2.00 s")
    assert [place for _, place in made] == ["here", "here", "", "", "", "", "here", "here"]


def test_everything_seen_is_written(goals: ModuleType, gpu: ModuleType, tmp_path: Path) -> None:
    one = work(goals, "a", [2, 2], [2, 3])
    verdict = goals.Goal("as fast", "g", goals.best_ratio, at_most=1.1).judged([one])
    with closing(open_device("simulated:test").device) as device:
        gpu.write(tmp_path, device.facts(), [one], [], [verdict])
    with (tmp_path / "goals.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["goal"], row["verdict"], row["device"], row["device_kind"]) == (
        "as fast",
        "MISSED",
        "simulated:test",
        "simulated",
    )
    with (tmp_path / "samples.csv").open(newline="") as file:
        assert [float(row["value"]) for row in csv.DictReader(file)] == [2, 2, 2, 3]
    assert json.loads((tmp_path / "speed.json").read_text())["works"][0]["ratio"] == 1.25
    assert (tmp_path / "speed.md").read_text().startswith("simulated:test")


def test_what_fails_on_either_side_is_told_and_costs_nothing_else(goals: ModuleType, gpu: ModuleType, tmp_path: Path) -> None:
    twin = importlib.import_module("twin")
    program = tmp_path / "native"
    program.write_text("#!/bin/sh\nwhile read -r what rest; do [ $what = good ] || exit 3; echo $what,1.5; echo end; done\n")
    program.chmod(0o755)
    bad = goals.Work("bad", "g", "bad", {"kind": "transfer", "direction": "up"}, "event_ms", "ms", 1)
    odd = goals.Work("odd", "g", "", {"kind": "transfer", "direction": "up"}, "event_ms", "ms", 1)
    good = goals.Work("good", "g", "good", {"kind": "transfer", "direction": "h2d", "size": 4096}, "event_ms", "ms", 1)
    with closing(twin.Native(program)) as native, closing(open_device("simulated:test").device) as device:
        gpu.measure(native, device, [bad, odd, good], 2)
    assert bad.trouble == "native: the native twin ended with code 3 at 'bad'"
    assert odd.trouble.startswith("runner: ")
    assert good.trouble == ""
    assert [sample.value for sample in good.native] == [1.5, 1.5]
    assert len(good.runner) == 2
