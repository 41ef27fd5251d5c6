"""Times the runner itself on the simulated device against its goals; `make bench` calls it.

Each figure is the best of a few fresh processes, so that imports count and the machine's other work does not. Of the best of the
thousand rings it also tells what start-up, expansion, the cases beside their plays, and the tables take, each as a share of the
time of the plays. Prints a table and writes JSON (`--json FILE`). A missed goal is told and is no failure: a machine may be slow.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runner.measure.spent import MEASURING

ROOT: Final = Path(__file__).resolve().parents[1]
REPEATS: Final = 3
MIB: Final = 2**20
GRID: Final = """\
name: grid
question: How long does a plan of 100,000 cases take?
scenarios:
  ring:
    kind: pipeline
    schedule: overlapped
    total: 256MiB
    chunk: {chunks}
    streams: {streams}
    slots: [100, 200, 300, 400, 500]
    issue: [depth_first, breadth_first]
"""
RINGS: Final = """\
name: rings
question: How long do 1,000 small rings take?
measure: {{warmup: 0, samples: 1}}
scenarios:
  ring:
    kind: pipeline
    schedule: overlapped
    staging: copy
    total: 8MiB
    chunk: {chunks}
    streams: {streams}
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure beside its goal, both in `unit`; None where there is no goal."""

    name: str
    value: float
    goal: float | None
    unit: str

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.value <= self.goal

    def line(self, width: int) -> str:
        told = f"{self.name.ljust(width)}  {self.value:8.2f} {self.unit:3}"
        return told if self.goal is None else f"{told}  goal {self.goal:6.1f} {self.unit:3} {'met' if self.met else 'MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = [*start_to_first_row(Path(folder)), *plan_of_a_large_grid(Path(folder)), *a_thousand_rings(Path(folder))]
        figures += ten_thousand_rings(Path(folder))
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        print(figure.line(width))
    content = json.dumps([asdict(figure) | {"met": figure.met} for figure in figures], indent=2) + "\n"
    if arguments.json:
        arguments.json.write_text(content, encoding="utf-8")


def start_to_first_row(folder: Path) -> list[Figure]:
    """Time from the start of the process to the line about the first case of overlap.yaml."""

    def once() -> float:
        begun = time.perf_counter()
        command = runner("run", "overlap", "--device", "simulated", "--out", folder / "first")
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("[1/"):
                    seconds = time.perf_counter() - begun
            assert process.wait() == 0, "the run failed"
        return seconds

    return [Figure("start to first row, simulated", best(once), 1.0, "s")]


def plan_of_a_large_grid(folder: Path) -> list[Figure]:
    """Time and peak memory of `plan` for 100 x 100 x 5 x 2 cases."""
    path = folder / "grid.yaml"
    path.write_text(GRID.format(chunks=[MIB + 4096 * n for n in range(100)], streams=list(range(1, 101))))
    peaks: list[float] = []

    def once() -> float:
        seconds, peak = timed(runner("plan", path))
        peaks.append(peak)
        return seconds

    return [
        Figure("plan of 100,000 cases", best(once), 2.0, "s"),
        Figure("plan of 100,000 cases, peak memory", min(peaks), 300.0, "MB"),
    ]


def a_thousand_rings(folder: Path) -> list[Figure]:
    """Time of 1,000 simulated rings of 8 MiB, one sample each, from YAML to CSV."""
    path = folder / "rings.yaml"
    path.write_text(RINGS.format(chunks=[MIB // 2 + 4096 * n for n in range(125)], streams=list(range(1, 9))))

    def once() -> float:
        return timed(runner("run", path, "--device", "simulated", "--out", folder / "rings"))[0]

    seconds = best(once)
    for table in (folder / "rings").glob("rings/2*/summary.csv"):
        with table.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 1000, f"{len(rows)} rows"
        assert {row["status"] for row in rows} == {"ok"}
    return [Figure("1,000 simulated rings, YAML to CSV", seconds, 5.0, "s"), *own_cost(folder / "rings" / "rings")]


def ten_thousand_rings(folder: Path) -> list[Figure]:
    """Time of 10,000 such rings, once, by as many processes as there are processors, and the memory of the largest of them."""
    path = folder / "many.yaml"
    text = RINGS.replace("rings", "many", 1).replace("1,000", "10,000")
    path.write_text(text.format(chunks=[MIB // 2 + 4096 * n for n in range(1250)], streams=list(range(1, 9))))
    seconds, peak = timed(runner("run", path, "--device", "simulated", "--no-report", "--out", folder / "many"))
    return [
        Figure("10,000 simulated rings, YAML to CSV", seconds, 30.0, "s"),
        Figure("10,000 simulated rings, largest process", peak, 500.0, "MB"),
    ]


def own_cost(folder: Path) -> list[Figure]:
    """What the fastest run in a folder of runs spent beside its timed plays: `seconds` of its manifest."""
    manifests = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("2*/manifest.json")]
    manifest = min(manifests, key=lambda manifest: float(manifest["seconds"]["total"]))
    seconds: dict[str, float] = manifest["seconds"]
    plays = sum(seconds[what] for what in MEASURING)
    once = {what: seconds[what] for what in ("start_up", "expansion", "tables")}
    parts = once | {"cases beside their plays": seconds["total"] - plays - sum(once.values())}
    each = parts["cases beside their plays"] * 1e3 / manifest["cases"]["total"]
    shares = [
        Figure(f"  {what.replace('_', '-')}, of the time of the plays", 100 * took / plays, None, "%")
        for what, took in parts.items()
    ]
    return [Figure("  a case beside its plays", each, None, "ms"), *shares]


def runner(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "runner", *(str(argument) for argument in arguments)]


def best(once: Callable[[], float]) -> float:
    return min(once() for _ in range(REPEATS))


def timed(command: list[str]) -> tuple[float, float]:
    """Return seconds and peak resident megabytes of a command."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{' '.join(command)} gave {process.returncode}"
    return seconds, usage.ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
