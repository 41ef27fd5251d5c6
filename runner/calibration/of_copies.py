"""Which cases tell what copies and their calls take, and what lies between the operations of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from runner.calibration.cases import HALF, Cases, Found, is_plain, pair, reached, witness
from runner.calibration.simulator import Witness
from runner.observed import Observation
from runner.scenarios.blocking import Blocking
from runner.scenarios.concurrency import Concurrency
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.submission import Submission
from runner.scenarios.transfer import Transfer

SUBMITTED: Final[dict[str, str]] = {"copy": "copy_ns", "launch": "launch_ns", "record": "record_ns"}
LEAST_CALLS: Final = 100
"""Calls in a row from which on their mean says what one costs; a few are cold."""
SMALL_BYTES: Final = 65536
"""Kernels and copies up to this size hide behind the calls that start them."""
MIDDLING_BYTES: Final = 16 * SMALL_BYTES
"""Copies up to this size are so short that what a pair of events adds to them can be seen."""


def calls(cases: Cases) -> Iterator[Found]:
    """Yield what many calls in a row take each."""
    for model, observation in cases.of(Submission, lambda it: it.count >= LEAST_CALLS and it.size <= SMALL_BYTES):
        if model.operation in SUBMITTED:
            yield from pair(("calls", SUBMITTED[model.operation]), None, model, observation, "call_us")


def engine_copies(cases: Cases) -> Iterator[Found]:
    """Yield each kind's copies, by the engine's own time where plays were recorded, else by events."""
    for model, observation in cases.single():
        if reached(model.buffer):
            figure = "engine_ms" if "engine_ms" in observation.figures else "event_ms"
            yield from pair(("kinds", model.buffer, model.direction), model.size, model, observation, figure)


def copies_in_a_row(cases: Cases) -> Iterator[Witness]:
    """Yield many small copies to the device in a row, by the time in which their engine worked."""
    for model, observation in cases.of(Submission, lambda it: it.operation == "copy" and it.count >= LEAST_CALLS):
        if model.size <= SMALL_BYTES and "engine_busy_ms" in observation.figures and reached(model.buffer):
            yield witness(model, observation, "engine_busy_ms")


def least_in_a_row_ns(cases: Cases) -> float | None:
    """Return what such a copy took on the average: a fit must begin where the least time shows."""
    models = cases.of(Submission, lambda it: it.operation == "copy" and it.count >= LEAST_CALLS)
    return max((each.figures.get("engine_busy_ms", 0.0) * 1e6 / model.count for model, each in models), default=None)


def pairs_of_events(cases: Cases) -> Iterator[Witness]:
    """Yield middling copies by events, which the engine's time is known of: what is more is what events add."""
    for model, observation in cases.single():
        if reached(model.buffer) and SMALL_BYTES <= model.size <= MIDDLING_BYTES and "engine_ms" in observation.figures:
            yield witness(model, observation, "event_ms")


def beyond_engine_ns(cases: Cases) -> float | None:
    """Return how much longer events say than the engine, at the least: a fit must not begin where calls hide all of it."""
    pairs = [each.figures for _, each in cases.single() if "engine_ms" in each.figures and "event_ms" in each.figures]
    return min(((each["event_ms"] - each["engine_ms"]) * 1e6 for each in pairs), default=None)


def first_calls(cases: Cases) -> Iterator[Found]:
    """Yield the calls of single copies, which come from code and data that have left the caches."""
    for model, observation in cases.single():
        if reached(model.buffer):
            yield from pair(("calls", "cold_copy"), model.size, model, observation, "call_us")


def staging(cases: Cases) -> Iterator[Found]:
    """Yield the calls of copies that returned before the work ahead of them was done."""
    for model, observation in cases.of(Blocking, lambda it: it.direction == "h2d" and not reached(it.buffer) and it.busy_ms > 0):
        if observation.figures.get("wait_share", 1.0) < HALF:
            yield from pair(("staging", "held"), model.size, model, observation, "call_us")


def duplex(cases: Cases) -> Iterator[Witness]:
    """Yield copies of both directions at once."""
    for model, observation in cases.of(Concurrency, lambda it: sorted(it.copies) == ["d2h", "h2d"]):
        yield witness(model, observation, "event_ms")


def direct_pipelines(cases: Cases) -> Iterator[Witness]:
    """Yield the pipelines in which engines and calls do all of it."""
    for model, observation in cases.of(
        Pipeline, lambda it: it.staging == "direct" and it.allocate == "once" and reached(it.buffer)
    ):
        yield witness(model, observation, "wall_ms")


def pageable_rows(cases: Cases) -> dict[str, list[tuple[Transfer, Observation]]]:
    """Return by direction the transfers of many copies in a row, on one stream, of memory that no engine reaches."""
    rows: dict[str, list[tuple[Transfer, Observation]]] = {}
    for model, observation in cases.of(Transfer, lambda it: is_plain(it) and it.copies() > 1 and it.streams == 1):
        if not reached(model.buffer):
            rows.setdefault(model.direction, []).append((model, observation))
    return rows


def pageable_copies(cases: Cases) -> Iterator[Found]:
    """Yield copies of memory that no engine reaches: from rows where there are any, and beyond their sizes single ones."""
    rows = pageable_rows(cases)
    for group in rows.values():
        for model, observation in group:
            yield from pair(("kinds", model.buffer, model.direction), model.chunk, model, observation, "event_ms")
    for model, observation in cases.single():
        chunks = [each.chunk or each.size for each, _ in rows.get(model.direction, ())]
        if not reached(model.buffer) and not (chunks and min(chunks) <= model.size <= max(chunks)):
            yield from pair(("kinds", model.buffer, model.direction), model.size, model, observation, "event_ms")


def first_pageable_copies(cases: Cases) -> Iterator[Found]:
    """Yield single copies of sizes that rows have, too: what they take longer is what the first copy of a play takes longer."""
    rows = pageable_rows(cases)
    for model, observation in cases.single():
        chunks = [each.chunk or each.size for each, _ in rows.get(model.direction, ())]
        if not reached(model.buffer) and chunks and min(chunks) <= model.size <= max(chunks):
            yield from pair(("staging", f"first_{model.direction}"), model.size, model, observation, "event_ms")


def early_return_bytes(cases: Cases) -> int | None:
    """Return the largest size at which an async copy from pageable memory came back before the work ahead of it was done.

    None where no larger one waited, so that nobody knows.
    """
    sizes = {
        model.size: observation.figures.get("wait_share", 0.0)
        for model, observation in cases.of(
            Blocking, lambda it: it.direction == "h2d" and not reached(it.buffer) and it.busy_ms > 0
        )
    }
    early = [size for size, share in sizes.items() if share < HALF]
    return max(early) if early and any(share >= HALF and size > max(early) for size, share in sizes.items()) else None
