"""Clusters in the large, by `make test-cluster`: 10,000 cases whoever dies meanwhile."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runner.expand import expand
from runner.spec.load import load_experiment
from tests.cluster.clusters import ROOT, Processes

pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(not os.environ.get("DMALAB_CLUSTER_TESTS"), reason="they take minutes: make test-cluster")

GRID = """
name: grid
question: Does it scale?
device: simulated:test
spread: cases
measure: {warmup: 0, samples: 1}
scenarios:
  copy: {kind: transfer, buffer: [pageable, pinned], direction: [h2d, d2h], streams: [1, 2], chunk: 64KiB, size: SIZES}
"""
SECONDS = 900


def grid(folder: Path, cases: int) -> Path:
    sizes = ", ".join(str(65536 + 4 * place) for place in range(cases // 8))
    path = folder / "grid.yaml"
    path.write_text(GRID.replace("SIZES", f"[{sizes}]"))
    assert sum(1 for _ in expand(load_experiment(path))) == cases
    return path


def dmalab(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "runner", "run", "--no-report", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


def newest(out: Path) -> Path:
    return max((out / "grid").glob("2*"))


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def cells(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(encoding="utf-8", newline="") as table:
        return [{key: cell for key, cell in row.items() if key != "run_id"} for row in csv.DictReader(table)]


def until(done: Any, what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_ten_thousand_cases_whoever_dies_meanwhile(tmp_path: Path) -> None:
    """Workers killed and added, the scheduler restarted, the client killed and resumed: the cells are those of one process."""
    file, out = grid(tmp_path, 10_000), tmp_path / "out"
    processes = Processes(tmp_path)
    try:
        processes.scheduler()
        for name in "abcd":
            processes.worker(name)
        processes.wait_for(4)
        client = dmalab(file, "--cluster", processes.address, "--out", out)
        until(lambda: any((out / "grid").glob("2*/journal.jsonl")), "the run did not begin")
        journal = newest(out) / "journal.jsonl"
        until(lambda: lines(journal) > 500, "nothing was noted")
        processes.kill("a")
        processes.worker("e")
        until(lambda: lines(journal) > 2000, "it did not go on without a worker")
        processes.kill("scheduler")
        for name in "bcde":
            processes.kill(name)
        processes.scheduler()
        for name in "bcde":
            processes.worker(name)
        until(lambda: lines(journal) > 4000, "it did not go on with another scheduler")
        client.send_signal(signal.SIGKILL)
        client.wait()
        again = dmalab(file, "--cluster", processes.address, "--out", out, "--resume")
        assert again.wait(SECONDS) == 0
    finally:
        processes.close()
    assert dmalab(file, "--workers", 1, "--out", tmp_path / "one").wait(SECONDS) == 0
    for name in ("summary.csv", "samples.csv", "cases.csv"):
        assert cells(newest(out), name) == cells(newest(tmp_path / "one"), name), name
    noted = [json.loads(line)["record"] for line in (newest(out) / "journal.jsonl").read_bytes().splitlines()]
    assert len({record["case"] for record in noted if record["type"] == "case"}) == 10_000
