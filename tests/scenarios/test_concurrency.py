from __future__ import annotations

import pytest

from runner.device.contract import Trace
from runner.memory import KINDS
from runner.scenarios.concurrency import Concurrency
from tests.plan_text import lane_text
from tests.scenarios.combinations import COPIED, proven_and_refused, refusal

TWO = {"kind": "concurrency", "copies": ("h2d", "d2h"), "size": 10}


def test_each_copy_goes_alone_first_and_then_all_between_two_events() -> None:
    assert lane_text(Concurrency.model_validate(TWO).plan()) == [
        "s0: record alone 0 start",
        "s0: h2d alone device 0[0:10] <- host 0[0:10]",
        "s0: record alone 0 stop",
        "host: wait for alone 0 stop",
        "s1: record alone 1 start",
        "s1: d2h host 1[0:10] <- alone device 1[0:10]",
        "s1: record alone 1 stop",
        "host: wait for alone 1 stop",
        "mark begin",
        "s0: record start",
        "s1: wait for start",
        "s0: h2d device 0[0:10] <- host 0[0:10]",
        "s1: d2h host 1[0:10] <- device 1[0:10]",
        "s1: record copy 1 done",
        "s0: wait for copy 1 done",
        "s0: record stop",
        "host: wait for stop",
        "mark end",
    ]


def test_what_was_copied_alone_cannot_pass_for_what_was_copied_together() -> None:
    plan = Concurrency.model_validate(TWO).plan()
    poisoned = {fill.buffer for fill in plan.prepare if fill.salt == 2}  # type: ignore[union-attr]
    assert {expect.buffer for expect in plan.expects} <= poisoned
    assert {plan.buffers[expect.buffer].name for expect in plan.expects} == {"alone device 0", "device 0", "host 1"}


def test_concurrency_is_the_sum_alone_over_the_time_together() -> None:
    model = Concurrency.model_validate(TWO)
    plan = model.plan()
    assert [event.name for event in plan.events if event.timed] == [
        "alone 0 start", "alone 0 stop", "alone 1 start", "alone 1 stop", "start", "stop",
    ]  # fmt: skip
    times = iter((0, 4_000_000, 5_000_000, 10_000_000, 11_000_000, 17_000_000))
    trace = Trace((0, 7_000_000), tuple(next(times) if event.timed else None for event in plan.events))
    assert model.figures(plan, trace) == {"wall_ms": 7.0, "event_ms": 6.0, "solo_ms": 9.0, "concurrency": 1.5}
    assert model.figures(plan, Trace((0, 7_000_000), (None,) * len(plan.events))) == {"wall_ms": 7.0}
    assert (model.payload_bytes(), model.ways()) == (20, 2)
    assert model.columns()["copies"] == "h2d d2h"
    assert model.describe() == (
        "copy 10 bytes each h2d, d2h, one after another and then all at once; the host buffers are pinned"
    )


def test_every_combination_is_refused_at_a_field_or_proven_safe() -> None:
    axes = {"buffer": list(KINDS), "copies": [("h2d",), ("d2h", "d2h"), ("h2d", "d2h"), ("h2d",) * 16], "size": [1, 4097]}
    assert proven_and_refused({"kind": "concurrency"}, axes) == (8 * len(COPIED), {"buffer"})


@pytest.mark.parametrize("count", [0, 17])
def test_from_one_to_sixteen_copies(count: int) -> None:
    with pytest.raises(ValueError, match="too_short" if count == 0 else "too_long"):
        Concurrency.model_validate(TWO | {"copies": ("h2d",) * count})


def test_memory_that_migrates_is_not_copied() -> None:
    assert refusal(TWO | {"buffer": "managed"}) == (
        "buffer",
        "the pages of managed memory move by themselves; kind: transfer measures how fast, nothing is copied",
    )
