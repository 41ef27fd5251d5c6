from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.files import COPY, HEAD, load, only_problem, problems

TWINS = """name: trial
question: q
scenarios:
  one: &twin {kind: pipeline, schedule: overlapped, total: 64MiB, chunk: 1MiB, compute: {passes: 1}}
  two: *twin
  three: {<<: *twin, streams: 2}
"""


def test_an_override_changes_its_own_scenario_only_also_under_anchors(tmp_path: Path) -> None:
    loaded = load(tmp_path, TWINS, ["scenarios.two.chunk=2MiB", "scenarios.two.compute.passes=7"])
    assert [spec.fixed["chunk"] for spec in loaded.scenarios] == [2**20, 2**21, 2**20]
    assert [spec.fixed["compute"].passes for spec in loaded.scenarios] == [1, 7, 1]
    assert loaded.overrides == ("scenarios.two.chunk=2MiB", "scenarios.two.compute.passes=7")


def test_an_override_can_make_an_axis_a_missing_section_or_change_an_element(tmp_path: Path) -> None:
    settings = ["scenarios.copy.size=[1MiB, 2MiB]", "scenarios.copy.size.1=3MiB", "measure.samples=7", "device=cuda:1"]
    loaded = load(tmp_path, HEAD + COPY, settings)
    assert loaded.scenarios[0].axes[0].values == (2**20, 3 * 2**20)
    assert loaded.experiment.measure.samples == 7
    assert loaded.experiment.device == "cuda:1"


def test_the_last_of_several_overrides_wins_and_an_equals_sign_may_stand_in_the_value(tmp_path: Path) -> None:
    loaded = load(tmp_path, HEAD + COPY, ["question=a", "question=is a = b"])
    assert loaded.experiment.question == "is a = b"


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("scenarios.cpy.size=1MiB", "scenarios.cpy.size: there is no scenario cpy; allowed: copy; did you mean copy?"),
        (
            "mesure.samples=3",
            "mesure: unknown key mesure; allowed: name, question, device, spread, alone, measure, baseline, scenarios, expect, "
            "fastest;",
        ),
        (
            "measure.sampels=3",
            "measure.sampels: unknown key sampels; "
            "allowed: warmup, samples, until, clock, placement, wait, deadline_s; did you mean samples?",
        ),
        ("scenarios.copy.sise=1MiB", "scenarios.copy.sise: unknown key sise; allowed: kind, buffer, direction, size, chunk,"),
        ("measure.samples=1e3", "measure.samples: a whole number is expected, got 1e3; write 1000"),
        ("measure.samples=", "measure.samples: a whole number is expected, got nothing"),
        ("scenarios.copy.size=[1MiB, 1048576]", "scenarios.copy.size[1]: the axis size has one value twice"),
        ("scenarios.copy.size=[1MiB", "this is not YAML"),
        ("scenarios.copy.size=!!int 3", "the tag !!int is not allowed"),
        ("name.x=3", "name.x: x cannot be set: a single value is there"),
        ("name.x.y=3", "name.x.y: x cannot be reached: a single value is there"),
        ("samples", "KEY=VALUE is expected"),
        ("=3", "KEY=VALUE is expected"),
        ("a..b=3", "KEY=VALUE is expected"),
        ("measure={samples: 1, samples: 2}", "the key samples stands here twice"),
    ],
)
def test_a_wrong_override_is_told_with_the_setting_as_its_place(tmp_path: Path, setting: str, sentence: str) -> None:
    problem = only_problem(tmp_path, HEAD + COPY, [setting])
    assert problem.file == f"--set {setting}"
    assert problem.line == 0
    assert problem.sentence().startswith(f"--set {setting}: {sentence}")


def test_a_setting_of_many_lines_or_letters_is_told_in_one_short_line(tmp_path: Path) -> None:
    tab = only_problem(tmp_path, HEAD + COPY, ["scenarios.copy.size=\t1MiB"])
    assert tab.sentence() == "--set scenarios.copy.size= 1MiB: tab character; use spaces"
    lines = only_problem(tmp_path, HEAD + COPY, ["scenarios.copy.size=1\n---\n2"])
    assert lines.sentence().startswith("--set scenarios.copy.size=1 --- 2: one document expected")
    sizes = ", ".join(f"{n}MiB" for n in [*range(1, 100), 1])
    long = only_problem(tmp_path, HEAD + COPY, [f"scenarios.copy.size=[{sizes}]"])
    assert len(long.file) == len("--set ") + 60
    assert long.file.endswith("…")


def test_problems_of_the_file_and_of_overrides_come_together(tmp_path: Path) -> None:
    found = problems(tmp_path, HEAD + COPY.replace("h2d", "HtoD"), ["measure.samples=0"])
    assert [(each.line, each.path) for each in found] == [(4, "scenarios.copy.direction"), (0, "measure.samples")]


def test_a_case_refused_for_an_override_names_it(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, TWINS, ["scenarios.two.chunk=128MiB"])
    assert problem.file == "--set scenarios.two.chunk=128MiB"
    assert problem.path == "scenarios.two.chunk"


EXPECTING = (
    TWINS.replace("chunk: 1MiB", "chunk: [1MiB, 2MiB, 4MiB]")
    + """expect:
  - claim: one is no slower
    of: {scenario: one, chunk: 2MiB}
    against: {scenario: two, chunk: 2MiB}
    metric: wall_ms
    ratio: {at_most: 1}
  - {claim: time falls, of: {scenario: three}, metric: wall_ms, over: chunk, exponent: {at_most: 0}}
"""
)


def test_an_expectation_whose_cases_an_override_takes_away_stays_and_says_so(tmp_path: Path) -> None:
    assert [clause.cases_gone for clause in load(tmp_path, EXPECTING).experiment.expect] == ["", ""]
    first, second = load(
        tmp_path, EXPECTING, ["scenarios.two.chunk=1MiB", "scenarios.three.chunk=[1MiB, 2MiB]"]
    ).experiment.expect
    assert first.cases_gone == "--set changed its cases: no case of two has this chunk, got 2MiB; allowed: 1MiB"
    assert second.cases_gone.startswith("--set changed its cases: the selection has fewer than 3 values of chunk")


def test_an_expectation_that_lacks_cases_in_the_file_or_by_its_own_override_is_refused(tmp_path: Path) -> None:
    wrong = EXPECTING.replace("two, chunk: 2MiB", "two, chunk: 8MiB")
    assert only_problem(tmp_path, wrong, ["measure.samples=3"]).path == "expect[0].against.chunk"
    assert only_problem(tmp_path, wrong, ["scenarios.two.chunk=1MiB"]).path == "expect[0].against.chunk"
    assert only_problem(tmp_path, EXPECTING, ["expect.0.of.chunk=8MiB"]).path == "expect[0].of.chunk"
    assert only_problem(tmp_path, EXPECTING, ["expect.1.of={scenario: three, chunk: 1MiB}"]).path == "expect[1].over"
