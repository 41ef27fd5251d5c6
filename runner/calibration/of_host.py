"""Which cases tell what the host's own work takes: copies by threads, access in place, memory and its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from runner.calibration.cases import Cases, Found, pair, witness
from runner.calibration.parameters import Node, Parameter
from runner.calibration.simulator import Witness
from runner.device.simulated.profile import PER_MILLION
from runner.memory import kind_of
from runner.observed import Observation
from runner.scenarios.access import InPlace
from runner.scenarios.allocation import Allocation
from runner.scenarios.pipeline import Pipeline

MOST_POINTS: Final = 4
"""Points of the table of what stagers save."""


def staged_rings(cases: Cases) -> Iterator[tuple[Pipeline, Observation]]:
    """Yield the staged rings of one lane."""
    yield from cases.of(Pipeline, lambda it: it.staging == "copy" and it.staging_lanes == 1 and it.allocate == "once")


def access_by_processor(cases: Cases) -> Iterator[Found]:
    """Yield what one thread does in place."""
    for model, observation in cases.of(
        InPlace, lambda it: it.by == "cpu" and it.threads == 1 and not kind_of(it.buffer).page_locked
    ):
        yield from pair(("host", f"{model.pattern}_ppm"), None, model, observation, "access_ms")
    for model, observation in cases.of(
        InPlace, lambda it: it.by == "cpu" and it.pattern == "read" and kind_of(it.buffer).slow_cpu_read
    ):
        yield from pair(("kinds", model.buffer, "cpu_read"), model.size, model, observation, "access_ms")


def access_by_processors(cases: Cases) -> Iterator[Found]:
    """Yield what several threads do in place."""
    for model, observation in cases.of(InPlace, lambda it: it.by == "cpu" and it.threads > 1):
        yield from pair(("host", "plain_gb_per_s"), model.threads, model, observation, "access_ms")


def memory(cases: Cases) -> Iterator[Found]:
    """Yield allocating and freeing."""
    for model, observation in cases.of(Allocation, lambda it: not it.beyond_memory and it.memlock_limit is None):
        kind = "device" if model.where == "device" else model.host_kind()
        if not model.registers() and model.pages == "normal":
            yield from pair(("kinds", kind, "allocate"), model.size, model, observation, "allocate_ms")
            yield from pair(("kinds", kind, "free"), model.size, model, observation, "free_ms")
        elif not model.registers():
            yield from pair(("kinds", kind, "free_huge"), model.size, model, observation, "free_ms")


def first_touch(cases: Cases) -> Iterator[Found]:
    """Yield first touches of memory. The largest counts: a few pages may come from what the process has freed before."""
    found = cases.of(
        Allocation,
        lambda it: it.where == "host" and not kind_of(it.host_kind()).page_locked and not kind_of(it.host_kind()).migrates,
    )
    for model, observation in sorted(found, key=lambda each: -each[0].size):
        name = "huge_first_touch_ns" if model.pages == "huge" else "first_touch_ns"
        yield from pair(("host", name), None, model, observation, "touch_ms")


def page_locking(cases: Cases) -> Iterator[Found]:
    """Yield page-locking in place, and its end."""
    for model, observation in cases.of(Allocation, lambda it: it.registers() and it.memlock_limit is None):
        yield from pair(("registration", model.pages, "lock"), model.size, model, observation, "register_ms")
        yield from pair(("registration", model.pages, "unlock"), model.size, model, observation, "unregister_ms")


def fresh_landings(cases: Cases) -> Iterator[Witness]:
    """Yield the pipelines whose results arrive in memory that nobody has touched."""
    for model, observation in cases.of(Pipeline, lambda it: it.allocate == "per_chunk" and not kind_of(it.handed()).page_locked):
        yield witness(model, observation, "wall_ms")


def host_copies(cases: Cases) -> tuple[list[Parameter], list[Witness]]:
    """Return rates by threads, what threads take to begin, and what stagers save that lie in the caches, with their witnesses.

    All of them show in the time of staged rings. The legs of the largest stagers by one thread keep rates and savings apart.
    """
    rings = list(staged_rings(cases))
    if not rings:
        return [], []
    largest = max(_stager_bytes(model) for model, _ in rings)
    threads = sorted({model.staging_threads for model, _ in rings})
    parameters = [Parameter(("host", "copy_gb_per_s"), each) for each in threads]
    chunks = {each: {model.chunk for model, _ in rings if model.staging_threads == each} for each in threads}
    parameters += [Parameter(("host", "start_ns"), each) for each in threads if each > 1 and len(chunks[each]) > 1]
    parameters += [
        Parameter(("host", "stager_ppm"), each) for each in _some({_stager_bytes(model) for model, _ in rings} - {largest})
    ]
    witnesses = [witness(model, observation, "wall_ms") for model, observation in rings]
    for model, observation in rings:
        legs = model.companions()
        if model.staging_threads == 1 and _stager_bytes(model) == largest:
            names = [name for name in ("leg_host_in", "leg_host_out") if f"{name}_ms" in observation.figures and name in legs]
            witnesses += [Witness(legs[name], "leg_ms", observation.figures[f"{name}_ms"]) for name in names]
    return parameters, witnesses


def blank_tables(cases: Cases, data: Node) -> None:
    """Let tables of host copies begin with the observed threads, and with the largest stagers as measure of the others."""
    # In-place work by one thread is told as work at this rate, whatever the rate is.
    accesses = {model.threads for model, _ in cases.of(InPlace, lambda it: it.by == "cpu")}
    plain = Parameter(("host", "plain_gb_per_s"))
    table = {each: Parameter(plain.path, each).value(data) for each in sorted({1, *accesses})}
    data["host"]["plain_gb_per_s"]["by_threads"] = table
    rings = [model for model, _ in staged_rings(cases)]
    if rings:
        rates, host = Parameter(("host", "copy_gb_per_s")).path, data["host"]
        threads = {1, *(model.staging_threads for model in rings)}
        host["copy_gb_per_s"]["by_threads"] = {each: Parameter(rates, each).value(data) for each in sorted(threads)}
        host["stager_ppm"]["by_bytes"] = {max(map(_stager_bytes, rings)): PER_MILLION}
        host["start_ns"]["ns_by_threads"] = {1: 0}


def _stager_bytes(model: Pipeline) -> int:
    """Return the bytes of all stagers of a ring."""
    return min(model.ring_slots(), model.chunks()) * model.chunk


def _some(sizes: Iterable[int]) -> list[int]:
    """Return MOST_POINTS of these sizes at most, spread evenly over their order: more would fit the noise."""
    ordered = sorted(sizes)
    count = min(MOST_POINTS, len(ordered))
    return [ordered[place * (len(ordered) - 1) // max(1, count - 1)] for place in range(count)]
