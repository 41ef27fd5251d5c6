"""What the buffers of a Plan hold of the device's memory, of the host's, and of what a process may lock."""

from __future__ import annotations

from runner.device.simulated.profile import Profile
from runner.errors import CaseFailed
from runner.memory import kind_of
from runner.plan import Plan
from runner.units import about_size, format_size


class Held:
    """The buffers that are allocated now, and which of them are page-locked; what is too much is refused with the figures."""

    def __init__(self, profile: Profile, plan: Plan) -> None:
        self.buffers = plan.buffers
        self.on_host: set[int] = set()
        self.locked: set[int] = set()
        self._on_device: set[int] = set()
        self._device_bytes, self._host_bytes = profile.memory_bytes.value, profile.host.memory_bytes.value
        self._lock_limit = plan.memlock_bytes if profile.host.lock_limit_kept.value else None
        self._pins_counted = profile.host.pins_counted.value

    def take(self, buffer: int) -> None:
        """Note that a buffer is allocated; raises CaseFailed where the memory does not suffice."""
        it = self.buffers[buffer]
        side, whole, which = (
            (self._on_device, self._device_bytes, "device") if it.on_device else (self.on_host, self._host_bytes, "host")
        )
        held = self._bytes(side)
        if it.size > whole - held:
            self._refuse(buffer, it.memory, f"{format_size(held)} of it, the {which} has {about_size(whole - held)} free")
        if not it.on_device and kind_of(it.memory).page_locked:
            self.lock(buffer)
        side.add(buffer)

    def give(self, buffer: int) -> None:
        """Note that a buffer is freed."""
        for held in (self.on_host, self.locked, self._on_device):
            held.discard(buffer)

    def lock(self, buffer: int) -> None:
        """Note that a buffer is page-locked; raises CaseFailed beyond what the process may lock, where that is respected."""
        held = self._bytes(self.locked)
        if self._lock_limit is not None and held + self.buffers[buffer].size > self._lock_limit:
            self._refuse(buffer, "page-locked", f"{format_size(held)} of it, the process may lock {about_size(self._lock_limit)}")
        self.locked.add(buffer)

    def locked_bytes(self) -> int:
        """Return the bytes of page-locked memory that the system knows of."""
        return self._bytes(self.locked) if self._pins_counted else 0

    def _bytes(self, buffers: set[int]) -> int:
        return sum(self.buffers[buffer].size for buffer in buffers)

    def _refuse(self, buffer: int, what: str, figures: str) -> None:
        it = self.buffers[buffer]
        raise CaseFailed(
            f"{format_size(it.size)} of {what} memory for buffer {it.name} was refused; this case already holds {figures}"
        )
