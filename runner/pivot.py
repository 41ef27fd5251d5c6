"""A pivot of summary.csv: one axis down, one across, one figure in the cells; the grid that people paste."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.columns import Column
from runner.errors import InputError
from runner.forms import GridForm
from runner.report.cases import AXIS_NAMES, shown
from runner.report.reading import RunTables
from runner.rows import Row
from runner.scenarios.base import Cell
from runner.spec.places import nearest
from runner.units import parse_size


@dataclass(frozen=True, slots=True)
class Pivot:
    """A grid: `down` and `across` are the values of the axes `rows` and `columns` in order; a cell may be empty (None)."""

    rows: str
    columns: str
    values: str
    down: tuple[Cell, ...]
    across: tuple[Cell, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def text(self, form: GridForm) -> str:
        """Write the grid; numbers are numbers, sizes bytes, but in Markdown, which is for people, `4MiB` and 4 digits."""
        table = [[f"{self.rows} \\ {self.columns}", *self.across]]
        table += [[value, *cells] for value, cells in zip(self.down, self.cells, strict=True)]
        if form is GridForm.markdown:
            return self._markdown()
        delimiter = {GridForm.tsv: "\t", GridForm.csv: ",", GridForm.csv_semicolon: ";"}[form]
        comma = form is GridForm.csv_semicolon
        written = io.StringIO()
        writer = csv.writer(written, delimiter=delimiter, lineterminator="\n")
        writer.writerows([_exact(cell, comma) for cell in line] for line in table)
        return written.getvalue()

    def _markdown(self) -> str:
        header = [f"{self.rows} \\ {self.columns}", *(shown(self.columns, value) for value in self.across)]
        lines = [
            [shown(self.rows, value), *(shown(self.values, cell) for cell in cells)]
            for value, cells in zip(self.down, self.cells, strict=True)
        ]
        rule = ["---", *("---:" for _ in self.across)]
        escaped = [[cell.replace("|", "\\|") for cell in line] for line in (header, rule, *lines)]
        return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def pivot(run: RunTables, rows: str, columns: str, values: str, where: Sequence[str] = ()) -> Pivot:
    """Return the grid of one figure over two axes, from the cases that meet every `KEY=VALUE` of `where`.

    Names are columns of summary.csv; `_bytes` may be left out. Cases without a number (status not ok) give empty cells. Raises
    InputError for an unknown column, and where several cases fall into one cell, naming what tells them apart.
    """
    names = {name: _column(run, name) for name in (rows, columns, values)}
    chosen = _where(run, where)
    down_axis, across_axis, figure = names[rows], names[columns], names[values]
    found: dict[tuple[Cell, Cell], Row] = {}
    for row in chosen:
        place = (row.get(down_axis.name), row.get(across_axis.name))
        if place[0] is None or place[1] is None:
            continue
        if place in found:
            raise InputError(_ambiguous(found[place], row, names))
        found[place] = row
    if not found:
        raise InputError(f"no case has both {down_axis.name} and {across_axis.name}{' and meets --where' if where else ''}")
    down, across = (_ordered({place[side] for place in found}) for side in (0, 1))
    cells = tuple(tuple(_value(found.get((one, other)), figure.name) for other in across) for one in down)
    return Pivot(down_axis.name, across_axis.name, figure.name, down, across, cells)


def _column(run: RunTables, name: str) -> Column:
    present = {key for row in run.rows for key in row}
    for each in (name, f"{name}_bytes"):
        if each in present or each in run.columns:
            return run.columns.get(each, Column(each, "text", "", ""))
    known = sorted(present | set(run.columns))
    hint = nearest(name, known)
    raise InputError(f"summary.csv has no column {name}{f'; {hint}' if hint else ''}")


def _where(run: RunTables, conditions: Sequence[str]) -> list[Row]:
    """Return the cases that count, excluded ones apart, and meet all conditions; sizes compare as bytes."""
    wanted: list[tuple[str, Cell]] = []
    for condition in conditions:
        name, sign, value = condition.partition("=")
        if not sign:
            raise InputError(f"--where {condition} is no KEY=VALUE")
        column = _column(run, name.strip())
        wanted.append((column.name, _parsed(column, value.strip())))
    counted = [row for row in run.rows if row.get("status") != "excluded"]
    return [row for row in counted if all(row.get(name, "") == value for name, value in wanted)]


def _parsed(column: Column, value: str) -> Cell:
    try:
        if column.type == "text":
            return value
        if column.name.endswith("_bytes") and not value.isdigit():
            return parse_size(value)
        return int(value) if column.type == "integer" else float(value)
    except ValueError as error:
        raise InputError(f"--where {column.name}={value}: {error}") from None


def _ambiguous(one: Row, other: Row, names: Mapping[str, Column]) -> str:
    used = {column.name for column in names.values()}
    apart = [name for name in ("scenario", *AXIS_NAMES) if one.get(name) != other.get(name) and name not in used]
    choices = ", ".join(f"{name} ({shown(name, one.get(name))} or {shown(name, other.get(name))})" for name in apart)
    return (
        f"the cases {one.get('case_id')} and {other.get('case_id')} fall into one cell; choose with --where KEY=VALUE: "
        f"they differ in {choices or 'no axis'}"
    )


def _ordered(values: set[Cell]) -> tuple[Cell, ...]:
    """Return values in order: numbers by size before texts by their letters."""
    return tuple(
        sorted(values, key=lambda value: (isinstance(value, str), value if not isinstance(value, str) else 0, str(value)))
    )


def _value(row: Row | None, name: str) -> Cell:
    return None if row is None else row.get(name)


def _exact(cell: Cell, comma: bool) -> str:
    if cell is None:
        return ""
    text = str(cell)
    return text.replace(".", ",") if comma and isinstance(cell, float) else text
