"""The figures that set one figure of a case against another: host held against copied, predicted against measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.report.axes import log_axis
from runner.report.cases import case_label, measured_rows, number_of, varying_axes
from runner.report.figures import COLOURS, SYMBOLS, PageFigure, plain
from runner.report.reading import RunTables
from runner.rows import Row
from runner.units import digits


def held_figure(run: RunTables) -> PageFigure | None:
    """Return how long copy calls held the host against the time of the copies, for cases that time both; None without any.

    A sample makes as many calls as it has chunks; cases in both directions are left out, since their calls differ, and those that
    count calls instead of timing a copy, which have no direction. Behind earlier work the device's time is that of both.
    """
    rows = [
        row
        for row in measured_rows(run.rows)
        if number_of(row, "median_event_ms")
        and number_of(row, "median_call_us")
        and row.get("direction", "bidirectional") != "bidirectional"
    ]
    rows = [row for row in rows if "size_bytes" in row]
    if not rows:
        return None
    axes = varying_axes(run.rows)
    series: dict[str, list[tuple[float, float, Row]]] = {}
    for row in rows:
        size, chunk = number_of(row, "size_bytes") or 1.0, number_of(row, "chunk_bytes")
        calls = -(-size // chunk) if chunk else 1.0
        held = (number_of(row, "median_call_us") or 0.0) * calls / 1e3
        name = " ".join(str(row[axis]) for axis in ("buffer", "direction") if axis in row)
        series.setdefault(name, []).append((number_of(row, "median_event_ms") or 0.0, held, row))
    ends = [value for points in series.values() for x, y, _ in points for value in (x, y)]
    data = [
        _dots(
            place,
            name,
            [(x, y, f"{case_label(row, axes)}<br>held {digits(y)} ms of {digits(x)} ms") for x, y, row in points],
        )
        for place, (name, points) in enumerate(series.items())
    ]
    cells = [
        (case_label(row, axes), digits(x), digits(y), f"{y / x * 100:.1f} %")
        for points in series.values()
        for x, y, row in points
    ]
    behind = any(number_of(row, "busy_ms") for row in rows)
    copies = "the copies and the work before them" if behind else "the copies"
    layout = {
        "xaxis": log_axis(f"time of {copies}, ms", ends),
        "yaxis": log_axis("host held, ms", ends),
        "shapes": [_diagonal(min(ends), max(ends))],
    }
    note = f"On the dashed line the calls hold the host for as long as {copies} take; far below it the host is free meanwhile."
    headers = ("case", f"{copies.removeprefix('the ')}, ms", "host held, ms", "share")
    return PageFigure("held", "How long copy calls hold the host", note, data, layout, headers, tuple(cells))


def predicted_figure(run: RunTables) -> PageFigure | None:
    """Return what a profile predicted beside what was measured, where predicted.csv lies in the run's folder."""
    labels = {row.get("case_id"): row for row in run.rows}
    axes = varying_axes(run.rows)
    series: dict[str, list[tuple[float, float, str]]] = {}
    cells, errors = [], []
    for row in run.predicted:
        measured, predicted = number_of(row, "measured_ms"), number_of(row, "predicted_ms")
        if not measured or not predicted or measured < 0 or predicted < 0:
            continue
        error = number_of(row, "error_percent")
        error = (predicted / measured - 1) * 100 if error is None else error
        metric = str(row.get("figure", ""))
        case = case_label(labels.get(row.get("case_id"), {"scenario": row.get("case_id", "")}), axes)
        told = f"{plain(case)}<br>measured {digits(measured)}, predicted {digits(predicted)} ({error:+.1f} %)"
        series.setdefault(metric, []).append((measured, predicted, told))
        cells.append((case, metric, digits(measured), digits(predicted), f"{error:+.1f}"))
        errors.append(abs(error))
    if not cells:
        return None
    ends = [value for points in series.values() for x, y, _ in points for value in (x, y)]
    data = [_dots(place, name, points, ready=True) for place, (name, points) in enumerate(series.items())]
    layout = {
        "xaxis": log_axis("measured, ms", ends),
        "yaxis": log_axis("predicted, ms", ends),
        "shapes": [_diagonal(min(ends), max(ends))],
    }
    middle = sorted(errors)[len(errors) // 2]
    note = (
        f"On the dashed line both are equal. Half of {len(errors)} figures are predicted within {middle:.1f} %, "
        f"the worst within {max(errors):.1f} %."
    )
    headers = ("case", "figure", "measured", "predicted", "error, %")
    return PageFigure("predicted", "Predicted beside measured", note, data, layout, headers, tuple(cells))


def _dots(place: int, name: str, points: Sequence[tuple[float, float, str]], *, ready: bool = False) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "x": [x for x, _, _ in points],
        "y": [y for _, y, _ in points],
        "hovertext": [told if ready else "<br>".join(map(plain, told.split("<br>"))) for _, _, told in points],
        "hoverinfo": "text",
        "marker": {"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9, "color": COLOURS[place % len(COLOURS)]},
    }


def _diagonal(low: float, high: float) -> dict[str, Any]:
    return {"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "line": {"dash": "dash", "width": 1.5, "color": "#888"}}
