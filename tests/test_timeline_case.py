"""Timelines of finished runs: kept with the run where it was measured, played again where it was simulated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import runner
from runner import timeline_case, timeline_store
from runner.cli import app
from runner.compared_run import compared_run
from runner.device.contract import Activity, Trace
from runner.device.select import Opened
from runner.errors import InputError, UsageError
from runner.report.reading import read_run
from runner.report.timelines import why_none
from runner.timeline import Span, Timeline, timeline_of
from runner.timeline_case import case_timeline, find_case
from runner.timeline_store import NAME, NO_FILE, TimelineFile, encoded, kept_timeline
from tests.measure.test_engine import RecordingDevice, measured
from tests.results_for_tests import pipeline
from tests.runs_for_tests import noisy, write_run
from tests.timelines import problems_of_trace

TEXT = """\
name: ring
question: Does it overlap?
measure: {warmup: 1, samples: 2}
scenarios:
  serialized: {kind: pipeline, schedule: serialized, buffer: pageable, total: 4MiB, chunk: 1MiB}
  ring: {kind: pipeline, schedule: overlapped, total: 4MiB, chunk: [1MiB, 2MiB], streams: [1, 2]}
  small: {kind: transfer, direction: h2d, size: 1MiB}
"""


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, words)
    return result.exit_code, result.stdout + result.stderr


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a simulated device."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "ring.yaml").write_text(TEXT, encoding="utf-8")
    code, said = invoke("run", str(folder / "ring.yaml"), "--device", "simulated:test", "--out", str(folder / "out"))
    assert code == 0, said
    return next((folder / "out" / "ring").glob("2*"))


def spans_of(lengths: Sequence[int]) -> Timeline:
    return Timeline("engine", tuple(Span("h2d", "h2d", 10 * at, 10 * at + length) for at, length in enumerate(lengths)), 0)


def test_what_was_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    plan = pipeline(streams=2).plan()
    copy = Activity(0, 3, "h2d", 100, 300, 1, 4096, "pinned", 50, 60)
    wait = Activity(0, 4, "host", 60, 320, -1, 0, "", 60, 320)
    timeline = timeline_of(plan, Trace((), (), activities=(copy, wait)))
    result = noisy(1, 1, timeline=encoded(plan, timeline))
    stored = TimelineFile(tmp_path).keep(result)
    assert stored.timeline == ""
    kept = kept_timeline(tmp_path, result.case.case_id)
    assert kept is not None
    assert (kept.spans, kept.source, kept.left_out) == (timeline.spans, "engine", 0)
    assert kept.streams == tuple(stream.name for stream in plan.streams)
    assert kept_timeline(tmp_path, "c_other") is None


def test_the_last_line_of_a_case_counts_and_a_cut_one_is_passed_over(tmp_path: Path) -> None:
    plan, case = pipeline().plan(), noisy(1, 1).case
    file = TimelineFile(tmp_path)
    for lengths in ([1], [2, 3]):
        file.keep(replace(noisy(1, 1), case=case, timeline=encoded(plan, spans_of(lengths))))
    text = (tmp_path / NAME).read_text(encoding="utf-8")
    (tmp_path / NAME).write_text(text + text.splitlines()[1][:-40], encoding="utf-8")
    kept = kept_timeline(tmp_path, case.case_id)
    assert kept is not None
    assert [span.end_ns - span.begin_ns for span in kept.spans] == [2, 3]


def test_long_timelines_and_large_files_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_store, "MOST_SPANS", 2)
    line = encoded(pipeline().plan(), spans_of([5, 5, 5]))
    first = noisy(1, 1, timeline=line)
    TimelineFile(tmp_path).keep(first)
    kept = kept_timeline(tmp_path, first.case.case_id)
    assert kept is not None
    assert (len(kept.spans), kept.left_out) == (2, 1)
    size = (tmp_path / NAME).stat().st_size
    monkeypatch.setattr(timeline_store, "MOST_BYTES", size + 10)
    assert TimelineFile(tmp_path).keep(noisy(2, 1, timeline=line)).timeline == ""
    assert (tmp_path / NAME).stat().st_size == size


def test_nothing_is_made_where_nothing_was_recorded(tmp_path: Path) -> None:
    assert encoded(pipeline().plan(), Timeline("none", (), 0)) == ""
    assert TimelineFile(tmp_path).keep(noisy(1, 1)) == noisy(1, 1)
    assert not (tmp_path / NAME).exists()


def test_a_measured_case_is_the_play_that_its_run_kept(tmp_path: Path) -> None:
    timed, without = noisy(1, 1, timeline=encoded(pipeline().plan(), spans_of([7, 7]))), noisy(2, 1)
    folder = write_run(tmp_path / "run", [timed, without], recording="no CUPTI here")
    TimelineFile(folder).keep(timed)
    results = runner.read_results(folder)
    shown = case_timeline(results, ["copy", "size=1MiB"])
    assert (shown.simulated, shown.origin) == (False, "the last recorded play of the run")
    assert [span.end_ns - span.begin_ns for span in shown.timeline.spans] == [7, 7]
    with pytest.raises(InputError, match=r"kept no timeline of copy size 2MiB \(no CUPTI here\); --device D"):
        case_timeline(results, ["size=2097152"])


def test_a_run_without_kept_timelines_is_told_as_on_its_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [noisy(1, 1)], recording="plays can be recorded")
    with pytest.raises(InputError) as refused:
        case_timeline(runner.read_results(folder), ["copy"])
    assert str(refused.value).startswith(f"r_run has kept no timeline of any case: {NO_FILE}; --device D plays")
    assert NO_FILE in why_none(read_run(folder))


def test_measuring_a_case_brings_its_last_recorded_play_along(tmp_path: Path) -> None:
    result = measured(RecordingDevice(copy_us=100))
    TimelineFile(tmp_path).keep(result)
    kept = kept_timeline(tmp_path, result.case.case_id)
    assert kept is not None
    assert (kept.source, [span.end_ns - span.begin_ns for span in kept.spans]) == ("engine", [100_000])
    assert measured(RecordingDevice(deterministic=True)).timeline == ""
    coarse = measured(RecordingDevice(recording="not here"))
    assert '"source":"events"' in coarse.timeline


def test_a_simulated_case_is_played_again(simulated: Path) -> None:
    results = runner.read_results(simulated)
    shown = case_timeline(results, ["ring", "chunk=1MiB", "streams=2"])
    assert (shown.simulated, shown.origin, shown.device) == (True, "played again", "simulated:test")
    moved = sum(span.size_bytes for span in shown.timeline.spans if span.work == "h2d")
    assert moved == 4 * 2**20
    assert len(shown.timeline.streams) == 2
    assert not (simulated / NAME).exists()


def test_a_simulated_case_that_takes_another_time_now_is_refused(simulated: Path, tmp_path: Path) -> None:
    for name in ("summary.csv", "samples.csv", "columns.csv", "manifest.json", "experiment.yaml"):
        (tmp_path / name).write_bytes((simulated / name).read_bytes())
    results = runner.read_results(tmp_path)
    samples = results.samples.assign(event_ms=results.samples["event_ms"] * 1.5)
    with pytest.raises(InputError, match="the profile simulated:test or dmalab has changed since"):
        case_timeline(replace(results, samples=samples), ["small"])
    assert case_timeline(replace(results, samples=samples), ["small"], "simulated:test").timeline.spans


def test_a_device_that_records_nothing_says_why(simulated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str, wait: str) -> Opened:
        return Opened(RecordingDevice(recording="no CUPTI here"))

    monkeypatch.setattr(timeline_case, "open_device", opened)
    monkeypatch.setattr(timeline_case, "timeline_of", lambda plan, trace: Timeline("none", (), 0))
    with pytest.raises(InputError, match=r"NVIDIA Test has played c_[0-9a-f]{12} and recorded nothing: no CUPTI here"):
        case_timeline(runner.read_results(simulated), ["small"], "cuda")


def test_cases_are_named_by_id_scenario_and_fields(simulated: Path) -> None:
    run = compared_run(runner.read_results(simulated))
    small = find_case(run, ["small"])
    assert find_case(run, [small.case_id[:9]]) is small
    assert find_case(run, ["ring", "chunk=2097152", "streams=1"]).cells["chunk_bytes"] == 2**21
    assert find_case(run, ["schedule=serialized"]).scenario == "serialized"
    with pytest.raises(UsageError, match=r"4 cases are 'ring'.*ring chunk 1MiB streams 1"):
        find_case(run, ["ring"])
    with pytest.raises(UsageError, match=r"no case is 'ring chunk=3MiB'"):
        find_case(run, ["ring", "chunk=3MiB"])
    with pytest.raises(UsageError, match="no case is 'chunk=much'"):
        find_case(run, ["chunk=much"])


def test_the_verb_draws_a_case_and_writes_it(simulated: Path, tmp_path: Path) -> None:
    for case in (["serialized"], ["ring", "chunk=2MiB", "streams=2"], ["small"]):
        path = tmp_path / f"{case[0]}.json"
        code, said = invoke("timeline", str(simulated), *case, "--out", str(path))
        assert code == 0, said
        assert "SIMULATED on simulated:test" in said
        assert "ui.perfetto.dev" in said
        assert problems_of_trace(json.loads(path.read_bytes())) == []
    code, said = invoke("timeline", str(simulated), "small", "--out", str(tmp_path / "small.svg"))
    assert code == 0, said
    assert (tmp_path / "small.svg").read_text(encoding="utf-8").startswith("<svg")
    code, said = invoke("timeline", str(simulated), "small", "--out", str(tmp_path / "small.txt"))
    assert code == 2
    assert "allowed: .json, .svg" in said
