from __future__ import annotations

import pytest

from runner.device.contract import Trace
from runner.errors import CaseFailed
from runner.memory import KINDS
from runner.scenarios.base import Known
from runner.scenarios.transfer import Transfer
from tests.plan_text import lane_text
from tests.scenarios.combinations import proven_and_refused, refusal


def transfer(**fields: object) -> Transfer:
    return Transfer.model_validate({"kind": "transfer", "direction": "h2d", "size": 10, **fields})


def test_one_copy_stands_between_two_events() -> None:
    assert lane_text(transfer(buffer="pageable").plan()) == [
        "mark begin with cpu",
        "s0: record h2d start",
        "mark call_begin",
        "s0: h2d h2d device[0:10] <- h2d host[0:10]",
        "mark call_end",
        "s0: record h2d stop",
        "host: wait for h2d stop",
        "mark end with cpu",
    ]


def test_chunks_over_streams_start_after_the_first_event_and_end_before_the_last() -> None:
    assert lane_text(transfer(direction="d2h", chunk=4, streams=2, call="sync").plan()) == [
        "mark begin with cpu",
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
        "mark end with cpu",
    ]


def test_a_kernel_copies_chunk_by_chunk_and_a_plain_call_waits_for_each() -> None:
    assert lane_text(transfer(mover="kernel", size=12, chunk=8, call="sync").plan())[3:7] == [
        "s0: kernel h2d device[0:8] <- h2d host[0:8]",
        "host: drain s0",
        "s0: kernel h2d device[8:12] <- h2d host[8:12]",
        "host: drain s0",
    ]


@pytest.mark.parametrize(
    ("fields", "line", "prepared"),
    [
        ({"direction": "h2d"}, "s0: prefetch h2d data[0:12] to the device", ["Fill"]),
        ({"direction": "d2h"}, "s0: prefetch d2h data[0:12] to the host", ["Fill", "Prefetch"]),
        ({"direction": "h2d", "migration": "fault"}, "s0: kernel read h2d data[0:12]", ["Fill"]),
        ({"direction": "d2h", "migration": "fault"}, "host: read d2h data[0:12]", ["Fill", "Prefetch"]),
    ],
)
def test_pages_that_migrate_lie_on_the_other_side_before_each_play(
    fields: dict[str, object], line: str, prepared: list[str]
) -> None:
    model = transfer(buffer="managed", size=12, **fields)
    plan = model.plan()
    assert lane_text(plan)[3] == line
    assert [type(operation).__name__ for operation in plan.prepare] == prepared
    assert len(plan.buffers) == len(plan.expects) == 1
    assert model.columns()["migration"] == fields.get("migration", "prefetch")


def test_a_gated_batch_is_queued_whole_before_the_gate_opens_and_timed_from_there() -> None:
    assert lane_text(transfer(batch=2, lead_in=1, gated=True).plan()) == [
        "s0: h2d h2d device[0:10] <- h2d host[0:10]",
        "host: drain s0",
        "s0: hold by gate 0",
        "s0: record h2d start",
        "mark call_begin",
        "s0: h2d h2d device[0:10] <- h2d host[0:10]",
        "s0: h2d h2d device[0:10] <- h2d host[0:10]",
        "mark call_end",
        "s0: record h2d stop",
        "mark begin with cpu",
        "host: open gate 0",
        "host: wait for h2d stop",
        "mark end with cpu",
    ]


def test_a_batch_without_a_gate_copies_again_each_chunk_on_its_stream() -> None:
    lines = lane_text(transfer(batch=2, chunk=4, streams=2).plan())
    copies = [line for line in lines if "<-" in line]
    once = [
        f"{stream}: h2d h2d device[{part}] <- h2d host[{part}]" for stream, part in (("s0", "0:4"), ("s1", "4:8"), ("s0", "8:10"))
    ]
    assert copies == once * 2
    assert lines[0] == "mark begin with cpu"


def test_the_opposite_direction_is_kept_busy_with_twice_the_bytes_and_is_not_counted() -> None:
    model = transfer(direction="d2h", chunk=4, opposite="doubled", gated=True, batch=3)
    plan = model.plan()
    assert [(buffer.name, buffer.size) for buffer in plan.buffers] == [
        ("d2h host", 10),
        ("d2h device", 10),
        ("h2d host", 20),
        ("h2d device", 20),
    ]
    lines = lane_text(plan)
    assert lines[:4] == ["s0: hold by gate 0", "s0: record d2h start", "s1: wait for d2h start", "s1: record h2d start"]
    beside = [f"s1: h2d h2d device[{part}] <- h2d host[{part}]" for part in ("0:8", "8:16", "16:20")]
    assert [line for line in lines if line.startswith("s1: h2d")] == beside * 3
    assert lines[-5:] == [
        "host: open gate 0",
        "host: wait for d2h stop",
        "mark end with cpu",
        "host: wait for h2d stop",
        "mark all done",
    ]
    assert [(expect.buffer, expect.size) for expect in plan.expects] == [(0, 10), (3, 20)]
    assert (model.payload_bytes(), model.ways(), model.direction_bytes()) == (10, 1, {})


def test_times_of_a_batch_are_those_of_one_copy() -> None:
    model = transfer(batch=4, gated=True, direction="bidirectional")
    plan = model.plan()
    assert plan.marks == ("call_begin", "call_end", "begin", "end")
    trace = Trace(
        host_ns=(0, 16_000, 20_000, 8_020_000),
        event_ns=(0, 400_000, 6_000_000, 7_600_000),
        cpu_ns=(None, None, 1_000_000, 9_000_000),
    )
    assert model.figures(plan, trace) == {
        "wall_ms": 2.0,
        "event_ms": 1.9,
        "call_us": 2.0,
        "cpu_ms": 2.0,
        "host_free_ms": 2.0,
        "h2d_event_ms": 1.5,
        "d2h_event_ms": 1.8,
    }


def test_an_automatic_batch_is_as_many_copies_as_take_two_milliseconds_by_its_probe() -> None:
    model = transfer(size=1 << 20, batch="auto", gated=True)
    (probe,) = model.companions().values()
    assert isinstance(probe, Transfer)
    assert (probe.batch, probe.gated, probe.size) == (32, True, 1 << 20)
    found = model.resolved(Known(1 << 30, {"probe": 0.025}))
    assert isinstance(found, Transfer)
    assert (found.batch_n(), found.companions(), found.resolved(Known(0))) == (88, {}, found)
    assert (found.columns()["batch"], found.columns()["batch_n"]) == ("auto", 88)
    assert sum("<-" in line for line in lane_text(found.plan())) == 88
    assert model.columns()["batch_n"] is None
    assert model.demand() == found.demand()


@pytest.mark.parametrize(("size", "probe_ms", "copies"), [(1 << 28, 5.0, 1), (4096, 1e-4, 506), (1 << 28, 0.55, 4)])
def test_an_automatic_batch_is_at_least_one_copy_and_no_more_than_fit_behind_a_gate(
    size: int, probe_ms: float, copies: int
) -> None:
    model = transfer(size=size, batch="auto", gated=True)
    found = model.resolved(Known(1 << 30, {"probe": probe_ms}))
    assert found.columns()["batch_n"] == copies


def test_an_automatic_batch_without_its_probe_is_a_case_that_failed() -> None:
    model = transfer(batch="auto")
    with pytest.raises(CaseFailed, match="the probe could not be measured"):
        model.resolved(Known(1 << 30))
    with pytest.raises(CaseFailed, match="not known yet"):
        model.plan()


def test_every_combination_of_batches_and_gates_is_refused_or_proven_safe() -> None:
    axes = {
        "direction": ["h2d", "d2h", "bidirectional"],
        "buffer": list(KINDS),
        "mover": ["engine", "kernel"],
        "call": ["async", "sync"],
        "streams": [1, 3],
        ("size", "chunk"): [(4100, 1000)],
        ("batch", "lead_in"): [(1, 0), (3, 2), (101, 0)],
        "gated": [False, True],
        "opposite": [None, "doubled"],
    }
    proven, refused = proven_and_refused({"kind": "transfer"}, axes)
    assert proven > 300
    assert refused == {"mover", "batch", "gated", "opposite"}


def test_every_combination_of_fields_is_refused_at_a_field_or_gives_a_plan_that_is_proven_safe() -> None:
    axes = {
        "direction": ["h2d", "d2h", "bidirectional"],
        "buffer": list(KINDS),
        "mover": ["engine", "kernel"],
        "call": ["async", "sync"],
        "migration": [None, "fault", "prefetch"],
        "pages": ["normal", "huge"],
        "streams": [1, 3],
        ("size", "chunk"): [(1, None), (4097, 1000), (4100, 1000), (64, 16)],
    }
    proven, refused = proven_and_refused({"kind": "transfer"}, axes)
    assert proven > 500
    assert refused == {"pages", "mover", "migration", "direction", "size"}


def test_both_directions_have_their_own_interval_and_the_common_one() -> None:
    model = transfer(direction="bidirectional")
    plan = model.plan()
    assert [event.name for event in plan.events] == ["h2d start", "d2h start", "h2d stop", "d2h stop"]
    trace = Trace(
        host_ns=(0, 1_000, 5_000, 9_000_000),
        event_ns=(0, 500_000, 6_000_000, 8_000_000),
        cpu_ns=(1_000_000, None, None, 3_000_000),
    )
    assert model.figures(plan, trace) == {
        "wall_ms": 9.0,
        "event_ms": 8.0,
        "call_us": 2.0,
        "cpu_ms": 2.0,
        "host_free_ms": 9.0 - 0.004,
        "h2d_event_ms": 6.0,
        "d2h_event_ms": 7.5,
    }
    assert model.payload_bytes() == 20


def test_what_was_not_timed_is_absent() -> None:
    model = transfer()
    figures = model.figures(model.plan(), Trace(host_ns=(0, 1, 3, 10), event_ns=(None, None)))
    assert figures == pytest.approx({"wall_ms": 1e-5, "call_us": 2e-3, "host_free_ms": 8e-6})


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"chunk": 11}, "chunk", "a chunk of 11B is larger than the size, 10B"),
        ({"mover": "kernel"}, "size", "10 bytes are no multiple of the word"),
        ({"mover": "kernel", "size": 12, "chunk": 6}, "chunk", "6 bytes are no multiple of the word"),
        ({"mover": "kernel", "buffer": "pageable"}, "mover", "a kernel cannot use pageable memory in place"),
        ({"mover": "kernel", "buffer": "managed"}, "mover", "managed memory migrates"),
        ({"migration": "fault"}, "migration", "pinned memory does not migrate"),
        ({"buffer": "managed", "migration": "fault"}, "size", "10 bytes are no multiple of the word"),
        (
            {"buffer": "managed", "migration": "fault", "direction": "bidirectional"},
            "direction",
            "the host may not touch managed memory while the device works",
        ),
        ({"pages": "huge"}, "pages", "pinned memory cannot have huge pages"),
        ({"size": 1 << 40, "chunk": 1}, "chunk", "copies are too many for one sample"),
        ({"batch": 507, "gated": True}, "batch", "507 copies are too many behind a gate"),
        ({"batch": 200_000}, "batch", "200,000 copies are too many in one sample"),
        ({"lead_in": 513}, "lead_in", "513 copies are too many"),
        ({"buffer": "managed", "batch": 2}, "batch", "nothing moves twice"),
        ({"buffer": "managed", "batch": "auto"}, "batch", "nothing moves twice"),
        ({"buffer": "managed", "lead_in": 1}, "lead_in", "nothing moves twice"),
        ({"buffer": "pageable", "gated": True}, "gated", "a call that moves pageable memory may wait for its stream"),
        ({"buffer": "managed", "gated": True}, "gated", "a call that moves managed memory may wait for its stream"),
        ({"call": "sync", "gated": True}, "gated", "the plain call waits for its copy"),
        ({"mover": "kernel", "size": 12, "gated": True}, "gated", "only copies of an engine are held by a gate"),
        ({"size": 1000, "chunk": 1, "gated": True}, "gated", "the calls of 1,000 copies do not fit behind a gate"),
        ({"opposite": "doubled"}, "opposite", "without a gate one direction is under way"),
        (
            {"opposite": "doubled", "gated": True, "direction": "bidirectional"},
            "opposite",
            "both directions are measured already",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(fields: dict[str, object], field: str, words: str) -> None:
    assert refusal({"kind": "transfer", "direction": "h2d", "size": 10} | fields)[0] == field
    assert words in refusal({"kind": "transfer", "direction": "h2d", "size": 10} | fields)[1]


def test_what_the_host_itself_must_touch_is_no_async_call() -> None:
    assert transfer(buffer="managed", size=12, chunk=4).async_calls() == 3
    assert transfer(buffer="managed", size=12, direction="d2h", migration="fault").async_calls() == 0
    assert transfer(call="sync").async_calls() == 0


def test_a_transfer_says_in_words_what_it_does() -> None:
    assert transfer(buffer="managed", size=12, migration="fault").describe() == (
        "move 12 bytes from host to device in one copy letting pages fault on 1 stream; the host buffer is managed"
    )
    assert transfer(buffer="registered", size=12, chunk=8, mover="kernel", pages="huge").describe() == (
        "copy 12 bytes from host to device in 2 copies of up to 8 bytes by async calls of a kernel on 1 stream; "
        "the host buffer is registered with huge pages"
    )


def test_a_batch_is_all_that_a_stream_has_of_the_copies() -> None:
    lane = lane_text(transfer(size=20, chunk=8, streams=2, submit="batch").plan())
    begun = lane.index("s0: begin batch")
    assert lane[begun : begun + 7] == [
        "s0: begin batch",
        "s0: h2d h2d device[0:8] <- h2d host[0:8]",
        "s0: h2d h2d device[16:20] <- h2d host[16:20]",
        "end",
        "s1: begin batch",
        "s1: h2d h2d device[8:16] <- h2d host[8:16]",
        "end",
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"buffer": "pageable"}, "a call that moves pageable memory may hold the host"),
        ({"buffer": "managed"}, "a call that moves managed memory may hold the host"),
        ({"mover": "kernel"}, "a batch holds copies of an engine, not of a kernel"),
        ({"call": "sync"}, "the plain call waits for its one copy"),
    ],
)
def test_copies_that_no_batch_can_hold_are_refused(fields: dict[str, object], words: str) -> None:
    assert refusal({"kind": "transfer", "direction": "h2d", "size": 16, "submit": "batch", **fields}) == ("submit", words)
