"""Gates: a stream held by a kernel that looks at a word of mapped host memory until the host writes it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from runner.device.cuda.driver import CudaContext, abandon
from runner.device.cuda.kernels import Call, Kernels

_WORDS_APART: Final = 32
"""Each word has a cache line of 128 bytes to itself, so that a release wakes nobody else's."""


class Gates:
    """The flags of all gates of a Plan; the memory is there only where the Plan has gates."""

    def __init__(self, context: CudaContext, kernels: Kernels, count: int) -> None:
        self._context, self._kernels, self._count = context, kernels, count
        self._words: Any = None
        self._address = 0
        if count:
            flags = context.cuda.host_alloc_flags.DEVICEMAP
            self._words = context.cuda.pagelocked_empty(2 * count * _WORDS_APART, np.uint32, mem_flags=flags)
            self._address = int(self._words.base.get_device_pointer())
            self.open_all()

    def hold(self, gate: int, stream: Any) -> Call:
        """Return a ready launch that holds a stream."""
        return self._kernels.gate(self._at(2 * gate), self._at(2 * gate + 1), stream)

    def open_call(self, gate: int) -> Call:
        """Return a ready call that opens a gate."""
        place = 2 * gate * _WORDS_APART
        return partial(self._words[place : place + 1].fill, 1)

    def shut_all(self) -> None:
        """Make all gates ready for a play."""
        if self._count:
            self._words.fill(0)

    def open_all(self) -> None:
        """Open all gates, so that nothing waits for a host that has failed."""
        if self._count:
            self._words[:: 2 * _WORDS_APART] = 1

    def timed_out(self) -> bool:
        """Whether a gate opened by its limit in the last play."""
        return bool(self._count) and bool(self._words[_WORDS_APART :: 2 * _WORDS_APART].any())

    def close(self) -> None:
        """Free the flags; all work has been waited for."""
        words, self._words, self._count = self._words, None, 0
        if words is None:
            return
        if self._context.lost:
            abandon(words)
        else:
            words.base.free()

    def _at(self, word: int) -> int:
        return self._address + 4 * word * _WORDS_APART
