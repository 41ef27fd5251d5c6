"""Which cases tell what the host's own work takes: copies by threads, access in place, memory and its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from runner.calibration.cases import Cases, Found, pair, witness
from runner.calibration.parameters import Node, Parameter
from runner.calibration.simulator import Witness
from runner.device.simulated.profile import PER_MILLION
from runner.device.simulated.profile_values import WorkTable
from runner.memory import kind_of
from runner.observed import Observation
from runner.scenarios.access import InPlace
from runner.scenarios.allocation import Allocation
from runner.scenarios.pipeline import Pipeline

MOST_POINTS: Final = 5
"""Points of a table of what stagers save."""
ALONE: Final = "stager_ppm"
SHARED: Final = "shared_stager_ppm"
"""The tables of the copies by one thread, and by several."""
HANDOVER: Final = Parameter(("calls", "handover_ns"))
GUESS_NS: Final = 10_000
"""Roughly what it takes to wake a thread."""


def staged_rings(cases: Cases) -> Iterator[tuple[Pipeline, Observation]]:
    """Yield the staged rings."""
    yield from cases.of(Pipeline, lambda it: it.staging == "copy" and it.allocate == "once")


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
    """Return rates by threads, what threads take to begin, what stagers save that lie in the caches, and what lanes cost each
    other's calls, with their witnesses.

    All of them show in the time of staged rings, and not in that of their legs: in a ring the stagers were last touched by an
    engine. The largest stagers are the measure of the others, which keeps rates and savings apart.
    """
    rings = list(staged_rings(cases))
    if not rings:
        return [], []
    models = [model for model, _ in rings]
    parameters = _of_threads(models)
    for name, sizes in _stagers(models).items():
        parameters += [Parameter(("host", name), each) for each in _some(sizes - {max(sizes)})]
    return parameters, [witness(model, observation, "wall_ms") for model, observation in rings]


def _of_threads(rings: Sequence[Pipeline]) -> list[Parameter]:
    """Return what threads and lanes take, as far as rings tell it."""
    chunks: dict[int, set[int]] = {}
    for model in rings:
        chunks.setdefault(model.staging_threads, set()).add(model.chunk)
    parameters = [Parameter(("host", "copy_gb_per_s"), each) for each in sorted(set(map(_threads, rings)))]
    parameters += [Parameter(("host", "start_ns"), each) for each in sorted(chunks) if each > 1 and len(chunks[each]) > 1]
    return parameters + ([HANDOVER] if any(model.staging_lanes > 1 for model in rings) else [])


def guesses(parameters: Sequence[Parameter], data: Node) -> tuple[float, ...]:
    """Return what the fit of host copies begins with.

    What threads and what lanes take share their witnesses, and from nothing neither of them would move far.
    """
    least = GUESS_NS if HANDOVER in parameters else 0.0
    return tuple(parameter.value(data) or least for parameter in parameters)


def blank_tables(cases: Cases, data: Node) -> None:
    """Let tables of host copies begin with the observed threads, those of stagers with the largest as measure of the others."""
    # In-place work by one thread is told as work at this rate, whatever the rate is.
    accesses = {model.threads for model, _ in cases.of(InPlace, lambda it: it.by == "cpu")}
    plain = Parameter(("host", "plain_gb_per_s"))
    table = {each: Parameter(plain.path, each).value(data) for each in sorted({1, *accesses})}
    data["host"]["plain_gb_per_s"]["by_threads"] = table
    rings = [model for model, _ in staged_rings(cases)]
    if rings:
        rates, host = Parameter(("host", "copy_gb_per_s")).path, data["host"]
        observed = {1, *map(_threads, rings)}
        # What more threads than any ring has copy stays as it is: they are not as slow as fewer.
        threads = observed | {each for each in host["copy_gb_per_s"]["by_threads"] if each > max(observed)}
        host["copy_gb_per_s"]["by_threads"] = {each: Parameter(rates, each).value(data) for each in sorted(threads)}
        found = _stagers(rings)
        if SHARED not in found and max(observed) > 1:
            host.pop(SHARED, None)
        for name, sizes in found.items():
            host[name]["by_bytes"] = _measure_of_others(host[name]["by_bytes"], max(sizes))
        host["start_ns"]["ns_by_threads"] = {1: 0}


def _measure_of_others(table: Mapping[int, int], largest: int) -> dict[int, int]:
    """Return a table that begins with the largest stagers of a run, as the measure of all others.

    What larger ones take beside them, which no case tells, stays.
    """
    usual = WorkTable(by_bytes=dict(table), how="assumed", source="a table to begin with").ppm(largest)
    beyond = {size: round(ppm * PER_MILLION / usual) for size, ppm in table.items() if size > largest}
    return {largest: PER_MILLION} | beyond


def _stagers(rings: Sequence[Pipeline]) -> dict[str, set[int]]:
    """Return the bytes of all stagers of each ring, by the table that tells what copies take there.

    Several threads have one of their own where their rings tell its points beside what threads and lanes take; else theirs are
    taken for stagers of one.
    """
    shared = [model for model in rings if _threads(model) > 1]
    apart = len(shared) > MOST_POINTS + sum(each.at != 1 for each in _of_threads(rings))
    found: dict[str, set[int]] = {}
    for model in rings:
        found.setdefault(SHARED if apart and _threads(model) > 1 else ALONE, set()).add(_stager_bytes(model))
    return found


def _threads(model: Pipeline) -> int:
    """Return how many threads copy for a ring at once."""
    return model.staging_lanes * model.staging_threads


def _stager_bytes(model: Pipeline) -> int:
    """Return the bytes of all stagers of a ring."""
    return min(model.ring_slots(), model.chunks()) * model.chunk


def _some(sizes: Iterable[int]) -> list[int]:
    """Return MOST_POINTS of these sizes at most, spread evenly over their order: more would fit the noise."""
    ordered = sorted(sizes)
    count = min(MOST_POINTS, len(ordered))
    return [ordered[place * (len(ordered) - 1) // max(1, count - 1)] for place in range(count)]
