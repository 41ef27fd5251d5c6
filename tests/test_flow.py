"""The whole flow on the simulated device: what a run leaves behind, and what its exit code says."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runner import cli
from runner.device.contract import DeviceFacts
from runner.errors import DeviceUnavailable, SpecError
from runner.flow import RunOutcome, run_experiment
from runner.forecast import Forecast
from runner.measure.result import CaseResult
from runner.measure.spent import SPENT
from runner.results import read_results
from runner.spec.load import LoadedExperiment, load_experiment
from runner.tables import write_tables

RING = """
name: ring
question: How long does a ring take?
device: simulated:test
measure: {warmup: 1, samples: 2}
baseline: loop
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 8MiB, chunk: 1MiB}
  ring:
    kind: pipeline
    schedule: overlapped
    total: 8MiB
    chunk: [1MiB, 2MiB]
    streams: 2
    exclude: [{because: not needed, where: {chunk: 2MiB}}]
"""
EXPECTS = """
expect:
  - {claim: far too bold, of: {scenario: ring, chunk: 1MiB}, against: {scenario: loop}, metric: wall_ms, ratio: {below: 0.001}}
"""


class Watch:
    """Keeps what it is told; raises Ctrl-C after `stop_after` cases."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.stop_after, self.told = stop_after, list[str]()

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None:
        self.told.append(f"opened {facts.name}, {total} cases")

    def foreseen(self, forecast: Forecast) -> None: ...

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        self.told.append(f"{done} {result.status}")
        assert seconds_left >= 0
        if done == self.stop_after:
            raise KeyboardInterrupt

    def finished(self, outcome: RunOutcome) -> None:
        self.told.append(f"finished {outcome.exit_code}")


def run(tmp_path: Path, text: str = RING, watch: Watch | None = None, device: str | None = None) -> RunOutcome:
    path = tmp_path / "ring.yaml"
    path.write_text(text)
    return run_experiment(load_experiment(path), device=device, out=tmp_path / "out", max_cases=100, watcher=watch or Watch())


def test_a_run_leaves_every_table_the_original_file_and_a_complete_manifest(tmp_path: Path) -> None:
    watch = Watch()
    outcome = run(tmp_path, watch=watch)
    assert watch.told == ["opened simulated:test, 3 cases", "1 ok", "2 ok", "3 excluded", "finished 0"]
    assert sorted(path.name for path in outcome.folder.iterdir()) == [
        "cases.csv",
        "columns.csv",
        "experiment.yaml",
        "journal.jsonl",
        "manifest.json",
        "samples.csv",
        "summary.csv",
    ]
    assert (outcome.folder / "experiment.yaml").read_bytes() == (tmp_path / "ring.yaml").read_bytes()
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    assert (manifest["status"], manifest["exit_code"]) == ("complete", 0)
    assert manifest["cases"] == {"total": 3, "excluded": 1, "ok": 2}
    assert manifest["device"]["name"] == "simulated:test"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", manifest["finished_utc"])
    assert (tmp_path / "out" / "ring" / "latest").resolve() == outcome.folder.resolve()


def test_the_manifest_tells_what_the_time_went_to(tmp_path: Path) -> None:
    manifest = json.loads((run(tmp_path).folder / "manifest.json").read_text())
    seconds = dict(manifest["seconds"])
    total = seconds.pop("total")
    assert seconds.keys() == SPENT.keys()
    assert sum(seconds.values()) == pytest.approx(total, abs=1e-4)
    not_here = {"warm_ups", "recorded", "sentinel", "reading"}
    assert {what for what, each in seconds.items() if each == 0} - {"filling"} == not_here, "a simulated run has none of these"
    assert manifest["measuring_share"] is None, "nothing is measured on a simulated device"


def test_the_cells_are_a_function_of_file_and_profile_alone(tmp_path: Path) -> None:
    tables = [read_results(run(tmp_path).folder).summary.drop(columns="run_id") for _ in range(2)]
    assert tables[0].equals(tables[1])
    assert tables[0]["speedup"].notna().tolist() == [True, True, False]
    assert tables[0]["ci_low_wall_ms"].isna().all(), "a zero-width interval is not precision"


def test_a_missed_expectation_makes_the_exit_code_5(tmp_path: Path) -> None:
    outcome = run(tmp_path, RING + EXPECTS)
    assert (outcome.exit_code, outcome.verdicts[0].verdict) == (5, "refuted")
    assert read_results(outcome.folder).verdicts is not None


def test_a_case_that_does_not_fit_is_skipped_and_the_rest_runs(tmp_path: Path) -> None:
    outcome = run(tmp_path, RING + "  huge: {kind: transfer, direction: h2d, size: 1TiB}\n")
    assert [result.status for result in outcome.results] == ["ok", "ok", "excluded", "skipped"]
    assert "needs 1TiB of device memory, 1GiB are free" in outcome.results[3].reason
    assert outcome.exit_code == 4


def test_a_run_in_which_no_case_could_run_exits_with_3(tmp_path: Path) -> None:
    only = (
        RING.split("scenarios:")[0].replace("baseline: loop\n", "")
        + "scenarios:\n  huge: {kind: transfer, direction: h2d, size: 1TiB}\n"
    )
    assert run(tmp_path, only).exit_code == 3


def test_an_interrupt_keeps_what_was_measured_and_names_what_was_not(tmp_path: Path) -> None:
    watch = Watch(stop_after=1)
    outcome = run(tmp_path, watch=watch)
    assert outcome.exit_code == 130
    assert [result.status for result in outcome.results] == ["ok", "not_run", "not_run"]
    assert json.loads((outcome.folder / "manifest.json").read_text())["status"] == "incomplete"
    assert len(read_results(outcome.folder).summary) == 3


def test_nothing_is_written_where_the_grid_is_wrong_or_the_device_unknown(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a chunk of 2MiB is larger than the total"):
        run(tmp_path, RING.replace("total: 8MiB\n", "total: 1MiB\n").split("    exclude")[0])
    with pytest.raises(DeviceUnavailable, match="h200"):
        run(tmp_path, device="simulated:h20")
    assert not (tmp_path / "out").exists()


def test_a_signal_that_comes_as_the_tables_are_written_lets_nothing_else_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        write_tables(*given)

    monkeypatch.setattr("runner.flow.write_tables", interrupted)
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(RING.replace("name: ring", f"name: {name}"))
    files = [str(tmp_path / f"{name}.yaml") for name in ("one", "two")]
    result = CliRunner().invoke(cli.app, ["run", *files, "--out", str(tmp_path / "out"), "--no-report"])
    assert result.exit_code == 130
    (folder,) = tmp_path.glob("out/*/2*")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (folder.parent.name, manifest["status"], manifest["exit_code"]) == ("one", "complete", 130)
    assert set(read_results(folder).summary["status"]) == {"ok", "excluded"}
