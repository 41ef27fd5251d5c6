"""The verdicts on all claims for people: a page in Markdown, and a table on the screen; both are made of rows of verdicts.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from runner.rows import Row
from runner.scenarios.base import Cell
from runner.screen import Grid
from runner.units import counted
from runner.verdicts import limit_text, measured_text

WORDS: Final = ("confirmed", "refuted", "undecided")
WORST_FIRST: Final = ("refuted", "undecided", "confirmed")
"""The order in which a page tells claims: what a reader did not expect comes first."""


def page_lines(rows: Sequence[Row]) -> list[str]:
    """Return the page: all verdicts in one table, the refuted ones first, then each claim with its sentence and its reason."""
    first: Row = rows[0] if rows else {}
    lines = [f"# Claims of the source documents, tested on {first.get('device', 'no device')}", ""]
    if first.get("device_kind") == "simulated":
        lines += ["SIMULATED: every figure is computed from a profile, none is measured on a GPU.", ""]
    lines += [f"{counts_sentence(rows)} Run {first.get('run_id', '')}.", ""]
    lines += ["| claim | verdict | figure | interval | limit |", "| --- | --- | ---: | ---: | --- |"]
    ordered = sorted(rows, key=lambda row: WORST_FIRST.index(str(row["verdict"])))
    for row in ordered:
        cells = (row["claim"], row["verdict"], figure_text(row), interval_text(row), limit_of(row))
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    lines += ["", "A figure without an interval is simulated, or of too few samples. A ratio has no unit.", ""]
    for row in ordered:
        lines += [f"## {row['claim']}", ""]
        lines += [f"> {row['source']}", ""] if row["source"] else []
        lines += [f"{_told(row)} From `{row['experiment']}.yaml`: {row['reason']}", ""]
    return lines[:-1]


def screen_grid(rows: Sequence[Row]) -> Grid:
    """Return the table of the verdicts for the screen."""
    drawn = tuple((str(row["verdict"]), str(row["claim"]), figure_text(row), interval_text(row), limit_of(row)) for row in rows)
    return Grid(("verdict", "claim", "figure", "interval", "limit"), drawn)


def counts_sentence(rows: Sequence[Row]) -> str:
    """Say how many claims are confirmed, refuted and undecided."""
    counts = Counter(row["verdict"] for row in rows)
    return f"{counted(len(rows), 'claim')}: {', '.join(f'{counts[word]} {word}' for word in WORDS)}."


def figure_text(row: Row) -> str:
    """Write the figure of a verdict with its unit; empty where it has none."""
    return measured_text(_number(row["figure"]), None, None, str(row["unit"]))[0]


def interval_text(row: Row) -> str:
    """Write the interval of a verdict's figure with its unit; empty where it has none."""
    return measured_text(None, _number(row["low"]), _number(row["high"]), str(row["unit"]))[1]


def limit_of(row: Row) -> str:
    """Write the limit of a verdict with the unit of its figure."""
    return limit_text(str(row["limit"]), str(row["unit"]))


def _told(row: Row) -> str:
    """Say verdict, figure and limit in one sentence."""
    measured = ", ".join(part for part in (figure_text(row), interval_text(row)) if part)
    limit = f" (expected: {limit_of(row)})" if row["limit"] else ""
    return f"**{row['verdict']}**{f': {measured}' if measured else ''}{limit}."


def _number(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, int | float) else None


def _cell(cell: Cell) -> str:
    return " ".join(str(cell).split()).replace("|", "\\|")
