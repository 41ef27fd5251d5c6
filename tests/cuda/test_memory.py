from __future__ import annotations

import mmap

from runner.device.cuda.memory import ALLOCATE, HostPool, Region, allocate_pageable, allocate_pinned
from runner.memory import DEVICE, KINDS
from tests.cuda.standin import Bench


def kept(name: str, size: int, released: list[str], kind: str = "pinned") -> Region:
    return Region(kind, size, 0, None, None, lambda: released.append(name))


def test_every_kind_can_be_allocated() -> None:
    assert set(ALLOCATE) == set(KINDS) | {DEVICE}


def test_pageable_memory_starts_on_a_page_and_can_be_written(bench: Bench) -> None:
    region = allocate_pageable(bench.context, 4097)
    assert region.address % mmap.PAGESIZE == 0
    assert region.array is not None
    region.array[:] = 7
    assert region.view(4090, 7).tolist() == [7] * 7
    assert bench.context.memory_type(region.address) == "pageable"


def test_pinned_memory_is_known_to_the_driver(bench: Bench) -> None:
    region = allocate_pinned(bench.context, 4097)
    assert bench.context.memory_type(region.address + 4096) == "pinned"
    region.release()


def test_the_pool_gives_back_only_what_fits_exactly() -> None:
    released: list[str] = []
    pool = HostPool(100)
    pool.give(kept("a", 40, released))
    assert pool.take("pinned", 41) is None
    assert pool.take("pageable", 40) is None
    region = pool.take("pinned", 40)
    assert region is not None
    assert pool.held_bytes == 0
    assert pool.take("pinned", 40) is None
    assert released == []


def test_the_pool_frees_the_longest_unused_first() -> None:
    released: list[str] = []
    pool = HostPool(100)
    for name, size in (("a", 40), ("b", 40), ("c", 40)):
        pool.give(kept(name, size, released))
    assert released == ["a"]
    pool.give(kept("too large", 101, released))
    assert released == ["a", "b", "c", "too large"]
    pool.give(kept("d", 1, released))
    pool.clear()
    assert released[-1] == "d"
    assert pool.held_bytes == 0
