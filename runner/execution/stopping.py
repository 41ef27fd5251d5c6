"""Ending a run before its time: the first Ctrl-C or SIGTERM lets the sample under way end, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StoppedAtOnce(KeyboardInterrupt):
    """Somebody would not wait: nothing more is written, and the journal is as good as it was."""


class Stop:
    """Whether somebody wants the run to end."""

    def __init__(self) -> None:
        self.asked = False

    def check(self) -> None:
        """Raise KeyboardInterrupt where somebody wants the run to end; call it where nothing is lost by that."""
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def stoppable(tell: Callable[[], None]) -> Iterator[Stop]:
    """Note the first signal of SIGNALS in a Stop and `tell` of it; the second raises StoppedAtOnce wherever the run is.

    Only the main thread of a process can do that; in another one signals are what they were.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise StoppedAtOnce("stopped at once, without tables; the same command with --resume goes on from the journal")
        stop.asked = True
        with suppress(RuntimeError):  # the signal came in the middle of printing
            tell()

    before = {each: signal.signal(each, note) for each in SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
