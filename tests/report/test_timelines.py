from __future__ import annotations

from pathlib import Path

import pytest

from runner.report import timelines as module
from runner.report.page import write_report
from runner.report.reading import read_run
from runner.report.timelines import page_timelines, why_none
from runner.timeline import Span, Timeline
from runner.timeline_store import NAME, encoded
from tests.report.folders import HOSTILE, MIB, pipeline, run_folder
from tests.report.test_cli_reports import dmalab
from tests.results_for_tests import pipeline as pipeline_model

RINGS = """\
name: rings
question: Which ring?
device: simulated:test
measure: {warmup: 1, samples: 2}
scenarios:
  serial: {kind: pipeline, schedule: serialized, total: 4MiB, chunk: 1MiB}
  ring: {kind: pipeline, schedule: overlapped, total: 4MiB, chunk: 1MiB, streams: [1, 2]}
"""


def kept(folder: Path, row_id: object) -> None:
    spans = (Span("h2d", "h2d", 0, 1000, stream=0, size_bytes=MIB, lane=0, index=0),)
    line = encoded(pipeline_model().plan(), Timeline("engine", spans, 0))
    (folder / NAME).write_text(f'{{"case_id": "{row_id}", "timeline": {line}}}\n', encoding="utf-8")


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rings")
    (path / "rings.yaml").write_text(RINGS, encoding="utf-8")
    assert dmalab("run", path / "rings.yaml", "--out", path, "--no-report").exit_code == 0
    (folder,) = (path / "rings").glob("2*")
    return folder


def test_a_measured_run_shows_the_plays_that_it_kept(tmp_path: Path) -> None:
    rows = [pipeline(32 * MIB, 1, 60.0), pipeline(32 * MIB, 2, 50.0), pipeline(MIB, 3, 40.0)]
    folder = run_folder(tmp_path, rows)
    assert page_timelines(read_run(folder)) == [], "nothing was kept"
    kept(folder, rows[1]["case_id"])
    (shown,) = page_timelines(read_run(folder))
    assert shown.title == "Who worked when: ring (chunk 32MiB, streams 2)", (
        "256 chunks are too many to draw, the next best is not"
    )
    assert "measured on NVIDIA X" in shown.svg
    assert shown.note.startswith("The fastest of its scenario, ring (chunk 1MiB, streams 3), has too many chunks")
    page = write_report(folder).read_text(encoding="utf-8")
    assert shown.svg in page
    assert shown.note in page


def test_a_page_without_a_timeline_says_why(tmp_path: Path, rings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = pipeline(32 * MIB, 1, 60.0)
    bare = run_folder(tmp_path / "bare", [row])
    assert "timelines.jsonl is not in the run's folder." in why_none(read_run(bare))
    assert "There is no timeline: timelines.jsonl is not" in write_report(bare).read_text(encoding="utf-8")
    kept(bare, row["case_id"])
    assert "There is no timeline" not in write_report(bare).read_text(encoding="utf-8")
    monkeypatch.setattr(module, "MOST_SPANS", 0)
    assert "more than 64 chunks or 0 bars" in why_none(read_run(bare))
    assert why_none(read_run(run_folder(tmp_path / "empty", []))) == "", "where nothing was measured that says it all"


def test_a_name_in_a_timeline_is_text(tmp_path: Path) -> None:
    row = pipeline(32 * MIB, 1, 60.0, scenario=HOSTILE)
    folder = run_folder(tmp_path, [row])
    kept(folder, row["case_id"])
    (shown,) = page_timelines(read_run(folder))
    assert "<img" not in shown.svg
    assert "&lt;img src=x" in shown.svg


def test_a_simulated_run_is_played_again(rings: Path) -> None:
    found = page_timelines(read_run(rings))
    assert [each.title for each in found] == ["Who worked when: serial (streams 1)", "Who worked when: ring (streams 2)"]
    assert all("SIMULATED on simulated:test" in each.svg for each in found)


def test_a_run_whose_time_has_changed_since_shows_none(rings: Path, tmp_path: Path) -> None:
    for name in ("summary.csv", "columns.csv", "manifest.json", "experiment.yaml"):
        (tmp_path / name).write_bytes((rings / name).read_bytes())
    (tmp_path / "experiment.yaml").write_text(RINGS.replace("4MiB", "8MiB"), encoding="utf-8")
    assert page_timelines(read_run(tmp_path)) == [], "the file has no such cases any more"
    (tmp_path / "experiment.yaml").write_text(RINGS, encoding="utf-8")
    run = read_run(tmp_path)
    slower = tuple({**row, "median_wall_ms": float(str(row["median_wall_ms"])) * 1.5, "gb_per_s": 0.1} for row in run.rows)
    assert page_timelines(type(run)(run.folder, run.columns, slower, (), (), run.manifest)) == []


def test_long_timelines_are_not_drawn(rings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SPANS", 3)
    assert page_timelines(read_run(rings)) == []
