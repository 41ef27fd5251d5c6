"""What the processor itself does in a lane: copying between host buffers, and reading, writing or adding to words in place.

Every loop is NumPy's, which lets go of the interpreter's lock in it, so that several threads share one piece of work. Reading is
a maximum over all words: it needs each of them, depends on none of their values, and NumPy has vector code for it, which keeps
one core closer to the rate of its memory than a sum or an exclusive or does.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier as ThreadBarrier
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from runner.pattern import Bytes
from runner.plan import HostAccess, HostCopy, Plan

CACHE_LINE: Final = 64

Words = npt.NDArray[np.uint32]
Touch = Callable[[Words], object]
"""Does what an access asks for to a stretch of words."""

_ONE: Final = np.uint32(1)


def make_helpers(plan: Plan, *, copies: bool = True) -> ThreadPoolExecutor | None:
    """Start the threads that host work shares, as many as all lanes can use at once; None where one thread does it.

    Without `copies` they are for work in place alone: whoever copies has threads of its own.
    """
    shared = (HostCopy, HostAccess) if copies else (HostAccess,)
    helpers = sum(
        max((operation.threads - 1 for operation in lane if isinstance(operation, shared)), default=0) for lane in plan.lanes
    )
    if not helpers:
        return None
    pool = ThreadPoolExecutor(helpers, thread_name_prefix="dmalab-host")
    together = ThreadBarrier(helpers + 1)
    # A pool starts threads as work arrives; nobody may start inside the timed region.
    started = [pool.submit(together.wait) for _ in range(helpers)]
    together.wait()
    for job in started:
        job.result()
    return pool


def copy_call(helpers: ThreadPoolExecutor | None, dst: Bytes, src: Bytes, threads: int) -> Callable[[], object]:
    """Return the ready call that copies `src` to `dst` by `threads` threads."""
    if threads == 1:
        # np.copyto and memmove end in the same memmove without the interpreter's lock; copyto also knows its bounds.
        return partial(np.copyto, dst, src)
    pieces = [(dst[begin:end], src[begin:end]) for begin, end in cut(len(dst), threads)]
    return partial(_share, helpers, np.copyto, pieces)


def access_call(helpers: ThreadPoolExecutor | None, touch: Touch, target: Bytes, threads: int) -> Callable[[], object]:
    """Return the ready call that does `touch` to the words of `target`, a multiple of 4 bytes, by `threads` threads."""
    words = target.view(np.uint32)
    if threads == 1:
        return partial(touch, words)
    pieces = [(words[begin // 4 : end // 4],) for begin, end in cut(len(target), threads)]
    return partial(_share, helpers, touch, pieces)


def read_words(words: Words) -> None:
    """Read every word."""
    np.maximum.reduce(words)


def increment_words(words: Words) -> None:
    """Add 1 to every word, wrapping."""
    np.add(words, _ONE, out=words)


class WordWriter:
    """Writes one word everywhere; `word` changes with each play."""

    def __init__(self) -> None:
        self._word = np.zeros((), dtype=np.uint32)

    def set(self, word: int) -> None:
        """Say which word is written from now on."""
        self._word[...] = word

    def __call__(self, words: Words) -> None:
        """Write it over all of `words`."""
        np.copyto(words, self._word)


def cut(size: int, threads: int) -> list[tuple[int, int]]:
    """Cut a size into (begin, end) of one piece a thread, at whole cache lines; fewer where there are not enough."""
    step = -(-size // threads)
    step = max(CACHE_LINE, -(-step // CACHE_LINE) * CACHE_LINE)
    return [(begin, min(begin + step, size)) for begin in range(0, size, step)]


def _share(helpers: ThreadPoolExecutor | None, work: Callable[..., object], pieces: list[tuple[Any, ...]]) -> None:
    """Do the first piece here and the others in the pool's threads; return when all are done."""
    pool = cast(ThreadPoolExecutor, helpers)
    others = [pool.submit(work, *piece) for piece in pieces[1:]]
    work(*pieces[0])
    for job in others:
        job.result()
