"""Predictions for people and for programs: lines for the screen, and the rows of `predicted.csv`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from runner.columns import AXES, own_columns
from runner.predict import Prediction, worst_first
from runner.rows import Row
from runner.screen import Grid
from runner.units import counted, digits, format_size

MOST_ROWS: Final = 40
"""Rows of the table on the screen; the file has them all."""
_SIZES: Final = frozenset(column.name for column in (*AXES, *own_columns()) if column.name.endswith("_bytes"))


def predicted_rows(predictions: Sequence[Prediction], profile: str) -> Iterator[Row]:
    """Yield a row a case, the largest error first, with the columns of `runner.run_files.PREDICTED`."""
    for each in worst_first(predictions):
        yield {
            "scenario": each.case.scenario,
            "case_id": each.case.case_id,
            "case": _axes(each),
            "figure": each.figure,
            "measured_ms": each.measured_ms,
            "predicted_ms": each.predicted_ms,
            "error_percent": None if each.error is None else 100 * each.error,
            "spread_percent": None if each.spread is None else 100 * each.spread,
            "profile": profile,
            "reason": each.reason,
        }


def predicted_grid(predictions: Sequence[Prediction]) -> Grid:
    """Return the table for the screen, the largest error first."""
    shown = worst_first(predictions)[:MOST_ROWS]
    left = len(predictions) - len(shown)
    headers = ("scenario", "case", "clock", "measured ms", "predicted ms", "error %", "spread %")
    return Grid(headers, tuple(map(_cells, shown)), f"... and {counted(left, 'case')} that came nearer" if left else "")


def _cells(each: Prediction) -> tuple[str, ...]:
    error = "" if each.error is None else f"{100 * each.error:+.1f}"
    predicted = each.reason if each.predicted_ms is None else digits(each.predicted_ms)
    spread = "" if each.spread is None else f"{100 * each.spread:.1f}"
    clock = each.figure.removesuffix("_ms")
    return each.case.scenario, _axes(each), clock, digits(each.measured_ms), predicted, error, spread


def _axes(each: Prediction) -> str:
    return " ".join(f"{name}={_said(name, value)}" for name, value in each.case.axes.items())


def _said(axis: str, value: object) -> str:
    """Write the value of an axis as a file and `timeline RUN chunk=1MiB` take it: bytes as a size."""
    sized = isinstance(value, int) and not isinstance(value, bool) and f"{axis.replace('.', '_')}_bytes" in _SIZES
    return format_size(value) if sized and isinstance(value, int) else str(value)
