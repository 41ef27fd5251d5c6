from __future__ import annotations

from typing import Any

import pytest

from runner.device.contract import Trace
from runner.memory import KINDS
from runner.pattern import FLAT
from runner.plan import Expect
from runner.scenarios.allocation import WITNESS_BYTES, Allocation
from tests.plan_text import lane_text
from tests.scenarios.combinations import proven_and_refused, refusal

MS = 1_000_000


def allocation(**fields: Any) -> Allocation:
    return Allocation.model_validate({"kind": "allocation", "size": 8, **fields})


def test_host_memory_is_allocated_touched_looked_at_and_freed() -> None:
    plan = allocation(buffer="pinned").plan()
    assert lane_text(plan) == [
        "mark begin",
        "alloc memory",
        "mark allocated",
        "host: write memory[0:8]",
        "mark touched",
        "host: witness[0:8] <- memory[0:8]",
        "mark used",
        "free memory",
        "mark end",
    ]
    assert plan.expects == (Expect(1, 0, 8, FLAT, 0),)


def test_memory_that_registers_is_ordinary_memory_page_locked_between_two_marks() -> None:
    plan = allocation(buffer="registered", pages="huge").plan()
    assert lane_text(plan)[4:10] == [
        "mark touched",
        "register memory",
        "mark registered",
        "unregister memory",
        "mark unregistered",
        "host: witness[0:8] <- memory[0:8]",
    ]
    assert (plan.buffers[0].memory, plan.buffers[0].pages) == ("pageable", "huge")


def test_memory_of_the_device_is_written_by_a_kernel_so_that_it_can_be_verified() -> None:
    assert lane_text(allocation(where="device").plan()) == [
        "mark begin",
        "alloc memory",
        "mark allocated",
        "s0: kernel write memory[0:8]",
        "s0: d2h witness[0:8] <- memory[0:8]",
        "host: drain s0",
        "mark used",
        "free memory",
        "mark end",
    ]


def test_both_ends_of_large_memory_are_looked_at() -> None:
    size = 5 * WITNESS_BYTES
    plan = allocation(size=size).plan()
    assert plan.buffers[1].size == 2 * WITNESS_BYTES
    assert lane_text(plan)[5:7] == [
        f"host: witness[0:{WITNESS_BYTES}] <- memory[0:{WITNESS_BYTES}]",
        f"host: witness[{WITNESS_BYTES}:{2 * WITNESS_BYTES}] <- memory[{size - WITNESS_BYTES}:{size}]",
    ]
    assert [expect.offset for expect in plan.expects] == [0, WITNESS_BYTES]


def test_each_step_has_its_time_and_looking_at_the_data_has_none() -> None:
    registered = allocation(buffer="registered")
    assert registered.plan().marks == ("begin", "allocated", "touched", "registered", "unregistered", "used", "end")
    trace = Trace((0, 1 * MS, 3 * MS, 6 * MS, 10 * MS, 90 * MS, 95 * MS), ())
    assert registered.figures(registered.plan(), trace) == {
        "wall_ms": 15.0,
        "allocate_ms": 1.0,
        "touch_ms": 2.0,
        "register_ms": 3.0,
        "unregister_ms": 4.0,
        "free_ms": 5.0,
    }
    device = allocation(where="device")
    figures = device.figures(device.plan(), Trace((0, 1 * MS, 90 * MS, 95 * MS), ()))
    assert figures == {"wall_ms": 6.0, "allocate_ms": 1.0, "free_ms": 5.0}


@pytest.mark.parametrize(("size", "pages"), [(4, 1), (4096, 1), (4100, 2), (1 << 30, 262_144)])
def test_pages_are_counted_in_units_of_4_kib(size: int, pages: int) -> None:
    assert allocation(size=size).columns()["pages_count"] == pages


def test_what_it_says_in_the_table_and_in_words() -> None:
    assert allocation().columns()["buffer"] == "pinned"
    assert allocation(where="device").columns()["buffer"] is None
    assert (allocation().payload_bytes(), allocation().ways()) == (8, 0)
    assert allocation(where="device").describe() == "allocate 8 bytes of memory of the device and free them"
    assert allocation(buffer="registered", pages="huge").describe() == (
        "allocate 8 bytes of registered memory with huge pages, write every word for the first time, page-lock them where they "
        "lie and undo that, and free them"
    )


def test_every_combination_is_refused_at_a_field_or_proven_safe() -> None:
    axes = {"where": ["host", "device"], "buffer": [None, *KINDS], "pages": ["normal", "huge"], "size": [6, 4096, 3 << 20]}
    assert proven_and_refused({"kind": "allocation"}, axes) == (20, {"size", "buffer", "pages"})


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"size": 6}, "size", "6 bytes are no multiple of the word"),
        ({"where": "device", "buffer": "pinned"}, "buffer", "memory of the device is not pinned"),
        ({"where": "device", "pages": "huge"}, "pages", "the driver chooses"),
        ({"pages": "huge"}, "pages", "pinned memory cannot have huge pages"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(fields: dict[str, object], field: str, words: str) -> None:
    place, message = refusal({"kind": "allocation", "size": 8, **fields})
    assert (place, words in message) == (field, True)
