"""The one owner of the CUDA context, and the calls that PyCUDA lacks.

`CudaContext` retains and pushes the primary context when it is made and gives it back in `close`, in the same thread. PyCUDA
ends a process that leaves a context on its stack with a banner and an abort, so every path must come through `close`.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from runner.errors import CaseFailed, DmalabError
from runner.placement import Wait

_WRITE_COMBINED: Final = 4
"""CU_MEMHOSTALLOC_WRITECOMBINED of cuda.h."""
_PORTABLE_MAPPED: Final = 1 | 2
"""CU_MEMHOSTREGISTER_PORTABLE and CU_MEMHOSTREGISTER_DEVICEMAP of cuda.h."""
_SCHEDULES: Final[dict[Wait, int]] = {"spin": 1, "yield": 2, "block": 4}
"""CU_CTX_SCHED_SPIN, CU_CTX_SCHED_YIELD and CU_CTX_SCHED_BLOCKING_SYNC of cuda.h."""
_ATTACH_GLOBAL: Final = 1
"""CU_MEM_ATTACH_GLOBAL of cuda.h: any stream may use it."""
_MEMORY_TYPES: Final = {1: "pinned", 2: "device", 3: "array", 4: "managed"}
"""CUmemorytype of cuda.h; 1 is host memory that the driver knows, by allocation or by registration."""


class CudaContext:
    """A primary context, current in the thread that made it. `cuda` is pycuda.driver, `raw` is cuda.bindings.driver.

    `wait` is how its threads wait; it is set before, since the driver's own choice depends on the number of processors.
    `lost` tells that an error has stuck to the context: no later call works, and nothing measured after it counts.
    """

    def __init__(self, cuda: Any, raw: Any, ordinal: int, wait: Wait = "spin") -> None:
        self.cuda, self.raw, self.ordinal, self.wait = cuda, raw, ordinal, wait
        self.device = cuda.Device(ordinal)
        self.lost = False
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self.check("cuDevicePrimaryCtxSetFlags", raw.cuDevicePrimaryCtxSetFlags(ordinal, _SCHEDULES[wait]))
        self._context = self.device.retain_primary_context()
        try:
            self._context.push()
        except cuda.Error:
            self._context.detach()
            raise

    @property
    def closed(self) -> bool:
        """Whether the context was given back."""
        return self._context is None

    @property
    def of_this_process(self) -> bool:
        """Whether this is the process that opened the context; a forked child cannot use it."""
        return os.getpid() == self._pid

    def require_usable(self) -> None:
        """Raise CaseFailed where the context was lost, DmalabError where it is closed or belongs to another thread or process."""
        if self.lost:
            raise CaseFailed("the CUDA context was lost by an error before this case; nothing measured on it would count")
        if self.closed:
            raise DmalabError("the CUDA device is closed")
        if not self.of_this_process:
            raise DmalabError("a CUDA context does not survive a fork; start worker processes by spawn")
        if threading.get_ident() != self._thread:
            raise DmalabError("a CUDA device is used and closed by the thread that opened it")

    def close(self) -> None:
        """Pop the context and release it; safe to call twice, and in a forked child, where it does nothing."""
        if self._context is None or not self.of_this_process:
            return
        self._require_own_thread()
        context, self._context = self._context, None
        if self.lost:
            self._close_lost(context)
        else:
            self.cuda.Context.pop()
            context.detach()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the context current in another thread for the length of a block."""
        self._context.push()
        try:
            yield
        finally:
            self.cuda.Context.pop()

    def synchronize(self) -> None:
        """Wait for all work of the context."""
        self._context.synchronize()

    def check_lost(self) -> bool:
        """After an error: find out whether it sticks to the context."""
        try:
            self.synchronize()
        except self.cuda.Error:
            self.lost = True
        return self.lost

    def free_bytes(self) -> int:
        """Return the free bytes of the device's memory."""
        return int(self.cuda.mem_get_info()[0])

    def attribute(self, name: str) -> int:
        """Return an attribute of the device by its name in cuda.h, without the prefix."""
        return int(self.device.get_attribute(getattr(self.cuda.device_attribute, name)))

    def memory_type(self, address: int) -> str:
        """Ask the driver what an address is.

        `pageable` (it does not know it), `pinned`, `write_combined`, `device` or `managed`.
        """
        attribute = self.raw.CUpointer_attribute
        status, managed = self.raw.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED, address)
        if int(status) == 0 and managed:
            return "managed"
        status, answer = self.raw.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
        if int(status) != 0:
            return "pageable"
        said = _MEMORY_TYPES.get(int(answer), "pageable")
        if said == "pinned":
            # Only memory that the driver allocated has flags; it refuses to tell those of registered memory.
            status, flags = self.raw.cuMemHostGetFlags(address)
            if int(status) == 0 and int(flags) & _WRITE_COMBINED:
                return "write_combined"
        return said

    def device_pointer(self, address: int) -> int:
        """Return where the device finds page-locked host memory; under unified addressing that is the same address."""
        status, pointer = self.raw.cuMemHostGetDevicePointer(address, 0)
        self.check("cuMemHostGetDevicePointer", (status,))
        return int(pointer)

    def allocate_managed(self, size: int) -> int:
        """Return the address of fresh managed memory; raises the driver's error as PyCUDA's."""
        status, pointer = self.raw.cuMemAllocManaged(size, _ATTACH_GLOBAL)
        self.check("cuMemAllocManaged", (status,))
        return int(pointer)

    def free_managed(self, address: int) -> None:
        """Undo `allocate_managed`."""
        self.check("cuMemFree", self.raw.cuMemFree(address))

    def prefetch(self, address: int, size: int, to_device: bool, stream: int) -> Callable[[], None]:
        """Return a ready call that moves pages of managed memory in a stream, given by its handle."""
        kinds, location = self.raw.CUmemLocationType, self.raw.CUmemLocation()
        location.type = kinds.CU_MEM_LOCATION_TYPE_DEVICE if to_device else kinds.CU_MEM_LOCATION_TYPE_HOST
        location.id = self.ordinal if to_device else 0
        # Bindings of CUDA 12 have this signature under the second name, those of CUDA 13 under the first alone.
        call = getattr(self.raw, "cuMemPrefetchAsync_v2", None) or self.raw.cuMemPrefetchAsync

        def move() -> None:
            self.check("cuMemPrefetchAsync", call(address, size, location, 0, stream))

        return move

    def register(self, address: int, size: int) -> None:
        """Page-lock a range where it lies; raises the driver's error as PyCUDA's."""
        self.check("cuMemHostRegister", self.raw.cuMemHostRegister(address, size, _PORTABLE_MAPPED))

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        self.check("cuMemHostUnregister", self.raw.cuMemHostUnregister(address))

    def check(self, call: str, answer: tuple[Any, ...]) -> None:
        """Raise PyCUDA's error for a failed call of cuda.bindings, so that both are caught alike."""
        if int(answer[0]) != 0:
            _, text = self.raw.cuGetErrorString(answer[0])
            words = text.decode() if isinstance(text, bytes) else str(text or answer[0])
            raise self.cuda.LogicError(f"{call} failed: {words}")

    def _close_lost(self, context: Any) -> None:
        """Take a lost context off PyCUDA's stack, which must be empty at the end; it is released with the process."""
        abandon(context)
        try:
            self.cuda.Context.pop()
        except self.cuda.Error:
            # The driver may refuse even this until the context is torn down.
            self.raw.cuDevicePrimaryCtxReset(self.ordinal)
            with suppress(self.cuda.Error):
                self.cuda.Context.pop()

    def _require_own_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise DmalabError("a CUDA device is used and closed by the thread that opened it")


def abandon(owner: object) -> None:
    """Never free `owner`: on a lost context PyCUDA's finalisers only fill the screen with warnings."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
