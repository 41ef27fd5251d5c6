"""Many simulated GPUs in one machine: each runs the file, or they share its grid; slow ones show, lost ones cost nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from runner import cli
from runner.results import read_results

FILE = """
name: many
question: Are they alike?
device: simulated:test*3
measure: {warmup: 1, samples: 2}
baseline: loop
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 1MiB, chunk: 256KiB}
  ring:
    kind: pipeline
    schedule: overlapped
    total: 1MiB
    chunk: [128KiB, 256KiB]
    streams: [1, 2]
    compute: [{passes: 1}, {ratio: 1.5}]
    exclude: [{because: not needed, where: {streams: 1, chunk: 128KiB}}]
"""
SLOW = [{"fault": "clock_drop", "factor": 1.2, "member": "1"}, {"fault": "unsteady"}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "many.yaml"
    path.write_text(FILE)
    return path


def dmalab(file: Path, out: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["run", str(file), "--out", str(file.parent / out), "--no-report", *arguments])


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def latest(file: Path, out: str) -> Path:
    return (file.parent / out / "many" / "latest").resolve()


def test_each_gpu_runs_the_whole_file_and_none_is_odd_where_all_are_alike(file: Path) -> None:
    result = dmalab(file, "out", "--fail-on", "outlier")
    assert result.exit_code == 0, result.output
    assert "None of 3 GPUs is an outlier" in result.output
    folder = latest(file, "out")
    summary = rows(folder / "summary.csv")
    uuids = [f"SIM-test-{place}" for place in range(3)]
    assert [row["gpu_uuid"] for row in summary] == [uuid for uuid in uuids for _ in range(9)]
    assert {row["run_id"] for row in summary} == {json.loads((folder / "manifest.json").read_text())["run_id"]}
    manifests = [json.loads(path.read_text()) for path in folder.glob("**/manifest.json")]
    hosts = [manifest["host"] for manifest in manifests]
    assert len({manifest["run_id"] for manifest in manifests}) == 4
    assert all(host == hosts[0] and host["kernel"] for host in hosts)
    fleet = rows(folder / "fleet.csv")
    assert {row["fleet_verdict"] for row in fleet} == {"ok"}
    assert len(fleet) == 3 * 7, "excluded cases are not compared"
    parquet = pytest.importorskip("pyarrow.parquet")
    whole = parquet.read_table(folder / "samples")
    assert whole.num_rows == len(rows(folder / "samples.csv"))
    assert set(whole.column("host").to_pylist()) == {summary[0]["host"]}
    assert sum(each or 0 for each in whole.column("wall_ms").to_pylist()) == pytest.approx(
        sum(float(row["wall_ms"] or 0) for row in rows(folder / "samples.csv"))
    )
    read = read_results(folder)
    assert len(read.summary) == 27
    assert set(read.samples["gpu_uuid"]) == set(uuids)


def test_a_slow_gpu_is_named_and_fails_the_run_where_that_was_asked_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMALAB_FAULTS", json.dumps(SLOW))
    result = dmalab(file, "out", "--fail-on", "outlier")
    assert result.exit_code == 5, result.output
    assert "SIM-test-1 (7 of 7 cases)" in result.output
    odd = {row["gpu_uuid"] for row in rows(latest(file, "out") / "fleet.csv") if row["fleet_verdict"] == "outlier"}
    assert odd == {"SIM-test-1"}
    assert all(float(row["deviation_percent"]) == pytest.approx(20, abs=0.5) for row in _of(file, "SIM-test-1"))


def _of(file: Path, uuid: str) -> list[dict[str, str]]:
    return [row for row in rows(latest(file, "out") / "fleet.csv") if row["gpu_uuid"] == uuid]


def test_a_shared_grid_gives_the_cells_of_one_device(file: Path) -> None:
    assert dmalab(file, "shared", "--set", "spread=cases").exit_code == 0
    assert dmalab(file, "one", "--device", "simulated:test").exit_code == 0
    for name in ("summary.csv", "samples.csv", "cases.csv"):
        own, other = (
            [{key: cell for key, cell in row.items() if key != "run_id"} for row in rows(latest(file, out) / name)]
            for out in ("shared", "one")
        )
        assert own == other, name
    told = json.loads((latest(file, "shared") / "manifest.json").read_text())["fleet"]
    assert sum(gpu["cases"] for gpu in told["gpus"]) == 9


def test_a_gpu_that_is_lost_leaves_its_part_of_a_shared_grid_to_the_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMALAB_FAULTS", json.dumps([{"fault": "crash", "member": "2"}]))
    result = dmalab(file, "out", "--set", "spread=cases")
    summary = rows(latest(file, "out") / "summary.csv")
    # Each process that dies blames the case that it was at; then it is given up, and nothing else is lost.
    assert {row["status"] for row in summary} <= {"ok", "excluded", "failed"}
    assert sum(row["status"] == "failed" for row in summary) <= 3
    assert len({row["case_id"] for row in summary}) == 9
    assert result.exit_code == 4


def test_readings_of_unequal_gpus_flag_what_was_shared(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMALAB_FAULTS", json.dumps(SLOW))
    assert dmalab(file, "out", "--set", "spread=cases", "--set", "alone=gpu").exit_code == 0
    summary = [row for row in rows(latest(file, "out") / "summary.csv") if row["status"] == "ok"]
    assert {row["gpu_uuid"] for row in summary if "unequal_gpu" in row["flags"]} == {"SIM-test-1"} & {
        row["gpu_uuid"] for row in summary
    }
    assert all(row["block"] for row in summary)


def test_a_fleet_that_was_interrupted_goes_on_where_it_stopped(file: Path) -> None:
    assert dmalab(file, "out").exit_code == 0
    folder = latest(file, "out")
    whole = {name: (folder / name).read_bytes() for name in ("summary.csv", "samples.csv", "fleet.csv")}
    (own,) = (folder / "gpus").glob("*SIM-test-1/many/2*")
    journal = own / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    for path, status in ((own, "running"), (folder, "running")):
        manifest = json.loads((path / "manifest.json").read_text())
        (path / "manifest.json").write_text(json.dumps(manifest | {"status": status}))
    (own / "summary.csv").unlink()
    assert dmalab(file, "out", "--resume").exit_code == 0
    assert latest(file, "out") == folder
    assert {name: (folder / name).read_bytes() for name in whole} == whole


@pytest.mark.parametrize("device", ["simulated:test*0", "simulated:test*2000", "simulated:tset*2", "all*2", "cuda*2"])
def test_names_of_no_devices_are_refused(file: Path, device: str) -> None:
    result = dmalab(file, "out", "--device", device)
    assert result.exit_code == 2
    assert not (file.parent / "out").exists()


def test_all_says_what_is_missing_where_there_is_no_gpu(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = dmalab(file, "out", "--device", "all")
    assert result.exit_code == 3
    assert "device all cannot be used" in result.output
