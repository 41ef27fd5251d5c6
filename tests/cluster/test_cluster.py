"""Runs on a Dask cluster: the cells are those of one device, whoever dies meanwhile; who does not fit takes no part, by name."""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from runner import cli
from runner.errors import DeviceUnavailable, EnvironmentProblem
from runner.execution import cluster, station
from runner.execution.cluster import ClusterHall
from runner.execution.seats import Seat
from runner.execution.shared import Shared
from runner.expand import expand
from runner.flow import RunOutcome, run_experiment
from runner.spec.load import list_experiments, load_experiment
from tests.cluster.clusters import ROOT, Processes, inside
from tests.cluster.watches import Watch

pytest.importorskip("distributed")

FILE = """
name: many
question: Does it run there?
device: simulated:test
spread: cases
measure: {warmup: 1, samples: 2}
baseline: loop
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 1MiB, chunk: 256KiB}
  ring:
    kind: pipeline
    schedule: overlapped
    total: [1MiB, 2MiB]
    chunk: [128KiB, 256KiB]
    streams: [1, 2, 3, 4]
    compute: [{passes: 1}, {ratio: 1.5}]
    exclude: [{because: not needed, where: {streams: 1, chunk: 128KiB}}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "many.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with inside(2) as address:
        yield address


def dmalab(file: Path, out: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["run", str(file), "--out", str(file.parent / out), "--no-report", *arguments])


def latest(file: Path, out: str) -> Path:
    return (file.parent / out / "many" / "latest").resolve()


def cells(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(encoding="utf-8", newline="") as table:
        return [{key: cell for key, cell in row.items() if key != "run_id"} for row in csv.DictReader(table)]


def same_cells(file: Path, out: str) -> None:
    """Hold the tables against those of one process."""
    assert dmalab(file, "one", "--workers", "1").exit_code == 0
    for name in ("summary.csv", "samples.csv", "cases.csv"):
        assert cells(latest(file, out), name) == cells(latest(file, "one"), name), name


def run_on(address: str, file: Path, watch: Any, earlier: Any = None) -> RunOutcome:
    loaded = load_experiment(file)
    return run_experiment(
        loaded,
        device=None,
        out=file.parent / "out",
        max_cases=1000,
        watcher=watch,
        earlier=earlier,
        bench=Shared(ClusterHall(loaded, "simulated:test", address)),
    )


def test_a_grid_shared_by_a_cluster_gives_the_cells_of_one_device(file: Path, scheduler: str) -> None:
    result = dmalab(file, "out", "--cluster", scheduler)
    assert result.exit_code == 0, result.output
    same_cells(file, "out")
    told = json.loads((latest(file, "out") / "manifest.json").read_text())["fleet"]
    assert len({gpu["gpu_uuid"] for gpu in told["gpus"]}) == len(told["gpus"])
    assert sum(gpu["cases"] for gpu in told["gpus"]) == 33


def test_each_worker_of_a_cluster_runs_the_whole_file(file: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(station, "describe_host", lambda: {"platform": "that of the worker"})
    result = dmalab(file, "out", "--cluster", scheduler, "--set", "spread=machines")
    assert result.exit_code == 0, result.output
    assert "Of 2 GPUs none can be called the odd one" in result.output
    rows = cells(latest(file, "out"), "summary.csv")
    assert len(rows) == 2 * 33
    assert len({row["gpu_uuid"] for row in rows}) == 2
    assert all(row["host"] for row in rows)
    manifests = (latest(file, "out") / "gpus").glob("*/many/2*/manifest.json")
    assert [json.loads(path.read_text())["host"] for path in manifests] == [{"platform": "that of the worker"}] * 2


def test_gpus_that_are_waited_for_and_do_not_come_are_told(file: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 2.0)
    result = dmalab(file, "out", "--cluster", scheduler, "--set", "spread=machines", "--gpus", "3")
    assert result.exit_code == 4, result.output
    told = json.loads((latest(file, "out") / "manifest.json").read_text())
    assert told["refused"] == {"a GPU that --gpus counts": "2 of 3 had come 2 s after the last one"}
    assert [gpu["exit_code"] for gpu in told["gpus"]] == [0, 0]


def test_a_worker_that_measures_for_a_run_is_not_taken_by_another_before_that_ends(file: Path, scheduler: str) -> None:
    def until(hall: ClusterHall, come: int, busy: int) -> list[Seat]:
        seats: list[Seat] = []
        deadline = time.monotonic() + 60
        while len(seats) < come or len(hall.refused) < busy:
            seats += hall.arrivals()
            assert time.monotonic() < deadline, hall.refused
            time.sleep(0.05)
        return seats

    loaded = load_experiment(file)
    with closing(ClusterHall(loaded, "simulated:test", scheduler)) as second:
        with closing(ClusterHall(loaded, "simulated:test", scheduler)) as first:
            seats = until(first, 2, 0)
            assert until(second, 0, 2) == []
            assert len(seats) == 2
            assert all(why.startswith("it measures for another run") for why in second.refused.values())
        # Its client is gone, as if it had been killed.
        del seats
        assert len(until(second, 2, 0)) == 2
        assert second.refused == {}


@pytest.mark.parametrize("spread", ["cases", "machines"])
def test_a_worker_without_a_gpu_is_no_worker_and_it_is_told_how_to_start_one(
    file: Path, monkeypatch: pytest.MonkeyPatch, spread: str
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 2.0)
    with inside(1, gpus=0) as address:
        result = dmalab(file, "out", "--cluster", address, "--set", f"spread={spread}")
    assert result.exit_code == 3, result.output
    how = f"1 of its workers hold no resource GPU; start one with: dask worker {address} --nthreads 1 --resources GPU=1"
    assert f"Waiting 2 s for workers: {how}" in result.output
    assert f"no GPU could take part; the scheduler: {how}" in result.output


def test_a_client_that_was_killed_goes_on_with_what_it_had_noted(file: Path, scheduler: str) -> None:
    assert dmalab(file, "out", "--cluster", scheduler).exit_code == 0
    folder = latest(file, "out")
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:9]) + b'{"crc32": "01')
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
    assert dmalab(file, "out", "--cluster", scheduler, "--resume").exit_code == 0
    assert latest(file, "out") == folder
    same_cells(file, "out")


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing_and_a_new_one_is_taken_in(file: Path, tmp_path: Path) -> None:
    """Slowed by a fault, so that both are at work when one dies; its cases go to the other and to the new one."""
    faults = json.dumps([{"fault": "slow_case", "seconds": 0.05}])
    processes = Processes(tmp_path, {"DMALAB_FAULTS": faults})

    def replace() -> None:
        processes.kill("a")
        processes.worker("c")

    try:
        processes.scheduler()
        processes.worker("a")
        processes.worker("b")
        processes.wait_for(2)
        outcome = run_on(processes.address, file, Watch(3, replace))
    finally:
        processes.close()
    assert outcome.exit_code == 0
    told = json.loads((outcome.folder / "manifest.json").read_text())["fleet"]
    # On a busy machine the one that is killed may not have been greeted by then.
    assert all("SIM-test-a" in name for name in told["refused"]), told
    assert {gpu["gpu_uuid"] for gpu in told["gpus"]} <= {"SIM-test-b", "SIM-test-c"}
    assert sum(gpu["cases"] for gpu in told["gpus"]) <= 33
    assert set(told["attempts"].values()) <= {2}
    same_cells(file, "out")


@pytest.mark.slow
def test_a_worker_with_other_sources_is_refused_by_name_and_the_others_do_it_all(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(ROOT / "runner", other / "runner", ignore=shutil.ignore_patterns("__pycache__", "assets"))
    with (other / "runner" / "units.py").open("a", encoding="utf-8") as source:
        source.write("# changed\n")
    with closing(Processes(tmp_path)) as processes:
        processes.scheduler()
        processes.worker("same")
        processes.worker("changed", other)
        processes.wait_for(2)
        done = dmalab(file, "out", "--cluster", processes.address, "--gpus", "2")
    assert done.exit_code == 0, done.output
    fleet = json.loads((latest(file, "out") / "manifest.json").read_text())["fleet"]
    ((worker, why),) = fleet["refused"].items()
    assert worker.startswith("worker tcp://127.0.0.1:")
    assert why == "the sources of its dmalab are others than here, though the version is the same"
    same_cells(file, "out")


def test_every_case_of_every_file_comes_through_json_as_it_was() -> None:
    for path in list_experiments().values():
        for case in expand(load_experiment(path)):
            if not case.excluded:
                assert station._case(json.loads(json.dumps(station.plain_case(case)))).model == case.model, case


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"dmalab": "0.0.9"}, "it has dmalab 0.0.9, and here is"),
        ({"sources": "00"}, "the sources of its dmalab are others"),
        ({"refused": "device cuda:0 cannot be used"}, "device cuda:0 cannot be used"),
    ],
)
def test_a_worker_that_does_not_fit_is_told_why(changed: dict[str, str], words: str) -> None:
    why = cluster._misfit(station.software() | changed)
    assert words in why
    assert bool(why) == bool(changed)


@pytest.mark.parametrize(
    "address",
    [
        "local:0",
        "local:x",
        "local:1000",
        "",
        "host",
        "tcp://",
        "tcp://host",
        "tcp://host:port",
        "tcp://:1",
        "http://host:8786",
        "host:0",
    ],
)
def test_a_cluster_that_cannot_be_is_wrong_use_and_told_what_is_allowed(file: Path, address: str) -> None:
    result = dmalab(file, "out", "--cluster", address)
    assert result.exit_code == 2
    assert f"--cluster {address}: allowed: " in result.output
    assert "local:N" in result.output
    assert not (file.parent / "out").exists()


def test_here_auto_means_simulated_gpus_where_there_is_no_other_and_says_so(
    file: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(count: int, device: str) -> Any:
        if not device.startswith("simulated"):
            raise DeviceUnavailable("all", "there is no driver", "install one")
        return SimpleNamespace(scheduler_address=scheduler, close=lambda: None)

    monkeypatch.setattr("runner.execution.local_cluster.start_local", start)
    with closing(ClusterHall(load_experiment(file), "auto", "local:2")) as hall:
        assert hall.device == "simulated:h200"
        assert hall.note == ("No CUDA device was used (there is no driver); these numbers are simulated, on simulated:h200.")
    with closing(ClusterHall(load_experiment(file), "simulated:test", "local:2")) as hall:
        assert (hall.device, hall.note) == ("simulated:test", "")
    with pytest.raises(DeviceUnavailable, match="there is no driver"):
        ClusterHall(load_experiment(file), "all", "local:2")


def test_a_scheduler_that_does_not_answer_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("refused")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(EnvironmentProblem, match="no scheduler answers at tcp:"):
        ClusterHall(load_experiment(file), "simulated:test", "tcp://127.0.0.1:1")


@pytest.mark.parametrize(("variable", "lent"), [("", "simulated:test"), ("simulated:h200", "simulated:h200")])
def test_a_worker_lends_what_its_own_variable_names(monkeypatch: pytest.MonkeyPatch, variable: str, lent: str) -> None:
    """Not what the Makefile exports to every command below it, which is empty where nobody has named a device."""
    monkeypatch.setenv("DMALAB_DEVICE", "")
    monkeypatch.setenv(station.DEVICE, variable)
    assert station._own_device("simulated:test", "a").startswith(lent)


def test_no_variable_of_the_makefile_is_read_by_a_worker() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    assert f"export {station.DEVICE} " not in makefile
    assert "export DMALAB_DEVICE " in makefile
