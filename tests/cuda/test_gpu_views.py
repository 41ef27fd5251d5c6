"""What finished runs of the real device show: kept timelines, comparisons of two runs, and ranges with their flag."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import runner
from runner.cli import app
from runner.compare import compare_runs
from runner.compared_run import compared_run
from runner.device.ranges import NVTX
from runner.timeline_case import case_timeline
from tests.timelines import problems_of_trace

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]

TEXT = """\
name: views
question: What ran when?
measure: {warmup: 2, samples: 6}
scenarios:
  ring: {kind: pipeline, schedule: overlapped, staging: copy, buffer: pinned, total: 32MiB, chunk: 4MiB, streams: 3}
  copy: {kind: transfer, direction: h2d, buffer: pinned, size: [4MiB, 64MiB]}
"""


def run(folder: Path, *options: str) -> Path:
    path = folder / "views.yaml"
    path.write_text(TEXT, encoding="utf-8")
    known = {each.resolve() for each in folder.glob("out/views/2*")}
    result = CliRunner().invoke(
        app, ["run", str(path), "--device", "cuda", "--out", str(folder / "out"), "--no-report", *options]
    )
    assert result.exit_code == 0, result.stdout + result.stderr
    (made,) = {each.resolve() for each in folder.glob("out/views/2*")} - known
    return made


def test_a_run_keeps_the_recorded_play_of_each_case(tmp_path: Path) -> None:
    results = runner.read_results(run(tmp_path))
    if results.manifest["recording"] != "plays can be recorded":
        pytest.skip(results.manifest["recording"])
    shown = case_timeline(results, ["ring"])
    assert shown.timeline.source == "engine"
    moved = {work: sum(span.size_bytes for span in shown.timeline.spans if span.work == work) for work in ("h2d", "d2h")}
    assert moved == {"h2d": 32 << 20, "d2h": 32 << 20}
    path = tmp_path / "ring.json"
    said = CliRunner().invoke(app, ["timeline", str(results.folder), "ring", "--out", str(path)])
    assert said.exit_code == 0, said.stderr
    assert problems_of_trace(json.loads(path.read_bytes())) == []


def test_two_runs_minutes_apart_can_be_compared(tmp_path: Path) -> None:
    comparison = compare_runs(*(compared_run(runner.read_results(run(tmp_path))) for _ in range(2)))
    assert len(comparison.differences) == 3
    assert all(each.ratio is not None for each in comparison.differences)
    assert comparison.a.sentinel is not None


@pytest.mark.skipif(importlib.util.find_spec("nvtx") is None, reason="the package nvtx is not installed")
def test_ranges_leave_the_data_right_and_flag_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NVTX, "0")
    results = runner.read_results(run(tmp_path, "--nvtx"))
    assert set(results.summary["status"]) == {"ok"}
    assert all("nvtx" in flags.split() for flags in results.summary["flags"])
    assert results.manifest["device"]["nvtx"] is True
