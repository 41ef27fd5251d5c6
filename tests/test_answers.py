"""The sentence on the fastest of several scenarios, by hand-made results and from a whole simulated run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from runner.answers import answers
from runner.errors import SpecError
from runner.expand import expand
from runner.flow import run_experiment
from runner.measure.result import CaseResult, Sample
from runner.report.answer import answer
from runner.report.reading import read_run
from runner.rows import RunInfo
from runner.spec.load import load_experiment
from tests.scenarios.runs import Silent

FILE = """
name: answered
question: Which is the fastest?
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 8MiB, chunk: 2MiB}
  ring: {kind: pipeline, schedule: overlapped, staging: copy, total: 8MiB, chunk: [1MiB, 2MiB], streams: 2}
  direct: {kind: pipeline, schedule: overlapped, total: 8MiB, chunk: 2MiB, streams: 2}
"""
JOB = "fastest: [{job: a round trip, among: [loop, ring, direct]}]\n"
NOT_ALONE = [9.0] * 8


def told(tmp_path: Path, walls: Mapping[int, Sequence[float]], bound_ms: float | None = None, asked: str = JOB) -> str:
    """Return the sentence where the cases at these places (loop, ring, ring, direct) took these times and the others failed."""
    path = tmp_path / "answered.yaml"
    path.write_text(FILE + asked)
    loaded = load_experiment(path)
    results = []
    for place, case in enumerate(expand(loaded)):
        samples = tuple(Sample("sample", index, {"wall_ms": ms}) for index, ms in enumerate(walls.get(place, ())))
        derived = {} if bound_ms is None else {"bound_full_ms": bound_ms}
        if samples:
            results.append(CaseResult(case, "ok", "", samples=samples, derived=derived))
        else:
            results.append(CaseResult(case, "failed", "it broke"))
    (sentence,) = answers(loaded.experiment, results, RunInfo("r_x", "answered", "a device", "cuda"))
    return sentence


def test_it_names_the_fastest_its_bound_and_the_next_simpler(tmp_path: Path) -> None:
    sentence = told(tmp_path, {0: [40.0] * 8, 1: [20.0] * 8, 2: [16.0] * 8, 3: [8.0] * 8}, bound_ms=5)
    assert sentence == (
        "For a round trip the fastest on a device is direct: 8 ms (8 … 8), 1.6 times the 5 ms of its slowest part alone; "
        "the next simpler, ring (chunk 2MiB), takes 16 ms (16 … 16), 2 times as long."
    )


def test_the_next_simpler_is_the_fastest_of_those_before_it(tmp_path: Path) -> None:
    sentence = told(tmp_path, {0: [10.0] * 8, 1: [20.0] * 8, 2: [16.0] * 8, 3: [8.0] * 8})
    assert "the next simpler, loop, takes 10 ms (10 … 10), 1.25 times as long." in sentence


def test_what_an_interval_does_not_tell_apart_is_not_called_slower(tmp_path: Path) -> None:
    wide = [7.0, 7.5, 7.9, 9.0, 9.0, 9.5, 10.0, 11.0]
    sentence = told(tmp_path, {0: [40.0] * 8, 1: wide, 3: [8.0, 8.0, 8.1, 8.2, 8.3, 8.4, 8.5, 8.5]})
    assert sentence.endswith("the next simpler, ring (chunk 1MiB), takes 9 ms (7 … 11), which is not surely longer.")


@pytest.mark.parametrize(
    ("walls", "end"),
    [
        ({0: [8.0], 3: [9.0]}, "is loop: 8 ms; it is the simplest, too; no case of ring could be measured."),
        ({3: [9.0]}, "is direct: 9 ms; nothing simpler was measured; no case of loop, ring could be measured."),
        ({}, "nothing can be said of a device; no case of loop, ring, direct could be measured."),
    ],
)
def test_what_could_not_be_measured_is_told(tmp_path: Path, walls: Mapping[int, Sequence[float]], end: str) -> None:
    assert told(tmp_path, walls).endswith(end)


def test_the_bound_is_of_wall_time_alone(tmp_path: Path) -> None:
    asked = "fastest: [{job: x, among: [loop], metric: event_ms}]\n"
    assert told(tmp_path, {0: [8.0]}, bound_ms=5, asked=asked).endswith("no case of loop could be measured.")


def test_a_file_that_asks_for_nothing_gets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "answered.yaml"
    path.write_text(FILE)
    loaded = load_experiment(path)
    assert answers(loaded.experiment, [], RunInfo("r_x", "answered", "a device", "cuda")) == []


def test_the_sentence_of_a_run_stands_in_its_outcome_and_its_manifest(tmp_path: Path) -> None:
    path = tmp_path / "answered.yaml"
    path.write_text(FILE + JOB)
    outcome = run_experiment(load_experiment(path), device="simulated:test", out=tmp_path, max_cases=9, watcher=Silent())
    (sentence,) = outcome.answers
    assert sentence.startswith("For a round trip the fastest on simulated:test is direct: ")
    assert json.loads((outcome.folder / "manifest.json").read_text())["answers"] == [sentence]
    assert answer(read_run(outcome.folder)) == [sentence], "the page and the terminal show it, too"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("{job: x, among: [lop]}", "there is no such scenario, got lop; allowed: loop, ring, direct; did you mean loop?"),
        ("{job: x, among: [loop, loop]}", "the scenario stands here twice, got loop"),
        ("{job: x, among: [loop], metric: gb_per_s}", "this is no time, got gb_per_s"),
        ("{job: x, among: []}", "fastest[0].among"),
        ("{among: [loop]}", "job is missing"),
        ("{job: x, among: [loop], best: true}", "unknown key best"),
        ("fast", "fastest[0]"),
    ],
)
def test_wrong_questions_are_refused_at_their_place(tmp_path: Path, asked: str, problem: str) -> None:
    path = tmp_path / "answered.yaml"
    path.write_text(FILE + f"fastest: [{asked}]\n")
    with pytest.raises(SpecError) as caught:
        load_experiment(path)
    assert problem in str(caught.value)
    assert f"{path}:8:" in str(caught.value)
