"""Playing bound lanes: the timed loop, one thread of the host a lane, and what happens when a call fails in it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from operator import length_hint

from runner.device.cuda.resources import BoundLane

Failure = tuple[int, int, BaseException]
"""Lane, operation within the lane, and what it raised."""


def play_lanes(
    lanes: Sequence[BoundLane],
    current: Callable[[], AbstractContextManager[None]],
    start: threading.Barrier | None,
    unblock: Callable[[], None],
) -> Failure | None:
    """Play all lanes at once and return the first failure, None where all went well.

    One lane runs in this thread. Several run in threads of their own, each with the context made `current`, and begin together
    behind `start`. `unblock` is called when a lane fails, so that no other waits for it for ever; a keyboard interrupt is raised
    again when all threads have ended.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        if len(lanes) == 1:
            return _play_here(lanes[0], unblock)
        return _play_in_threads(lanes, current, start, unblock)
    finally:
        if collected:
            gc.enable()


def _play_here(lane: BoundLane, unblock: Callable[[], None]) -> Failure | None:
    failure = _play(0, lane)
    if failure is not None:
        unblock()
        if not isinstance(failure[2], Exception):
            raise failure[2]
    return failure


def _play(number: int, lane: BoundLane) -> Failure | None:
    """Make the calls of a lane in their order; this loop is what is timed."""
    calls = iter(lane.calls)
    try:
        for call in calls:
            call()
    except BaseException as error:
        # What is left in the iterator tells which call failed, so the loop need not count.
        return number, lane.owners[len(lane.calls) - length_hint(calls) - 1], error
    return None


def _play_in_threads(
    lanes: Sequence[BoundLane],
    current: Callable[[], AbstractContextManager[None]],
    start: threading.Barrier | None,
    unblock: Callable[[], None],
) -> Failure | None:
    failures: list[Failure] = []

    def work(number: int) -> None:
        try:
            with current():
                if start is not None:
                    start.wait()
                failure = _play(number, lanes[number])
        except BaseException as error:
            failure = (number, 0, error)
        if failure is not None:
            failures.append(failure)
            unblock()

    threads = [threading.Thread(target=work, args=(number,), name=f"dmalab-lane-{number}") for number in range(len(lanes))]
    for thread in threads:
        thread.start()
    interrupted = _join(threads, unblock)
    if interrupted is not None:
        raise interrupted
    if not failures:
        return None
    # A broken barrier is what the lanes see that did nothing wrong.
    return next((failure for failure in failures if not isinstance(failure[2], threading.BrokenBarrierError)), failures[0])


def _join(threads: Sequence[threading.Thread], unblock: Callable[[], None]) -> BaseException | None:
    """Wait for all threads, also when Ctrl-C comes meanwhile: they use memory that is freed after them."""
    interrupted: BaseException | None = None
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as error:
                interrupted = error
                unblock()
    return interrupted
