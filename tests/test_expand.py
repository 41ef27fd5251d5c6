from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import Field

from runner.errors import SpecError
from runner.expand import Case, count_cases, expand
from runner.scenarios.base import Scenario, Size
from runner.spec.grid import Grid
from runner.spec.nodes import read_document
from runner.spec.scenario import ScenarioSpec, read_scenario
from tests.spec.files import COPY, HEAD, cases, load, only_problem, problems

RING = "  ring: {kind: pipeline, schedule: overlapped, total: 8MiB, "


def lines(found: list[Case]) -> list[str]:
    return [
        f"{case.index} {case.scenario} "
        + " ".join(f"{name}={value}" for name, value in case.axes.items())
        + f" {case.excluded}".rstrip()
        for case in found
    ]


def test_the_grid_as_text(tmp_path: Path) -> None:
    found = cases(
        tmp_path,
        "  loop: {kind: pipeline, schedule: serialized, total: 8MiB, chunk: 4MiB}\n"
        "  ring:\n    kind: pipeline\n    schedule: overlapped\n    total: 8MiB\n"
        "    streams: [2, 4]\n    chunk: [1MiB, 4MiB]\n    compute: {passes: [1, 2]}\n"
        "    exclude:\n      - {because: slots stay idle, where: {streams: {above: 2}, chunk: {at_least: 4MiB}}}\n",
    )
    assert lines(found) == [
        "0 loop ",
        "1 ring streams=2 chunk=1048576 compute.passes=1",
        "2 ring streams=2 chunk=1048576 compute.passes=2",
        "3 ring streams=2 chunk=4194304 compute.passes=1",
        "4 ring streams=2 chunk=4194304 compute.passes=2",
        "5 ring streams=4 chunk=1048576 compute.passes=1",
        "6 ring streams=4 chunk=1048576 compute.passes=2",
        "7 ring streams=4 chunk=4194304 compute.passes=1 slots stay idle",
        "8 ring streams=4 chunk=4194304 compute.passes=2 slots stay idle",
    ]
    assert [case.model.columns()["compute_passes"] for case in found[1:5]] == [1, 2, 1, 2]


def test_zipped_axes_move_together_where_the_first_of_them_stands(tmp_path: Path) -> None:
    found = cases(tmp_path, RING + "streams: [1, 2], slots: [3, 4], chunk: [1MiB, 2MiB], zip: [[streams, chunk]]}\n")
    assert lines(found) == [
        "0 ring streams=1 chunk=1048576 slots=3",
        "1 ring streams=1 chunk=1048576 slots=4",
        "2 ring streams=2 chunk=2097152 slots=3",
        "3 ring streams=2 chunk=2097152 slots=4",
    ]


def test_every_case_has_the_model_of_its_values(tmp_path: Path) -> None:
    for case in cases(tmp_path, RING + "chunk: [1MiB, 3MiB], streams: [1, 2]}\n"):
        assert {name: getattr(case.model, name) for name in case.axes} == case.axes
        assert case.model.payload_bytes() == 8 * 2**20


def test_ids_start_with_a_letter_and_depend_on_content_alone(tmp_path: Path) -> None:
    (first,) = cases(tmp_path, RING + "chunk: 1MiB, streams: 2}\n")
    assert re.fullmatch(r"c_[0-9a-f]{12}", first.case_id)
    same = [
        RING + "streams: 2, chunk: 1048576, buffer: pinned}\n",
        RING + "streams: [2], chunk: [1MiB], compute: {passes: 1}}\n",
        RING + "chunk: 0.5MiB, streams: 2, compute: {passes: [1]}}\n",
    ]
    assert [cases(tmp_path, each)[0].case_id == first.case_id for each in same] == [True, True, False]
    ids = {case.case_id for case in cases(tmp_path, RING + "chunk: [1MiB, 2MiB], streams: [1, 2], compute: {passes: [1, 2]}}\n")}
    assert len(ids) == 8
    assert first.case_id in ids
    assert cases(tmp_path, RING.replace("ring", "ring2") + "chunk: 1MiB, streams: 2}\n")[0].case_id != first.case_id


def test_ids_stay_the_same_from_version_to_version(tmp_path: Path) -> None:
    found = cases(tmp_path, COPY + RING + "chunk: 1MiB, compute: {passes: [1, 2]}}\n")
    assert [case.case_id for case in found] == ["c_91ca88b7a2a8", "c_be6c431ea5f0", "c_6cc422090969"]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("{streams: 2}", {1, 4}),
        ("{streams: [1, 4]}", {2}),
        ("{streams: {at_least: 2}}", {1}),
        ("{streams: {at_most: 2}}", {4}),
        ("{streams: {above: 2}}", {1, 2}),
        ("{streams: {below: 2}}", {2, 4}),
        ("{streams: {above: 1, below: 4}}", {1, 4}),
        ("{streams: {not: 2}}", {2}),
        ("{streams: {not: [1, 2]}}", {1, 2}),
        ("{streams: {not: {above: 1}}}", {2, 4}),
        ("{streams: {below: 0}}", {1, 2, 4}),
        ("{streams: {above: 10000}}", {1, 2, 4}),
        ("{streams: 2, buffer: pageable}", {1, 2, 4}),
        ("{streams: 2, buffer: pinned}", {1, 4}),
        ("{streams: 2, chunk: 1048576}", {1, 4}),
        ("{streams: 2, chunk: 1024KiB}", {1, 4}),
        ("{streams: 2, chunk: {above: 0.5MiB}}", {1, 4}),
        ("{streams: 2, slots: null}", {1, 4}),
        ("{streams: 2, slots: {at_least: 1}}", {1, 2, 4}),
        ("{streams: 2, compute.passes: 1}", {1, 4}),
        ("{streams: 2, compute.passes: {above: 1}}", {1, 2, 4}),
    ],
)
def test_conditions_compare_parsed_values(tmp_path: Path, where: str, left: set[int]) -> None:
    found = cases(tmp_path, RING + f"chunk: 1MiB, streams: [1, 2, 4], exclude: [{{because: why, where: {where}}}]}}\n")
    assert len(found) == 3
    assert {case.axes["streams"] for case in found if not case.excluded} == left
    assert {case.excluded for case in found} <= {"", "why"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("3", "a mapping is expected"),
        ("{where: {streams: 1}}", "because is missing"),
        ("{because: x}", "where is missing"),
        ("{because: x, where: {}}", "too few"),
        ("{because: '', where: {streams: 1}}", "too short"),
        ("{because: x, where: {strems: 1}}", "did you mean streams?"),
        ("{because: x, where: {streams: {atleast: 1}}}", "did you mean at_least?"),
        ("{because: x, where: {streams: {}}}", "the condition is empty"),
        ("{because: x, where: {streams: []}}", "the list of values is empty"),
        ("{because: x, where: {streams: 1e3}}", "write 1000"),
        ("{because: x, where: {streams: {above: 1e3}}}", "write 1000"),
        ("{because: x, where: {streams: {above: null}}}", "a whole number is expected"),
        ("{because: x, where: {slots: {above: null}}}", "only they have an order"),
        ("{because: x, where: {buffer: {above: 3}}}", "not one of the allowed words"),
        ("{because: x, where: {buffer: {above: pinned}}}", "only they have an order"),
        ("{because: x, where: {buffer: Pinned}}", "did you mean pinned?"),
        ("{because: x, where: {chunk: 3Mb}}", "capital B"),
        ("{because: x, where: {compute.pases: 1}}", "unknown key compute.pases"),
    ],
)
def test_a_wrong_exclude_is_told_so(tmp_path: Path, entry: str, words: str) -> None:
    problem = only_problem(tmp_path, HEAD + RING + f"chunk: 1MiB, streams: [1, 2], exclude: [{entry}]}}\n")
    assert words in problem.sentence()
    assert problem.path.startswith("scenarios.ring.exclude[0]")


def test_an_exclude_that_leaves_no_case_is_a_problem(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, HEAD + RING + "chunk: 1MiB, exclude: [{because: x, where: {chunk: 1MiB}}]}\n")
    assert "every case of this scenario is excluded" in problem.message


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("chunk: []}", "the axis chunk is empty"),
        ("chunk: [1MiB, 1048576]}", "one value twice, first as 1MiB, got 1048576"),
        ("chunk: [1MiB, [2MiB]]}", "a size is expected, got a list"),
        ("chunk: 1MiB, compute: {passes: []}}", "the axis compute.passes is empty"),
        ("chunk: 1MiB, compute: {passes: [1, 1]}}", "the axis compute.passes has one value twice"),
        ("chunk: 1MiB, compute: {passes: [1, x]}}", "a whole number is expected, got x"),
        ("chunk: 1MiB, compute: {pases: [1, 2]}}", "did you mean passes?"),
        ("chunk: 1MiB, compute: [{passes: 1}, {passes: 1}]}", "one value twice"),
        ("chunk: 1MiB, zip: 3}", "a list of lists"),
        ("chunk: [1MiB], zip: [chunk]}", "write [[chunk, streams]]"),
        ("chunk: [1MiB], zip: [[chunk, strems]]}", "not an axis, got strems"),
        ("chunk: [1MiB], zip: [[chunk, [x]]]}", "not an axis, got a list"),
        ("chunk: [1MiB], streams: 3, zip: [[chunk, streams]]}", "not an axis, got streams; allowed: chunk"),
        ("chunk: [1MiB, 2MiB], zip: [[chunk, chunk]]}", "zipped twice"),
        ("chunk: [1MiB, 2MiB], streams: [1, 2], zip: [[chunk, streams], [chunk]]}", "zipped twice"),
        ("chunk: [1MiB, 2MiB], streams: [1], zip: [[chunk, streams]]}", "chunk has 2, streams has 1"),
    ],
)
def test_a_wrong_axis_is_told_so(tmp_path: Path, fields: str, words: str) -> None:
    assert words in only_problem(tmp_path, HEAD + RING + fields + "\n").sentence()


def test_a_refused_case_is_located_at_the_value_of_its_axis(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, HEAD + RING + "chunk: [1MiB, 16MiB]}\n")
    assert (problem.line, problem.column, problem.path, problem.value) == (4, 75, "scenarios.ring.chunk[1]", "16MiB")
    assert problem.message == "a chunk of 16MiB is larger than the total, 8MiB (case chunk 16MiB)"


def test_the_first_refused_cases_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    found = problems(tmp_path, HEAD + RING + "chunk: [1MiB, 16MiB, 32MiB], streams: [1, 2, 3, 4]}\n" + COPY)
    assert [each.value for each in found] == ["16MiB", "16MiB", "16MiB", ""]
    assert "5 more cases are refused likewise" in found[-1].message


def test_a_hopeless_grid_is_given_up_after_a_thousand_refusals(tmp_path: Path) -> None:
    streams = ", ".join(map(str, range(1, 3001)))
    found = problems(tmp_path, HEAD + RING + f"chunk: 16MiB, streams: [{streams}]}}\n")
    assert found[-1].message == "at least 997 more cases are refused likewise"


def test_a_refused_case_is_legal_where_it_is_excluded_and_keeps_its_row(tmp_path: Path) -> None:
    where = "exclude: [{because: larger than the data, where: {chunk: {above: 8MiB}}}]"
    found = cases(tmp_path, RING + f"chunk: [1MiB, 16MiB], {where}}}\n")
    assert [(case.axes["chunk"], case.excluded) for case in found] == [(2**20, ""), (2**24, "larger than the data")]
    assert found[1].model.columns() | {"chunk_bytes": 0} == found[0].model.columns() | {"chunk_bytes": 0}


def test_more_streams_than_chunks_is_legal(tmp_path: Path) -> None:
    assert len(cases(tmp_path, RING + "chunk: 8MiB, streams: 64}\n")) == 1


def test_a_grid_of_a_billion_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    streams, slots = ", ".join(map(str, range(1, 1001))), ", ".join(map(str, range(2000, 3000)))
    passes = ", ".join(map(str, range(1, 1001)))
    text = HEAD + COPY + RING + f"chunk: 1MiB, streams: [{streams}], slots: [{slots}], compute: {{passes: [{passes}]}}}}\n"
    loaded = load(tmp_path, text)
    assert count_cases(loaded) == 10**9 + 1
    tracemalloc.start()
    with pytest.raises(SpecError, match=r"1,000,000,001 cases.*1000 × 1000 × 1000.*at most 1,000,000.*--max-cases"):
        expand(loaded)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_max_cases_is_a_limit_that_can_be_raised(tmp_path: Path) -> None:
    loaded = load(tmp_path, HEAD + RING + "chunk: [1MiB, 2MiB], streams: [1, 2]}\n")
    with pytest.raises(SpecError, match="4 cases"):
        expand(loaded, max_cases=3)
    assert len(list(expand(loaded, max_cases=4))) == 4


def test_cases_come_one_by_one_in_flat_memory(tmp_path: Path) -> None:
    streams = ", ".join(map(str, range(1, 101)))
    chunks = ", ".join(f"{size}KiB" for size in range(64, 164))
    iterator = expand(load(tmp_path, HEAD + RING + f"chunk: [{chunks}], streams: [{streams}]}}\n"))
    next(iterator)
    tracemalloc.start()
    assert sum(1 for _ in iterator) == 9_999
    assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    tracemalloc.stop()


class Together(Scenario):
    """A kind with a field that is a list by nature."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"copies"})

    kind: Literal["together"]
    copies: tuple[Literal["h2d", "d2h"], ...] = Field(min_length=1)
    size: Size


def together(fields: str) -> ScenarioSpec:
    document, _ = read_document(f"scenarios: {{t: {{kind: together, {fields}}}}}", "a.yaml")
    spec, found = read_scenario(document, "t", document.content["scenarios"]["t"], {"together": Together})
    assert spec is not None, found
    return spec


def test_a_list_by_nature_is_one_value_and_a_list_of_lists_its_axis() -> None:
    one = together("copies: [h2d, h2d], size: [1MiB, 2MiB]")
    assert one.fixed["copies"] == ("h2d", "h2d")
    assert [axis.name for axis in one.axes] == ["size"]
    several = together("copies: [[h2d, h2d], [h2d, d2h]], size: 1MiB")
    assert [dict(point.axes) for point in Grid(several)] == [{"copies": ("h2d", "h2d")}, {"copies": ("h2d", "d2h")}]
    assert all(point.model is not None for point in Grid(several))


def test_two_cases_with_one_id_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.expand._identity_of", lambda grid: lambda indices: "c_000000000000")
    assert "one id c_000000000000" in only_problem(tmp_path, HEAD + RING + "chunk: [1MiB, 2MiB]}\n").message
