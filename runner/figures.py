"""The figures that an expectation can be about: their names and units, and their value and interval in a row of summary.csv."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from runner.columns import AXES, DERIVED, OUTCOME, RATES, TIMES, own_columns
from runner.scenarios.base import Cell, Clock

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_RATE_TIMES: Final = {"h2d_gb_per_s": "h2d_event_ms", "d2h_gb_per_s": "d2h_event_ms"}
"""Rates over a time of their own; the others are over the time of the case's clock."""
_OF_CLOCK: Final = ("gb_per_s", "gib_per_s", "share_of_link")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one case in the unit of its column, and its 95 % interval where it has one (None: none)."""

    value: float
    low: float | None = None
    high: float | None = None

    def ends(self) -> tuple[float, float]:
        """Return the interval, of a figure without one the value itself twice."""
        return (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)

    def scaled(self, factor: float) -> Figure:
        """Return the figure in another unit."""
        ends = (None, None) if self.low is None or self.high is None else (self.low * factor, self.high * factor)
        return Figure(self.value * factor, *ends)


def unit_of_time(metric: str) -> str:
    """Return the unit of a figure that is a time, empty for every other."""
    unit = units().get(metric, "")
    return unit if unit in _SECONDS else ""


@cache
def units() -> Mapping[str, str]:
    """Return the name of every figure of a case with its unit; a time's name stands for its median."""
    described = {column.name: column.unit for column in (*OUTCOME, *RATES, *DERIVED) if column.type != "text"}
    return {name: row[0] for name, row in TIMES.items()} | described


def unit_of_axis(name: str) -> str:
    """Return the unit of the axis over a field called `name`, such as `chunk` or `compute.passes`."""
    column = name.replace(".", "_")
    found = {each.name: each.unit for each in (*AXES, *own_columns())}
    return found.get(f"{column}_bytes", found.get(column, ""))


def factor_between(metric: str, other: str) -> float | None:
    """Return what turns `other`'s unit into `metric`'s, None where they measure different things."""
    one, two = units()[metric], units()[other]
    if one in _SECONDS and two in _SECONDS:
        return _SECONDS[two] / _SECONDS[one]
    return 1.0 if one == two else None


def figure_of(row: Mapping[str, Cell], metric: str, clock: Clock) -> Figure | None:
    """Return the figure called `metric` of a row of summary.csv; None where the case has none.

    A time is its median with the interval of that. A rate has the interval that its time gives it: rate x median / end. Others
    have an interval where the table has one.
    """
    value = _number(row.get(f"median_{metric}" if metric in TIMES else metric))
    if value is None:
        return None
    time = _RATE_TIMES.get(metric, f"{clock}_ms" if metric in _OF_CLOCK else "")
    low, high = _number(row.get(f"ci_low_{time or metric}")), _number(row.get(f"ci_high_{time or metric}"))
    if low is None or high is None:
        return Figure(value)
    median = _number(row.get(f"median_{time}")) if time else None
    if time:
        return Figure(value, value * median / high, value * median / low) if median and low > 0 else Figure(value)
    return Figure(value, low, high)


def _number(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else None
