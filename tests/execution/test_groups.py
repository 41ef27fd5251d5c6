"""Which cases go together: the same sorts of buffers, as many as memory allows, and none that disturbs the others."""

from __future__ import annotations

from dataclasses import replace

from runner.execution.groups import MOST_TOGETHER, Grouping
from runner.expand import Case
from runner.measure.preflight import Limits
from runner.scenarios.allocation import Allocation
from runner.scenarios.base import Scenario
from runner.scenarios.hazard import Hazard
from runner.scenarios.pipeline import Compute, Pipeline
from tests.measure.doubles import FACTS, MIB, case, copy

HOST = 2**34


def grouping(*models: Scenario, host: int = HOST, free: int = HOST) -> Grouping:
    cases = [case(model, f"c_{number}", number) for number, model in enumerate(models)]
    return Grouping(cases, Limits(replace(FACTS, free_bytes=free), host))


def ring(**fields: object) -> Pipeline:
    base = {"kind": "pipeline", "schedule": "overlapped", "staging": "copy", "total": 8 * MIB, "chunk": MIB}
    return Pipeline.model_validate(base | fields)


def test_cases_with_the_same_sorts_of_buffers_go_together() -> None:
    found = grouping(copy(1), copy(2), copy(1, direction="d2h"), copy(1, buffer="pageable"), copy(1, call="sync"))
    assert found.group_of(0, set()) == [0, 2, 4]
    assert found.group_of(1, set()) == [1]
    assert found.group_of(0, {2}) == [0, 4]


def test_sizes_below_the_same_power_of_two_go_together() -> None:
    sizes = [MIB, MIB - 64, MIB // 2 + 4, MIB // 2, MIB + 4]
    found = grouping(*(copy(1, size=size) for size in sizes))
    assert found.group_of(0, set()) == [0, 1, 2]


def test_a_ring_of_more_slots_has_the_same_sorts_of_buffers() -> None:
    found = grouping(ring(streams=2), ring(streams=3), ring(streams=2, chunk=2 * MIB), ring(streams=4, issue="breadth_first"))
    assert found.group_of(0, set()) == [0, 1, 3]


def test_a_group_holds_a_quarter_of_the_free_memory_at_most() -> None:
    models = [copy(64)] * 5
    assert grouping(*models).group_of(0, set()) == [0, 1, 2, 3, 4]
    assert grouping(*models, host=3 * 4 * 64 * MIB + 2**28).group_of(0, set()) == [0, 1, 2, 3]
    assert grouping(*models, free=2 * 4 * 64 * MIB).group_of(0, set()) == [0, 1]
    assert grouping(*models, free=64 * MIB).group_of(0, set()) == [0], "the first one runs alone, however large"


def test_a_group_has_a_limit() -> None:
    assert grouping(*[copy(1)] * 40).group_of(3, set()) == list(range(3, 3 + MOST_TOGETHER))


def test_what_disturbs_others_or_is_disturbed_is_measured_alone() -> None:
    alone: list[Scenario] = [
        Allocation(kind="allocation", size=MIB),
        ring(allocate="per_chunk", schedule="serialized", staging="direct"),
        Hazard(kind="hazard", fault="refill_early"),
        Hazard(kind="hazard", fault="pageable_pointer", buffer="pageable"),
        ring(compute=Compute(ratio=1.0)),
        copy(2**20),
    ]
    for model in alone:
        assert grouping(model, model).group_of(0, set()) == [0], model
    excluded = Grouping([case(copy(1), "c_0"), Case("c_1", "copy", 1, copy(1), "not today", {})], Limits(FACTS, HOST))
    assert excluded.group_of(0, set()) == [0]


def test_plans_are_read_once_and_forgotten() -> None:
    found = grouping(*[copy(1)] * 3)
    found.group_of(0, set())
    assert len(found._traits) == 3
    for place in range(3):
        found.forget(place)
    assert not found._traits
