"""Host memory kept between sessions, since pinning costs half a second a GiB."""

from __future__ import annotations

from typing import Final

from runner.device.cuda.driver import abandon
from runner.device.cuda.memory import Region

POOL_BYTES: Final = 1 << 30
"""What the pool keeps at most: without one, a grid would spend its time on allocating."""


class HostPool:
    """Host memory kept between sessions, the longest unused given back first."""

    def __init__(self, limit_bytes: int = POOL_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: list[Region] = []

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept for later."""
        return sum(region.size for region in self._kept)

    def take(self, kind: str, size: int, pages: str = "normal") -> Region | None:
        """Return a kept region of exactly this kind, size and sort of pages, None where there is none."""
        for place in range(len(self._kept) - 1, -1, -1):
            kept = self._kept[place]
            if (kept.kind, kept.size, kept.pages) == (kind, size, pages):
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
