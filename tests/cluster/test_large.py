"""Clusters in the large, by `make test-cluster`: 10,000 cases whoever dies meanwhile, and what a thousand workers cost."""

from __future__ import annotations

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runner.execution.cluster import ClusterHall
from runner.execution.shared import Shared
from runner.expand import expand
from runner.flow import run_experiment
from runner.spec.load import load_experiment
from tests.cluster.clusters import ROOT, Processes, inside
from tests.cluster.watches import Watch

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


def test_a_thousand_workers_share_a_hundred_thousand_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What that takes is said, not judged; docs/cluster.md has it."""
    file = grid(tmp_path, int(os.environ.get("DMALAB_CLUSTER_CASES", "100000")))
    count = int(os.environ.get("DMALAB_CLUSTER_WORKERS", "1000"))
    loaded = load_experiment(file)
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    with inside(count) as address:
        started = time.perf_counter()
        outcome = run_experiment(
            loaded,
            device=None,
            out=tmp_path / "out",
            max_cases=1_000_000,
            watcher=Watch(-1, lambda: None),
            bench=Shared(ClusterHall(loaded, "simulated:test", address)),
        )
        ended = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF)
    with capsys.disabled():
        print(
            f"\n{count} workers came in {started - begun:.1f} s; {len(outcome.results):,} cases took {ended - started:.1f} s, "
            f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f} s of processor time in all; "
            f"most memory {after.ru_maxrss / 1024:,.0f} MiB"
        )
    assert outcome.exit_code == 0
    assert len(outcome.results) == len({result.case.case_id for result in outcome.results})
