"""A simulated grid gives the same cells in any order of its cases and by any number of processes, whatever becomes of those."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.device.contract import DeviceFacts
from runner.execution.as_one import AsOne
from runner.execution.bench import Here
from runner.execution.local import Sweep
from runner.execution.records import Ended
from runner.execution.spread import WORTH_A_PROCESS, Spread, workers_for
from runner.execution.work import Work
from runner.expand import Case, expand
from runner.flow import RunOutcome, run_experiment
from runner.forecast import Forecast
from runner.measure.result import CaseResult
from runner.results import read_results
from runner.resume import newest_run
from runner.spec.load import LoadedExperiment, load_experiment

GRID = """
name: grid
question: Do all of them give the same?
device: simulated:test
measure: {warmup: 1, samples: 3}
baseline: loop
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 4MiB, chunk: [CHUNKS]}
  ring:
    kind: pipeline
    schedule: overlapped
    staging: copy
    total: 4MiB
    chunk: [CHUNKS]
    streams: [STREAMS]
    compute: [{passes: 1}, {ratio: 2}]
    exclude: [{because: not needed, where: {chunk: 512KiB, streams: 3}}]
  wild: {kind: hazard, fault: pageable_pointer, buffer: pageable, size: 4096}
  copy: {kind: transfer, direction: [h2d, d2h], size: [1MiB, 2MiB], buffer: [pageable, pinned]}
  huge: {kind: transfer, direction: h2d, size: 1TiB}
"""


def grid(path: Path, chunks: str = "512KiB, 1MiB, 2MiB", streams: str = "1, 2, 3") -> LoadedExperiment:
    path.write_text(GRID.replace("CHUNKS", chunks).replace("STREAMS", streams))
    return load_experiment(path)


def work_of(loaded: LoadedExperiment, workers: int | None = None, times: int = 1) -> Work:
    return Work(list(expand(loaded)) * times, loaded.experiment.measure, workers=workers)


def alone(work: Work) -> list[Ended]:
    bench = Here("simulated:test", "spin")
    return list(bench.sweep(Work(work.cases, work.measure, workers=1)))


class Watch:
    """Raises Ctrl-C after `stop_after` cases."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.stop_after = stop_after

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None: ...

    def foreseen(self, forecast: Forecast) -> None: ...

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        if done == self.stop_after:
            raise KeyboardInterrupt

    def stopping(self) -> None: ...

    def finished(self, outcome: RunOutcome) -> None: ...


def run(loaded: LoadedExperiment, out: Path, workers: int, watch: Watch | None = None, *, resume: bool = False) -> RunOutcome:
    earlier = newest_run(out, loaded) if resume else None
    watcher = watch or Watch()
    return run_experiment(loaded, device=None, out=out, max_cases=100, watcher=watcher, earlier=earlier, workers=workers)


def cells(folder: Path) -> dict[str, str]:
    """Return the rows of a run by table, without the run's own name."""
    tables = {}
    for name in ("summary.csv", "samples.csv"):
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        tables[name] = "\n".join(line.partition(",")[2] for line in lines)
    return tables


def test_the_number_of_processes_changes_no_cell(tmp_path: Path) -> None:
    loaded = grid(tmp_path / "grid.yaml")
    one = cells(run(loaded, tmp_path / "one", 1).folder)
    assert "leg_h2d" in one["samples.csv"], "companions are among the plays"
    assert cells(run(loaded, tmp_path / "three", 3).folder) == one


def test_what_each_case_gives_and_has_learnt_is_what_one_process_gives(tmp_path: Path) -> None:
    work = work_of(grid(tmp_path / "grid.yaml"), 2)
    assert list(Spread("simulated:test", work, 2)) == alone(work)


def test_the_order_of_the_cases_changes_no_cell(tmp_path: Path) -> None:
    there = grid(tmp_path / "there.yaml")
    back = grid(tmp_path / "back.yaml", "2MiB, 1MiB, 512KiB", "3, 2, 1")
    tables = [
        read_results(run(loaded, tmp_path / name, 1).folder)
        .summary.drop(columns="run_id")
        .sort_values("case_id", ignore_index=True)
        for name, loaded in (("there", there), ("back", back))
    ]
    assert tables[0].equals(tables[1])
    assert tables[0]["status"].value_counts().to_dict() == {"ok": 28, "excluded": 2, "skipped": 1}


def test_an_interrupted_run_goes_on_by_other_processes_and_ends_with_the_same_cells(tmp_path: Path) -> None:
    loaded = grid(tmp_path / "grid.yaml")
    whole = cells(run(loaded, tmp_path / "whole", 1).folder)
    assert run(loaded, tmp_path / "parts", 2, Watch(stop_after=7)).exit_code == 130
    assert cells(run(loaded, tmp_path / "parts", 2, resume=True).folder)["summary.csv"] == whole["summary.csv"]


def test_a_process_that_is_gone_costs_no_case(tmp_path: Path) -> None:
    work = work_of(grid(tmp_path / "grid.yaml"), 2)
    spread = Spread("simulated:test", work, 2)
    spread._helpers[0].child.kill()
    assert list(spread) == alone(work)
    assert not spread._helpers, "nothing is left behind"


def test_without_any_process_all_is_played_here(tmp_path: Path) -> None:
    work = work_of(grid(tmp_path / "grid.yaml"), 2)
    spread = Spread("simulated:test", work, 1)
    spread.close()
    assert list(spread) == alone(work)


def test_a_run_that_ends_early_leaves_no_process_behind(tmp_path: Path) -> None:
    spread = Spread("simulated:test", work_of(grid(tmp_path / "grid.yaml"), 2), 2)
    children = [helper.child.process for helper in spread._helpers]
    cases = iter(spread)
    next(cases)
    spread.close()
    assert all(child.poll() is not None for child in children)


@pytest.mark.parametrize(("asked", "times", "workers"), [(None, 1, 1), (5, 1, 5), (999, 1, 29), (1, 9, 1), (None, 100, None)])
def test_processes_are_as_many_as_are_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int | None, times: int, workers: int | None
) -> None:
    monkeypatch.setattr("runner.execution.spread.allowed_cpus", lambda: frozenset(range(64)))
    work = work_of(grid(tmp_path / "grid.yaml"), asked, times)
    runnable = sum(not case.excluded for case in work.cases)
    assert workers_for(work) == (runnable // WORTH_A_PROCESS if workers is None else workers)


def test_a_sweep_is_not_spread_where_it_is_not_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.execution.bench.Spread", None)
    work = work_of(grid(tmp_path / "grid.yaml"))
    assert [each.result.case for each in Here("simulated:test", "spin").sweep(work)] == plain(work)


def plain(work: Work) -> list[Case]:
    """Return the cases as a sweep without any of this gives them, their work resolved."""
    bench = Here("simulated:test", "spin")
    device, facts = bench._device, bench.open().facts
    return [each.result.case for each in Sweep(device, facts, work.cases, work.measure)]


def test_what_is_known_of_companions_is_told_once_and_kept_without_a_copy_for_each_case(tmp_path: Path) -> None:
    ended = alone(work_of(grid(tmp_path / "grid.yaml")))
    known: set[str] = set()
    as_one = AsOne(known, 1)
    told = [as_one(each, each.result.case) for each in ended]
    assert [each.learnt for each in told] == [each.learnt for each in ended], "one process tells each companion once"
    assert as_one.known is known, "a set made anew for each case would cost more the more cases there are"
    assert known == {key for each in ended for key in each.learnt}
    assert sum(len(each.learnt) for each in ended) == len(known)
    assert not any(as_one(each, each.result.case).learnt for each in ended)
