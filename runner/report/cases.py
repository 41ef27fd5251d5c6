"""The cases of a run as people name them: by the axes that vary, their times by the clock that gives the rate, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from runner.columns import AXES, LEAD, own_columns
from runner.figures import Figure
from runner.rows import Row
from runner.scenarios.base import Cell
from runner.units import digits, format_size

AXIS_NAMES: Final = tuple(column.name for column in (*AXES, *own_columns()) if not column.formula)
"""The axes; what has a formula follows from another one."""
_LEAD_NAMES: Final = frozenset(column.name for column in LEAD)
_RATE_TIMES: Final = ("event_ms", "wall_ms", "engine_ms")
_PAYLOADS: Final = ("size_bytes", "total_bytes")

_WAYS: Final = {"bidirectional": "both ways together", "round_trip": "there and back, each byte once"}
"""How the bytes of a direction are counted in a rate, where that is not plain."""


def measured_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows whose numbers count: those of status ok."""
    return [row for row in rows if row.get("status") == "ok"]


def varying_axes(rows: Sequence[Row]) -> list[str]:
    """Return the columns of the axes that tell the cases of a scenario apart, in the order of the tables.

    What follows from the scenario alone is left out, as is an axis that repeats an earlier one wherever it is (slots = streams).
    """
    seen: dict[str, dict[Cell, set[Cell]]] = {}
    for row in rows:
        for axis in AXIS_NAMES:
            if axis in row:
                seen.setdefault(axis, {}).setdefault(row.get("scenario"), set()).add(row[axis])
    found = [axis for axis in AXIS_NAMES if any(len(values) > 1 for values in seen.get(axis, {}).values())]
    kept: list[str] = []
    for axis in found:
        if not any(all(row[axis] == row.get(other) for row in rows if axis in row) for other in kept):
            kept.append(axis)
    return kept


def case_label(row: Row, axes: Sequence[str]) -> str:
    """Say which case a row is: `overlapped (chunk 1MiB, streams 4)`."""
    named = [f"{short_name(axis)} {shown(axis, row[axis])}" for axis in axes if axis in row]
    return f"{row.get('scenario', '')} ({', '.join(named)})" if named else str(row.get("scenario", ""))


def time_of_rate(row: Row) -> str:
    """Return the time (`event_ms`, `wall_ms` or `engine_ms`) over which `gb_per_s` of a row is, empty where none fits.

    It is written nowhere, but follows: rate x median x 10^6 is the payload, which is `size_bytes` or `total_bytes` once or twice.
    """
    rate = number_of(row, "gb_per_s")
    sizes = [size for name in _PAYLOADS if (size := number_of(row, name))]
    for time in _RATE_TIMES if rate else ():
        median = number_of(row, f"median_{time}")
        if rate and median and any(math.isclose(rate * median * 1e6, size * n, rel_tol=1e-9) for size in sizes for n in (1, 2)):
            return time
    return ""


def rate_figure(row: Row) -> Figure | None:
    """Return the rate of a row in 10^9 bytes a second with the interval that its time gives it; None where it has no rate."""
    rate, time = number_of(row, "gb_per_s"), time_of_rate(row)
    if rate is None:
        return None
    median, low, high = (number_of(row, f"{statistic}_{time}") for statistic in ("median", "ci_low", "ci_high"))
    return Figure(rate, rate * median / high, rate * median / low) if median and low and high else Figure(rate)


def counted_ways(row: Row) -> str:
    """Say how the rate of a row counts bytes that go two ways, with a space before it; empty where they go one way."""
    words = _WAYS.get(str(row.get("direction", "")))
    return f" {words}" if words else ""


def median_figure(row: Row, time: str) -> Figure | None:
    """Return the median of a time of a row with its 95 % interval, in the time's own unit; None where the row has none."""
    median = number_of(row, f"median_{time}")
    if median is None:
        return None
    return Figure(median, number_of(row, f"ci_low_{time}"), number_of(row, f"ci_high_{time}"))


def main_time(rows: Sequence[Row]) -> str:
    """Return the time that most rows have and that gives their rates, else the first of wall, event, access and call times."""
    counts: dict[str, int] = {}
    for row in rows:
        if time := time_of_rate(row):
            counts[time] = counts.get(time, 0) + 1
    if counts:
        return max(counts, key=lambda time: counts[time])
    names = ("wall_ms", "event_ms", "access_ms", "call_us")
    return max(names, key=lambda time: sum(f"median_{time}" in row for row in rows))


def number_of(row: Row, name: str) -> float | None:
    """Return the number in a cell, None where it is empty or text."""
    cell = row.get(name)
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else None


def short_name(column: str) -> str:
    """Return a column's name as people say it: `chunk` for `chunk_bytes`."""
    return column.removesuffix("_bytes")


def shown(column: str, cell: Cell) -> str:
    """Write a cell for people: bytes as a size, a number with 4 digits."""
    if cell is None:
        return ""
    if isinstance(cell, int) and column.endswith("_bytes") and cell > 0:
        return format_size(cell)
    return digits(cell) if isinstance(cell, float) else str(cell)


def interval_text(figure: Figure) -> str:
    """Write the interval of a figure, `5.1 … 5.3`; empty where it has none."""
    return "" if figure.low is None or figure.high is None else f"{digits(figure.low)} … {digits(figure.high)}"


def constants(rows: Sequence[Row]) -> Mapping[str, Cell]:
    """Return the cells that are the same in every row, by column, without those that name the run."""
    first = rows[0] if rows else {}
    alike = {name: cell for name, cell in first.items() if all(row.get(name) == cell for row in rows)}
    return {name: cell for name, cell in alike.items() if name not in _LEAD_NAMES}
