"""Writing the pattern into buffers before a play and comparing it after one, outside every timed region.

Page-locked buffers are filled by the device, through a scratch buffer of its own. Were they filled by the processor, their lines
would lie modified in its caches, and a copy engine that reads or writes them has to fetch or invalidate each one: on an H200, a
download of 1 to 16 MiB then took up to twice as long as it takes a program that leaves its buffers alone. Pageable buffers, which
the processor copies anyway, and managed ones, which thereby come back to the host, are filled by several threads, since NumPy
lets go of the interpreter's lock inside its loops. Comparing is always the host's, so that no kernel vouches for itself; bytes
of device memory pass through page-locked scratch, and so, by way of the device, do those that the processor reads slowly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np

from runner import pattern
from runner.device.contract import Mismatch
from runner.device.cuda.driver import CudaContext, abandon
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.memory import Region, allocate_device, allocate_pinned
from runner.memory import DEVICE, kind_of
from runner.pattern import Bytes
from runner.plan import Buffer, Expect

SCRATCH_BYTES: Final = 16 << 20
LEAST_SHARE_BYTES: Final = 1 << 20
"""What a thread takes at least: handing over less, and waiting for it, costs as much as doing it."""
THREADS: Final = min(8, os.cpu_count() or 1)

_WORDS: Final = 2**32

T = TypeVar("T")
Differences = Callable[[], list[tuple[int, int]]]
"""Waits for a comparison, and gives the first wrong place and the number of wrong bytes of each part that has some."""


class DataWorkers:
    """Fills and checks ranges of memory; owns a few threads and the scratch buffers."""

    def __init__(self, context: CudaContext, scratch_bytes: int = SCRATCH_BYTES) -> None:
        self._context, self._scratch_bytes = context, scratch_bytes
        self._scratch: Region | None = None
        self._device_scratch: Region | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="dmalab-data")

    def fill(self, kernels: Kernels, region: Region, offset: int, size: int, common: int, step: int) -> None:
        """Write the pattern over a range of a buffer; `common` and `step` are of `runner.pattern`."""
        if region.array is None:
            whole = size - size % pattern.WORD if offset % pattern.WORD == 0 else 0
            if whole:
                kernels.pattern(region.address + offset, whole, offset, common, step)()
            self._upload(region, offset + whole, size - whole, common, step)
        elif kind_of(region.kind).page_locked and offset % pattern.WORD == 0:
            self._fill_by_device(kernels, region.view(offset, size), offset, common, step)
        else:
            self._fill_host(region.view(offset, size), offset, common, step)

    def check(self, name: str, region: Region, expect: Expect, sample: int) -> Mismatch | None:
        """Compare a range with what it should hold; None where every byte is right."""
        # Adding to every word is adding to what all words have in common, so the pattern stays a pattern.
        common, step = (pattern.offset_of(expect.salt, sample) + expect.added) % _WORDS, pattern.step_of(expect.salt)
        first, wrong, found = -1, 0, b""
        for begin, block, differences in self._compared(region, expect, common, step):
            for place, length in differences():
                if first < 0:
                    first = begin + place
                    found = _word_at(block, place)
                wrong += length
        if first < 0:
            return None
        expected = np.empty(len(found), dtype=np.uint8)
        pattern.fill(expected, expect.source_offset + first - first % pattern.WORD, common, step)
        return Mismatch(name, expect.offset + first, wrong, _hex(expected.tobytes()), _hex(found))

    def close(self) -> None:
        """End the threads and free the scratch buffer; the context must be current and quiet."""
        self._threads.shutdown()
        for scratch in (self._scratch, self._device_scratch):
            if scratch is None:
                continue
            if self._context.lost:
                abandon(scratch)
            else:
                scratch.release()
        self._scratch = self._device_scratch = None

    def _compared(self, region: Region, expect: Expect, common: int, step: int) -> Iterator[tuple[int, Bytes, Differences]]:
        """Yield (place in the range, bytes, differences) of each block of a range, comparing one while the next is fetched."""
        before: tuple[int, Bytes, Differences] | None = None
        for begin, block in self._blocks(region, expect):
            differences = self._differ(block, expect.source_offset + begin, common, step)
            if before is not None:
                yield before
            before = begin, block, differences
        if before is not None:
            yield before

    def _blocks(self, region: Region, expect: Expect) -> Iterator[tuple[int, Bytes]]:
        """Yield (place in the range, bytes) of the whole range, through scratch buffers where the host cannot just read it.

        Two blocks are good at a time: the one before the last lies where the next one will.
        """
        slow = region.array is not None and kind_of(region.kind).slow_cpu_read
        if region.array is not None and not slow:
            yield 0, region.view(expect.offset, expect.size)
            return
        scratch, cuda = self._scratch_region(), self._context.cuda
        half = self._scratch_bytes // 2
        for number, (begin, length) in enumerate(_pieces(expect.size, half)):
            block, address = scratch.view(number % 2 * half, length), region.address + expect.offset + begin
            if slow:
                address = self._device_scratch_region().address
                cuda.memcpy_htod(address, region.view(expect.offset + begin, length))
            cuda.memcpy_dtoh(block, address)
            yield begin, block

    def _upload(self, region: Region, offset: int, size: int, common: int, step: int) -> None:
        """Write the pattern over device memory from the host: ranges, or their ends, that are no whole words."""
        for begin, length in _pieces(size, self._scratch_bytes):
            block = self._scratch_region().view(0, length)
            self._fill_host(block, offset + begin, common, step)
            self._context.cuda.memcpy_htod(region.address + offset + begin, block)

    def _fill_by_device(self, kernels: Kernels, target: Bytes, start: int, common: int, step: int) -> None:
        """Let the device write the pattern into its scratch and its copy engine bring it to the host, piece by piece."""
        whole = len(target) - len(target) % pattern.WORD
        for begin, length in _pieces(whole, self._scratch_bytes):
            scratch = self._device_scratch_region()
            kernels.pattern(scratch.address, length, start + begin, common, step)()
            self._context.cuda.memcpy_dtoh(target[begin : begin + length], scratch.address)
        if whole < len(target):
            pattern.fill(target[whole:], start + whole, common, step)

    def _fill_host(self, target: Bytes, start: int, common: int, step: int) -> None:
        for _, job in self._shared(pattern.fill, target, start, common, step):
            job.result()

    def _differ(self, actual: Bytes, start: int, common: int, step: int) -> Differences:
        """Begin to compare, and return what waits for the outcome."""
        jobs = self._shared(pattern.first_difference, actual, start, common, step)

        def differences() -> list[tuple[int, int]]:
            found = [(begin, job.result()) for begin, job in jobs]
            return [(begin + each[0], each[1]) for begin, each in found if each is not None]

        return differences

    def _shared(
        self, work: Callable[[Bytes, int, int, int], T], data: Bytes, start: int, common: int, step: int
    ) -> list[tuple[int, Future[T]]]:
        """Let the threads do `work` on parts of the data, and return where each part begins and what gives its outcome."""
        if len(data) <= LEAST_SHARE_BYTES:
            done: Future[T] = Future()
            done.set_result(work(data, start, common, step))
            return [(0, done)]
        share = max(LEAST_SHARE_BYTES, -(-len(data) // (THREADS * pattern.WORD)) * pattern.WORD)
        return [
            (begin, self._threads.submit(work, data[begin : begin + length], start + begin, common, step))
            for begin, length in _pieces(len(data), share)
        ]

    def _scratch_region(self) -> Region:
        if self._scratch is None:
            self._scratch = allocate_pinned(self._context, Buffer("scratch", "pinned", self._scratch_bytes), False)
        return self._scratch

    def _device_scratch_region(self) -> Region:
        if self._device_scratch is None:
            self._device_scratch = allocate_device(self._context, Buffer("scratch", DEVICE, self._scratch_bytes), False)
        return self._device_scratch


def _pieces(size: int, piece: int) -> Iterator[tuple[int, int]]:
    """Cut a size into (begin, length)."""
    for begin in range(0, size, piece):
        yield begin, min(piece, size - begin)


def _word_at(block: Bytes, index: int) -> bytes:
    """Return the whole word around a byte, cut off at the end of the block."""
    begin = index - index % pattern.WORD
    return block[begin : begin + pattern.WORD].tobytes()


def _hex(word: bytes) -> str:
    """Write a little-endian word as people read it."""
    return f"0x{int.from_bytes(word, 'little'):0{2 * len(word)}x}"
