from __future__ import annotations

from typing import Any

import pytest

from runner.device.contract import Trace
from runner.memory import KINDS
from runner.pattern import FLAT
from runner.plan import Alloc, Demand, Expect
from runner.scenarios.allocation import WITNESS_BYTES, Allocation
from runner.scenarios.base import Known
from tests.plan_text import lane_text
from tests.scenarios.combinations import proven_and_refused, refusal

MS = 1_000_000


def allocation(**fields: Any) -> Allocation:
    return Allocation.model_validate({"kind": "allocation", "size": 8, **fields})


def test_host_memory_is_allocated_touched_looked_at_and_freed() -> None:
    plan = allocation(buffer="pinned").plan()
    assert lane_text(plan) == [
        "mark begin with memory",
        "alloc memory",
        "mark allocated",
        "host: write memory[0:8]",
        "mark touched",
        "mark counted with memory",
        "host: witness[0:8] <- memory[0:8]",
        "mark used",
        "free memory",
        "mark end",
    ]
    assert plan.expects == (Expect(1, 0, 8, FLAT, 0),)


def test_memory_that_registers_is_ordinary_memory_page_locked_between_two_marks() -> None:
    plan = allocation(buffer="registered", pages="huge").plan()
    assert lane_text(plan)[4:11] == [
        "mark touched",
        "register memory",
        "mark registered",
        "mark counted with memory",
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
    assert lane_text(plan)[6:8] == [
        f"host: witness[0:{WITNESS_BYTES}] <- memory[0:{WITNESS_BYTES}]",
        f"host: witness[{WITNESS_BYTES}:{2 * WITNESS_BYTES}] <- memory[{size - WITNESS_BYTES}:{size}]",
    ]
    assert [expect.offset for expect in plan.expects] == [0, WITNESS_BYTES]


def test_each_step_has_its_time_and_looking_at_the_data_has_none() -> None:
    registered = allocation(buffer="registered")
    assert registered.plan().marks == ("begin", "allocated", "touched", "registered", "counted", "unregistered", "used", "end")
    trace = Trace((0, 1 * MS, 3 * MS, 6 * MS, 26 * MS, 30 * MS, 90 * MS, 95 * MS), ())
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


def test_memory_is_told_by_its_growth_where_the_system_counts_it() -> None:
    pinned = allocation(buffer="pinned")
    times = (0, 1 * MS, 2 * MS, 3 * MS, 4 * MS, 5 * MS)
    counts = ((5000, 100), None, None, (13000, 4196), None, None)
    figures = pinned.figures(pinned.plan(), Trace(times, (), memory_bytes=counts))
    assert (figures["resident_bytes"], figures["locked_bytes"], figures["wall_ms"]) == (8000, 4096, 3.0)
    untold = pinned.figures(pinned.plan(), Trace(times, (), memory_bytes=(None,) * 6))
    assert (
        untold
        == pinned.figures(pinned.plan(), Trace(times, ()))
        == {
            "wall_ms": 3.0,
            "allocate_ms": 1.0,
            "touch_ms": 1.0,
            "free_ms": 1.0,
        }
    )


def test_a_lock_limit_stands_in_the_plan_and_in_words() -> None:
    limited = allocation(buffer="registered", size=8192, memlock_limit="4KiB")
    assert (limited.plan().memlock_bytes, limited.memlock_bytes()) == (4096, 4096)
    assert limited.columns()["memlock_limit_bytes"] == 4096
    assert limited.describe().endswith(", and free them, while the process may lock 4KiB (4,096 bytes)")
    assert (allocation().plan().memlock_bytes, allocation().memlock_bytes()) == (None, None)


@pytest.mark.parametrize("fields", [{"buffer": "pinned"}, {"buffer": "write_combined"}, {"where": "device"}])
def test_memory_beyond_any_machine_is_asked_for_and_never_held(fields: dict[str, object]) -> None:
    beyond = allocation(size="64TiB", beyond_memory=True, **fields)
    assert beyond.demand() == Demand(0, 0, 0)
    assert Alloc(0) in beyond.plan().lanes[0]
    assert beyond.describe().startswith("ask for 64TiB (70,368,744,177,664 bytes) of ")
    assert allocation(size="64TiB", **fields).demand() == beyond.plan().demand() != Demand(0, 0, 0)


@pytest.mark.parametrize(("size", "pages"), [(4, 1), (4096, 1), (4100, 2), (1 << 30, 262_144)])
def test_pages_are_counted_in_units_of_4_kib(size: int, pages: int) -> None:
    assert allocation(size=size).columns()["pages_count"] == pages


def test_what_it_says_in_the_table_and_in_words() -> None:
    assert allocation().columns()["buffer"] == "pinned"
    assert allocation(where="device").columns()["buffer"] is None
    assert (allocation().payload_bytes(), allocation().ways()) == (8, 0)
    assert allocation(where="device").describe() == "allocate 8 bytes of memory of the device and free them"
    pooled = allocation(where="device", allocator="pool")
    assert pooled.describe() == "allocate 8 bytes of memory of the device from the driver's pool and free them"
    assert [line for line in lane_text(pooled.plan()) if "memory" in line and ("alloc" in line or "free" in line)] == [
        "s0: alloc memory",
        "s0: free memory",
    ]
    assert allocation(buffer="registered", pages="huge").describe() == (
        "allocate 8 bytes of registered memory with huge pages, write every word for the first time, page-lock them where they "
        "lie and undo that, and free them"
    )


def test_every_combination_is_refused_at_a_field_or_proven_safe() -> None:
    axes = {"where": ["host", "device"], "buffer": [None, *KINDS], "pages": ["normal", "huge"], "size": [6, 4096, 3 << 20]}
    proven = 4 + sum(2 * len(kind.pages) for kind in KINDS.values())
    assert proven_and_refused({"kind": "allocation"}, axes) == (proven, {"size", "buffer", "pages"})


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"size": 6}, "size", "6 bytes are no multiple of the word"),
        ({"where": "device", "buffer": "pinned"}, "buffer", "memory of the device is not pinned"),
        ({"allocator": "pool"}, "allocator", "the pool has memory of the device alone"),
        ({"where": "device", "pages": "huge"}, "pages", "the driver chooses"),
        ({"pages": "huge"}, "pages", "pinned memory cannot have huge pages"),
        ({"buffer": "pageable", "memlock_limit": 4096}, "memlock_limit", "only memory that is page-locked"),
        ({"where": "device", "memlock_limit": 4096}, "memlock_limit", "only memory that is page-locked"),
        ({"beyond_memory": True, "size": "15TiB"}, "beyond_memory", "a machine may have 15TiB"),
        ({"beyond_memory": True, "size": "64TiB", "buffer": "registered"}, "beyond_memory", "may promise registered memory"),
        ({"beyond_memory": True, "size": "64TiB", "buffer": "managed"}, "beyond_memory", "may promise managed memory"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(fields: dict[str, object], field: str, words: str) -> None:
    place, message = refusal({"kind": "allocation", "size": 8, **fields})
    assert (place, words in message) == (field, True)


def test_page_locking_has_paid_when_the_copies_have_saved_what_it_cost() -> None:
    case = allocation(buffer="registered", pages="huge", size=4096, payback=True)
    companions = case.companions()
    assert [(name, model.columns()["buffer"], model.columns()["pages"]) for name, model in companions.items()] == [
        ("copy_locked", "registered", "huge"),
        ("copy_pageable", "pageable", "normal"),
        ("memory_pageable", "pageable", "normal"),
    ]
    times = {"copy_locked": 1.0, "copy_pageable": 3.0, "memory_pageable": 10.0}
    assert case.derived(Known(0, times), 25.0, {}) == {"copies_to_pay": 7.5}
    assert case.derived(Known(0, times), 9.0, {}) == {"copies_to_pay": 0.0}
    assert case.derived(Known(0, times | {"copy_locked": 3.0}), 25.0, {}) == {}, "nothing is saved"
    assert case.derived(Known(0, {"copy_locked": 1.0}), 25.0, {}) == {}, "something could not be measured"
    assert allocation(buffer="pinned").companions() == {}


@pytest.mark.parametrize(
    "fields", [{"buffer": "pageable"}, {"buffer": "managed"}, {"where": "device"}, {"buffer": "pinned", "memlock_limit": 4096}]
)
def test_memory_that_is_not_page_locked_or_limited_cannot_pay(fields: dict[str, Any]) -> None:
    assert refusal({"kind": "allocation", "size": 8, "payback": True, **fields})[0] == "payback"
