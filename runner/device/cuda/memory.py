"""The memory of one session: how each kind is allocated, what the driver says of it, and who frees it when.

One function a kind, keyed by the name of its row in `runner.memory`. Ownership is explicit: a Region is freed by `release`, never
by a finaliser, and only after everything that was issued has been waited for.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from runner.device.cuda.driver import CudaContext, abandon
from runner.errors import CaseFailed
from runner.memory import DEVICE, kind_of
from runner.pattern import Bytes
from runner.plan import Buffer
from runner.units import format_size

POOL_BYTES: Final = 1 << 30
"""What the pool keeps at most: pinning costs half a second a GiB, so a grid would spend its time on allocating."""


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of one buffer: its address, the array that shows it (None on the device) and how it is given back."""

    kind: str
    size: int
    address: int
    array: Bytes | None
    owner: object
    release: Callable[[], object]

    def view(self, offset: int, size: int) -> Bytes:
        """Return the bytes of a range of host memory."""
        assert self.array is not None, "device memory has no array"
        return self.array[offset : offset + size]


class HostPool:
    """Host memory kept between sessions, the longest unused given back first."""

    def __init__(self, limit_bytes: int = POOL_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: list[Region] = []

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept for later."""
        return sum(region.size for region in self._kept)

    def take(self, kind: str, size: int) -> Region | None:
        """Return a kept region of exactly this kind and size, None where there is none."""
        for place in range(len(self._kept) - 1, -1, -1):
            if (self._kept[place].kind, self._kept[place].size) == (kind, size):
                return self._kept.pop(place)
        return None

    def give(self, region: Region) -> None:
        """Keep a region for later, at the cost of older ones where there is no room."""
        self._kept.append(region)
        while self.held_bytes > self._limit:
            self._kept.pop(0).release()

    def clear(self) -> None:
        """Free all that is kept."""
        while self._kept:
            self._kept.pop().release()

    def abandon(self) -> None:
        """Forget all that is kept without freeing it, since the context is lost."""
        for region in self._kept:
            abandon(region)
        self._kept.clear()


class SessionMemory:
    """The buffers of one Plan: allocated, asked about, and freed."""

    def __init__(self, context: CudaContext, pool: HostPool, buffers: tuple[Buffer, ...]) -> None:
        self._context, self._pool, self._buffers = context, pool, buffers
        self._regions: list[Region | None] = [None] * len(buffers)
        self._pooled: set[int] = set()
        self._registered: set[int] = set()
        self.facts = [""] * len(buffers)

    @property
    def held_bytes(self) -> int:
        """Bytes that this session holds."""
        return sum(region.size for region in self._regions if region is not None)

    def region(self, index: int) -> Region:
        """Return the memory of a buffer; raises CaseFailed where it is not allocated now."""
        region = self._regions[index]
        if region is None:
            raise CaseFailed(f"buffer {self._buffers[index].name} is used while it is not allocated")
        return region

    def allocate(self, index: int, *, pooled: bool = False) -> None:
        """Allocate a buffer; `pooled` host memory may come from an earlier session and goes back to it.

        Raises CaseFailed with the figures where the memory is refused, or is not of its kind by the driver's own word.
        """
        buffer = self._buffers[index]
        region = self._pool.take(buffer.memory, buffer.size) if pooled else None
        if region is None:
            region = self._fresh(buffer)
        self._regions[index] = region
        if pooled and not buffer.on_device:
            self._pooled.add(index)
        if not self.facts[index]:
            self.ask(index)

    def free(self, index: int) -> None:
        """Free a buffer, or give it back to the pool; nothing where it is not allocated."""
        region, self._regions[index] = self._regions[index], None
        if region is None:
            return
        if index in self._registered:
            self._registered.remove(index)
            self._context.unregister(region.address)
        if index in self._pooled:
            self._pool.give(region)
        else:
            region.release()

    def register(self, index: int) -> None:
        """Page-lock a buffer where it lies."""
        region = self.region(index)
        self._context.register(region.address, region.size)
        self._registered.add(index)

    def unregister(self, index: int) -> None:
        """Undo `register`."""
        self._context.unregister(self.region(index).address)
        self._registered.discard(index)

    def ask(self, index: int) -> None:
        """Note what the driver says of a buffer; raises CaseFailed where that is not what the kind promises."""
        buffer, region = self._buffers[index], self._regions[index]
        if region is None:
            return
        said = self._context.memory_type(region.address)
        self.facts[index] = said
        allowed = frozenset({DEVICE}) if buffer.on_device else kind_of(buffer.memory).driver_says
        if said not in allowed and index not in self._registered:
            raise CaseFailed(f"buffer {buffer.name} should be {buffer.memory}, but the driver says that its memory is {said}")

    def ask_all(self) -> None:
        """Ask again about every buffer that is allocated now."""
        for index in range(len(self._buffers)):
            self.ask(index)

    def close(self) -> None:
        """Free everything that is still held; the caller has waited for all work. On a lost context nothing can be freed."""
        for index in range(len(self._regions)):
            if not self._context.lost:
                self.free(index)
            elif self._regions[index] is not None:
                abandon(self._regions[index])
                self._regions[index] = None

    def _fresh(self, buffer: Buffer) -> Region:
        allocate = ALLOCATE[buffer.memory]
        try:
            return allocate(self._context, buffer.size)
        except (self._context.cuda.Error, MemoryError, OSError, OverflowError, ValueError) as first:
            self._pool.clear()
            try:
                return allocate(self._context, buffer.size)
            except (self._context.cuda.Error, MemoryError, OSError, OverflowError, ValueError):
                raise self._refused(buffer, first) from first

    def _refused(self, buffer: Buffer, error: Exception) -> CaseFailed:
        return CaseFailed(
            f"{format_size(buffer.size)} of {buffer.memory} memory for buffer {buffer.name} was refused ({error}); this case "
            f"already holds {format_size(self.held_bytes)}, the device has {format_size(self._context.free_bytes())} free"
        )


def allocate_pageable(context: CudaContext, size: int) -> Region:
    """Map fresh private pages, untouched; a mapping of its own starts on a page and shares none with other data."""
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = np.frombuffer(mapping, dtype=np.uint8)
    # Nothing to release by hand: the pages go with the last view, and only then can nobody read them any more.
    return Region("pageable", size, array.ctypes.data, array, mapping, _nothing)


def allocate_pinned(context: CudaContext, size: int) -> Region:
    """Let the driver allocate page-locked memory."""
    array = context.cuda.pagelocked_empty(size, np.uint8)
    return Region("pinned", size, array.ctypes.data, array, array.base, array.base.free)


def allocate_device(context: CudaContext, size: int) -> Region:
    """Allocate the device's own memory."""
    allocation = context.cuda.mem_alloc(size)
    return Region(DEVICE, size, int(allocation), None, allocation, allocation.free)


ALLOCATE: Final[dict[str, Callable[[CudaContext, int], Region]]] = {
    "pageable": allocate_pageable,
    "pinned": allocate_pinned,
    DEVICE: allocate_device,
}


def _nothing() -> None:
    """Give nothing back."""
