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
  register: {kind: pipeline, schedule: overlapped, staging: register, total: 8MiB, chunk: 2MiB, streams: 2}
"""
JOB = "fastest: [{job: a round trip, among: [loop, ring, register]}]\n"
NOT_ALONE = [9.0] * 8


def told(
    tmp_path: Path,
    walls: Mapping[int, Sequence[float]],
    bound_ms: float | None = None,
    asked: str = JOB,
    *,
    file: str = FILE,
    flagged: Sequence[int] = (),
    figures: Mapping[str, float] | None = None,
) -> str:
    """Return the sentence where the cases at these places (loop, ring, ring, register) took these times and the others failed.

    The last case has `figures` beside its time, those at the places `flagged` are implausible.
    """
    path = tmp_path / "answered.yaml"
    path.write_text(file + asked)
    loaded = load_experiment(path)
    results = []
    cases = list(expand(loaded))
    for place, case in enumerate(cases):
        more = dict(figures or {}) if place == len(cases) - 1 else {}
        samples = tuple(Sample("sample", index, {"wall_ms": ms} | more) for index, ms in enumerate(walls.get(place, ())))
        derived = {} if bound_ms is None else {"bound_full_ms": bound_ms}
        if samples:
            flags = ("implausible",) if place in flagged else ()
            results.append(CaseResult(case, "ok", "", flags=flags, samples=samples, derived=derived))
        else:
            results.append(CaseResult(case, "failed", "it broke"))
    (sentence,) = answers(loaded.experiment, results, RunInfo("r_x", "answered", "a device", "cuda"))
    return sentence


def test_it_names_the_fastest_its_bound_and_the_next_simpler(tmp_path: Path) -> None:
    sentence = told(tmp_path, {0: [40.0] * 8, 1: [20.0] * 8, 2: [16.0] * 8, 3: [8.0] * 8}, bound_ms=5)
    assert sentence == (
        "For a round trip the fastest on a device is register: 8 ms (8 … 8), 1.6 times the 5 ms of its slowest part alone; "
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
        ({0: [8.0], 3: [9.0]}, "is loop: 8 ms; it is the simplest, too; no case of ring gave a time to believe."),
        ({3: [9.0]}, "is register: 9 ms; nothing simpler was measured; no case of loop, ring gave a time to believe."),
        ({}, "nothing can be said of a device; no case of loop, ring, register gave a time to believe."),
    ],
)
def test_what_could_not_be_measured_is_told(tmp_path: Path, walls: Mapping[int, Sequence[float]], end: str) -> None:
    assert told(tmp_path, walls).endswith(end)


def test_a_time_that_is_implausible_does_not_win(tmp_path: Path) -> None:
    walls = {0: [40.0] * 8, 1: [20.0] * 8, 2: [3.0] * 8, 3: [16.0] * 8}
    assert "is register: 16 ms" in told(tmp_path, walls, flagged=[2])
    assert "is loop: 40 ms" in (sentence := told(tmp_path, walls, flagged=[1, 2, 3]))
    assert sentence.endswith("no case of ring, register gave a time to believe.")


def test_what_is_hardly_faster_is_not_called_faster_than_the_simpler(tmp_path: Path) -> None:
    close = told(tmp_path, {0: [10.0], 1: [8.1], 3: [8.0]})
    assert close == (
        "For a round trip the fastest on a device is ring (chunk 1MiB): 8.1 ms; register, 8 ms, is no faster by the 2% that "
        "count here; the next simpler, loop, takes 10 ms, 1.23 times as long."
    )
    assert "is register: 8 ms; the next simpler, ring (chunk 1MiB), takes 8.2 ms, 1.02 times" in told(
        tmp_path, {0: [10.0], 1: [8.2], 3: [8.0]}
    )


def test_page_locking_is_part_of_the_bound_in_words(tmp_path: Path) -> None:
    cost = {"register_ms": 2.0, "unregister_ms": 1.0}
    sentence = told(tmp_path, {0: [10.0], 3: [8.0]}, bound_ms=5, figures=cost)
    assert "register: 8 ms, 1.6 times the 5 ms of its slowest part and page-locking alone; " in sentence


GRAPH = """
name: answered
question: Does a graph pay?
scenarios:
  loop: {kind: pipeline, schedule: overlapped, total: 8MiB, chunk: 2MiB, streams: 2, submit: calls}
  graph: {kind: pipeline, schedule: overlapped, total: 8MiB, chunk: 2MiB, streams: 2, submit: graph}
"""


@pytest.mark.parametrize(
    ("walls", "end"),
    [
        (
            {0: [8.0], 1: [6.0]},
            "1.33 times as long; what it needs once before, making its graph, takes 5 ms and has paid after 3 ",
        ),
        (
            {1: [6.0]},
            "graph: 6 ms; what it needs once before, making its graph, takes 5 ms; nothing simpler was measured; no case",
        ),
        ({0: [6.1], 1: [6.0]}, "is no faster by the 2% that count here; it is the simplest, too."),
    ],
)
def test_what_making_a_graph_costs_is_told_and_when_it_has_paid(
    tmp_path: Path, walls: Mapping[int, Sequence[float]], end: str
) -> None:
    asked = "fastest: [{job: chunks, among: [loop, graph]}]\n"
    assert end in told(tmp_path, walls, asked=asked, file=GRAPH, figures={"instantiate_ms": 5.0})


def test_the_bound_is_of_wall_time_alone(tmp_path: Path) -> None:
    asked = "fastest: [{job: x, among: [loop], metric: event_ms}]\n"
    assert told(tmp_path, {0: [8.0]}, bound_ms=5, asked=asked).endswith("no case of loop gave a time to believe.")


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
    assert sentence.startswith("For a round trip the fastest on simulated:test is register: ")
    assert json.loads((outcome.folder / "manifest.json").read_text())["answers"] == [sentence]
    assert answer(read_run(outcome.folder)) == [sentence], "the page and the terminal show it, too"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("{job: x, among: [loop, {a: 1}]}", "text is expected, got a mapping"),
        ("{job: x, among: [loop, [ring]]}", "text is expected, got a list"),
        ("{job: x, among: [lop]}", "there is no such scenario, got lop; allowed: loop, ring, register; did you mean loop?"),
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


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ("kind: transfer, direction: h2d, size: 8MiB", "kind is transfer in other and pipeline in loop"),
        (
            "kind: pipeline, schedule: serialized, buffer: pageable, total: 4MiB, chunk: 2MiB",
            "total is 4MiB in other and 8MiB in",
        ),
        (
            "kind: pipeline, schedule: serialized, buffer: pinned, total: 8MiB, chunk: 2MiB",
            "lie in page-locked memory, not in ord",
        ),
        ("kind: pipeline, schedule: serialized, staging: register, total: [8MiB, 4MiB], chunk: 2MiB", "total is 4MiB in other"),
        (
            "kind: pipeline, schedule: serialized, staging: copy, total: 8MiB, chunk: 2MiB, direction: upload",
            "direction is upload in other and round_trip in loop",
        ),
        (
            "kind: pipeline, schedule: serialized, staging: copy, total: 8MiB, chunk: 2MiB, compute: {passes: [1, 2]}",
            "compute is passes 2 in other and passes 1 in loop",
        ),
        (
            "kind: pipeline, schedule: serialized, staging: copy, total: 8MiB, chunk: 2MiB, output_ratio: 0.5",
            "output_ratio is 0.5 in other and 1.0 in loop",
        ),
    ],
)
def test_scenarios_that_do_other_work_are_not_compared(tmp_path: Path, other: str, problem: str) -> None:
    path = tmp_path / "answered.yaml"
    path.write_text(FILE + f"  other: {{{other}}}\nfastest: [{{job: x, among: [loop, other]}}]\n")
    with pytest.raises(SpecError) as caught:
        load_experiment(path)
    assert f"{path}:9:34: fastest[0].among[1]: this does other work than loop: " in str(caught.value)
    assert problem in str(caught.value)


def test_the_cases_of_one_scenario_do_the_same_work_and_a_job_is_asked_for_once(tmp_path: Path) -> None:
    path = tmp_path / "answered.yaml"
    path.write_text(
        FILE.replace("total: 8MiB, chunk: [", "total: [8MiB, 16MiB], chunk: [") + "fastest: [{job: x, among: [ring]}]\n"
    )
    with pytest.raises(SpecError, match=r"its cases do other work than each other: total is 8MiB and 16MiB, got ring; give it"):
        load_experiment(path)
    path.write_text(FILE + "fastest: [{job: x, among: [ring]}, {job: x, among: [loop]}]\n")
    with pytest.raises(SpecError, match=r"fastest\[1\].job: the job stands here twice, got x"):
        load_experiment(path)
