"""A pivot of summary.csv: one axis down, one across, one figure in the cells; the grid that people paste."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runner.columns import TIMES, Column, summary_columns
from runner.errors import InputError
from runner.forms import GridForm
from runner.report.cases import AXIS_NAMES, main_time, shown
from runner.report.reading import RunTables
from runner.rows import Row
from runner.rows import text as guarded
from runner.scenarios.base import Cell
from runner.spec.places import nearest
from runner.units import counted, parse_size

MOST_NAMED: Final = 12
"""Values that a refusal lists."""
_PLACES: Final = ("host", "gpu_uuid")
"""What tells the cases of a run of many GPUs apart beside their axes."""


@dataclass(frozen=True, slots=True)
class Pivot:
    """A grid: `down` and `across` are the values of the axes `rows` and `columns` in order; a cell may be empty (None)."""

    rows: str
    columns: str
    values: str
    down: tuple[Cell, ...]
    across: tuple[Cell, ...]
    cells: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """Which cases the grid leaves out without being asked, and why; empty where it has all."""

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


def pivot(run: RunTables, rows: str, columns: str, values: str | None = None, where: Sequence[str] = ()) -> Pivot:
    """Return the grid of one figure over two axes, from the cases that meet every `KEY=VALUE` of `where`.

    Names are columns of summary.csv; `_bytes` may be left out, and `wall_ms` is its median. Without `values` the figure is the
    median of the time that gives the rate of these cases. Where only one of several scenarios varies over both axes, the grid is
    that one's, which its note tells. Cases without a number (status not ok) give empty cells. Raises InputError for an unknown
    column, for one axis twice, for a condition that no case meets, where no case has a number, and where several cases fall into
    one cell, naming what tells them apart.
    """
    chosen = _where(run, where)
    down_axis, across_axis = _column(run, rows, "--rows"), _column(run, columns, "--columns")
    if down_axis.name == across_axis.name:
        raise InputError(
            f"--rows and --columns are both {down_axis.name}; allowed: two axes, such as --rows chunk --columns streams"
        )
    chosen, note = _of_one_scenario(chosen, down_axis.name, across_axis.name)
    if values in TIMES:
        values = f"median_{values}"
    figure = _column(run, values or f"median_{main_time(chosen)}", "--values")
    names = {each.name: each for each in (down_axis, across_axis, figure)}
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
    if all(row.get(figure.name) is None for row in found.values()):
        raise InputError(_no_number(found.values(), figure.name))
    down, across = (_ordered({place[side] for place in found}) for side in (0, 1))
    cells = tuple(tuple(_value(found.get((one, other)), figure.name) for other in across) for one in down)
    return Pivot(down_axis.name, across_axis.name, figure.name, down, across, cells, note)


def _of_one_scenario(rows: list[Row], down: str, across: str) -> tuple[list[Row], str]:
    """Return the rows of the one scenario that varies over both axes, and a note of what that leaves out; else all, and no note.

    A baseline is often a single case with a chunk of its own: in another scenario's grid its figure would pass for that one's.
    """
    placed = [row for row in rows if row.get(down) is not None and row.get(across) is not None]
    names = dict.fromkeys(str(row["scenario"]) for row in placed)
    own = {name: [row for row in placed if row["scenario"] == name] for name in names}
    grids = [name for name, cases in own.items() if all(len({row[axis] for row in cases}) > 1 for axis in (down, across))]
    if len(names) < 2 or len(grids) != 1 or "scenario" in (down, across):
        return rows, ""
    others = ", ".join(name for name in names if name != grids[0])
    left = f"the cases of {others} are left out; --where scenario=NAME chooses others"
    return own[grids[0]], f"only {grids[0]} varies over both {down} and {across}: {left}"


def _column(run: RunTables, name: str, option: str) -> Column:
    """Return the column that an option names: one in which some case has something, or that its kind of table has."""
    present = {key for row in run.rows for key in row}
    summary = {column.name for column in summary_columns()}
    for each in (name, f"{name}_bytes"):
        if each in present or each in summary:
            return run.columns.get(each, Column(each, "text", "", ""))
    medians = [key for key in sorted(present) if key.startswith("median_") and name in key.split("_")]
    hint = f"did you mean {medians[0]}?" if medians else nearest(name, sorted(present | summary))
    filled = ", ".join(each for each in AXIS_NAMES if each in present)
    raise InputError(f"{option} {name}: summary.csv has no such column; {hint or f'allowed: axes such as {filled}, or a figure'}")


def _no_number(rows: Collection[Row], name: str) -> str:
    statuses = Counter(str(row.get("status")) for row in rows if row.get("status") != "ok")
    why = f" ({', '.join(f'{count:,} {status}' for status, count in statuses.most_common())})" if statuses else ""
    numbers = sorted({key for row in rows for key in row if key.startswith("median_")})
    others = f"; allowed: {', '.join(numbers)}" if numbers else ""
    return f"none of these {counted(len(rows), 'case')} has a number in {name}{why}{others}"


def _where(run: RunTables, conditions: Sequence[str]) -> list[Row]:
    """Return the cases that count, excluded ones apart, and meet all conditions; sizes compare as bytes."""
    counted_in = [row for row in run.rows if row.get("status") != "excluded"]
    chosen = counted_in
    for condition in conditions:
        name, sign, value = condition.partition("=")
        if not sign:
            raise InputError(f"--where {condition} is no KEY=VALUE")
        column = _column(run, name.strip(), "--where")
        wanted = _parsed(column, value.strip())
        values = {row[column.name] for row in counted_in if column.name in row}
        if wanted not in values and not (wanted == "" and any(column.name not in row for row in counted_in)):
            raise InputError(_not_among(condition, column, values))
        chosen = [row for row in chosen if row.get(column.name, "") == wanted]
    return chosen


def _not_among(condition: str, column: Column, values: set[Cell]) -> str:
    known = [shown(column.name, each) for each in _ordered(values)]
    more = f" and {len(known) - MOST_NAMED:,} more" if len(known) > MOST_NAMED else ""
    return (
        f"--where {condition}: no case has that; allowed: {', '.join(known[:MOST_NAMED]) + more if known else 'nothing is in it'}"
    )


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
    apart = [name for name in ("scenario", *AXIS_NAMES, *_PLACES) if one.get(name) != other.get(name) and name not in used]
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
    # A text that a spreadsheet would take for a formula keeps its guard.
    text = guarded(cell) if isinstance(cell, str) else str(cell)
    return text.replace(".", ",") if comma and isinstance(cell, float) else text
