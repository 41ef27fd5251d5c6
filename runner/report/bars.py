"""The figure of serialized against overlapped: the best pipeline of each scenario beside its twin and its bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runner.figures import Figure
from runner.report.cases import case_label, measured_rows, median_figure, number_of, varying_axes
from runner.report.figures import COLOURS, PageFigure, error_bars, plain
from runner.report.gain import bound_above_twin
from runner.report.reading import RunTables
from runner.rows import Row
from runner.units import digits

MOST_BARS: Final = 12
BOUNDS: Final = {
    "bound_none_ms": ("nothing overlaps", "line-ns", -0.2),
    "bound_one_way_ms": ("one engine copies both ways", "diamond-open", 0.0),
    "bound_full_ms": ("all overlaps", "star", 0.2),
}
"""By column: the words, the sign, and how far from the middle of its bars it stands: equal bounds must not hide each other."""
UNEXPLAINED: Final = 1.2
"""How many times the sum of its parts a pipeline may take before that is said."""
_BOUND_COLOUR: Final = COLOURS[3]
_PIXELS_A_CASE: Final = 96
_LABEL_ABOVE: Final = 37
"""Pixels from the middle of a case's bars to its label above them, which leaves the bars all the width of a phone."""


def bars_figure(run: RunTables) -> PageFigure | None:
    """Return the best pipeline of each scenario beside its serialized twin and its bounds; None where there is none.

    The bound of one copy engine is left out where the device has more, bounds above the twin are left out and named.
    """
    best = _best_rows(run)
    if not best:
        return None
    rows = sorted(best.values(), key=lambda row: -(number_of(row, "median_wall_ms") or 0.0))[-MOST_BARS:]
    labels = [_label(run, row) for row in rows]
    bounds = {column: words for column, words in BOUNDS.items() if column != "bound_one_way_ms" or not _several_engines(run)}
    measured = [median_figure(row, "wall_ms") or Figure(0.0) for row in rows]
    data = [
        _bar("serialized twin", [number_of(row, "twin_ms") for row in rows], {"marker": {"color": "#9aa3ad"}}),
        _bar(
            _told_by(run), [each.value for each in measured], {"marker": {"color": COLOURS[0]}, "error_x": error_bars(measured)}
        ),
        *(_marks(rows, column) for column in bounds if any(_bound(row, column) is not None for row in rows)),
    ]
    layout = {
        "barmode": "group",
        "bargap": 0.42,
        "height": 130 + _PIXELS_A_CASE * len(rows),
        "xaxis": {"title": {"text": "wall time, ms"}, "rangemode": "tozero"},
        "yaxis": {"showticklabels": False, "showgrid": False, "zeroline": False, "range": [-0.5, len(rows) - 0.4]},
        "annotations": [_annotation(place, label) for place, label in enumerate(labels)],
    }
    cells = tuple(
        (label, *(_ms(row, column) for column in ("twin_ms", "median_wall_ms", *bounds)), _share(row))
        for row, label in reversed(list(zip(rows, labels, strict=True)))
    )
    headers = (
        "best case",
        "serialized twin, ms",
        f"{_told_by(run)}, ms",
        *(f"{words}, ms" for words, *_ in bounds.values()),
        "hidden",
    )
    notes = _notes(rows, labels, bounds)
    if len(best) > len(rows):
        notes.append(f"Only the {len(rows)} fastest of {len(best)} scenarios are drawn.")
    return PageFigure("bars", "Serialized against overlapped", " ".join(notes), data, layout, headers, cells)


def _best_rows(run: RunTables) -> dict[str, Row]:
    best: dict[str, Row] = {}
    for row in measured_rows(run.rows):
        wall = number_of(row, "median_wall_ms")
        name = str(row.get("scenario", ""))
        if wall and (number_of(row, "bound_full_ms") or number_of(row, "twin_ms")):
            best[name] = min(best.get(name, row), row, key=lambda each: number_of(each, "median_wall_ms") or 0.0)
    return best


def _label(run: RunTables, row: Row) -> str:
    """Name a case by its scenario and what varies within that: the rest tells nothing of which case is the best."""
    return case_label(row, varying_axes([each for each in run.rows if each.get("scenario") == row.get("scenario")]))


def _told_by(run: RunTables) -> str:
    return "simulated" if run.simulated else "measured"


def _several_engines(run: RunTables) -> bool:
    device = run.manifest.get("device")
    engines = device.get("copy_engines") if isinstance(device, dict) else None
    return isinstance(engines, int) and engines > 1


def _notes(rows: Sequence[Row], labels: Sequence[str], bounds: Mapping[str, Any]) -> list[str]:
    """Say what twin and bounds are, what is in none of them, and which of them cannot be believed."""
    cases = ", ".join(f"where {words}" for words, *_ in (bounds[column] for column in bounds))
    notes = [
        "The twin does the same work from the same buffers one chunk at a time. Bounds are sums and maxima of the parts, each "
        f"measured alone in the same run: {cases}."
    ]
    for row, label in zip(rows, labels, strict=True):
        wall, none = number_of(row, "median_wall_ms"), number_of(row, "bound_none_ms")
        if bound_above_twin(row):
            notes.append(f"The bounds of {label} lie above its twin, so its parts took too long alone, and they are not drawn.")
        elif wall and none and wall > UNEXPLAINED * none:
            notes.append(
                f"{label} takes {digits(wall - none)} ms more than its parts together: what it allocates, touches for the first "
                "time and waits for is in no bound."
            )
    return notes


def _bar(name: str, values: Sequence[float | None], more: Mapping[str, Any]) -> dict[str, Any]:
    told = [None if value is None else f"{name}: {digits(value)} ms" for value in values]
    bar = {"type": "bar", "orientation": "h", "name": name, "y": list(range(len(values))), "x": list(values)}
    return bar | {"hovertext": told, "hoverinfo": "text", **more}


def _marks(rows: Sequence[Row], column: str) -> dict[str, Any]:
    words, symbol, aside = BOUNDS[column]
    values = [_bound(row, column) for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"bound: {words}",
        "x": values,
        "y": [place + aside for place in range(len(rows))],
        "marker": {"symbol": symbol, "size": 13, "color": _BOUND_COLOUR, "line": {"color": _BOUND_COLOUR, "width": 2}},
        "hovertext": [None if value is None else f"{words}: {digits(value)} ms" for value in values],
        "hoverinfo": "text",
    }


def _annotation(place: int, label: str) -> dict[str, Any]:
    placed = {"xref": "paper", "x": 0, "xanchor": "left", "y": place, "yshift": _LABEL_ABOVE, "showarrow": False}
    return {**placed, "align": "left", "text": plain(label)}


def _bound(row: Row, column: str) -> float | None:
    value = number_of(row, column)
    return None if value is None or not math.isfinite(value) or bound_above_twin(row) else value


def _ms(row: Row, column: str) -> str:
    value = number_of(row, column)
    return "" if value is None else digits(value)


def _share(row: Row) -> str:
    hidden = None if bound_above_twin(row) else number_of(row, "hidden_fraction")
    return "" if hidden is None else f"{hidden * 100:.0f} %"
