"""What parameters of a profile are: numbers, curves over sizes, tables by threads or bytes, each with its origin and source."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

How = Literal["measured", "published", "fitted", "assumed"]


class Sourced(BaseModel):
    """A parameter: how it is known, and from where."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    how: How = Field(description="Measured by us, published by others, fitted to reproduce a published figure, or assumed.")
    source: str = Field(min_length=3, description="Where and when, or why it was assumed.")


class Value(Sourced):
    """A whole number; its unit is the end of its name in the file."""

    value: int = Field(ge=0, description="The number, in the unit that ends its name.")


class Flag(Sourced):
    """A yes or no."""

    value: bool = Field(description="The answer.")


def _bytes_per_second(value: object) -> object:
    """Read GB/s exactly, as whole bytes a second."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a rate is a number of GB/s")
    return int(Decimal(str(value)) * 10**9)


Rate = Annotated[int, BeforeValidator(_bytes_per_second), Field(ge=1, le=10**18)]
"""A rate that the file gives in GB/s (10^9 bytes a second), kept in bytes a second."""
Point = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class Curve(Sourced):
    """A time as a function of a size: straight lines between the points, one rate after the last."""

    points: tuple[Point, ...] = Field(min_length=1, description="[bytes, ns] in rising order, the first at 0 bytes.")
    then_gb_per_s: Rate | None = Field(None, description="Rate after the last point; no more time where omitted.")

    @model_validator(mode="after")
    def _rises(self) -> Self:
        sizes = [size for size, _ in self.points]
        times = [time for _, time in self.points]
        if sizes[0] != 0 or sizes != sorted(set(sizes)) or times != sorted(times):
            raise ValueError("points begin at 0 bytes and rise in bytes and in ns")
        return self

    def ns(self, size: int) -> int:
        """Return the time in ns, rounded up, of `size` bytes."""
        index = bisect_right(self.points, size, key=lambda point: point[0])
        size_0, time_0 = self.points[index - 1]
        if index < len(self.points):
            size_1, time_1 = self.points[index]
            return time_0 + _up((size - size_0) * (time_1 - time_0), size_1 - size_0)
        return time_0 + (_up((size - size_0) * 10**9, self.then_gb_per_s) if self.then_gb_per_s else 0)


class RateTable(Sourced):
    """A total rate by a number of threads: straight lines between the rows, constant after the last."""

    by_threads: dict[int, Rate] = Field(min_length=1, description="Threads: GB/s, the first row for 1 thread.")

    @model_validator(mode="after")
    def _begins_at_one(self) -> Self:
        if min(self.by_threads) != 1:
            raise ValueError("the first row is for 1 thread")
        return self

    def bytes_per_second(self, threads: int) -> int:
        """Return the total rate of `threads` threads in bytes a second."""
        return _between(self.by_threads, threads)


class WorkTable(Sourced):
    """Work by a number of bytes, in millionths: straight lines between the rows, constant before the first and after the last."""

    by_bytes: dict[int, Annotated[int, Field(ge=1)]] = Field(min_length=1, description="Bytes: millionths of the usual work.")

    def ppm(self, size: int) -> int:
        """Return the millionths at `size` bytes, rounded down."""
        return _between(self.by_bytes, size)


class StartTable(Sourced):
    """A time by a number of threads: straight lines between the rows, constant before the first and after the last."""

    ns_by_threads: dict[int, Annotated[int, Field(ge=0)]] = Field(min_length=1, description="Threads: ns.")

    def ns(self, threads: int) -> int:
        """Return the ns of `threads` threads, rounded down."""
        return _between(self.ns_by_threads, threads)


def _between(table: Mapping[int, int], key: int) -> int:
    """Return what lies between the rows of a table, rounded down; before the first and after the last what these say."""
    rows = sorted(table.items())
    index = bisect_right(rows, key, key=lambda row: row[0])
    if index in (0, len(rows)):
        return rows[max(0, index - 1)][1]
    (key_0, value_0), (key_1, value_1) = rows[index - 1], rows[index]
    return value_0 + (key - key_0) * (value_1 - value_0) // (key_1 - key_0)


def _up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
