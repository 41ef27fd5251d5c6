"""Times the runner itself on the simulated device against its goals; `make bench` calls it.

Each figure is the best of a few fresh processes, so that imports count and the machine's other work does not. Prints a table and
writes JSON (`--json FILE`). A missed goal is told and is no failure: a machine may be slow.
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
    """One figure beside its goal, both in `unit`."""

    name: str
    value: float
    goal: float
    unit: str

    @property
    def met(self) -> bool:
        return self.value <= self.goal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = [*start_to_first_row(Path(folder)), *plan_of_a_large_grid(Path(folder)), *a_thousand_rings(Path(folder))]
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        word = "met" if figure.met else "MISSED"
        print(f"{figure.name.ljust(width)}  {figure.value:8.2f} {figure.unit:3}  goal {figure.goal:6.1f} {figure.unit:3} {word}")
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
    return [Figure("1,000 simulated rings, YAML to CSV", seconds, 5.0, "s")]


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
