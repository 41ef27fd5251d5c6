from __future__ import annotations

from typing import Any

import pytest

from runner.device.contract import Trace
from runner.memory import KINDS
from runner.plan import Expect
from runner.scenarios.submission import Submission
from tests.plan_text import lane_text
from tests.scenarios.combinations import COPIED, proven_and_refused, refusal


def submission(**fields: Any) -> Submission:
    return Submission.model_validate({"kind": "submission", "operation": "copy", "size": 8, "count": 2, **fields})


@pytest.mark.parametrize(
    ("operation", "calls", "expects"),
    [
        ("copy", ["s0: h2d device[0:8] <- host[0:8]", "s0: h2d device[8:16] <- host[8:16]"], (Expect(1, 0, 16, 1, 0),)),
        ("launch", ["s0: add 1 to device[0:8]", "s0: add 1 to device[0:8]"], (Expect(0, 0, 8, 1, 0, 2),)),
        ("record", ["s0: record event 0", "s0: record event 1"], ()),
        ("graph", ["s0: begin graph", "s0: add 1 to device[0:8]", "end"] * 2, (Expect(0, 0, 8, 1, 0, 2),)),
    ],
)
def test_the_calls_stand_between_two_marks(operation: str, calls: list[str], expects: tuple[Expect, ...]) -> None:
    plan = submission(operation=operation).plan()
    assert lane_text(plan) == [
        "mark begin with cpu",
        "s0: record start",
        "mark call_begin",
        *calls,
        "mark call_end",
        "s0: record stop",
        "host: drain s0",
        "mark end with cpu",
    ]
    assert plan.expects == expects


def test_a_call_costs_its_part_of_all_and_copies_compare_them_with_the_data() -> None:
    model = submission()
    trace = Trace((0, 1_000_000, 4_000_000, 9_000_000), (0, 6_000_000), cpu_ns=(0, None, None, 8_000_000))
    common = {"wall_ms": 9.0, "event_ms": 6.0, "call_us": 1500.0, "cpu_ms": 8.0}
    assert model.figures(model.plan(), trace) == common | {"submission_share": 0.5}
    assert submission(operation="launch").figures(submission(operation="launch").plan(), trace) == common
    records = submission(operation="record").plan()
    timed = iter((0, 6_000_000))
    events = tuple(next(timed) if event.timed else None for event in records.events)
    assert submission(operation="record").figures(records, Trace(trace.host_ns, events, cpu_ns=trace.cpu_ns)) == common


def test_the_launch_of_a_graph_costs_its_part_of_all_and_so_does_each_node() -> None:
    model = submission(operation="graph", nodes=5)
    trace = Trace((0, 1_000_000, 4_000_000, 9_000_000), (0, 6_000_000), cpu_ns=(0, None, None, 8_000_000), instantiate_ns=70_000)
    figures = model.figures(model.plan(), trace)
    assert (figures["call_us"], figures["node_us"], figures["instantiate_ms"]) == (1500.0, 300.0, 0.07)
    assert (model.columns()["nodes"], submission().columns()["nodes"]) == (5, None)
    assert model.describe() == "launch a graph of 5 kernels over 8 bytes each 2 times in one stream"


def test_graphs_that_cannot_be_are_refused() -> None:
    fields = {"kind": "submission", "size": 8}
    assert refusal({**fields, "operation": "launch", "nodes": 2}) == ("nodes", "only a graph has nodes")
    assert refusal({**fields, "operation": "graph", "nodes": 1000, "count": 1000})[0] == "count"
    assert refusal({**fields, "operation": "graph", "size": 7})[0] == "size"
    for operation in ("launch", "record", "graph"):
        message = "no pageable memory takes part: only copies have a host buffer"
        assert refusal({**fields, "operation": operation, "buffer": "pageable"}) == ("buffer", message)


def test_only_copies_carry_bytes_over_the_link() -> None:
    assert (submission().payload_bytes(), submission().ways(), submission().columns()["buffer"]) == (16, 1, "pinned")
    launch = submission(operation="launch")
    assert (launch.payload_bytes(), launch.ways(), launch.columns()["buffer"]) == (0, 0, None)
    assert (
        submission(size=4096, count=50).describe()
        == "copy 4KiB (4,096 bytes) from pinned memory to the device 50 times in one stream"
    )


def test_every_combination_is_refused_at_a_field_or_proven_safe() -> None:
    axes = {"operation": ["copy", "launch", "record"], "buffer": list(KINDS), "size": [5, 4096], "count": [1, 100]}
    proven, refused = proven_and_refused({"kind": "submission"}, axes)
    assert (proven, refused) == (6 + 4 * len(COPIED), {"buffer", "size"})
    assert refusal({"kind": "submission", "operation": "launch", "size": 5})[1].startswith("5 bytes are no multiple")
