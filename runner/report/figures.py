"""The figures of the page as plain data for Plotly, each with the numbers that it shows as a table.

Names come from tables that anybody may have edited, so they never reach Plotly as markup: `plain` turns what it would take for
tags or entities into text, and hovering shows ready sentences, not templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from runner.figures import Figure
from runner.report.cases import (
    interval_text,
    median_figure,
    number_of,
    rate_figure,
    short_name,
    shown,
)
from runner.rows import Row
from runner.units import digits

COLOURS: Final = ("#3b82c4", "#d9822b", "#2a9d6f", "#c2528b", "#8a6fd1", "#a8921f", "#3aa3b8", "#b5533c")
"""Series, told apart by colour, dash and symbol; each stands out from white and from near black by 3 to 1 at least."""
DASHES: Final = ("solid", "dash", "dot", "dashdot")
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
MOST_SERIES: Final = 12
SIZE_AXES: Final = ("size_bytes", "chunk_bytes", "total_bytes")


@dataclass(frozen=True, slots=True)
class PageFigure:
    """One figure: `data` and `layout` are Plotly's, `note` is what a reader must know of it, `rows` its numbers as text."""

    name: str
    title: str
    note: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def spec(self) -> dict[str, Any]:
        """Return what the page's script draws."""
        return {"name": self.name, "data": self.data, "layout": self.layout}


@dataclass(frozen=True, slots=True)
class Point:
    """A case at a place of the x axis, with its figure."""

    x: float
    figure: Figure
    row: Row


def series_of(rows: Sequence[Row], x_axis: str, axes: Sequence[str], time: str = "") -> tuple[dict[str, list[Point]], list[str]]:
    """Part rows into series of points in the order of x, by scenario and as many axes as give at most MOST_SERIES.

    Returns the series by name, and the axes that they are parted by; where several cases fall on one place the best one is kept:
    the greatest rate, or the smallest of `time` where that is given.
    """
    scenarios = len({row.get("scenario") for row in rows}) > 1
    first = [axis for axis in ("buffer", "direction") if axis in axes]
    split: list[str] = []
    for axis in (*first, *(axis for axis in axes if axis not in first)):
        if len({_key(row, [*split, axis], scenarios) for row in rows}) <= MOST_SERIES:
            split.append(axis)
    found: dict[str, dict[float, Point]] = {}
    for row in rows:
        figure = median_figure(row, time) if time else rate_figure(row)
        x = number_of(row, x_axis)
        if figure is None or x is None:
            continue
        places = found.setdefault(_key(row, split, scenarios), {})
        sign = 1 if time else -1
        if x not in places or sign * figure.value < sign * places[x].figure.value:
            places[x] = Point(x, figure, row)
    return {name: [places[x] for x in sorted(places)] for name, places in found.items()}, split


def error_bars(figures: Sequence[Figure], **style: Any) -> dict[str, Any]:
    """Return Plotly's error bars for the intervals of figures; of one without an interval they have no length."""
    high = [0.0 if figure.high is None else max(figure.high - figure.value, 0.0) for figure in figures]
    low = [0.0 if figure.low is None else max(figure.value - figure.low, 0.0) for figure in figures]
    visible = any(figure.low is not None for figure in figures)
    return {"type": "data", "visible": visible, "symmetric": False, "array": high, "arrayminus": low, "thickness": 1.2, **style}


def plain(text: str) -> str:
    """Return a text as Plotly shows it letter by letter: it takes tags and entities in labels for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def line_trace(place: int, name: str, points: Sequence[Point], x_axis: str, unit: str) -> dict[str, Any]:
    """Return one line of a picture with its intervals, told apart from its neighbours by colour, dash and symbol."""
    colour = COLOURS[place % len(COLOURS)]
    turned = place + place // len(COLOURS)  # a colour that comes again has another dash and symbol
    told = []
    for point in points:
        interval = f" ({interval_text(point.figure)})" if interval_text(point.figure) else ""
        told.append(f"{plain(name)}<br>{shown(x_axis, point.row[x_axis])}: {digits(point.figure.value)} {unit}{interval}")
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": [point.x for point in points],
        "y": [point.figure.value for point in points],
        "error_y": error_bars([point.figure for point in points]),
        "hovertext": told,
        "hoverinfo": "text",
        "line": {"color": colour, "dash": DASHES[turned % len(DASHES)], "width": 2},
        "marker": {"symbol": SYMBOLS[turned % len(SYMBOLS)], "size": 7, "color": colour},
    }


def _key(row: Row, split: Sequence[str], scenarios: bool) -> str:
    parts = [str(row.get("scenario", ""))] if scenarios else []
    for axis in split:
        if axis in row:
            value = shown(axis, row[axis])
            parts.append(value if isinstance(row[axis], str) else f"{short_name(axis)} {value}")
    return " ".join(parts) or str(row.get("scenario", ""))
