"""The axes of the page's figures: sizes as people write them, decades with their ticks, and the limits of the link as lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from runner.report.cases import short_name, shown
from runner.units import digits

MOST_TICKS: Final = 12
_FEW_DECADES: Final = 2
"""Up to so many decades 2 and 5 have ticks, too; beyond, the powers of ten are enough."""


def log_axis(title: str, values: Iterable[float]) -> dict[str, Any]:
    """Return a logarithmic axis around positive `values` whose ticks are written in full: 0.2, 0.5, 1, 2 and not 2, 5, 1, 2."""
    low, high = _ends(values)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= _FEW_DECADES else (1,)
    every = max(1, -(-(last - first) // MOST_TICKS))
    ticks = [step * 10.0**decade for decade in range(first, last + 1, every) for step in steps]
    return {"type": "log", "title": {"text": title}, "tickvals": ticks, "ticktext": [digits(tick) for tick in ticks]}


def size_axis(name: str, sizes: Sequence[Any]) -> dict[str, Any]:
    """Return the logarithmic axis of a column of sizes, with ticks at the sizes that there are, MOST_TICKS at most."""
    ticks = list(sizes)[:: -(-len(sizes) // MOST_TICKS)]
    texts = [shown(name, size) for size in ticks]
    return {"type": "log", "title": {"text": short_name(name)}, "tickvals": ticks, "ticktext": texts}


def limit_lines(limits: Mapping[float, str]) -> dict[str, Any]:
    """Return the part of a layout that draws limits, in GB/s, as lines across with their words at the left."""
    across: Mapping[str, Any] = {"type": "line", "xref": "paper", "x0": 0, "x1": 1}
    words: Mapping[str, Any] = {"xref": "paper", "x": 0.01, "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    line = {"dash": "dash", "width": 1.5, "color": "#888"}
    return {
        "shapes": [{**across, "y0": limit, "y1": limit, "line": line} for limit in limits],
        "annotations": [{**words, "y": limit, "text": f"{told}: {digits(limit)} GB/s"} for limit, told in limits.items()],
    }


def _ends(values: Iterable[float]) -> tuple[float, float]:
    found = [value for value in values if value > 0]
    return min(found), max(found)
