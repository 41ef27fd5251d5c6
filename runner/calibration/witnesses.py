"""Which measured figure fits which parameter: the steps of a fit, each standing on those before it.

Cases are chosen by what they do, not by their names, so that any run tells what it can: a parameter without a witness keeps the
value of the profile that a fit begins with, and is marked as assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

from runner.calibration.parameters import Node, Parameter, Path, has_node
from runner.calibration.simulator import Witness
from runner.calibration.solve import Step
from runner.device.simulated.profile import PER_MILLION
from runner.memory import kind_of
from runner.observed import Observation
from runner.scenarios.access import InPlace
from runner.scenarios.allocation import Allocation
from runner.scenarios.base import Scenario
from runner.scenarios.blocking import Blocking
from runner.scenarios.concurrency import Concurrency
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.submission import Submission
from runner.scenarios.transfer import Transfer

Model = TypeVar("Model", bound=Scenario)
Found = tuple[Parameter, Witness]

SUBMITTED: Final[dict[str, str]] = {"copy": "copy_ns", "launch": "launch_ns", "record": "record_ns"}
LEAST_CALLS: Final = 100
"""Calls in a row from which on their mean says what one costs; a few are cold."""
MOST_POINTS: Final = 4
"""Points of the table of what stagers save."""
BETWEEN: Final = (
    ("engines", "duplex_ppm"),
    ("engines", "handoff_ns"),
    ("engines", "stream_change_ns"),
    ("calls", "change_ns"),
    ("calls", "host_wait_ns"),
)
"""What lies between the operations of a pipeline."""
SMALL_BYTES: Final = 65536
"""Kernels and copies up to this size hide behind the calls that start them."""
MIDDLING_BYTES: Final = 16 * SMALL_BYTES
"""Copies up to this size are so short that what a pair of events adds to them can be seen."""


class Witnesses:
    """The observations of a run, asked for by what they are."""

    def __init__(self, observations: Sequence[Observation], data: Node) -> None:
        self.observations, self.data = observations, data

    def steps(self) -> Iterator[Step]:
        """Yield the steps in their order."""
        yield from self._alone("calls", self._calls())
        yield from self._alone("engine copies", self._engine_copies())
        yield from self._together(
            "events", [Parameter(("engines", "timed_event_ns"))], self._pairs_of_events(), self._beyond_engine_ns()
        )
        yield from self._alone("first calls", self._first_calls())
        yield from self._alone("staging", self._staging())
        yield from self._alone("pageable copies", self._pageable_copies())
        yield from self._alone("kernels", self._kernels())
        yield from self._together(
            "gaps between kernels", [Parameter(("engines", "kernel_gap_ns"))], self._kernels_in_a_row(), 2_000.0
        )
        yield from self._alone("kernels on the device", self._device_access())
        yield from self._alone("kernels over the link", self._in_place())
        yield from self._together(
            "pipelines", [Parameter(path) for path in BETWEEN], chain(self._duplex(), self._direct_pipelines())
        )
        yield from self._host_copies()
        yield from self._alone("access", self._access_by_processor())
        yield from self._alone("access by threads", self._access_by_processors())
        yield from self._alone("memory", self._memory())
        yield from self._alone("first touch", self._first_touch())
        yield from self._alone("page-locking", self._page_locking())
        yield from self._alone("migration", self._migration())
        yield from self._together("fresh pages", [Parameter(("staging", "fresh_page_ns"))], self._fresh_landings())

    def of(self, model: type[Model], *holds: Callable[[Model], bool]) -> Iterator[tuple[Model, Observation]]:
        """Yield the observations of a kind of which all of this holds."""
        for observation in self.observations:
            if isinstance(observation.case.model, model) and all(each(observation.case.model) for each in holds):
                yield observation.case.model, observation

    def early_return_bytes(self) -> int | None:
        """Return the largest size at which an async copy from pageable memory came back before the work ahead of it was done.

        None where no larger one waited, so that nobody knows.
        """
        sizes = {
            model.size: observation.figures.get("wait_share", 0.0)
            for model, observation in self.of(
                Blocking, lambda it: it.direction == "h2d" and not _reached(it.buffer) and it.busy_ms > 0
            )
        }
        early = [size for size, share in sizes.items() if share < _HALF]
        return max(early) if early and any(share >= _HALF and size > max(early) for size, share in sizes.items()) else None

    def _alone(self, name: str, found: Iterator[Found]) -> Iterator[Step]:
        """Yield a step whose parameters have a witness each; of two witnesses of one parameter the first counts."""
        pairs: dict[Parameter, Witness] = {}
        for parameter, witness in found:
            if has_node(self.data, parameter.path) and witness.measured > 0:
                pairs.setdefault(parameter, witness)
        if pairs:
            yield Step(name, tuple(pairs), tuple(pairs.values()), alone=True)

    def _together(
        self, name: str, parameters: Sequence[Parameter], found: Iterator[Witness], start: float | None = None
    ) -> Iterator[Step]:
        witnesses = tuple(found)
        if len(witnesses) >= len(parameters):
            yield Step(name, tuple(parameters), witnesses, alone=False, how="fitted", start=() if start is None else (start,))

    def _calls(self) -> Iterator[Found]:
        for model, observation in self.of(Submission, lambda it: it.count >= LEAST_CALLS and it.size <= SMALL_BYTES):
            if model.operation in SUBMITTED:
                yield from _pair(("calls", SUBMITTED[model.operation]), None, model, observation, "call_us")

    def _single(self) -> Iterator[tuple[Transfer, Observation]]:
        """Yield transfers of one copy by an engine."""
        yield from self.of(Transfer, _is_single)

    def _engine_copies(self) -> Iterator[Found]:
        """By the engine's own time where plays were recorded, else by events."""
        for model, observation in self._single():
            if _reached(model.buffer):
                figure = "engine_ms" if "engine_ms" in observation.figures else "event_ms"
                yield from _pair(("kinds", model.buffer, model.direction), model.size, model, observation, figure)

    def _pairs_of_events(self) -> Iterator[Witness]:
        for model, observation in self._single():
            if _reached(model.buffer) and SMALL_BYTES <= model.size <= MIDDLING_BYTES and "engine_ms" in observation.figures:
                yield Witness(model, "event_ms", observation.figures["event_ms"])

    def _beyond_engine_ns(self) -> float | None:
        """Return how much longer events say than the engine, at the least: a fit must not begin where calls hide all of it."""
        pairs = [each.figures for _, each in self._single() if "engine_ms" in each.figures and "event_ms" in each.figures]
        return min(((each["event_ms"] - each["engine_ms"]) * 1e6 for each in pairs), default=None)

    def _first_calls(self) -> Iterator[Found]:
        for model, observation in self._single():
            if _reached(model.buffer):
                yield from _pair(("calls", "cold_copy"), model.size, model, observation, "call_us")

    def _pageable_copies(self) -> Iterator[Found]:
        for model, observation in self._single():
            if not _reached(model.buffer):
                yield from _pair(("kinds", model.buffer, model.direction), model.size, model, observation, "event_ms")

    def _staging(self) -> Iterator[Found]:
        for model, observation in self.of(
            Blocking, lambda it: it.direction == "h2d" and not _reached(it.buffer) and it.busy_ms > 0
        ):
            if observation.figures.get("wait_share", 1.0) < _HALF:
                yield from _pair(("staging", "held"), model.size, model, observation, "call_us")

    def _kernels_in_a_row(self) -> Iterator[Witness]:
        """Yield launches whose kernels work for most of the time: where they wait for calls, no gap shows."""
        for model, observation in self.of(Submission, lambda it: it.operation == "launch"):
            busy_ms, event_ms = (observation.figures.get(name, 0.0) for name in ("engine_busy_ms", "event_ms"))
            if busy_ms > _HALF * event_ms > 0:
                yield Witness(model, "event_ms", event_ms)

    def _fresh_landings(self) -> Iterator[Witness]:
        """Yield the pipelines whose results arrive in memory that nobody has touched."""
        for model, observation in self.of(
            Pipeline, lambda it: it.allocate == "per_chunk" and not kind_of(it.handed()).page_locked
        ):
            yield Witness(model, "wall_ms", observation.figures["wall_ms"])

    def _duplex(self) -> Iterator[Witness]:
        for model, observation in self.of(Concurrency, lambda it: sorted(it.copies) == ["d2h", "h2d"]):
            yield Witness(model, "event_ms", observation.figures["event_ms"])

    def _kernels(self) -> Iterator[Found]:
        """By the time in which engines worked where plays were recorded, else by events, which show large kernels only."""
        for model, observation in self.of(Submission, lambda it: it.operation == "launch"):
            figure = "engine_busy_ms" if "engine_busy_ms" in observation.figures else "event_ms"
            yield from _pair(("engines", "kernel"), model.size, model, observation, figure)

    def _device_access(self) -> Iterator[Found]:
        for model, observation in self.of(
            InPlace, lambda it: it.by == "kernel" and it.place == "device" and it.pattern != "increment"
        ):
            yield from _pair(("engines", f"kernel_{model.pattern}"), model.size, model, observation, "access_ms")

    def _in_place(self) -> Iterator[Found]:
        for model, observation in self.of(InPlace, lambda it: it.ways() > 0 and it.passes == 1):
            yield from _pair(("in_place", model.pattern), model.size, model, observation, "access_ms")
        for transfer, observation in self.of(
            Transfer, lambda it: it.mover == "kernel" and it.direction != "bidirectional" and it.copies() == 1
        ):
            if not kind_of(transfer.buffer).migrates:
                yield from _pair(("in_place", f"copy_{transfer.direction}"), transfer.size, transfer, observation, "event_ms")

    def blank_tables(self, data: Node) -> None:
        """Let tables of host copies begin with the observed threads, and with the largest stagers as measure of the others."""
        # In-place work by one thread is told as work at this rate, whatever the rate is.
        accesses = {model.threads for model, _ in self.of(InPlace, lambda it: it.by == "cpu")}
        plain = Parameter(("host", "plain_gb_per_s"))
        table = {each: Parameter(plain.path, each).value(data) for each in sorted({1, *accesses})}
        data["host"]["plain_gb_per_s"]["by_threads"] = table
        staged = [model for model, _ in self._staged()]
        if staged:
            rates, host = Parameter(("host", "copy_gb_per_s")).path, data["host"]
            threads = {1, *(model.staging_threads for model in staged)}
            host["copy_gb_per_s"]["by_threads"] = {each: Parameter(rates, each).value(data) for each in sorted(threads)}
            host["stager_ppm"]["by_bytes"] = {max(map(_stager_bytes, staged)): PER_MILLION}
            host["start_ns"]["ns_by_threads"] = {1: 0}

    def _staged(self) -> Iterator[tuple[Pipeline, Observation]]:
        """Yield the staged rings of one lane."""
        yield from self.of(Pipeline, lambda it: it.staging == "copy" and it.staging_lanes == 1 and it.allocate == "once")

    def _host_copies(self) -> Iterator[Step]:
        """Yield the fit of rates by threads, of what threads take to begin, and of what stagers save that lie in the caches.

        All of them show in the time of staged rings. The legs of the largest stagers by one thread keep rates and savings apart.
        """
        staged = list(self._staged())
        if not staged:
            return
        largest = max(_stager_bytes(model) for model, _ in staged)
        threads = sorted({model.staging_threads for model, _ in staged})
        parameters = [Parameter(("host", "copy_gb_per_s"), each) for each in threads]
        chunks = {each: {model.chunk for model, _ in staged if model.staging_threads == each} for each in threads}
        parameters += [Parameter(("host", "start_ns"), each) for each in threads if each > 1 and len(chunks[each]) > 1]
        parameters += [
            Parameter(("host", "stager_ppm"), each) for each in _some({_stager_bytes(model) for model, _ in staged} - {largest})
        ]
        witnesses = [Witness(model, "wall_ms", observation.figures["wall_ms"]) for model, observation in staged]
        for model, observation in staged:
            legs = model.companions()
            if model.staging_threads == 1 and _stager_bytes(model) == largest:
                names = [name for name in ("leg_host_in", "leg_host_out") if f"{name}_ms" in observation.figures and name in legs]
                witnesses += [Witness(legs[name], "leg_ms", observation.figures[f"{name}_ms"]) for name in names]
        yield from self._together("host copies", parameters, iter(witnesses))

    def _access_by_processor(self) -> Iterator[Found]:
        for model, observation in self.of(
            InPlace, lambda it: it.by == "cpu" and it.threads == 1 and not kind_of(it.buffer).page_locked
        ):
            yield from _pair(("host", f"{model.pattern}_ppm"), None, model, observation, "access_ms")
        for model, observation in self.of(
            InPlace, lambda it: it.by == "cpu" and it.pattern == "read" and kind_of(it.buffer).slow_cpu_read
        ):
            yield from _pair(("kinds", model.buffer, "cpu_read"), model.size, model, observation, "access_ms")

    def _access_by_processors(self) -> Iterator[Found]:
        for model, observation in self.of(InPlace, lambda it: it.by == "cpu" and it.threads > 1):
            yield from _pair(("host", "plain_gb_per_s"), model.threads, model, observation, "access_ms")

    def _memory(self) -> Iterator[Found]:
        for model, observation in self.of(Allocation, lambda it: not it.beyond_memory and it.memlock_limit is None):
            kind = "device" if model.where == "device" else model.host_kind()
            if not model.registers() and model.pages == "normal":
                yield from _pair(("kinds", kind, "allocate"), model.size, model, observation, "allocate_ms")
                yield from _pair(("kinds", kind, "free"), model.size, model, observation, "free_ms")
            elif not model.registers():
                yield from _pair(("kinds", kind, "free_huge"), model.size, model, observation, "free_ms")

    def _first_touch(self) -> Iterator[Found]:
        """The largest memory counts: a few pages may come from what the process has freed before."""
        found = self.of(
            Allocation,
            lambda it: it.where == "host" and not kind_of(it.host_kind()).page_locked and not kind_of(it.host_kind()).migrates,
        )
        for model, observation in sorted(found, key=lambda each: -each[0].size):
            name = "huge_first_touch_ns" if model.pages == "huge" else "first_touch_ns"
            yield from _pair(("host", name), None, model, observation, "touch_ms")

    def _page_locking(self) -> Iterator[Found]:
        for model, observation in self.of(Allocation, lambda it: it.registers() and it.memlock_limit is None):
            yield from _pair(("registration", model.pages, "lock"), model.size, model, observation, "register_ms")
            yield from _pair(("registration", model.pages, "unlock"), model.size, model, observation, "unregister_ms")

    def _migration(self) -> Iterator[Found]:
        for model, observation in self.of(
            Transfer, lambda it: it.moves_by() is not None and it.direction != "bidirectional" and it.copies() == 1
        ):
            if model.moves_by() == "prefetch":
                yield from _pair(("migration", f"prefetch_{model.direction}"), model.size, model, observation, "event_ms")
                yield from _pair(("migration", f"prefetch_held_{model.direction}"), model.size, model, observation, "call_us")
            else:
                figure = "event_ms" if model.direction == "h2d" else "wall_ms"
                yield from _pair(("migration", f"fault_{model.direction}"), model.size, model, observation, figure)

    def _direct_pipelines(self) -> Iterator[Witness]:
        for model, observation in self.of(
            Pipeline, lambda it: it.staging == "direct" and it.allocate == "once" and _reached(it.buffer)
        ):
            yield Witness(model, "wall_ms", observation.figures["wall_ms"])


def _stager_bytes(model: Pipeline) -> int:
    """Return the bytes of all stagers of a ring."""
    return min(model.ring_slots(), model.chunks()) * model.chunk


def _some(sizes: Iterable[int]) -> list[int]:
    """Return MOST_POINTS of these sizes at most, spread evenly over their order: more would fit the noise."""
    ordered = sorted(sizes)
    count = min(MOST_POINTS, len(ordered))
    return [ordered[place * (len(ordered) - 1) // max(1, count - 1)] for place in range(count)]


_HALF: Final = 0.5
"""Share of the earlier work from which on a call that was held for it counts as having waited, and of a time in which kernels
work from which on they, not calls, take it."""


def _pair(path: Path, at: int | None, model: Scenario, observation: Observation, figure: str) -> Iterator[Found]:
    """Yield a parameter and its witness where the figure was measured."""
    if figure in observation.figures:
        yield Parameter(path, at), Witness(model, figure, observation.figures[figure])


def _reached(buffer: str) -> bool:
    """Whether a copy engine reaches memory of a kind."""
    return kind_of(buffer).asynchronous


def _is_single(model: Transfer) -> bool:
    """Whether a transfer is one async copy by an engine on one stream, timed by itself."""
    return (
        model.mover == "engine"
        and model.moves_by() is None
        and model.direction != "bidirectional"
        and model.copies() == 1
        and model.batch_n() == 1
        and model.call == "async"
        and model.opposite is None
        and not model.gated
        and model.pages == "normal"
    )
