"""The figures of the page as plain data for Plotly, each with the numbers that it shows as a table.

Names come from tables that anybody may have edited, so they never reach Plotly as markup: `plain` turns what it would take for
tags or entities into text, and hovering shows ready sentences, not templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runner.figures import Figure
from runner.report.cases import (
    digits,
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
from runner.report.reading import RunTables
from runner.rows import Row

COLOURS: Final = ("#3b82c4", "#d9822b", "#2a9d6f", "#c2528b", "#8a6fd1", "#a8921f", "#3aa3b8", "#b5533c")
"""Series, told apart by colour, dash and symbol; each stands out from white and from near black by 3 to 1 at least."""
DASHES: Final = ("solid", "dash", "dot", "dashdot")
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
MOST_SERIES: Final = 12
MOST_TICKS: Final = 12
MOST_ABOVE: Final = 4
"""How many times the greatest rate the limit of the link may be: a line further above would flatten all that is below."""
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


def size_figure(run: RunTables) -> PageFigure | None:
    """Return rate against size by scenario, buffer and direction with the link's limit; of kinds without a rate their time.

    None where fewer than two sizes, chunks or totals have a number.
    """
    rows = measured_rows(run.rows)
    x_axis = max(SIZE_AXES, key=lambda axis: len({row[axis] for row in rows if axis in row}))
    rated = [row for row in rows if x_axis in row and rate_figure(row)]
    time = main_time(rows)
    used = rated or [row for row in rows if x_axis in row and median_figure(row, time)]
    if len({row[x_axis] for row in used}) < 2:
        return None
    unit = "GB/s" if rated else run.columns[f"median_{time}"].unit
    others = [axis for axis in varying_axes(run.rows) if axis != x_axis]
    series, split = series_of(used, x_axis, others, "" if rated else time)
    best = [axis for axis in others if axis not in split]
    noun = "rate" if rated else time
    what = f"{noun.capitalize() if rated else noun} against {short_name(x_axis)}"
    notes = [f"Of the cases that differ in {', '.join(map(short_name, best))} only the best is drawn."] if best else []
    if any(point.figure.low is not None for points in series.values() for point in points):
        notes.append("Bars are 95 % intervals of the median.")
    links = {limit for row in rated if (limit := number_of(row, "link_gb_per_s"))}
    greatest = max(point.figure.value for points in series.values() for point in points)
    if far := {limit for limit in links if limit > MOST_ABOVE * greatest}:
        notes.append(f"The limit of the link, {', '.join(map(digits, sorted(far)))} GB/s one way, lies far above the picture.")
    layout = _size_layout(x_axis, sorted({row[x_axis] for row in used}), f"{noun}, {unit}", links - far, log=not rated)
    data = [_line(place, name, points, x_axis, unit) for place, (name, points) in enumerate(series.items())]
    cells = [
        (name, shown(x_axis, point.row[x_axis]), digits(point.figure.value), interval_text(point.figure))
        for name, points in series.items()
        for point in points
    ]
    headers = ("series", short_name(x_axis), f"{noun}, {unit}", "95 % interval")
    return PageFigure("size", what, " ".join(notes), data, layout, headers, tuple(cells))


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


def _key(row: Row, split: Sequence[str], scenarios: bool) -> str:
    parts = [str(row.get("scenario", ""))] if scenarios else []
    for axis in split:
        if axis in row:
            value = shown(axis, row[axis])
            parts.append(value if isinstance(row[axis], str) else f"{short_name(axis)} {value}")
    return " ".join(parts) or str(row.get("scenario", ""))


def _line(place: int, name: str, points: Sequence[Point], x_axis: str, unit: str) -> dict[str, Any]:
    colour = COLOURS[place % len(COLOURS)]
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
        "line": {"color": colour, "dash": DASHES[place % len(DASHES)], "width": 2},
        "marker": {"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 7, "color": colour},
    }


def _size_layout(x_axis: str, sizes: Sequence[Any], title: str, links: set[float], *, log: bool) -> dict[str, Any]:
    every = -(-len(sizes) // MOST_TICKS)
    ticks = list(sizes)[::every]
    layout: dict[str, Any] = {
        "xaxis": {
            "type": "log",
            "title": {"text": short_name(x_axis)},
            "tickvals": ticks,
            "ticktext": [shown(x_axis, size) for size in ticks],
        },
        "yaxis": {"title": {"text": title}} | ({"type": "log"} if log else {"rangemode": "tozero"}),
    }
    if links:
        across: Mapping[str, Any] = {"type": "line", "xref": "paper", "x0": 0, "x1": 1}
        layout["shapes"] = [
            {**across, "y0": limit, "y1": limit, "line": {"dash": "dash", "width": 1.5, "color": "#888"}}
            for limit in sorted(links)
        ]
        layout["annotations"] = [
            {
                "xref": "paper",
                "x": 0.01,
                "xanchor": "left",
                "y": limit,
                "yanchor": "bottom",
                "showarrow": False,
                "text": f"limit of the link, one way: {digits(limit)} GB/s",
            }
            for limit in sorted(links)
        ]
    return layout
