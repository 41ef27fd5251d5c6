from __future__ import annotations

import pytest
from pydantic import ValidationError

from runner.device.contract import Trace
from runner.plan_check import check_plan
from runner.scenarios.transfer import Transfer
from tests.plan_text import lane_text


def transfer(**fields: object) -> Transfer:
    return Transfer.model_validate({"kind": "transfer", "direction": "h2d", "size": 10, **fields})


def test_one_copy_stands_between_two_events() -> None:
    assert lane_text(transfer(buffer="pageable").plan()) == [
        "mark begin",
        "s0: record h2d start",
        "mark call_begin",
        "s0: h2d h2d device[0:10] <- h2d host[0:10]",
        "mark call_end",
        "s0: record h2d stop",
        "host: wait for h2d stop",
        "mark end",
    ]


def test_chunks_over_streams_start_after_the_first_event_and_end_before_the_last() -> None:
    assert lane_text(transfer(direction="d2h", chunk=4, streams=2, call="sync").plan()) == [
        "mark begin",
        "s0: record d2h start",
        "s1: wait for d2h start",
        "mark call_begin",
        "s0: d2h blocking d2h host[0:4] <- d2h device[0:4]",
        "s1: d2h blocking d2h host[4:8] <- d2h device[4:8]",
        "s0: d2h blocking d2h host[8:10] <- d2h device[8:10]",
        "mark call_end",
        "s1: record d2h done 1",
        "s0: wait for d2h done 1",
        "s0: record d2h stop",
        "host: wait for d2h stop",
        "mark end",
    ]


@pytest.mark.parametrize("direction", ["h2d", "d2h", "bidirectional"])
@pytest.mark.parametrize("buffer", ["pageable", "pinned"])
@pytest.mark.parametrize(("size", "chunk", "streams"), [(1, None, 1), (4097, 1000, 3), (1 << 20, 1 << 18, 2)])
def test_every_combination_of_fields_gives_a_plan_that_is_proven_safe(
    direction: str, buffer: str, size: int, chunk: int | None, streams: int
) -> None:
    check_plan(transfer(direction=direction, buffer=buffer, size=size, chunk=chunk, streams=streams).plan())


def test_both_directions_have_their_own_interval_and_the_common_one() -> None:
    model = transfer(direction="bidirectional")
    plan = model.plan()
    assert [event.name for event in plan.events] == ["h2d start", "d2h start", "h2d stop", "d2h stop"]
    trace = Trace(host_ns=(0, 1_000, 5_000, 9_000_000), event_ns=(0, 500_000, 6_000_000, 8_000_000))
    assert model.figures(plan, trace) == {
        "wall_ms": 9.0,
        "event_ms": 8.0,
        "call_us": 2.0,
        "h2d_event_ms": 6.0,
        "d2h_event_ms": 7.5,
    }
    assert model.payload_bytes() == 20


def test_what_was_not_timed_is_absent() -> None:
    model = transfer()
    assert model.figures(model.plan(), Trace(host_ns=(0, 1, 3, 10), event_ns=(None, None))) == {"wall_ms": 1e-5, "call_us": 2e-3}


def test_a_chunk_larger_than_the_size_is_refused_at_its_field() -> None:
    with pytest.raises(ValidationError) as caught:
        transfer(chunk=11)
    (error,) = caught.value.errors()
    assert error["ctx"] == {"field": "chunk", "message": "a chunk of 11B is larger than the size, 10B", "allowed": ""}
