"""A stand-in for pycuda.driver and cuda.bindings.driver: every call is recorded, data really move, streams do their work at once.

It is as strict as the driver where a mistake would be ours: freeing twice, copying through freed memory, capturing a copy of
memory that is not page-locked and leaving a context on the stack all fail. A graph is what its captured calls would have done.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from runner.device.cuda.data import DataWorkers
from runner.device.cuda.driver import CudaContext
from runner.device.cuda.host_copier import CopierLibrary
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.pool import HostPool
from runner.device.cuda.session import CudaSession
from runner.plan import Plan

TOTAL_BYTES = 1 << 30


class Error(Exception):
    """PyCUDA's base error."""


class LogicError(Error):
    pass


class MemoryError_(Error):
    pass


class Allocation:
    """Device or page-locked memory; `free` may be called once."""

    def __init__(self, driver: StandIn, sort: str, size: int) -> None:
        self.driver, self.sort, self.size = driver, sort, size
        self.data = np.zeros(size, dtype=np.uint8)
        self.address = int(self.data.ctypes.data)
        driver.ranges[self.address] = (size, sort)

    def __int__(self) -> int:
        return self.address

    def get_device_pointer(self) -> int:
        return self.address

    def free(self) -> None:
        self.driver.say(f"free {self.sort}")
        del self.driver.ranges[self.address]


class HostArray(np.ndarray):
    """An array that keeps the allocation as its base, as PyCUDA's do."""

    allocation: Allocation

    @property
    def base(self) -> Any:
        return self.allocation


class StandIn:
    """`pycuda.driver` as far as the runner uses it; `log` holds the calls, `fail` maps a call to the error it raises."""

    Error, LogicError, MemoryError = Error, LogicError, MemoryError_
    event_flags = SimpleNamespace(DEFAULT=0, DISABLE_TIMING=2)
    host_alloc_flags = SimpleNamespace(DEVICEMAP=2, WRITECOMBINED=4)
    device_attribute = SimpleNamespace(
        CAN_MAP_HOST_MEMORY="map", MANAGED_MEMORY="managed", CONCURRENT_MANAGED_ACCESS="concurrent"
    )

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fail: dict[str, Error] = {}
        self.ranges: dict[int, tuple[int, str]] = {}
        self.stack: list[object] = []
        self.attributes = {"map": 1, "managed": 1, "concurrent": 1, "pools": 1}
        self.version = 13_000
        self.pinned_is_really = "pinned"
        self.host_flags: dict[int, int] = {}
        self.prefetched: list[tuple[int, int, int]] = []
        self.clock_ms = 0.0
        self.captured: list[Callable[[], None]] | None = None
        self.node = 0
        self.Device = lambda ordinal: SimpleNamespace(
            retain_primary_context=self.retain, get_attribute=self.attributes.__getitem__
        )
        self.Context = SimpleNamespace(pop=self.pop, get_current=lambda: SimpleNamespace(handle=1))
        self.Stream = lambda flags: Stream(self, flags)
        self.Event = lambda flags: Event(self, flags)

    def say(self, call: str) -> None:
        self.log.append(call)
        if call in self.fail:
            raise self.fail[call]

    def retain(self) -> Any:
        return SimpleNamespace(
            push=lambda: self.stack.append(threading.get_ident()),
            detach=lambda: self.say("detach"),
            synchronize=lambda: self.say("synchronize context"),
        )

    def pop(self) -> None:
        self.stack.remove(threading.get_ident())

    def mem_get_info(self) -> tuple[int, int]:
        held = sum(size for size, sort in self.ranges.values() if sort == "device")
        return TOTAL_BYTES - held, TOTAL_BYTES

    def mem_alloc(self, size: int) -> Allocation:
        self.say("allocate device")
        if size > self.mem_get_info()[0]:
            raise MemoryError_("cuMemAlloc failed: out of memory")
        return Allocation(self, "device", size)

    def pagelocked_empty(self, size: int, dtype: Any, mem_flags: int = 0) -> HostArray:
        self.say("allocate pinned")
        allocation = Allocation(self, self.pinned_is_really, size * np.dtype(dtype).itemsize)
        self.host_flags[allocation.address] = mem_flags
        array = allocation.data.view(dtype).view(HostArray)
        array.allocation = allocation
        return array

    def memcpy_htod_async(self, address: int, view: Any, stream: Any) -> None:
        self.say("copy h2d")
        self.move(address, address_of(view), len(view), device=address)

    def memcpy_dtoh_async(self, view: Any, address: int, stream: Any) -> None:
        self.say("copy d2h")
        self.move(address_of(view), address, len(view), device=address)

    def memcpy_htod(self, address: int, view: Any) -> None:
        self.say("plain copy h2d")
        self.move(address, address_of(view), len(view), device=address)

    def memcpy_dtoh(self, view: Any, address: int) -> None:
        self.say("plain copy d2h")
        self.move(address_of(view), address, len(view), device=address)

    def later(self, action: Callable[[], None]) -> None:
        """Do something now, or at each launch of the graph that is captured now."""
        if self.captured is None:
            action()
        else:
            self.captured.append(action)

    def move(self, dst: int, src: int, size: int, device: int) -> None:
        if self.sort_of(device, size) != "device":
            raise LogicError("cuMemcpy failed: invalid argument")
        if self.captured is not None and self.sort_of(src if device == dst else dst, size) == "unknown":
            raise LogicError("cuMemcpy failed: operation not permitted when stream is capturing")
        self.later(lambda: self.moved(dst, src, size, device))

    def moved(self, dst: int, src: int, size: int, device: int) -> None:
        ctypes.memmove(dst, src, size)

    def sort_of(self, address: int, size: int = 1) -> str:
        for begin, (length, sort) in self.ranges.items():
            if begin <= address and address + size <= begin + length:
                return sort
        return "unknown"


class Stream:
    handle = 0

    def __init__(self, driver: StandIn, flags: int) -> None:
        self.driver, self.flags = driver, flags

    def synchronize(self) -> None:
        self.driver.say("wait stream")

    def wait_for_event(self, event: Event) -> None:
        self.driver.say("stream waits")


class Event:
    def __init__(self, driver: StandIn, flags: int) -> None:
        self.driver, self.flags, self.at = driver, flags, 0.0

    def record(self, stream: Stream | None) -> None:
        self.driver.say("record")
        self.driver.clock_ms += 1.5
        self.at = self.driver.clock_ms

    def synchronize(self) -> None:
        self.driver.say("wait event")

    def time_since(self, other: Event) -> float:
        return self.at - other.at


class Raw:
    """`cuda.bindings.driver` as far as the runner uses it."""

    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_MEMORY_TYPE=1, CU_POINTER_ATTRIBUTE_IS_MANAGED=2)

    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1, CU_MEM_LOCATION_TYPE_HOST=2)
    CUmemLocation = SimpleNamespace
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
    CUmemcpyAttributes = SimpleNamespace
    CUmemcpySrcAccessOrder = SimpleNamespace(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM=1)
    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED=115)
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)
    CUstream = CUdeviceptr = cuuint64_t = staticmethod(int)
    CUDA_VERSION = 13_000

    def __init__(self, driver: StandIn) -> None:
        self.driver = driver
        self.managed: dict[int, Allocation] = {}

    def cuDevicePrimaryCtxSetFlags(self, ordinal: int, flags: int) -> tuple[int]:
        self.driver.say(f"context flags {flags}")
        return (0,)

    def cuPointerGetAttribute(self, attribute: int, address: int) -> tuple[int, int | None]:
        types = {"pinned": 1, "registered": 1, "device": 2, "managed": 1}
        sort = self.driver.sort_of(address)
        if sort not in types:
            return 1, None
        return 0, types[sort] if attribute == 1 else int(sort == "managed")

    def cuMemHostGetFlags(self, address: int) -> tuple[int, int | None]:
        if self.driver.sort_of(address) != "pinned":
            return 1, None
        return 0, self.driver.host_flags.get(address, 0)

    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> tuple[int, int]:
        self.driver.say("device pointer")
        return (0, address) if self.driver.sort_of(address) in ("pinned", "registered") else (1, 0)

    def cuMemAllocManaged(self, size: int, flags: int) -> tuple[int, int]:
        self.driver.say("allocate managed")
        allocation = Allocation(self.driver, "managed", size)
        self.managed[allocation.address] = allocation
        return 0, allocation.address

    def cuMemFree(self, address: int) -> tuple[int]:
        self.managed.pop(address).free()
        return (0,)

    def cuMemPrefetchAsync(self, address: int, size: int, location: Any, flags: int, stream: int) -> tuple[int]:
        self.driver.say("prefetch")
        self.driver.prefetched.append((location.type, location.id, size))
        return (0,) if self.driver.sort_of(address, size) == "managed" else (1,)

    def cuStreamBeginCapture(self, stream: int, mode: int) -> tuple[int]:
        self.driver.captured = []
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> tuple[int, list[Callable[[], None]] | None]:
        captured, self.driver.captured = self.driver.captured, None
        return 0, captured

    def cuGraphInstantiate(self, graph: list[Callable[[], None]], flags: int) -> tuple[int, list[Callable[[], None]]]:
        self.driver.say("instantiate")
        return 0, list(graph)

    def cuGraphUpload(self, graph: object, stream: int) -> tuple[int]:
        return (0,)

    def cuGraphDestroy(self, graph: list[Callable[[], None]]) -> tuple[int]:
        graph.clear()
        return (0,)

    def cuGraphExecDestroy(self, graph: list[Callable[[], None]]) -> tuple[int]:
        self.driver.say("destroy graph")
        graph.clear()
        return (0,)

    def cuGraphLaunch(self, graph: list[Callable[[], None]], stream: int) -> tuple[int]:
        self.driver.say("launch graph")
        for number, node in enumerate(graph, 1):
            self.driver.node = number
            node()
        self.driver.node = 0
        return (0,) if graph else (1,)

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, self.driver.version

    def cuMemcpyBatchAsync(
        self, to: list[int], source: list[int], sizes: list[int], count: int, attributes: list[Any], first: list[int],
        number: int, stream: int,
    ) -> tuple[int]:  # fmt: skip
        self.driver.say("copy batch")
        if (first, number, attributes[0].srcAccessOrder) != ([0], 1, 1) or not count == len(to) == len(source) == len(sizes):
            return (1,)
        for dst, src, size in zip(to, source, sizes, strict=True):
            self.driver.move(dst, src, size, device=dst if self.driver.sort_of(dst) == "device" else src)
        return (0,)

    def cuDeviceGetAttribute(self, attribute: int, ordinal: int) -> tuple[int, int]:
        return 0, self.driver.attributes["pools"]

    def cuDeviceGetMemPool(self, ordinal: int) -> tuple[int, str]:
        return 0, "pool"

    def cuMemPoolSetAttribute(self, pool: str, attribute: int, value: int) -> tuple[int]:
        self.driver.say(f"pool keeps {'all' if value else 'nothing'}")
        return (0,)

    def cuMemPoolTrimTo(self, pool: str, size: int) -> tuple[int]:
        self.driver.say("trim pool")
        return (0,)

    def cuMemAllocAsync(self, size: int, stream: int) -> tuple[int, int]:
        self.driver.say("pool allocate")
        if size > self.driver.mem_get_info()[0]:
            return 2, 0
        allocation = Allocation(self.driver, "device", size)
        self.managed[allocation.address] = allocation
        return 0, allocation.address

    def cuMemFreeAsync(self, address: int, stream: int) -> tuple[int]:
        self.driver.say("pool free")
        del self.driver.ranges[address], self.managed[address]
        return (0,)

    def cuGetErrorString(self, status: int) -> tuple[int, bytes]:
        return 0, b"invalid argument"

    def cuMemHostRegister(self, address: int, size: int, flags: int) -> tuple[int]:
        self.driver.say("register")
        self.driver.ranges[address] = (size, "registered")
        return (0,)

    def cuMemHostUnregister(self, address: int) -> tuple[int]:
        self.driver.say("unregister")
        del self.driver.ranges[address]
        return (0,)

    def cuEventCreate(self, flags: int) -> tuple[int, Event]:
        return 0, Event(self.driver, flags)

    def cuEventRecord(self, event: Event, stream: int) -> tuple[int]:
        event.record(None)
        return (0,)

    def cuEventSynchronize(self, event: Event) -> tuple[int]:
        event.synchronize()
        return (0,)

    def cuEventElapsedTime(self, begin: Event, end: Event) -> tuple[int, float]:
        return 0, end.time_since(begin)

    def cuStreamWaitEvent(self, stream: int, event: Event, flags: int) -> tuple[int]:
        self.driver.say("null stream waits" if stream == 0 else "stream waits")
        return (0,)

    def cuEventDestroy(self, event: Event) -> tuple[int]:
        self.driver.say("destroy event")
        return (0,)


class Module:
    """A loaded module whose kernels really do what they say; an address that no kernel may use is refused."""

    def __init__(self, driver: StandIn) -> None:
        self.driver = driver

    def get_function(self, name: str) -> Any:
        return SimpleNamespace(_launch_kernel=getattr(self, name))

    def words(self, address: int, words: int) -> Any:
        if self.driver.sort_of(address, 4 * words) == "unknown":
            raise LogicError("cuLaunchKernel failed: an illegal memory access was encountered")
        return np.ctypeslib.as_array((ctypes.c_uint32 * words).from_address(address))

    def increment(self, grid: Any, block: Any, packed: bytes, shared: int, stream: Any) -> None:
        self.driver.say("launch increment")
        words = self.words(*struct.unpack("=QQ", packed))

        def increment() -> None:
            words[:] += np.uint32(1)

        self.driver.later(increment)

    def pattern(self, grid: Any, block: Any, packed: bytes, shared: int, stream: Any) -> None:
        self.driver.say("launch pattern")
        address, words, step, first = struct.unpack("=QQII", packed)
        self.words(address, words)[:] = np.arange(words, dtype=np.uint32) * np.uint32(step) + np.uint32(first)

    def copy(self, grid: Any, block: Any, packed: bytes, shared: int, stream: Any) -> None:
        self.driver.say("launch copy")
        to, source, words = struct.unpack("=QQQ", packed)
        self.words(to, words)[:] = self.words(source, words)

    def read(self, grid: Any, block: Any, packed: bytes, shared: int, stream: Any) -> None:
        self.driver.say("launch read")
        self.words(*struct.unpack("=QQ", packed)).max()

    def busy(self, grid: Any, block: Any, packed: bytes, shared: int, stream: Any) -> None:
        self.driver.say(f"launch busy {struct.unpack('=Q', packed)[0]}")

    def gate(self, grid: Any, block: Any, packed: bytes, shared: int, stream: Any) -> None:
        self.driver.say("launch gate")


class Bench:
    """A context, kernels, pool and workers on a stand-in driver, and sessions opened on them."""

    def __init__(self, pool_bytes: int = 1 << 24) -> None:
        self.driver = StandIn()
        self.context = CudaContext(self.driver, Raw(self.driver), 0)
        self.kernels = Kernels(Module(self.driver), 4)
        self.pool = HostPool(pool_bytes)
        self.workers = DataWorkers(self.context, scratch_bytes=4096)
        self.closed: list[CudaSession] = []

    def open(self, plan: Plan, copying: CopierLibrary | None = None) -> CudaSession:
        return CudaSession(self.context, self.kernels, self.pool, self.workers, plan, self.closed.append, None, copying)

    def close(self) -> None:
        self.pool.clear()
        self.workers.close()
        self.context.close()


def address_of(view: Any) -> int:
    """Return where the bytes of a buffer lie."""
    return int(np.frombuffer(view, np.uint8).ctypes.data)
