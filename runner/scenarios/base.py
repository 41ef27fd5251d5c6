"""What every scenario kind has in common: a strict YAML model that can write its Plan and read its own Trace.

A kind is one class in one file: its fields are the YAML keys, `plan` says what a device shall do, `figures` turns the Trace of
one play into numbers with their units in the name, `describe` says in words what will happen, `columns` puts the fields into the
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from runner.device.contract import Trace
from runner.plan import Demand, Operation, Plan
from runner.units import ALLOWED_SIZE, LARGEST_SIZE, format_size, parse_size

LARGEST_PLAN: Final = 250_000
"""The most operations of one Plan: a ring of 30,000 chunks; more tells nothing new and takes minutes to check."""
LARGEST_STREAMS: Final = 4096

Cell = str | int | float | bool | None
Clock = Literal["wall", "event", "engine"]


class StrictModel(BaseModel):
    """Base of every YAML model: unknown keys are refused, nothing is converted, nothing changes after reading."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


def _size(value: object) -> int:
    if type(value) is int and 0 < value <= LARGEST_SIZE:
        return value
    try:
        return parse_size(value)
    except ValueError as error:
        raise PydanticCustomError("size", "{message}", {"message": str(error), "allowed": ALLOWED_SIZE}) from None


Size = Annotated[
    int,
    BeforeValidator(_size),
    Field(ge=1, le=LARGEST_SIZE, json_schema_extra={"unit": "bytes"}),
]
"""A number of bytes, read from `32MiB` and the like; its column has the suffix `_bytes`."""
Streams = Annotated[int, Field(ge=1, le=LARGEST_STREAMS)]


def field_error(field: str, message: str, allowed: str = "") -> PydanticCustomError:
    """Return the error that a model's own check raises about one field, so that it can be shown at that field's place."""
    return PydanticCustomError("field", "{message}", {"field": field, "message": message, "allowed": allowed})


@dataclass(frozen=True, slots=True)
class Known:
    """What the runner has learnt before a case is played: the machine, and the median times of the case's companions.

    `host_bytes` is the host memory that buffers may take. `times_ms[name]` is the median of the companion called `name`, by its
    own clock; a companion that could not be measured is absent.
    """

    host_bytes: int
    times_ms: Mapping[str, float] = field(default_factory=dict)


class Scenario(StrictModel):
    """One case of a scenario kind, every axis resolved to one value."""

    LISTS: ClassVar[frozenset[str]] = frozenset()
    """Fields that are lists by nature; a list anywhere else is an axis."""
    CLOCK: ClassVar[Clock] = "wall"
    """The clock whose time gives the rate: the host's wall clock, or CUDA events."""
    RATED: ClassVar[bool] = True
    """Whether the payload over that time is a rate that means anything."""
    ISOLATED: ClassVar[bool] = False
    """Whether a real device plays the case in a process of its own, since it may break the context or the process."""
    TOLERATES: ClassVar[bool] = False
    """Whether wrong bytes, or an error that costs the device, are what the case looks for: figures of a case that is `ok`."""

    WORK: ClassVar[tuple[str, ...]] = ("size", "direction")
    """Fields that say what work is done, and not how."""

    kind: str

    def job(self) -> dict[str, Cell]:
        """Return what work the case does, by field and in words: times of cases that differ in it say nothing of each other."""
        columns = dict(columns_of(type(self)))
        values = {name: getattr(self, name) for name in ("kind", *self.WORK) if name in columns}
        return {name: format_size(value) if columns[name].endswith("_bytes") else value for name, value in values.items()}

    def paid_once(self) -> tuple[str, ...]:
        """Return the figures, times in ms, of what is done once before the timing and then serves every repetition."""
        return ()

    def own_time(self) -> str:
        """Return the figure that stands for the whole case where another is held against it."""
        return f"{self.CLOCK}_ms"

    def companions(self) -> Mapping[str, Scenario]:
        """Return the cases that are measured beside this one, by name: its serialized `twin` and its legs.

        Each distinct one is measured once a run. Names are those of columns: `leg_h2d` gives `leg_h2d_ms`.
        """
        return {}

    def memlock_bytes(self) -> int | None:
        """Return the bytes that the process may lock while the case is played, None where that is left as it is.

        A real device plays a case with such a limit in a process of its own, which sets it before it opens the device.
        """
        return None

    def resolved(self, known: Known) -> Scenario:
        """Return this case with all that depends on the machine made a number; raises CaseFailed where that is not known."""
        return self

    def derived(self, known: Known, median_ms: float, figures_ms: Mapping[str, float]) -> dict[str, float]:
        """Return figures of the summary that follow from the companions and from this case's own median by its clock.

        `figures_ms` are the medians of all its figures that are times in ms, by name.
        """
        return {}

    def is_work_alone(self, part: str, alone_ms: float) -> bool:
        """Whether the time of a part alone is that of the work, as engines' records have it, and not of handing it over."""
        return True

    def plan(self) -> Plan:
        """Write the Plan of this case."""
        raise NotImplementedError

    def demand(self) -> Demand:
        """Return the most memory that the case holds at once, known before it is resolved."""
        return self.plan().demand()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Turn the Trace of one play into figures: `wall_ms`, `event_ms`, `call_us`; what was not timed is absent."""
        raise NotImplementedError

    def payload_bytes(self) -> int:
        """Return the bytes of the user that one play moves, each counted once."""
        raise NotImplementedError

    def link_bytes(self) -> Mapping[str, int]:
        """Return the bytes of the payload that one sample moves over the link, by direction; empty where nothing does."""
        return {}

    def direction_bytes(self) -> Mapping[str, int]:
        """Return the bytes of each direction that has a time of its own (`h2d_event_ms`, `d2h_event_ms`), if any has."""
        return {}

    def ways(self) -> int:
        """Return how many directions of the link carry the payload at once; 0 where it never crosses the link."""
        return 1

    def repeats(self) -> int:
        """Return how often a sample does the same work; its times are those of once."""
        return 1

    def is_measured(self, operation: Operation) -> bool:
        """Whether an operation that stands in the timed part is what is measured, and not there to keep the device busy."""
        return True

    def async_calls(self) -> int:
        """Return how many copy calls of a sample are named async and timed by `call_us`."""
        return 0

    def advice(self) -> str:
        """Say in one sentence why the case cannot show what its fields suggest, empty where nothing speaks against it."""
        return ""

    def describe(self) -> str:
        """Say in one sentence what this case does, every size in bytes."""
        raise NotImplementedError

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells of the table, sizes in bytes under `*_bytes`, in the order of the model."""
        return {column: getattr(self, name) for name, column in columns_of(type(self))}


@cache
def columns_of(model: type[Scenario]) -> tuple[tuple[str, str], ...]:
    """Return each field of a kind with its column, in the order of the model."""
    return tuple((name, column_of(name, info.json_schema_extra)) for name, info in model.model_fields.items())


def column_of(field: str, extra: Any) -> str:
    """Return the column that a field of a model has in the tables."""
    is_size = isinstance(extra, Mapping) and extra.get("unit") == "bytes"
    return f"{field}_bytes" if is_size else field


def host_ms(plan: Plan, trace: Trace, begin: str, end: str) -> float | None:
    """Return the host's time between two marks in ms, None where one was not passed."""
    first, last = trace.host_ns[plan.marks.index(begin)], trace.host_ns[plan.marks.index(end)]
    return None if first is None or last is None else (last - first) / 1e6


def event_ms(plan: Plan, trace: Trace, begin: str, end: str) -> float | None:
    """Return the device's time between two timed events in ms, None where one was not timed."""
    names = [event.name for event in plan.events]
    first, last = trace.event_ns[names.index(begin)], trace.event_ns[names.index(end)]
    return None if first is None or last is None else (last - first) / 1e6


def cpu_ms(plan: Plan, trace: Trace, begin: str, end: str) -> float | None:
    """Return the lane's processor time between two marks in ms, None where a device cannot tell it."""
    if not trace.cpu_ns:
        return None
    first, last = trace.cpu_ns[plan.marks.index(begin)], trace.cpu_ns[plan.marks.index(end)]
    return None if first is None or last is None else (last - first) / 1e6


def timed(figures: Mapping[str, float | None]) -> dict[str, float]:
    """Return the figures without those that were not timed."""
    return {name: value for name, value in figures.items() if value is not None}
