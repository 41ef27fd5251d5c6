from __future__ import annotations

import pytest

from runner.device.contract import Trace
from runner.memory import KINDS
from runner.scenarios.blocking import Blocking
from tests.plan_text import lane_text
from tests.scenarios.combinations import COPIED, proven_and_refused

HELD = {"kind": "blocking", "direction": "d2h", "size": 10, "busy_ms": 5}


def test_the_copy_is_called_behind_earlier_work_of_its_stream() -> None:
    lane = [
        "mark begin with cpu",
        "s0: record start",
        "s0: busy for 5,000,000 ns",
        "mark call_begin",
        "s0: d2h host[0:10] <- device[0:10]",
        "mark call_end",
        "s0: record stop",
        "host: wait for stop",
        "mark end with cpu",
    ]
    assert lane_text(Blocking.model_validate(HELD).plan()) == lane
    del lane[2]
    assert lane_text(Blocking.model_validate(HELD | {"busy_ms": 0}).plan()) == lane


def test_the_share_of_the_earlier_work_that_the_call_waited_for() -> None:
    model = Blocking.model_validate(HELD)
    trace = Trace((0, 1_000_000, 3_500_000, 9_000_000), (0, 8_000_000), cpu_ns=(0, None, None, 2_000_000))
    figures = {"wall_ms": 9.0, "event_ms": 8.0, "call_us": 2500.0, "wait_share": 0.5, "cpu_ms": 2.0}
    assert model.figures(model.plan(), trace) == figures
    idle = Blocking.model_validate(HELD | {"busy_ms": 0})
    assert "wait_share" not in idle.figures(idle.plan(), trace)
    assert model.payload_bytes() == 10
    assert model.describe() == (
        "copy 10 bytes to the host by an async call behind 5 ms of work in the same stream; the host buffer is pinned"
    )


def test_every_combination_is_refused_at_a_field_or_proven_safe() -> None:
    axes = {"buffer": list(KINDS), "direction": ["h2d", "d2h"], "busy_ms": [0, 0.5, 1000], "size": [1, 4097]}
    assert proven_and_refused({"kind": "blocking"}, axes) == (12 * len(COPIED), {"buffer"})


@pytest.mark.parametrize("busy_ms", [-1, 1001, float("nan")])
def test_a_stream_is_kept_busy_for_a_second_at_most(busy_ms: float) -> None:
    with pytest.raises(ValueError, match="busy_ms"):
        Blocking.model_validate(HELD | {"busy_ms": busy_ms})
