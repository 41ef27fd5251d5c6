"""The memory of one session: allocated, asked about, and freed in time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from runner.device.cuda.driver import CudaContext, abandon
from runner.device.cuda.memory import ALLOCATE, Region
from runner.device.cuda.ordered import OrderedPool
from runner.device.cuda.pages import map_pages
from runner.device.cuda.pool import HostPool
from runner.errors import CaseFailed
from runner.memory import DEVICE, kind_of
from runner.placement import node_of_pages
from runner.plan import Buffer
from runner.units import about_size, format_size

PROBE_BYTES: Final = 64 << 20
"""How much of a buffer is tried beforehand on huge pages where the buffer itself must not be touched."""


class SessionMemory:
    """The buffers of one Plan: allocated, asked about, and freed."""

    def __init__(self, context: CudaContext, pool: HostPool, buffers: tuple[Buffer, ...]) -> None:
        self._context, self._pool, self._buffers = context, pool, buffers
        self._regions: list[Region | None] = [None] * len(buffers)
        self._pooled: set[int] = set()
        self._registered: set[int] = set()
        self._ordered: OrderedPool | None = None
        self.facts = [""] * len(buffers)
        self.numa_nodes: list[int | None] = [None] * len(buffers)

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

    def device_address(self, index: int) -> int:
        """Return where a kernel finds a buffer; for pageable memory its own address, as a program would hand it over."""
        region = self.region(index)
        if region.array is None or not (kind_of(region.kind).page_locked or index in self._registered):
            return region.address
        return self._context.device_pointer(region.address)

    def allocate(self, index: int, *, pooled: bool = False, prove: bool = False) -> None:
        """Allocate a buffer; `pooled` host memory may come from an earlier session and goes back to it.

        `prove` touches huge pages and counts them. Raises CaseFailed with the figures where the memory is refused or is not of
        its kind by the driver's own word, CaseUnsupported where this machine has no such memory.
        """
        buffer = self._buffers[index]
        # Memory that migrates would keep a part of the device's own memory, where it was last used.
        pooled = pooled and not buffer.on_device and not kind_of(buffer.memory).migrates
        region = self._pool.take(buffer.memory, buffer.size, buffer.pages) if pooled else None
        if region is None:
            region = self._fresh(index, prove)
        self._regions[index] = region
        if pooled:
            self._pooled.add(index)
        if not self.facts[index]:
            self.ask(index)

    def try_huge_pages(self, index: int) -> None:
        """For a buffer that is allocated while the clock runs: raise CaseUnsupported where the system gives no huge pages."""
        buffer = self._buffers[index]
        if buffer.pages == "huge":
            map_pages(min(buffer.size, PROBE_BYTES), buffer.pages, prove=True)

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

    def use_ordered_pool(self) -> None:
        """Make the device's pool ready; raises CaseUnsupported where it has none."""
        self._ordered = OrderedPool(self._context)

    def allocate_ordered(self, index: int, stream: Any) -> None:
        """Allocate a buffer from the device's pool in the order of a stream; raises CaseFailed with the figures."""
        assert self._ordered is not None, "the pool is made ready before anything is timed"
        size = self._buffers[index].size
        try:
            address = self._ordered.allocate(size, stream)
        except self._context.cuda.Error as error:
            raise CaseFailed(self.refusal(index, f"{DEVICE} pool", error)) from error
        self._regions[index] = Region(DEVICE, size, address, None, None, partial(self._context.free_managed, address))
        if not self.facts[index]:
            self.ask(index)

    def free_ordered(self, index: int, stream: Any) -> None:
        """Give a buffer back to the device's pool in the order of a stream."""
        assert self._ordered is not None, "the pool is made ready before anything is timed"
        region, self._regions[index] = self.region(index), None
        self._ordered.free(region.address, stream)

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
        """Ask again about every buffer that is allocated now, and where on the host its pages lie."""
        for index, region in enumerate(self._regions):
            self.ask(index)
            if region is not None and region.array is not None:
                self.numa_nodes[index] = node_of_pages(region.address, region.size)

    def close(self) -> None:
        """Free everything that is still held; the caller has waited for all work. On a lost context nothing can be freed."""
        for index in range(len(self._regions)):
            if not self._context.lost:
                self.free(index)
            elif self._regions[index] is not None:
                abandon(self._regions[index])
                self._regions[index] = None
        if self._ordered is not None:
            self._ordered.close()
            self._ordered = None

    def _fresh(self, index: int, prove: bool) -> Region:
        buffer = self._buffers[index]
        allocate = ALLOCATE[buffer.memory]
        try:
            return allocate(self._context, buffer, prove)
        except (self._context.cuda.Error, MemoryError, OSError, OverflowError, ValueError) as first:
            self._pool.clear()
            try:
                return allocate(self._context, buffer, prove)
            except (self._context.cuda.Error, MemoryError, OSError, OverflowError, ValueError):
                raise CaseFailed(self.refusal(index, buffer.memory, first)) from first

    def refusal(self, index: int, what: str, error: Exception) -> str:
        """Say that a buffer was refused, with what is held and what is free; `what` is the memory that was asked for."""
        buffer = self._buffers[index]
        return (
            f"{format_size(buffer.size)} of {what} memory for buffer {buffer.name} was refused ({error}); this case "
            f"already holds {format_size(self.held_bytes)}, the device has {about_size(self._context.free_bytes())} free"
        )
