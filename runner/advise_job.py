"""A job that advice is asked for, and the ways in which a pipeline can do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from runner.errors import UsageError
from runner.pattern import WORD
from runner.units import format_size

Axis = Literal["chunk", "streams", "lanes", "threads"]


@dataclass(frozen=True, slots=True)
class Work:
    """How much the kernels do: passes over the data, their time as a multiple of that of the copies one way, or in all in ms."""

    passes: int | None = None
    ratio: float | None = None
    kernel_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done: bytes to the device and bytes back, either 0 where there are none, and the work on them.

    `page_locked` tells that the data lie in page-locked memory already; else `pin_bytes` is how much may be page-locked for them,
    None for no limit.
    """

    in_bytes: int
    out_bytes: int
    page_locked: bool
    work: Work = field(default_factory=lambda: Work(passes=1))
    pin_bytes: int | None = None

    def fields(self) -> dict[str, Any]:
        """Return what every pipeline for the job has in common. Raises UsageError where no pipeline can do it."""
        if not self.in_bytes and not self.out_bytes:
            raise UsageError("there are no bytes to move; give --in, --out, or both")
        if not self.in_bytes:
            return {"total": self.out_bytes, "direction": "download"}
        if not self.out_bytes:
            return {"total": self.in_bytes, "direction": "upload"}
        ratio = {} if self.in_bytes == self.out_bytes else {"output_ratio": self.out_bytes / self.in_bytes}
        return {"total": self.in_bytes, "direction": "round_trip"} | ratio

    def describe(self) -> str:
        """Say in words what is to be done."""
        ways = [f"{format_size(size)} {way}" for size, way in ((self.in_bytes, "in"), (self.out_bytes, "out")) if size]
        limit = "" if self.pin_bytes is None or self.page_locked else f", at most {format_size(self.pin_bytes)} page-locked"
        return f"{' and '.join(ways)}, data in {'page-locked' if self.page_locked else 'ordinary'} memory{limit}"

    def why_not(self, free_bytes: int) -> str:
        """Say why no pipeline can do it on a device with so much free memory."""
        odd = next((size for size in (self.in_bytes, self.out_bytes) if size % WORD), None)
        if odd is not None:
            return f"sizes are multiples of {WORD} bytes, and {odd:,} is none"
        if not (self.in_bytes and self.out_bytes) and max(self.in_bytes, self.out_bytes) > free_bytes:
            return f"what goes one way stays on the device, which has {format_size(free_bytes)} free"
        return (
            "the output is the input times a decimal number (0.25, but no third) of at most 16, and a limit of page-locked "
            "memory must leave room for a buffer"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A way to do a job: what it is called, the fields that make it, and the numbers that are searched."""

    name: str
    words: str
    fields: Mapping[str, Any]
    axes: tuple[Axis, ...]


_RING: Final = {"schedule": "overlapped", "staging": "copy"}
FROM_ORDINARY: Final = (
    Method("loop", "one chunk at a time", {"schedule": "serialized", "buffer": "pageable"}, ("chunk",)),
    Method("register", "the data page-locked in place", {"schedule": "overlapped", "staging": "register"}, ("chunk", "streams")),
    Method("ring", "a pinned ring filled by one thread", _RING, ("chunk", "streams")),
    Method("threads", "a pinned ring filled by several threads", _RING, ("chunk", "streams", "threads")),
    Method("lanes", "pinned rings of several lanes", _RING, ("chunk", "streams", "lanes", "threads")),
)
FROM_LOCKED: Final = (
    Method("loop", "one chunk at a time", {"schedule": "serialized"}, ("chunk",)),
    Method("direct", "chunks in turn on streams", {"schedule": "overlapped"}, ("chunk", "streams")),
    Method("graph", "one graph of all chunks", {"schedule": "overlapped", "submit": "graph"}, ("chunk", "streams")),
)
"""Methods from the simplest to the most elaborate."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A method and its numbers; `streams` are those of each lane."""

    method: Method
    chunk: int
    streams: int = 1
    lanes: int = 1
    threads: int = 1

    def fields(self) -> dict[str, Any]:
        """Return the fields of a pipeline that make this setting; those at their defaults are left out."""
        numbers = {"streams": self.streams * self.lanes, "staging_lanes": self.lanes, "staging_threads": self.threads}
        return {**self.method.fields, "chunk": self.chunk} | {name: value for name, value in numbers.items() if value > 1}

    def simplicity(self, methods: Sequence[Method]) -> tuple[int, ...]:
        """Return what settings are ordered by, the simplest first."""
        return methods.index(self.method), self.lanes, self.threads, self.streams
