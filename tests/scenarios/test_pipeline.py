from __future__ import annotations

import pytest
from pydantic import ValidationError

from runner.plan import Expect
from runner.plan_check import check_plan
from runner.scenarios.pipeline import Pipeline
from tests.plan_text import lane_text


def pipeline(**fields: object) -> Pipeline:
    return Pipeline.model_validate({"kind": "pipeline", "schedule": "overlapped", "total": 20, "chunk": 8, **fields})


def test_a_staged_ring_waits_for_a_slot_before_it_reads_and_refills_it() -> None:
    assert lane_text(pipeline(staging="copy", streams=2).plan()) == [
        "mark begin",
        "host: stager 0[0:8] <- input[0:8]",
        "s0: h2d device 0[0:8] <- stager 0[0:8]",
        "s0: add 1 to device 0[0:8]",
        "s0: d2h stager 0[0:8] <- device 0[0:8]",
        "s0: record chunk 0 done",
        "host: stager 1[0:8] <- input[8:16]",
        "s1: h2d device 1[0:8] <- stager 1[0:8]",
        "s1: add 1 to device 1[0:8]",
        "s1: d2h stager 1[0:8] <- device 1[0:8]",
        "s1: record chunk 1 done",
        "host: wait for chunk 0 done",
        "host: output[0:8] <- stager 0[0:8]",
        "host: stager 0[0:4] <- input[16:20]",
        "s0: h2d device 0[0:4] <- stager 0[0:4]",
        "s0: add 1 to device 0[0:4]",
        "s0: d2h stager 0[0:4] <- device 0[0:4]",
        "s0: record chunk 2 done",
        "host: wait for chunk 1 done",
        "host: output[8:16] <- stager 1[0:8]",
        "host: wait for chunk 2 done",
        "host: output[16:20] <- stager 0[0:4]",
        "host: drain s0",
        "host: drain s1",
        "mark end",
    ]


def test_pinned_data_flow_without_a_wait_of_the_host_until_the_end() -> None:
    assert lane_text(pipeline(streams=2, total=16, issue="breadth_first").plan()) == [
        "mark begin",
        "s0: h2d device 0[0:8] <- input[0:8]",
        "s1: h2d device 1[0:8] <- input[8:16]",
        "s0: add 1 to device 0[0:8]",
        "s1: add 1 to device 1[0:8]",
        "s0: d2h output[0:8] <- device 0[0:8]",
        "s1: d2h output[8:16] <- device 1[0:8]",
        "host: drain s0",
        "host: drain s1",
        "mark end",
    ]


def test_the_serialized_loop_of_the_example_allocates_for_each_chunk_and_copies_its_result_out() -> None:
    loop = pipeline(schedule="serialized", buffer="pageable", allocate="per_chunk", total=12)
    chunk = [
        "alloc device 0",
        "alloc landing 0",
        "s0: h2d device 0[0:{n}] <- input[{a}:{b}]",
        "s0: add 1 to device 0[0:{n}]",
        "s0: d2h landing 0[0:{n}] <- device 0[0:{n}]",
        "s0: record chunk {i} done",
        "host: wait for chunk {i} done",
        "host: output[{a}:{b}] <- landing 0[0:{n}]",
        "free device 0",
        "free landing 0",
    ]
    first = [line.format(i=0, a=0, b=8, n=8) for line in chunk]
    second = [line.format(i=1, a=8, b=12, n=4) for line in chunk]
    assert lane_text(loop.plan()) == ["mark begin", *first, *second, "mark end"]
    assert loop.plan().setup[0:2] == pipeline().plan().setup[0:2], "input and output alone are allocated before the timing"
    assert len(loop.plan().setup) == 2


@pytest.mark.parametrize("staging", ["direct", "copy"])
@pytest.mark.parametrize("issue", ["depth_first", "breadth_first"])
@pytest.mark.parametrize("allocate", ["once", "per_chunk"])
@pytest.mark.parametrize("buffer", ["pageable", "pinned"])
@pytest.mark.parametrize(
    ("schedule", "streams", "slots"), [("serialized", 1, 1), ("overlapped", 1, 1), ("overlapped", 2, 3), ("overlapped", 9, 9)]
)
def test_every_combination_of_fields_gives_a_plan_that_is_proven_safe(
    staging: str, issue: str, allocate: str, buffer: str, schedule: str, streams: int, slots: int
) -> None:
    model = pipeline(
        staging=staging, issue=issue, allocate=allocate, buffer=buffer, schedule=schedule, streams=streams, slots=slots,
        total=4100, chunk=512, compute={"passes": 3},
    )  # fmt: skip
    plan = model.plan()
    check_plan(plan)
    assert plan.expects == (Expect(1, 0, 4100, 1, 0, 3),)


def test_idle_slots_take_no_memory_and_are_told() -> None:
    model = pipeline(staging="copy", streams=5)
    assert model.plan().demand().pinned_bytes == 3 * 8
    assert "(2 slots stay idle)" in model.describe()
    assert model.columns()["slots"] == 5


def test_the_demand_of_the_example() -> None:
    demand = pipeline(staging="copy", streams=3, total=256 << 20, chunk=32 << 20).plan().demand()
    assert (demand.pageable_bytes, demand.pinned_bytes, demand.device_bytes) == (512 << 20, 96 << 20, 96 << 20)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"chunk": 24}, "chunk", "a chunk of 24B is larger than the total, 20B"),
        ({"chunk": 6}, "chunk", "6 bytes are no multiple of the kernel's word, 4 bytes"),
        ({"total": 22}, "total", "22 bytes are no multiple"),
        ({"schedule": "serialized", "streams": 2}, "streams", "one chunk under way at a time"),
        ({"schedule": "serialized", "slots": 2}, "slots", "one chunk under way at a time"),
        ({"streams": 3, "slots": 2}, "slots", "2 slots leave some of 3 streams without work"),
        ({"total": 1 << 30, "chunk": 4}, "chunk", "268,435,456 chunks are too many"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(fields: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        pipeline(**fields)
    (error,) = caught.value.errors()
    assert error["ctx"]["field"] == field
    assert words in error["ctx"]["message"]
