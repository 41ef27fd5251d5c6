"""The heat maps of chunk against streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runner.figures import Figure
from runner.report.cases import (
    case_label,
    interval_text,
    measured_rows,
    median_figure,
    rate_figure,
    shown,
    varying_axes,
)
from runner.report.figures import PageFigure
from runner.report.reading import RunTables
from runner.rows import Row
from runner.units import counted, digits

MOST_MAPS: Final = 4
HEAT_COLOURS: Final = ((0, "#f4efe2"), (0.5, "#b5d9e6"), (1, "#4fb0dc"))
"""From worst to best; dark text can be read on each of them."""
FRAME: Final = "#1a1f24"
"""The frame of the best cell: near black, which no cell is; red would say that something is wrong."""
Grid = Mapping[tuple[int, int], Row]


def heat_figures(run: RunTables) -> list[PageFigure]:
    """Return a heat map of chunk against streams for each group of cases that have at least two of both, MOST_MAPS at most.

    A group is a scenario and all axes but these two. Its cells hold the wall time where all move the same bytes, else the rate.
    """
    axes = [axis for axis in varying_axes(run.rows) if axis not in ("chunk_bytes", "streams")]
    groups: dict[str, dict[tuple[int, int], Row]] = {}
    for row in measured_rows(run.rows):
        chunk, streams = row.get("chunk_bytes"), row.get("streams")
        if isinstance(chunk, int) and isinstance(streams, int):
            groups.setdefault(case_label(row, axes), {})[chunk, streams] = row
    square = {name: grid for name, grid in groups.items() if all(len({key[side] for key in grid}) > 1 for side in (0, 1))}
    figures = [_heat(place, name, grid) for place, (name, grid) in enumerate(square.items()) if place < MOST_MAPS]
    return [figure for figure in figures if figure is not None]


def _heat(place: int, name: str, grid: Grid) -> PageFigure | None:
    chunks, streams = sorted({key[0] for key in grid}), sorted({key[1] for key in grid})
    totals = {row.get("total_bytes") for row in grid.values()}
    timed = len(totals) == 1 and totals != {None}
    figures = {key: figure for key, row in grid.items() if (figure := _figure(row, timed=timed))}
    if not figures:
        return None
    unit, better = ("ms", min) if timed else ("GB/s", max)
    best = better(figures, key=lambda key: figures[key].value)
    alike = [key for key in figures if key != best and _touch(figures[key], figures[best])]
    values = [[figures[chunk, each].value if (chunk, each) in figures else None for each in streams] for chunk in chunks]
    texts = [[_cell(figures, (chunk, each), best) for each in streams] for chunk in chunks]
    heat = {
        "type": "heatmap",
        "x": [str(each) for each in streams],
        "y": [shown("chunk_bytes", chunk) for chunk in chunks],
        "z": values,
        "text": texts,
        "texttemplate": "%{text}",
        "hoverongaps": False,
        "hovertext": [[_told(figures, (chunk, each)) for each in streams] for chunk in chunks],
        "hovertemplate": f"chunk %{{y}}, streams %{{x}}: %{{hovertext}} {unit}<extra></extra>",
        "textfont": {"color": "#111"},
        "colorscale": HEAT_COLOURS,
        "reversescale": timed,
        "colorbar": {"title": {"text": f"{unit}<br>{'less' if timed else 'more'}<br>is better"}, "thickness": 12},
    }
    layout = {
        "xaxis": {"type": "category", "title": {"text": "streams"}},
        "yaxis": {"type": "category", "title": {"text": "chunk"}, "automargin": True},
        "height": 190 + 44 * len(chunks),
        "shapes": [_frame(streams.index(best[1]), chunks.index(best[0]))],
    }
    words = "lowest wall time" if timed else "highest rate"
    where = f"with chunks of {shown('chunk_bytes', best[0])} on {counted(best[1], 'stream')}"
    told = f"The bluer, the better; frame and ★ mark the {words}: {digits(figures[best].value)} {unit} {where}."
    if alike:
        told += f" The intervals of {counted(len(alike), 'other cell')} touch its own, so these may be as good."
    rows = tuple((shown("chunk_bytes", chunk), *(_told(figures, (chunk, each)) for each in streams)) for chunk in chunks)
    headers = ("chunk", *(f"{counted(each, 'stream')}, {unit}" for each in streams))
    return PageFigure(f"heat{place}", f"Chunk against streams: {name}", told, [heat], layout, headers, rows)


def _figure(row: Row, *, timed: bool) -> Figure | None:
    return median_figure(row, "wall_ms") if timed else rate_figure(row)


def _touch(one: Figure, other: Figure) -> bool:
    """Whether the intervals of two figures have a value in common; without intervals nothing is alike."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low <= other.high and other.low <= one.high


def _cell(figures: Mapping[tuple[int, int], Figure], key: tuple[int, int], best: tuple[int, int]) -> str:
    return "" if key not in figures else f"{'★ ' if key == best else ''}{digits(figures[key].value)}"


def _told(figures: Mapping[tuple[int, int], Figure], key: tuple[int, int]) -> str:
    if key not in figures:
        return ""
    interval = interval_text(figures[key])
    return f"{digits(figures[key].value)}{f' ({interval})' if interval else ''}"


def _frame(x: int, y: int) -> dict[str, Any]:
    sides = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    return {"type": "rect", **sides, "line": {"color": FRAME, "width": 4}}
