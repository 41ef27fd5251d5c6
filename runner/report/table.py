"""The summary table of the page: which columns it shows first, its cells, and what is left to the CSV file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runner.columns import Column
from runner.report.cases import constants, main_time, measured_rows, short_name, varying_axes
from runner.report.reading import RunTables
from runner.rows import Row
from runner.scenarios.base import Cell

MOST_ROWS: Final = 5000
MOST_CELLS: Final = 250_000
"""Cells of the page's table: they take some 2 MB, and the whole page is to stay well below 6."""
STATIC_ROWS: Final = 30
"""Rows that stand in the page itself, for those who read it without its script."""
_LAST: Final = ("gb_per_s", "share_of_link", "speedup", "hidden_fraction", "status", "flags", "reason")


@dataclass(frozen=True, slots=True)
class PageTable:
    """The table: all its columns, those that show at first, one list of cells a column, and notes on what is left out."""

    columns: tuple[Column, ...]
    first: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    alike: Mapping[str, Cell]
    notes: tuple[str, ...]

    def data(self) -> dict[str, Any]:
        """Return the table for the page's script."""
        columns = [
            {"name": column.name, "label": short_name(column.name), "type": column.type, "first": column.name in self.first}
            for column in self.columns
        ]
        return {"columns": columns, "cells": self.cells}

    def static(self) -> list[list[tuple[Column, Cell]]]:
        """Return the first rows with the columns that show at first."""
        count = min(STATIC_ROWS, len(self.cells[0]) if self.cells else 0)
        shown = [(column, cells) for column, cells in zip(self.columns, self.cells, strict=True) if column.name in self.first]
        return [[(column, cells[place]) for column, cells in shown] for place in range(count)]


def page_table(run: RunTables) -> PageTable:
    """Return the summary table: MOST_ROWS rows at most, without columns that are empty or the same in every row."""
    rows = run.rows[:MOST_ROWS]
    alike = constants(run.rows) if len(run.rows) > 1 else {}
    first = [name for name in first_columns(run) if name not in alike]
    names = [name for name in _present(rows, run.columns) if name not in alike and (name in first or name not in _NAMING)]
    most = max(len(first), MOST_CELLS // max(len(rows), 1))
    kept = [*first, *(name for name in names if name not in first)][:most]
    notes = []
    if len(run.rows) > len(rows):
        notes.append(f"These are the first {len(rows):,} of {len(run.rows):,} rows.")
    if len(kept) < len(names):
        notes.append(f"{len(names) - len(kept)} columns of so long a table are only in summary.csv.")
    cells = tuple(tuple(_short(row.get(name)) for row in rows) for name in kept)
    return PageTable(tuple(run.columns[name] for name in kept), tuple(first), cells, alike, tuple(notes))


def first_columns(run: RunTables) -> list[str]:
    """Return the columns that tell most: the axes that vary, the time that gives the rate, the rate, the speedup, the outcome."""
    time = main_time(measured_rows(run.rows))
    timed = [f"median_{time}", f"ci_low_{time}", f"ci_high_{time}"]
    wanted = [*(["experiment"] if run.of_several else []), "scenario", *varying_axes(run.rows), *timed, *_LAST]
    found = set().union(*(row.keys() for row in run.rows)) if run.rows else set()
    return [name for name in wanted if name in found]


_NAMING: Final = frozenset({"run_id", "experiment", "device", "device_kind"})
"""Columns that name the run, not the case."""


def _present(rows: Sequence[Row], columns: Mapping[str, Column]) -> list[str]:
    found = dict.fromkeys(name for row in rows for name in row)
    order = {name: place for place, name in enumerate(columns)}
    return sorted((name for name in found if name in order), key=order.__getitem__)


def _short(cell: Cell) -> Cell:
    """Return a cell with the digits that a reader can use; all of them are in the CSV file."""
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell
