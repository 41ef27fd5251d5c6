"""Where the pages of a migrating buffer lie: with the host, on the device, or nowhere until somebody touches them."""

from __future__ import annotations

from typing import Final

from runner.device.simulated.contents import UNTOUCHED, Contents

_HOST: Final = 0
_DEVICE: Final = 1


class Places:
    """The sides of one buffer, byte by byte, kept as its contents are: a side is a salt.

    An engine's copy leaves pages where they are. Ranges change sides in the order in which operations on them are issued, which
    for a Plan without races is the order in which they happen.
    """

    __slots__ = ("_sides",)

    def __init__(self, size: int) -> None:
        self._sides = Contents(size)

    def move(self, offset: int, size: int, *, to_device: bool) -> tuple[int, int]:
        """Let a range lie on one side; return how many bytes have to come from the other, and how many lay nowhere."""
        wanted = _DEVICE if to_device else _HOST
        pieces = self._sides.read(offset, size)
        ends = [start for start, _ in pieces[1:]] + [size]
        moved = fresh = 0
        for (start, tag), end in zip(pieces, ends, strict=True):
            if tag == UNTOUCHED:
                fresh += end - start
            elif tag[0] != wanted:
                moved += end - start
        self._sides.fill(offset, size, wanted, 0)
        return moved, fresh
