"""The tables as CSV files that spreadsheets can open.

A column is an integer, a number or text by its description in `runner.columns`: a numeric cell is a number or empty, a text cell
may be the empty text. `runner.results` reads the files back as DataFrames; they are written without pandas, whose import takes
longer than most simulated runs.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from runner.columns import Column, ColumnType, all_columns, case_columns, sample_columns, summary_columns, verdict_columns
from runner.errors import EnvironmentProblem, UsageError
from runner.measure.result import CaseResult
from runner.rows import Row, RunInfo, case_rows, each_summary_row, number, sample_rows, text, verdict_rows
from runner.scenarios.base import Cell
from runner.verdicts import Verdict

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ROWS_AT_ONCE: Final = 1000
"""Rows of a table that are in memory as text at once."""


def write_tables(
    folder: Path,
    run: RunInfo,
    results: Sequence[CaseResult],
    verdicts: Sequence[Verdict] = (),
    sentinels: Sequence[CaseResult] = (),
) -> None:
    """Write summary.csv, samples.csv, cases.csv, columns.csv and, where something was expected, verdicts.csv into `folder`.

    The readings of the sentinel are no cases of the grid: their plays stand in samples.csv alone, after all others.
    """
    write_csv(folder / "summary.csv", each_summary_row(run, results), summary_columns())
    write_csv(folder / "samples.csv", sample_rows(run, [*results, *sentinels]), sample_columns())
    write_csv(folder / "cases.csv", case_rows(run, [result.case for result in results]), case_columns())
    if verdicts:
        write_csv(folder / "verdicts.csv", verdict_rows(run, verdicts), verdict_columns())
    write_columns(folder / "columns.csv")


def write_columns(path: Path) -> None:
    """Write name, type, unit, meaning and formula of every column of the other tables."""
    described = [Column(name, "text", "", "") for name in ("name", "type", "unit", "meaning", "formula")]
    write_csv(path, (asdict(column) for column in all_columns()), described)


def write_csv(path: Path, rows: Iterable[Row], columns: Sequence[Column]) -> None:
    """Write a table of exactly these columns in this order; cells that a row lacks are empty.

    UTF-8 without a byte order mark, commas, one LF a row; the file appears whole or not at all. Raises ValueError for a cell
    whose column is not among them, TypeError for one that is not of its column's type.
    """
    places = {column.name: (place, _CELLS[column.type]) for place, column in enumerate(columns)}
    write_lines(path, _encoded(rows, places))


def _encoded(rows: Iterable[Row], places: Mapping[str, _Place]) -> Iterator[bytes]:
    """Yield a table as it stands in its file, piece by piece: a table of samples may be larger than the memory."""
    content = io.StringIO()
    table = csv.writer(content, lineterminator="\n")
    table.writerow(places)
    for count, row in enumerate(rows, 1):
        if not row.keys() <= places.keys():
            raise ValueError(f"columns that runner.columns does not describe: {', '.join(sorted(row.keys() - places.keys()))}")
        cells: list[str | int | float | None] = [None] * len(places)
        for name, cell in row.items():
            if cell is not None:
                place, written = places[name]
                cells[place] = written(cell)
        table.writerow(cells)
        if count % ROWS_AT_ONCE == 0:
            yield content.getvalue().encode("utf-8", errors="replace")
            content.seek(0)
            content.truncate()
    yield content.getvalue().encode("utf-8", errors="replace")


def _integer(cell: Cell) -> int | None:
    if type(cell) is int:
        return cell
    value = number(cell)
    if value is not None and value != int(value):
        raise TypeError(f"{cell!r} is no whole number, but its column holds integers")
    return None if value is None else int(value)


def _number(cell: Cell) -> float | None:
    value = number(cell)
    return None if value is None else float(value)


_Written = Callable[[Cell], str | int | float | None]
_Place = tuple[int, _Written]
_CELLS: Final[dict[ColumnType, _Written]] = {
    "integer": _integer,
    "number": _number,
    "text": text,
}
"""What a cell is in the file, by the type of its column: None is an empty one."""


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` at `path` through a temporary file beside it, so that no reader and no crash sees half of it.

    Raises EnvironmentProblem where it cannot be written, as on a full disk.
    """
    write_lines(path, [content])


def check_writable(path: Path) -> None:
    """Raise what `write_whole` would raise for `path`, before the work whose fruit it is; leaves nothing behind.

    Raises UsageError where it is a folder, EnvironmentProblem where it cannot be written.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise EnvironmentProblem(_not_written(path, error)) from error


def write_lines(path: Path, content: Iterable[bytes]) -> None:
    """Do the same with a content that comes in pieces, of which only one is in memory at a time."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with suppress(FileNotFoundError):  # a signal may come when the file has its name already
                os.unlink(temporary)
            raise
    except OSError as error:
        raise EnvironmentProblem(_not_written(path, error)) from error


def _not_written(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        folder = path.parent
        return f"{path} cannot be written: there is no folder {folder}; type: mkdir -p {shlex.quote(str(folder))}"
    if error.errno in _FULL:
        return f"{path} cannot be written: {error.strerror}; make room, and type the command again: a run goes on with --resume"
    return f"{path} cannot be written: {error.strerror}; choose another place for it"
