"""The pictures of rate against size, one a direction, each with the limit of the link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runner.column_words import unit_of, words_of
from runner.report.axes import limit_lines, log_axis, size_axis
from runner.report.cases import (
    counted_ways,
    interval_text,
    main_time,
    measured_rows,
    median_figure,
    number_of,
    rate_figure,
    short_name,
    shown,
    varying_axes,
)
from runner.report.figures import SIZE_AXES, PageFigure, Point, line_trace, series_of
from runner.report.reading import RunTables
from runner.rows import Row
from runner.units import digits

MOST_ABOVE: Final = 4
"""How many times the greatest rate the limit of the link may be: a line further above would flatten all that is below."""
ALIKE: Final = 0.005
"""The share by which lines may differ everywhere and still lie on each other in the picture."""
DIRECTIONS: Final = {
    "h2d": "to the device (h2d)",
    "d2h": "to the host (d2h)",
    "bidirectional": "both ways at once",
    "round_trip": "there and back",
}


def size_figures(run: RunTables) -> list[PageFigure]:
    """Return rate against size by scenario and buffer, a picture for each direction; of kinds without a rate their time.

    Directions count bytes differently, one way or both together, and so share no axis. None where fewer than two sizes, chunks or
    totals have a number.
    """
    rows = measured_rows(run.rows)
    x_axis = max(SIZE_AXES, key=lambda axis: len({row[axis] for row in rows if axis in row}))
    rated = [row for row in rows if x_axis in row and rate_figure(row)]
    time = main_time(rows)
    used = rated or [row for row in rows if x_axis in row and median_figure(row, time)]
    if len({row[x_axis] for row in used}) < 2:
        return []
    directions = dict.fromkeys(str(row.get("direction", "")) for row in used)
    panels = [[row for row in used if str(row.get("direction", "")) == direction] for direction in directions]
    return [_panel(place, run, panel, x_axis, "" if rated else time) for place, panel in enumerate(panels)]


def _panel(place: int, run: RunTables, rows: Sequence[Row], x_axis: str, time: str) -> PageFigure:
    """Draw the rows of one direction: their rates, or `time` where that is given."""
    direction = str(rows[0].get("direction", ""))
    name = words_of(time) if time else "rate"
    unit = unit_of(f"median_{time}") if time else "GB/s"
    others = [axis for axis in varying_axes(run.rows) if axis not in (x_axis, "direction")]
    series, split = series_of(rows, x_axis, others, time)
    best = [axis for axis in others if axis not in split and len({row[axis] for row in rows if axis in row}) > 1]
    values = [point.figure.value for line in series.values() for point in line]
    title = f"{name}{'' if time else counted_ways(rows[0])}, {unit}"
    limits = {} if time else _limits(rows)
    near = {limit: words for limit, words in limits.items() if limit <= MOST_ABOVE * max(values)}
    layout: dict[str, Any] = {
        "xaxis": size_axis(x_axis, sorted({row[x_axis] for row in rows})),
        "yaxis": log_axis(title, values) if time else {"title": {"text": title}, "rangemode": "tozero"},
        **(limit_lines(near) if near else {}),
    }
    cells = tuple(
        (name, shown(x_axis, point.row[x_axis]), digits(point.figure.value), interval_text(point.figure))
        for name, line in series.items()
        for point in line
    )
    where = f", {DIRECTIONS.get(direction, direction)}" if direction else ""
    return PageFigure(
        f"size{place or ''}",
        f"{name.capitalize()} against {short_name(x_axis)}{where}",
        " ".join(_notes(series, best, {limit: words for limit, words in limits.items() if limit not in near})),
        [line_trace(number, name, line, x_axis, unit) for number, (name, line) in enumerate(series.items())],
        layout,
        ("series", short_name(x_axis), title, "95 % interval"),
        cells,
    )


def _notes(series: Mapping[str, Sequence[Point]], best: Sequence[str], far: Mapping[float, str]) -> list[str]:
    """Say what the picture leaves out, which lines hide each other, and what its bars are."""
    notes = [f"Of the cases that differ in {', '.join(map(short_name, best))} only the best is drawn."] if best else []
    notes += [f"{' and '.join(names)} lie on each other." for names in _coinciding(series)]
    if any(point.figure.low is not None for line in series.values() for point in line):
        notes.append("Bars are 95 % intervals of the median.")
    return [*notes, *(f"The {words}, {digits(limit)} GB/s, lies far above the picture." for limit, words in far.items())]


def _limits(rows: Sequence[Row]) -> dict[float, str]:
    """Return the limits of the link in GB/s with their words: `share_of_link` tells whether it is that of one way or of both."""
    found: dict[float, str] = {}
    for row in rows:
        link, share, rate = (number_of(row, name) for name in ("link_gb_per_s", "share_of_link", "gb_per_s"))
        if link:
            ways = round(rate / share / link) if rate and share else 1
            found[link * ways] = f"limit of the link, {'one way' if ways == 1 else 'both ways'}"
    return dict(sorted(found.items()))


def _coinciding(series: Mapping[str, Sequence[Point]]) -> list[list[str]]:
    """Return the names of lines that no reader could tell apart: the same places of x, and values within ALIKE."""
    groups: list[list[str]] = []
    for name, line in series.items():
        group = next((group for group in groups if _alike(line, series[group[0]])), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return [group for group in groups if len(group) > 1]


def _alike(one: Sequence[Point], other: Sequence[Point]) -> bool:
    return [point.x for point in one] == [point.x for point in other] and all(
        math.isclose(mine.figure.value, theirs.figure.value, rel_tol=ALIKE) for mine, theirs in zip(one, other, strict=True)
    )
