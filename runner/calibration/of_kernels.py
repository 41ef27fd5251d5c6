"""Which cases tell what kernels take, in the device's memory and over the link, and pages that move."""

from __future__ import annotations

from collections.abc import Iterator

from runner.calibration.cases import HALF, Cases, Found, pair, witness
from runner.calibration.simulator import Witness
from runner.memory import kind_of
from runner.scenarios.access import InPlace
from runner.scenarios.submission import Submission
from runner.scenarios.transfer import Transfer


def kernels_in_a_row(cases: Cases) -> Iterator[Witness]:
    """Yield launches whose kernels work for most of the time: where they wait for calls, no gap shows."""
    for model, observation in cases.of(Submission, lambda it: it.operation == "launch"):
        busy_ms, event_ms = (observation.figures.get(name, 0.0) for name in ("engine_busy_ms", "event_ms"))
        if busy_ms > HALF * event_ms > 0:
            yield witness(model, observation, "event_ms")


def kernels(cases: Cases) -> Iterator[Found]:
    """Yield kernels by the time in which engines worked where plays were recorded, else by events, which show large ones only."""
    for model, observation in cases.of(Submission, lambda it: it.operation == "launch"):
        figure = "engine_busy_ms" if "engine_busy_ms" in observation.figures else "event_ms"
        yield from pair(("engines", "kernel"), model.size, model, observation, figure)


def device_access(cases: Cases) -> Iterator[Found]:
    """Yield kernels that read or write the device's memory."""
    for model, observation in cases.of(
        InPlace, lambda it: it.by == "kernel" and it.place == "device" and it.pattern != "increment"
    ):
        yield from pair(("engines", f"kernel_{model.pattern}"), model.size, model, observation, "access_ms")


def in_place(cases: Cases) -> Iterator[Found]:
    """Yield kernels that work over the link."""
    for model, observation in cases.of(InPlace, lambda it: it.ways() > 0 and it.passes == 1):
        yield from pair(("in_place", model.pattern), model.size, model, observation, "access_ms")
    for transfer, observation in cases.of(
        Transfer, lambda it: it.mover == "kernel" and it.direction != "bidirectional" and it.copies() == 1
    ):
        if not kind_of(transfer.buffer).migrates:
            yield from pair(("in_place", f"copy_{transfer.direction}"), transfer.size, transfer, observation, "event_ms")


def migration(cases: Cases) -> Iterator[Found]:
    """Yield copies that are pages which move, by faults or when asked to."""
    for model, observation in cases.of(
        Transfer, lambda it: it.moves_by() is not None and it.direction != "bidirectional" and it.copies() == 1
    ):
        if model.moves_by() == "prefetch":
            yield from pair(("migration", f"prefetch_{model.direction}"), model.size, model, observation, "event_ms")
            yield from pair(("migration", f"prefetch_held_{model.direction}"), model.size, model, observation, "call_us")
        else:
            figure = "event_ms" if model.direction == "h2d" else "wall_ms"
            yield from pair(("migration", f"fault_{model.direction}"), model.size, model, observation, figure)
