"""The command as a process: whatever it is started with, what libraries print never lands in a file of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = """
name: small
question: Does it run?
device: simulated:test
measure: {warmup: 1, samples: 2}
scenarios:
  copy: {kind: transfer, direction: h2d, size: [4KiB, 8KiB]}
"""
CLOSED = """
import os, sys
for descriptor in {closed}:
    os.close(descriptor)
os.execv(sys.executable, [sys.executable, "-m", "runner", *sys.argv[1:]])
"""


@pytest.mark.parametrize("worker", ["", "process"])
@pytest.mark.parametrize("closed", [(0, 1, 2), (2,)])
def test_a_run_needs_no_standard_descriptors(closed: tuple[int, ...], worker: str, tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(FILE)
    given = ["run", str(file), "--out", str(tmp_path / "out"), "--no-report"]
    done = subprocess.run(
        [sys.executable, "-c", CLOSED.format(closed=closed), *given],
        cwd=ROOT,
        env=os.environ | {"DMALAB_WORKER": worker},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0
    (manifest,) = tmp_path.glob("out/small/2*/manifest.json")
    assert json.loads(manifest.read_text())["cases"] == {"total": 2, "ok": 2}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_error_that_cannot_be_written_keeps_its_exit_code(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "runner", "validate", str(tmp_path / "none.yaml")], cwd=ROOT, stderr=full, check=False
        )
    assert done.returncode == 2
