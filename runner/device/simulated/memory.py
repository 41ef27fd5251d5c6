"""The memory of a simulated session: what is allocated, what lies in it and on which side, and what its kinds cost."""

from __future__ import annotations

from typing import Final

from runner.device.simulated.contents import Contents
from runner.device.simulated.held import Held
from runner.device.simulated.places import Places
from runner.device.simulated.profile import PER_MILLION, Kind, Profile
from runner.device.simulated.profile_values import Curve, Flag
from runner.errors import CaseUnsupported
from runner.memory import KINDS, kind_of
from runner.plan import Access, Alloc, Fill, Free, Operation, Plan, Prefetch, Register, Unregister

REGISTERED: Final = next(row.name for row in KINDS.values() if row.registers)
"""The kind that ordinary memory is once it is page-locked where it lies."""


class Memory:
    """The buffers of one Plan."""

    def __init__(self, profile: Profile, plan: Plan) -> None:
        self.profile, self.buffers = profile, plan.buffers
        self.contents = [Contents(buffer.size) for buffer in plan.buffers]
        self.kinds = [self._kind(buffer.memory) for buffer in plan.buffers]
        self.direct = [buffer.on_device or kind_of(buffer.memory).asynchronous for buffer in plan.buffers]
        self.copies_wait = [_yes(kind.copies_wait) for kind in self.kinds]
        self.faults = [not (buffer.on_device or kind_of(buffer.memory).page_locked) for buffer in plan.buffers]
        self.places = [
            None if buffer.on_device or not kind_of(buffer.memory).migrates else Places(buffer.size) for buffer in plan.buffers
        ]
        # Kernels find these in the device's own memory, at once or after their pages have come.
        self.near = [buffer.on_device or kind_of(buffer.memory).migrates for buffer in plan.buffers]
        self.copied_ppm = self._copied_ppm(several=plan.host_threads() > 1)
        self.registered: set[int] = set()
        self.held = Held(profile, plan)
        self._times: dict[tuple[int, int], int] = {}
        engines, far = profile.engines, profile.in_place
        self._near: dict[Access, Curve] = {
            "read": engines.kernel_read,
            "write": engines.kernel_write,
            "increment": engines.kernel,
        }
        self._far: dict[Access, Curve] = {"read": far.read, "write": far.write, "increment": far.increment}

    def apply(self, operations: tuple[Operation, ...], sample: int) -> None:
        """Do operations whose time nobody asks for."""
        for operation in operations:
            match operation:
                case Fill(buffer=buffer, offset=offset, size=size, salt=salt):
                    self.contents[buffer].fill(offset, size, salt, sample)
                    self.fault_back_ns(buffer, offset, size)
                case Prefetch():
                    self.prefetch_ns(operation)
                case Alloc(buffer=buffer):
                    self.allocate(buffer)
                case Free(buffer=buffer):
                    self.free(buffer)
                case Register(buffer=buffer):
                    self.register(buffer)
                case Unregister(buffer=buffer):
                    self.unregister(buffer)
                case _:
                    raise AssertionError("the check of the Plan lets nothing else stand outside the lanes")

    def allocate(self, buffer: int) -> int:
        """Allocate a buffer with untouched pages; return the ns it takes. Raises CaseFailed where the memory does not suffice.

        A kind that registers is mapped, touched and page-locked here.
        """
        it = self.buffers[buffer]
        self.held.take(buffer)
        self._forget(buffer)
        time = self.ns(self.kinds[buffer].allocate, it.size)
        if not it.on_device and kind_of(it.memory).registers:
            time += self._pages_ns(buffer, it.size) + self._lock_ns(buffer)
        return time

    def free(self, buffer: int) -> int:
        """Free a buffer; return the ns it takes. Work that still reads it finds pages that nobody has written."""
        it = self.buffers[buffer]
        time = self.unregister(buffer) if buffer in self.registered else 0
        if not it.on_device and kind_of(it.memory).registers:
            time += self._unlock_ns(buffer)
        self.held.give(buffer)
        self._forget(buffer)
        kind = self.kinds[buffer]
        return time + self.ns(kind.free_huge if kind.free_huge is not None and it.pages == "huge" else kind.free, it.size)

    def free_waits(self, buffer: int) -> bool:
        """Whether freeing a buffer waits for all work of the device, so that no work can still use it."""
        return _yes(self.kinds[buffer].free_waits)

    def register(self, buffer: int) -> int:
        """Page-lock a buffer in place, which touches its pages; return the ns it takes. Raises CaseFailed beyond a limit."""
        self.held.lock(buffer)
        time = self.touch_ns(buffer, 0, self.buffers[buffer].size, 1) + self._lock_ns(buffer)
        self.contents[buffer].touch()
        self.registered.add(buffer)
        self.kinds[buffer] = self._kind(REGISTERED)
        self.direct[buffer], self.faults[buffer] = True, False
        return time

    def unregister(self, buffer: int) -> int:
        """Undo `register`; return the ns it takes."""
        kind = kind_of(self.buffers[buffer].memory)
        self.registered.remove(buffer)
        self.held.locked.discard(buffer)
        self.kinds[buffer] = self._kind(self.buffers[buffer].memory)
        self.direct[buffer], self.faults[buffer] = kind.asynchronous, not kind.page_locked
        return self._unlock_ns(buffer)

    def process_bytes(self) -> tuple[int, int]:
        """Return the resident bytes, of whole pages, and the locked ones that a system would count of the process."""
        page_bytes = self.profile.host.page_bytes.value
        resident = 0
        for buffer in self.held.on_host:
            size = self.buffers[buffer].size
            there = size - self.contents[buffer].untouched(0, size) if self.faults[buffer] else size
            resident += -(-there // page_bytes) * page_bytes
        return resident, self.held.locked_bytes()

    def touch_ns(self, buffer: int, offset: int, size: int, threads: int) -> int:
        """Return the ns of page faults that writing a range costs; threads share them evenly."""
        if not self.faults[buffer]:
            return 0
        return -(-self._pages_ns(buffer, self.contents[buffer].untouched(offset, size)) // threads)

    def staged_touch_ns(self, buffer: int, offset: int, size: int) -> int:
        """Return the ns of page faults that a driver's copy into a range costs, which may be more than the processor's own."""
        page = self.profile.staging.fresh_page_ns
        if page is None or self.buffers[buffer].pages != "normal" or not self.faults[buffer]:
            return self.touch_ns(buffer, offset, size, 1)
        return -(-self.contents[buffer].untouched(offset, size) // self.profile.host.page_bytes.value) * page.value

    def start_ns(self, threads: int) -> int:
        """Return the ns that several threads take to begin and end a piece of work together."""
        table = self.profile.host.start_ns
        return 0 if table is None or threads == 1 else table.ns(threads)

    def read_delay_ns(self, buffer: int, offset: int, size: int, threads: int) -> int:
        """Return the ns by which the processor reads a range later than from ordinary memory."""
        slow = self.kinds[buffer].cpu_read
        delay = -(-self.ns(slow, size) // threads) if slow is not None else 0
        return delay if self.places[buffer] is None else delay + self.fault_back_ns(buffer, offset, size)

    def write_delay_ns(self, buffer: int, offset: int, size: int, threads: int) -> int:
        """Return the ns by which the processor writes a range later than pages that it had touched."""
        delay = self.touch_ns(buffer, offset, size, threads) if self.faults[buffer] else 0
        return delay if self.places[buffer] is None else delay + self.fault_back_ns(buffer, offset, size)

    def fault_in_ns(self, buffer: int, offset: int, size: int) -> int:
        """Move what lies with the host or nowhere to the device, as a kernel touches it; return the ns that takes."""
        places, migration = self.places[buffer], self.profile.migration
        if places is None:
            return 0
        moved, fresh = places.move(offset, size, to_device=True)
        return (self.ns(migration.fault_h2d, moved) if moved else 0) + (self.ns(migration.fresh_device, fresh) if fresh else 0)

    def fault_back_ns(self, buffer: int, offset: int, size: int) -> int:
        """Move what lies on the device to the host, page by page as the processor touches it; return the ns that takes."""
        places = self.places[buffer]
        moved = 0 if places is None else places.move(offset, size, to_device=False)[0]
        return self.ns(self.profile.migration.fault_d2h, moved) if moved else 0

    def prefetch_ns(self, operation: Prefetch) -> tuple[int, int]:
        """Move a range to where it is wanted; return the ns that its engine takes, and those that its call takes longer."""
        places, to_device, migration = self.places[operation.buffer], operation.to == "device", self.profile.migration
        moved = 0 if places is None else places.move(operation.offset, operation.size, to_device=to_device)[0]
        if to_device:
            return self.ns(migration.prefetch_h2d, moved), self.ns(migration.prefetch_held_h2d, moved)
        return self.ns(migration.prefetch_d2h, moved), self.ns(migration.prefetch_held_d2h, moved)

    def reachable(self, buffer: int) -> bool:
        """Whether a kernel may use a buffer as it is now."""
        it = self.buffers[buffer]
        return it.on_device or kind_of(it.memory).kernel_access or buffer in self.registered or self.profile.pageable_access.value

    def kernel_ns(self, buffer: int, access: Access, size: int) -> int:
        """Return the ns of one pass of a kernel over bytes of a buffer: in the device's memory, or else over the link."""
        return self.ns((self._near if self.near[buffer] else self._far)[access], size)

    def kernel_copy_ns(self, host_buffer: int, upload: bool, size: int) -> int:
        """Return the ns of a copy by a kernel between a host buffer and the device."""
        far = self.profile.in_place
        return self.ns(self._near["increment"] if self.near[host_buffer] else far.copy_h2d if upload else far.copy_d2h, size)

    def copy_ns(self, host_buffer: int, upload: bool, size: int) -> int:
        """Return the engine's ns for a copy from or to a host buffer, as its memory is now."""
        kind = self.kinds[host_buffer]
        curve = kind.h2d if upload else kind.d2h
        if curve is None:
            raise CaseUnsupported(
                f"profile {self.profile.name!r} does not say how fast {self.buffers[host_buffer].memory} memory is copied"
            )
        return self.ns(curve, size)

    def ns(self, curve: Curve, size: int) -> int:
        """Return `curve.ns(size)`, from memory where a case asks again."""
        key = (id(curve), size)
        time = self._times.get(key)
        if time is None:
            time = self._times[key] = curve.ns(size)
        return time

    def driver_says(self) -> tuple[str, ...]:
        """Return what a driver would answer about each buffer."""
        return tuple(
            buffer.memory if buffer.on_device else _answer(REGISTERED if index in self.registered else buffer.memory)
            for index, buffer in enumerate(self.buffers)
        )

    def _copied_ppm(self, *, several: bool) -> int:
        """Return the work of copying a byte into or out of page-locked memory, which depends on how much of it is used.

        `several` tells that more than one thread of the host is at work.
        """
        locked = sum(it.size for it in self.buffers if not it.on_device and kind_of(it.memory).page_locked)
        host = self.profile.host
        table = (host.shared_stager_ppm if several else None) or host.stager_ppm
        return PER_MILLION if table is None else table.ppm(locked)

    def _forget(self, buffer: int) -> None:
        size = self.buffers[buffer].size
        self.contents[buffer] = Contents(size)
        if self.places[buffer] is not None:
            self.places[buffer] = Places(size)

    def _pages_ns(self, buffer: int, size: int) -> int:
        """Return the ns in which one thread touches fresh pages of a buffer for the first time."""
        host, huge = self.profile.host, self.buffers[buffer].pages == "huge"
        page_bytes = (host.huge_page_bytes if huge else host.page_bytes).value
        return -(-size // page_bytes) * (host.huge_first_touch_ns if huge else host.first_touch_ns).value

    def _lock_ns(self, buffer: int) -> int:
        it = self.buffers[buffer]
        return self.ns(self.profile.registration[it.pages].lock, it.size)

    def _unlock_ns(self, buffer: int) -> int:
        it = self.buffers[buffer]
        return self.ns(self.profile.registration[it.pages].unlock, it.size)

    def _kind(self, name: str) -> Kind:
        kind = self.profile.kinds.get(name)
        if kind is None:
            raise CaseUnsupported(f"profile {self.profile.name!r} knows no {name} memory, only {', '.join(self.profile.kinds)}")
        return kind


def _yes(flag: Flag | None) -> bool:
    return flag is not None and flag.value


def _answer(name: str) -> str:
    return min(kind_of(name).driver_says)
