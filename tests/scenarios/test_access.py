from __future__ import annotations

from typing import Any

import pytest

from runner.device.contract import Trace
from runner.memory import KINDS
from runner.pattern import FLAT
from runner.plan import Expect, HostAccess
from runner.scenarios.access import InPlace
from runner.scenarios.builder import DATA_SALT
from tests.plan_text import lane_text
from tests.scenarios.combinations import proven_and_refused, refusal


def access(**fields: Any) -> InPlace:
    return InPlace.model_validate({"kind": "access", "by": "kernel", "pattern": "read", "size": 8, **fields})


def test_the_processor_passes_over_the_memory_between_two_marks() -> None:
    plan = access(by="cpu", pattern="increment", passes=2, threads=4).plan()
    assert lane_text(plan) == [
        "mark begin",
        "host: increment host[0:8] by 4 threads",
        "host: increment host[0:8] by 4 threads",
        "mark end",
    ]
    assert plan.expects == (Expect(0, 0, 8, 1, 0, 2),)


def test_each_pass_that_writes_has_a_salt_of_its_own_and_the_last_one_stays() -> None:
    plan = access(by="cpu", pattern="write", passes=3).plan()
    salts = [operation.salt for operation in plan.lanes[0] if isinstance(operation, HostAccess)]
    assert salts == [FLAT, FLAT + 1, FLAT + 2]
    assert plan.expects == (Expect(0, 0, 8, FLAT + 2, 0),)


def test_a_kernel_passes_over_host_memory_between_two_events() -> None:
    assert lane_text(access(pattern="write").plan()) == [
        "mark begin",
        "s0: record start",
        "s0: kernel write host[0:8]",
        "s0: record stop",
        "host: wait for stop",
        "mark end",
    ]


@pytest.mark.parametrize(
    ("pattern", "copies", "expect"),
    [
        ("read", {"in"}, Expect(1, 0, 8, 1, 0)),
        ("write", {"out"}, Expect(0, 0, 8, FLAT, 0)),
        ("increment", {"in", "out"}, Expect(0, 0, 8, 1, 0, 1)),
    ],
)
def test_data_on_the_device_are_copied_there_and_back_as_far_as_the_pattern_needs(
    pattern: str, copies: set[str], expect: Expect
) -> None:
    plan = access(pattern=pattern, place="device", buffer="pageable").plan()
    back = ["s0: d2h host[0:8] <- device[0:8]", "s0: record back", "host: wait for back"]
    assert lane_text(plan) == [
        "mark begin",
        *(["s0: h2d device[0:8] <- host[0:8]"] if "in" in copies else []),
        "s0: record start",
        f"s0: kernel {pattern} device[0:8]",
        "s0: record stop",
        *(back if "out" in copies else ["host: wait for stop"]),
        "mark end",
    ]
    assert plan.expects == (expect,)


def test_the_passes_alone_have_their_own_time() -> None:
    kernel, cpu = access(), access(by="cpu")
    trace = Trace((0, 9_000_000), (0, 7_000_000))
    assert kernel.figures(kernel.plan(), trace) == {"wall_ms": 9.0, "access_ms": 7.0}
    assert cpu.figures(cpu.plan(), Trace((0, 9_000_000), ())) == {"wall_ms": 9.0, "access_ms": 9.0}
    assert access(passes=3).payload_bytes() == 24


@pytest.mark.parametrize(
    ("fields", "ways"),
    [
        ({}, 1),
        ({"pattern": "increment"}, 2),
        ({"by": "cpu"}, 0),
        ({"place": "device"}, 0),
        ({"buffer": "managed"}, 0),
    ],
)
def test_how_the_passes_use_the_link(fields: dict[str, Any], ways: int) -> None:
    assert access(**fields).ways() == ways


@pytest.mark.parametrize(
    ("fields", "moved"),
    [
        ({"pattern": "increment", "buffer": "mapped", "passes": 3}, {"h2d": 12288, "d2h": 12288}),
        ({"pattern": "read", "buffer": "mapped"}, {"h2d": 4096}),
        ({"pattern": "write", "buffer": "mapped"}, {"d2h": 4096}),
        ({"pattern": "increment", "place": "device", "passes": 3}, {"h2d": 4096, "d2h": 4096}),
        ({"pattern": "read", "by": "cpu"}, {}),
        ({"pattern": "read", "buffer": "managed"}, {}),
    ],
)
def test_the_bytes_of_each_direction_stand_apart(fields: dict[str, Any], moved: dict[str, int]) -> None:
    assert access(**({"by": "kernel", "size": 4096} | fields)).link_bytes() == moved


def test_an_offset_moves_what_is_touched_and_nothing_else() -> None:
    plan = access(size=4096, offset=4, pattern="increment", buffer="mapped").plan()
    assert (plan.buffers[0].size, plan.expects) == (4100, (Expect(0, 4, 4096, DATA_SALT, 4, 1),))
    assert (
        "increment 4KiB (4,096 bytes) in mapped memory, 4 bytes from the begin of a page, by a kernel"
        in access(size=4096, offset=4, pattern="increment", buffer="mapped").describe()
    )


def test_what_it_does_in_words() -> None:
    assert access(by="cpu", threads=2, pattern="write").describe() == (
        "write 8 bytes in pinned memory by 2 threads of the processor, 1 time"
    )
    assert access(place="device", passes=3).describe() == (
        "read 8 bytes on the device, copied from and to pinned memory by a kernel, 3 times"
    )


def test_every_combination_is_refused_at_a_field_or_proven_safe() -> None:
    axes = {
        "by": ["cpu", "kernel"],
        "pattern": ["read", "write", "increment"],
        "buffer": list(KINDS),
        "pages": ["normal", "huge"],
        "place": ["host", "device"],
        "threads": [1, 3],
        "passes": [1, 3],
        "size": [6, 4096],
    }
    proven, refused = proven_and_refused({"kind": "access"}, axes)
    in_place = {kind: len(kind.pages) * (24 if kind.kernel_access and not kind.migrates else 18) for kind in KINDS.values()}
    assert proven == sum(in_place.values())
    assert refused == {"size", "pages", "place", "threads", "buffer"}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"size": 6}, "size", "6 bytes are no multiple of the word"),
        ({"pages": "huge"}, "pages", "pinned memory cannot have huge pages"),
        ({"by": "cpu", "place": "device"}, "place", "the processor does not reach the device's memory"),
        ({"place": "device", "offset": 4}, "offset", "an offset is that of data touched in host memory"),
        ({"threads": 2}, "threads", "threads are those of the processor"),
        ({"buffer": "pageable"}, "buffer", "a kernel cannot use pageable memory in place"),
        ({"buffer": "managed", "place": "device"}, "place", "managed memory comes to the device by itself"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(fields: dict[str, object], field: str, words: str) -> None:
    place, message = refusal({"kind": "access", "by": "kernel", "pattern": "read", "size": 8, **fields})
    assert (place, words in message) == (field, True)
