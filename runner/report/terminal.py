"""The summary table of a run on a terminal: small bars for what matters most, colours for verdicts, doubts and trouble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from runner.alignment import right_aligned
from runner.report.answer import answer, warnings
from runner.report.cases import (
    interval_text,
    main_time,
    measured_rows,
    median_figure,
    number_of,
    rate_figure,
    short_name,
    shown,
    time_of_rate,
    varying_axes,
)
from runner.report.reading import RunTables
from runner.rows import Row
from runner.units import digits
from runner.verdicts import measured_text

BAR_WIDTH: Final = 12
VERDICT_STYLES: Final = {"confirmed": "green", "refuted": "bold red", "undecided": "yellow"}
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


def show_run(run: RunTables, most_rows: int) -> RenderableType:
    """Return what the terminal shows of a run: band, question, doubts, answer, verdicts, and the table of most_rows rows."""
    named = run.manifest.get("question") or run.manifest.get("experiment") or run.folder.name
    band = "SIMULATED: every number is computed from a profile, none is measured on a GPU."
    lines = [Text(band, style="bold magenta")] if run.simulated else []
    lines.append(Text(str(named), style="bold"))
    lines += [Text(doubt.sentence, style="red" if doubt.grave else "yellow") for doubt in warnings(run)]
    lines += [Text(sentence) for sentence in answer(run)]
    lines += [_verdict_line(row) for row in run.verdicts]
    if not run.rows:
        return Group(*lines)
    hidden = len(run.rows) - most_rows
    note = [Text(f"… and {hidden:,} more in {run.folder / 'summary.csv'}; --rows shows more")] if hidden > 0 else []
    return Group(*lines, summary_table(run, most_rows), *note)


def summary_table(run: RunTables, most_rows: int) -> Table:
    """Return the first rows of the summary with a bar for the rate, where no case has one for the time, of the greatest shown.

    Each row has the time that gives its rate; where that is not one clock for all, a column names it.
    """
    rows = run.rows[:most_rows]
    axes, time = varying_axes(run.rows), main_time(measured_rows(run.rows))
    times = [time_of_rate(row) or time for row in rows]
    clocks = len(set(times)) > 1
    unit = run.columns[f"median_{time}"].unit
    rated = any(rate_figure(row) for row in measured_rows(rows))
    sped = any("speedup" in row for row in rows)
    several = ["experiment"] if run.of_several else []
    figures = [median_figure(row, each) for row, each in zip(rows, times, strict=True)]
    table = Table(box=box.SIMPLE_HEAD)
    columns: list[list[str]] = []
    for name in (*several, "scenario", *axes):
        table.add_column(short_name(name), justify="left" if _is_text(name, rows) else "right", overflow="fold")
        columns.append([shown(name, row.get(name)) for row in rows])
    header = unit if clocks else f"{times[0].rsplit('_', 1)[0]} {unit}"
    columns.append(_numbers(table, header, ["" if figure is None else digits(figure.value) for figure in figures]))
    if clocks:
        table.add_column("clock")
        known = zip(times, figures, strict=True)
        columns.append(["" if figure is None else each.rsplit("_", 1)[0] for each, figure in known])
    table.add_column("95 % interval", justify="right")
    columns.append(["" if figure is None else interval_text(figure) for figure in figures])
    for header, name in (*([("GB/s", "gb_per_s")] if rated else []), *([("speedup", "speedup")] if sped else [])):
        columns.append(_numbers(table, header, [_number(row, name) for row in rows]))
    table.add_column("rate" if rated else "time", no_wrap=True, min_width=BAR_WIDTH)
    table.add_column("status", overflow="fold")
    values = [_bar_value(row, each, rated=rated) for row, each in zip(rows, times, strict=True)]
    longest = max((value for value in values if value), default=0.0)
    for row, value, cells in zip(rows, values, zip(*columns, strict=True), strict=True):
        words = " ".join(str(row.get(name, "")) for name in ("status", "flags")).strip()
        table.add_row(*map(Text, cells), Text(bar(value, longest), style="cyan"), Text(words), style=_style(row))
    return table


def _numbers(table: Table, header: str, cells: Sequence[str]) -> list[str]:
    """Add a column of numbers to a table, point below point, and return its cells."""
    first, *padded = right_aligned([header, *cells])
    table.add_column(first)
    return padded


def bar(value: float | None, longest: float) -> str:
    """Return a bar of at most BAR_WIDTH columns for a value, in eighths of a column; empty for none."""
    if not value or longest <= 0:
        return ""
    eighths = max(1, round(value / longest * BAR_WIDTH * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _bar_value(row: Row, time: str, *, rated: bool) -> float | None:
    if row.get("status") != "ok":
        return None
    return number_of(row, "gb_per_s" if rated else f"median_{time}")


def _style(row: Row) -> str:
    if row.get("status") == "excluded":
        return "dim"
    return "red" if row.get("status") != "ok" else "yellow" if row.get("flags") else ""


def _verdict_line(row: Row) -> Text:
    verdict = str(row.get("verdict", ""))
    figure, low, high = (number_of(row, name) for name in ("figure", "low", "high"))
    measured, interval = measured_text(figure, low, high, str(row.get("unit", "")))
    told = f"{measured} ({interval})" if interval else measured
    limit = f", expected {row['limit']}" if "limit" in row else ""
    line = Text(verdict, style=VERDICT_STYLES.get(verdict, ""))
    return line.append(f": {row.get('claim', '')}{f': {told}' if told else ''}{limit}", style="not bold default")


def _number(row: Row, name: str) -> str:
    value = number_of(row, name)
    return "" if value is None else digits(value)


def _is_text(name: str, rows: Sequence[Row]) -> bool:
    return any(isinstance(row.get(name), str) for row in rows)
