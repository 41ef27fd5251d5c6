"""How each kind of memory is allocated on the real device: one function a kind, keyed by the name of its row in `runner.memory`.

Ownership is explicit: a Region is freed by `release`, never by a finaliser, and only after everything that was issued has been
waited for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from runner.device.cuda.driver import CudaContext
from runner.device.cuda.pages import map_pages, touch_pages
from runner.errors import CaseUnsupported
from runner.memory import DEVICE
from runner.pattern import Bytes
from runner.plan import Buffer
from runner.units import about_size

MANAGED_SHARE: Final = 0.5
"""Managed memory may take this share of the device's free memory; more would be evicted while it is measured."""


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of one buffer: its address, the array that shows it (None on the device) and how it is given back."""

    kind: str
    size: int
    address: int
    array: Bytes | None
    owner: object
    release: Callable[[], object]
    pages: str = "normal"

    def view(self, offset: int, size: int) -> Bytes:
        """Return the bytes of a range of host memory."""
        assert self.array is not None, "device memory has no array"
        return self.array[offset : offset + size]


def allocate_pageable(context: CudaContext, buffer: Buffer, prove: bool) -> Region:
    """Map fresh private pages; a mapping of its own starts on a page and shares none with other data."""
    mapping, array = map_pages(buffer.size, buffer.pages, prove=prove)
    # Nothing to release by hand: the pages go with the last view, and only then can nobody read them any more.
    return Region(buffer.memory, buffer.size, array.ctypes.data, array, mapping, _nothing, buffer.pages)


def allocate_pinned(context: CudaContext, buffer: Buffer, prove: bool) -> Region:
    """Let the driver allocate page-locked memory."""
    return _host_alloc(context, buffer, 0)


def allocate_write_combined(context: CudaContext, buffer: Buffer, prove: bool) -> Region:
    """Let the driver allocate page-locked memory that the processor's caches leave out."""
    return _host_alloc(context, buffer, int(context.cuda.host_alloc_flags.WRITECOMBINED))


def allocate_mapped(context: CudaContext, buffer: Buffer, prove: bool) -> Region:
    """Let the driver allocate page-locked memory that lies in the device's addresses, too."""
    if not context.attribute("CAN_MAP_HOST_MEMORY"):
        raise CaseUnsupported(f"buffer {buffer.name} should be mapped, but this device cannot map host memory")
    return _host_alloc(context, buffer, int(context.cuda.host_alloc_flags.DEVICEMAP))


def allocate_registered(context: CudaContext, buffer: Buffer, prove: bool) -> Region:
    """Map fresh private pages, touch each of them and page-lock them where they lie."""
    mapping, array = map_pages(buffer.size, buffer.pages, prove=prove)
    touch_pages(array)
    address = int(array.ctypes.data)
    context.register(address, buffer.size)
    return Region(buffer.memory, buffer.size, address, array, mapping, lambda: context.unregister(address), buffer.pages)


def allocate_managed(context: CudaContext, buffer: Buffer, prove: bool) -> Region:
    """Let the driver allocate memory that moves to whoever touches it, from any stream.

    Raises CaseUnsupported where the processor may not touch it while a kernel runs: doing so kills the process there.
    """
    if not context.attribute("MANAGED_MEMORY") or not context.attribute("CONCURRENT_MANAGED_ACCESS"):
        raise CaseUnsupported(
            f"buffer {buffer.name} should be managed, but on this device the processor cannot use managed memory beside a kernel"
        )
    limit = int(MANAGED_SHARE * context.free_bytes())
    if buffer.size > limit:
        raise MemoryError(f"managed memory is kept below {about_size(limit)}, half of what the device has free")
    address = context.allocate_managed(buffer.size)
    array = np.ctypeslib.as_array((ctypes.c_uint8 * buffer.size).from_address(address))
    return Region(buffer.memory, buffer.size, address, array, None, lambda: context.free_managed(address))


def allocate_device(context: CudaContext, buffer: Buffer, prove: bool) -> Region:
    """Allocate the device's own memory."""
    allocation = context.cuda.mem_alloc(buffer.size)
    return Region(DEVICE, buffer.size, int(allocation), None, allocation, allocation.free)


Allocate = Callable[[CudaContext, Buffer, bool], Region]
"""Allocate a buffer; `prove` asks for proof that its pages are of the size asked for, which takes too long for a timed region."""

ALLOCATE: Final[dict[str, Allocate]] = {
    "pageable": allocate_pageable,
    "pinned": allocate_pinned,
    "registered": allocate_registered,
    "write_combined": allocate_write_combined,
    "mapped": allocate_mapped,
    "managed": allocate_managed,
    DEVICE: allocate_device,
}


def _host_alloc(context: CudaContext, buffer: Buffer, flags: int) -> Region:
    array = context.cuda.pagelocked_empty(buffer.size, np.uint8, mem_flags=flags)
    return Region(buffer.memory, buffer.size, array.ctypes.data, array, array.base, array.base.free)


def _nothing() -> None:
    """Give nothing back."""
