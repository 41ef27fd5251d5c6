"""Runs as commands of their own, which tests stop, kill and start side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from runner.execution.journal import NAME

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120
FILE = """
name: many
question: Does it survive?
device: simulated:test
measure: {warmup: 1, samples: 2}
baseline: loop
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 1MiB, chunk: 256KiB}
  ring:
    kind: pipeline
    schedule: overlapped
    total: 1MiB
    chunk: [64KiB, 128KiB, 256KiB]
    streams: [1, 2, 3]
    compute: [{passes: 1}, {ratio: 1.5}]
  copy: {kind: transfer, direction: [h2d, d2h], buffer: [pageable, pinned], size: [4KiB, 64KiB, 1MiB], batch: [1, auto]}
"""


def start(file: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start `dmalab run` of a file, its results beside it."""
    command = [sys.executable, "-m", "runner", "run", str(file), "--out", str(file.parent / "out"), "--no-report", *arguments]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | variables, **streams)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end of a command; return its exit code and what it said."""
    out, error = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, error


def run(file: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    return ended(start(file, *arguments, **variables))


def folders(file: Path) -> list[Path]:
    return sorted(file.parent.glob("out/*/2*"))


def noted(file: Path) -> int:
    """Return how many lines the journal of the newest run has."""
    found = folders(file)
    journal = found[-1] / NAME if found else None
    return journal.read_bytes().count(b"\n") if journal is not None and journal.exists() else 0


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait until something holds; return whether it did before the process ended."""
    pause = threading.Event()
    while process.poll() is None:
        if condition():
            return True
        pause.wait(0.01)
    return condition()


def manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return content


def cells(folder: Path) -> dict[str, pd.DataFrame]:
    """Return every table of a run as text, without the run's own id."""
    return {path.name: pd.read_csv(path, dtype=str).drop(columns="run_id", errors="ignore") for path in folder.glob("*.csv")}


def equal(one: dict[str, pd.DataFrame], other: dict[str, pd.DataFrame]) -> bool:
    return one.keys() == other.keys() and all(other[name].equals(table) for name, table in one.items())
