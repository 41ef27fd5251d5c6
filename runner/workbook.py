"""The workbook of a run, summary.xlsx, for those who live in spreadsheets.

Numbers stay numbers with all their digits, and text stays text: no cell of a workbook can become a formula or a link.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from runner.column_words import title_of
from runner.columns import Column
from runner.report.answer import warnings
from runner.report.cases import number_of, short_name, varying_axes
from runner.report.figures import SIZE_AXES, series_of
from runner.report.machine import machine_line
from runner.report.reading import RunTables
from runner.rows import Row

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

MOST_SAMPLES: Final = 20_000
"""Rows of samples.csv in a workbook: more make a file that no spreadsheet opens gladly."""
MOST_CASES: Final = 100_000
_WIDEST: Final = 40
_INTEGER, _NUMBER, _SMALL, _PERCENT = "#,##0", "0.000", "0.000000", "0.0%"
_SHARES: Final = ("share_of_link", "hidden_fraction", "overlap_efficiency")


def workbook(run: RunTables) -> bytes:
    """Return the workbook of a run: sheets summary, samples, verdicts, columns, and rates with a chart of rate against size.

    Columns without any value are left out of the first two; what is left out is said in the sheet `about`.
    """
    import xlsxwriter

    content = io.BytesIO()
    made = xlsxwriter.Workbook(content, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    sheets = _Sheets(made, run.columns)
    samples = list(islice(run.samples(), MOST_SAMPLES + 1))
    cut = len(samples) > MOST_SAMPLES
    sheets.about(_about(run, cut=cut))
    sheets.table("summary", run.rows[:MOST_CASES])
    sheets.table("samples", samples[:MOST_SAMPLES])
    sheets.table("verdicts", run.verdicts)
    sheets.described([column for column in run.columns.values() if any(column.name in row for row in (*run.rows, *samples))])
    sheets.rates(run)
    made.close()
    return content.getvalue()


def _about(run: RunTables, *, cut: bool) -> list[tuple[str, str]]:
    device = run.manifest.get("device")
    told = [
        ("run", str(run.manifest.get("run_id", ""))),
        ("question", str(run.manifest.get("question", ""))),
        ("device", str(device.get("name", "")) if isinstance(device, dict) else ""),
        ("numbers are", "SIMULATED: computed from a profile, measured nowhere" if run.simulated else "measured"),
        ("machine", machine_line(run)),
        ("status", str(run.manifest.get("status", ""))),
        *(("doubt", doubt.sentence) for doubt in warnings(run)),
        ("columns", "Columns without any value are left out; the CSV files have all of them."),
    ]
    if cut:
        told.append(("samples", f"Only the first {MOST_SAMPLES:,} rows; all are in samples.csv."))
    if len(run.rows) > MOST_CASES:
        told.append(("summary", f"Only the first {MOST_CASES:,} rows; all are in summary.csv."))
    return told


@dataclass(slots=True)
class _Sheets:
    """Writes sheets into a workbook, each cell by the type of its column."""

    made: Workbook
    columns: Mapping[str, Column]

    def about(self, told: Sequence[tuple[str, str]]) -> None:
        """Write what the workbook is and what it leaves out."""
        sheet = self.made.add_worksheet("about")
        sheet.set_column(0, 0, 16)
        sheet.set_column(1, 1, 90)
        for line, (name, text) in enumerate(told):
            sheet.write_string(line, 0, name)
            sheet.write_string(line, 1, text)

    def table(self, name: str, rows: Sequence[Row]) -> None:
        """Write a table with a frozen, filtered header; columns without a value are left out."""
        present = {key for row in rows for key in row}
        names = [key for key in self.columns if key in present]
        sheet = self.made.add_worksheet(name)
        self._header(sheet, names or ["no rows"], len(rows))
        for place, key in enumerate(names):
            sheet.set_column(place, place, _width(key, rows), self._format(key, rows))
        for line, row in enumerate(rows, start=1):
            for place, key in enumerate(names):
                _write(sheet, line, place, row.get(key))

    def described(self, columns: Sequence[Column]) -> None:
        """Write what the columns mean."""
        sheet = self.made.add_worksheet("columns")
        fields = ("name", "type", "unit", "meaning", "formula")
        self._header(sheet, fields, len(columns))
        for place, width in enumerate((28, 10, 14, 80, 60)):
            sheet.set_column(place, place, width)
        for line, column in enumerate(columns, start=1):
            for place, field in enumerate(fields):
                sheet.write_string(line, place, getattr(column, field))

    def rates(self, run: RunTables) -> None:
        """Write rate by size, a column a series, and a chart of it; nothing where no rates are."""
        rated = [row for row in run.rows if row.get("status") == "ok" and number_of(row, "gb_per_s")]
        axis = max(SIZE_AXES, key=lambda each: len({row[each] for row in rated if each in row}))
        used = [row for row in rated if axis in row]
        if not used or run.of_several:
            return
        series, _ = series_of(used, axis, [each for each in varying_axes(run.rows) if each != axis])
        sizes = sorted({point.x for points in series.values() for point in points})
        sheet = self.made.add_worksheet("rates")
        self._header(sheet, [axis, *series], len(sizes))
        sheet.set_column(0, 0, 16, self.made.add_format({"num_format": _INTEGER}))
        sheet.set_column(1, len(series), 18, self.made.add_format({"num_format": _NUMBER}))
        for line, size in enumerate(sizes, start=1):
            sheet.write_number(line, 0, size)
        for place, points in enumerate(series.values(), start=1):
            for point in points:
                sheet.write_number(sizes.index(point.x) + 1, place, point.figure.value)
        sheet.insert_chart(1, len(series) + 2, self._chart(axis, len(series), len(sizes)))

    def _chart(self, axis: str, count: int, lines: int) -> Any:
        chart = self.made.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
        for place in range(1, count + 1):
            chart.add_series(
                {
                    "name": ["rates", 0, place],
                    "categories": ["rates", 1, 0, lines, 0],
                    "values": ["rates", 1, place, lines, place],
                }
            )
        chart.set_title({"name": f"Rate against {short_name(axis)}"})
        chart.set_x_axis({"name": title_of(axis), "log_base": 2, "num_format": _INTEGER})
        chart.set_y_axis({"name": "GB/s (10^9 bytes a second)", "min": 0, "num_format": "0"})
        chart.set_legend({"position": "bottom"})
        chart.set_size({"width": 800, "height": 460})
        chart.show_blanks_as("span")
        return chart

    def _header(self, sheet: Worksheet, names: Iterable[str], lines: int) -> None:
        bold = self.made.add_format({"bold": True, "bottom": 1})
        place = -1
        for place, name in enumerate(names):
            sheet.write_string(0, place, name, bold)
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, max(lines, 1), place)

    def _format(self, name: str, rows: Sequence[Row]) -> Format | None:
        """Return the number format of a column: whole numbers, shares, or as many decimals as its smallest figure needs."""
        kind = self.columns[name].type
        if kind == "text":
            return None
        if kind == "integer":
            return self.made.add_format({"num_format": _INTEGER})
        if name in _SHARES:
            return self.made.add_format({"num_format": _PERCENT})
        sizes = [abs(value) for row in rows if (value := number_of(row, name))]
        return self.made.add_format({"num_format": _SMALL if sizes and min(sizes) < 0.1 else _NUMBER})


def _write(sheet: Worksheet, line: int, place: int, cell: Any) -> None:
    if isinstance(cell, str):
        sheet.write_string(line, place, cell)
    elif cell is not None:
        sheet.write_number(line, place, cell)


def _width(name: str, rows: Sequence[Row]) -> int:
    longest = max(
        (len(cell) if isinstance(cell, str) else 12 for row in rows[:200] if (cell := row.get(name)) is not None), default=0
    )
    return min(max(longest, len(name)) + 2, _WIDEST)
