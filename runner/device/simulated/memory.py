"""The memory of a simulated session: what is allocated, what lies in it, and what its kinds cost."""

from __future__ import annotations

from runner.device.simulated.contents import Contents
from runner.device.simulated.profile import Curve, Kind, Profile
from runner.errors import CaseFailed, CaseUnsupported
from runner.memory import kind_of
from runner.plan import Alloc, Fill, Free, Operation, Plan, Register, Unregister
from runner.units import format_size


class Memory:
    """The buffers of one Plan."""

    def __init__(self, profile: Profile, plan: Plan) -> None:
        self.profile, self.buffers = profile, plan.buffers
        self.contents = [Contents(buffer.size) for buffer in plan.buffers]
        self.kinds = [self._kind(buffer.memory) for buffer in plan.buffers]
        self.direct = [buffer.on_device or kind_of(buffer.memory).asynchronous for buffer in plan.buffers]
        self.faults = [not (buffer.on_device or kind_of(buffer.memory).page_locked) for buffer in plan.buffers]
        self.held_bytes = 0
        self._times: dict[tuple[int, int], int] = {}

    def apply(self, operations: tuple[Operation, ...], sample: int) -> None:
        """Do operations whose time nobody asks for."""
        for operation in operations:
            match operation:
                case Fill(buffer=buffer, offset=offset, size=size, salt=salt):
                    self.contents[buffer].fill(offset, size, salt, sample)
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
        """Allocate a buffer with untouched pages; return the ns it takes. Raises CaseFailed where the device is full."""
        size = self.buffers[buffer].size
        if self.buffers[buffer].on_device:
            free = self.profile.memory_bytes.value - self.held_bytes
            if size > free:
                raise CaseFailed(
                    f"{format_size(size)} of device memory for buffer {self.buffers[buffer].name} was refused; this case already "
                    f"holds {format_size(self.held_bytes)} of it, the device has {format_size(free)} free"
                )
            self.held_bytes += size
        self.contents[buffer] = Contents(size)
        return self.ns(self.kinds[buffer].allocate, size)

    def free(self, buffer: int) -> int:
        """Free a buffer; return the ns it takes. What lay in it stays visible to work that wrongly still reads it."""
        size = self.buffers[buffer].size
        if self.buffers[buffer].on_device:
            self.held_bytes -= size
        return self.ns(self.kinds[buffer].free, size)

    def register(self, buffer: int) -> int:
        """Page-lock a buffer in place; return the ns it takes."""
        self.kinds[buffer] = self.profile.registered
        self.direct[buffer], self.faults[buffer] = True, False
        return self.ns(self.profile.registered.allocate, self.buffers[buffer].size)

    def unregister(self, buffer: int) -> int:
        """Undo `register`; return the ns it takes."""
        kind = kind_of(self.buffers[buffer].memory)
        self.kinds[buffer] = self._kind(self.buffers[buffer].memory)
        self.direct[buffer], self.faults[buffer] = kind.asynchronous, not kind.page_locked
        return self.ns(self.profile.registered.free, self.buffers[buffer].size)

    def touch_ns(self, buffer: int, offset: int, size: int, threads: int) -> int:
        """Return the ns of page faults that writing a range costs; threads share them evenly."""
        if not self.faults[buffer]:
            return 0
        untouched = self.contents[buffer].untouched(offset, size)
        host = self.profile.host
        pages = -(-untouched // host.page_bytes.value)
        return -(-pages * host.first_touch_ns.value // threads)

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
            buffer.memory if buffer.on_device else "pinned" if kind is self.profile.registered else _answer(buffer.memory)
            for buffer, kind in zip(self.buffers, self.kinds, strict=True)
        )

    def _kind(self, name: str) -> Kind:
        kind = self.profile.kinds.get(name)
        if kind is None:
            raise CaseUnsupported(f"profile {self.profile.name!r} knows no {name} memory, only {', '.join(self.profile.kinds)}")
        return kind


def _answer(name: str) -> str:
    return min(kind_of(name).driver_says)
