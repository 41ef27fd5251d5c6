from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from runner.device.cuda import pages
from runner.device.cuda.buffers import SessionMemory
from runner.device.cuda.memory import ALLOCATE, Region
from runner.device.cuda.pages import HUGE_PAGE_BYTES, huge_bytes_at, process_memory_bytes
from runner.device.cuda.pool import HostPool
from runner.errors import CaseFailed, CaseUnsupported
from runner.memory import DEVICE, KINDS
from runner.plan import Buffer
from tests.cuda.standin import Bench


def kept(name: str, size: int, released: list[str], kind: str = "pinned") -> Region:
    return Region(kind, size, 0, None, None, lambda: released.append(name))


def test_every_kind_can_be_allocated() -> None:
    assert set(ALLOCATE) == set(KINDS) | {DEVICE}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_what_it_says_holds_bytes_and_is_given_back(bench: Bench, kind: str) -> None:
    memory = SessionMemory(bench.context, HostPool(0), (Buffer("data", kind, 4097),))
    memory.allocate(0)
    region = memory.region(0)
    view = region.view(0, 4097)
    view[:] = 7
    assert view[4090:].tolist() == [7] * 7
    assert memory.facts[0] in KINDS[kind].driver_says
    assert memory.device_address(0) == region.address
    memory.free(0)
    assert bench.driver.ranges == {}


@pytest.mark.parametrize(("lock", "pin", "locked"), [(0, 0, 0), (8, 4, 8192), (4, 1024, 1 << 20)])
def test_the_larger_of_the_two_counts_is_locked(tmp_path: Path, lock: int, pin: int, locked: int) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nVmPeak:\t 900 kB\nVmLck:\t {lock} kB\nVmPin:\t {pin} kB\nVmRSS:\t 12 kB\nThreads:\t3\n")
    assert process_memory_bytes(status) == (12288, locked)


@pytest.mark.parametrize("text", ["", "VmRSS:\t 12 kB\nVmLck:\t 0 kB\n", "VmLck:\t 0 kB\nVmPin:\t 0 kB\nVmRSS:\n"])
def test_a_system_that_does_not_tell_all_counts_tells_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "status").write_text(text)
    assert process_memory_bytes(tmp_path / "status") is None
    assert process_memory_bytes(tmp_path / "nowhere") is None


def test_pages_of_the_system_start_on_a_page(bench: Bench) -> None:
    for kind in ("pageable", "registered"):
        region = ALLOCATE[kind](bench.context, Buffer("data", kind, 4097), False)
        assert region.address % mmap.PAGESIZE == 0
        region.release()


def test_a_kernel_is_told_where_page_locked_memory_lies_by_one_question(bench: Bench) -> None:
    memory = SessionMemory(bench.context, HostPool(0), (Buffer("a", "mapped", 64), Buffer("b", "pageable", 64)))
    memory.allocate(0)
    memory.allocate(1)
    bench.driver.log.clear()
    assert memory.device_address(1) == memory.region(1).address
    assert memory.device_address(0) == memory.region(0).address
    assert bench.driver.log == ["device pointer"]
    memory.close()


@pytest.mark.parametrize(("kind", "attribute"), [("mapped", "map"), ("managed", "managed"), ("managed", "concurrent")])
def test_a_kind_that_the_device_lacks_is_unsupported(bench: Bench, kind: str, attribute: str) -> None:
    bench.driver.attributes[attribute] = 0
    memory = SessionMemory(bench.context, HostPool(0), (Buffer("data", kind, 64),))
    with pytest.raises(CaseUnsupported, match="buffer data should be"):
        memory.allocate(0)


def test_managed_memory_stays_far_below_what_is_free_and_is_never_kept(bench: Bench) -> None:
    pool = HostPool(1 << 30)
    memory = SessionMemory(bench.context, pool, (Buffer("small", "managed", 64), Buffer("large", "managed", 700 << 20)))
    memory.allocate(0, pooled=True)
    memory.free(0)
    assert pool.held_bytes == 0
    with pytest.raises(CaseFailed, match=r"large was refused \(managed memory is kept below 512MiB, half of what"):
        memory.allocate(1)


SMAPS = """\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg
7f0000400000-7f0000401000 rw-p 00000000 00:00 0                          [anon: a name]
Size:                  4 kB
AnonHugePages:         0 kB
"""


@pytest.mark.parametrize(
    ("address", "size"), [(0x7F0000000000, 2 << 20), (0x7F00003FFFFF, 2 << 20), (0x7F0000400000, 0), (0x7F0000401000, 0)]
)
def test_huge_pages_are_counted_in_the_mapping_that_holds_the_address(address: int, size: int) -> None:
    assert huge_bytes_at(address, SMAPS.splitlines(keepends=True)) == size


def test_huge_pages_that_the_system_does_not_give_are_unsupported(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr(pages, "huge_bytes_at", lambda address, lines: 0)
    monkeypatch.setattr(pages, "huge_page_mode", lambda: "always madvise [never]")
    memory = SessionMemory(bench.context, HostPool(0), (Buffer("data", "pageable", 4 << 20, "huge"),))
    with pytest.raises(CaseUnsupported, match=r"4MiB on huge pages .* gave none; .*enabled says: always madvise \[never\]"):
        memory.allocate(0, prove=True)
    with pytest.raises(CaseUnsupported, match=r"4MiB on huge pages"):
        memory.try_huge_pages(0)


@pytest.mark.parametrize("kind", ["pageable", "registered"])
def test_huge_pages_that_are_given_are_aligned_and_hold_bytes(monkeypatch: pytest.MonkeyPatch, bench: Bench, kind: str) -> None:
    counts = iter((2 << 20, 8 << 20))
    monkeypatch.setattr(pages, "huge_bytes_at", lambda address, lines: next(counts))
    pool = HostPool(1 << 30)
    memory = SessionMemory(bench.context, pool, (Buffer("data", kind, (4 << 20) + 1, "huge"),))
    memory.allocate(0, pooled=True, prove=True)
    region = memory.region(0)
    assert region.address % HUGE_PAGE_BYTES == 0
    region.view(4 << 20, 1)[:] = 9
    assert len(region.view(0, region.size)) == (4 << 20) + 1
    memory.free(0)
    assert pool.take(kind, region.size) is None
    assert pool.take(kind, region.size, "huge") is region
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
