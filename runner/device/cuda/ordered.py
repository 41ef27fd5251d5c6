"""Memory from the device's pool, which comes and goes in the order of a stream (cuMemAllocAsync, cuMemFreeAsync)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from runner.device.cuda.driver import CudaContext
from runner.errors import CaseUnsupported

_EVERYTHING: Final = 2**64 - 1


class OrderedPool:
    """The device's current pool, used by one session.

    While it is used it keeps what was freed, as a program that allocates all the time would have it; else every wait of the host
    would give it back to the system. Raises CaseUnsupported where the device has no pools.
    """

    def __init__(self, context: CudaContext) -> None:
        self._context, raw = context, context.raw
        attribute = raw.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        status, there = raw.cuDeviceGetAttribute(attribute, context.ordinal)
        context.check("cuDeviceGetAttribute", (status,))
        if not there:
            raise CaseUnsupported("memory was asked for from the pool of the device, but this device has none")
        status, self._pool = raw.cuDeviceGetMemPool(context.ordinal)
        context.check("cuDeviceGetMemPool", (status,))
        self._keep(_EVERYTHING)

    def allocate(self, size: int, stream: Any) -> int:
        """Return the address of memory that work behind this in a stream may use, None being the null stream."""
        status, address = self._context.raw.cuMemAllocAsync(size, 0 if stream is None else stream.handle)
        self._context.check("cuMemAllocAsync", (status,))
        return int(address)

    def free(self, address: int, stream: Any) -> None:
        """Let memory be given to others once all work before this in a stream is done."""
        self._context.check("cuMemFreeAsync", self._context.raw.cuMemFreeAsync(address, 0 if stream is None else stream.handle))

    def close(self) -> None:
        """Give all that is free back to the system; all work has been waited for."""
        if not self._context.lost:
            with suppress(self._context.cuda.Error):
                self._keep(0)
                self._context.check("cuMemPoolTrimTo", self._context.raw.cuMemPoolTrimTo(self._pool, 0))

    def _keep(self, size: int) -> None:
        raw = self._context.raw
        threshold = raw.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._context.check("cuMemPoolSetAttribute", raw.cuMemPoolSetAttribute(self._pool, threshold, raw.cuuint64_t(size)))
