"""The files of a run's folder as every reader takes them: what a column holds, what a cell means, and what is wrong with a table.

`runner.results` reads with pandas, `runner.report.reading` without; what both must agree on stands here.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from runner.columns import Column, ColumnType, all_columns
from runner.errors import InputError
from runner.rows import FORMULA_STARTS, Row
from runner.scenarios.base import Cell
from runner.units import counted

ENCODING: Final = "utf-8-sig"
"""UTF-8 with or without a byte order mark: a spreadsheet adds one when it saves."""
PREDICTED: Final = (
    Column("scenario", "text", "", "The name of the scenario in the file."),
    Column("case_id", "text", "", "The case."),
    Column("case", "text", "", "The axes of the case, as name=value with blanks between them."),
    Column("figure", "text", "", "The time that is compared: that of the clock which gives the case's rate."),
    Column("measured_ms", "number", "ms", "Its median over the samples of the run."),
    Column("predicted_ms", "number", "ms", "What the simulated device says; empty where it has no number."),
    Column("error_percent", "number", "%", "How much longer the prediction is.", "100 * (predicted_ms / measured_ms - 1)"),
    Column(
        "spread_percent",
        "number",
        "%",
        "How widely the samples spread.",
        "100 * (p95 - p05) / 2 / median; empty for fewer than 3 samples",
    ),
    Column("profile", "text", "", "The profile that predicts."),
    Column("reason", "text", "", "Why there is no prediction, in a sentence."),
)
"""The columns of predicted.csv, which another table may use for something else: there `figure` is a number in verdicts.csv."""
NO_COLUMNS: Final = "columns.csv is missing: the columns are read as this version of dmalab knows them"
_OWN_SCHEMAS: Final = {"predicted.csv": PREDICTED}
_NEEDED: Final = {"summary.csv": "case_id", "samples.csv": "case_id", "verdicts.csv": "verdict", "columns.csv": "name"}
"""A column without which a table is none of ours, by file."""
_DESCRIBED: Final = ("name", "type", "unit", "meaning", "formula")
_AGAIN: Final = "copy the run's folder anew, or run its experiment again"


def columns_of(folder: Path) -> tuple[dict[str, Column], tuple[str, ...]]:
    """Return the columns of a run's tables as its columns.csv describes them, and sentences on what is doubtful about that.

    What the file lacks is as this version knows it; so is everything where the file is missing. Raises InputError where it cannot
    be read.
    """
    known = {column.name: column for column in all_columns()}
    path = folder / "columns.csv"
    if not path.exists():
        return known, (NO_COLUMNS,)
    for row in read_rows(path, {}):
        kind = str(row.get("type", "text"))
        if kind in ("integer", "number", "text") and row.get("name"):
            words = (str(row.get(each, "")) for each in _DESCRIBED[2:])
            known[str(row["name"])] = Column(str(row["name"]), _typed(kind), *words)
    return known, ()


def schema_of(path: Path, columns: Mapping[str, Column]) -> Mapping[str, Column]:
    """Return the columns of one file by name: its own ones where it has a schema of its own, else those of the run."""
    own = _OWN_SCHEMAS.get(path.name)
    return columns if own is None else {column.name: column for column in own}


def read_rows(path: Path, columns: Mapping[str, Column]) -> Iterator[Row]:
    """Yield the rows of a table, an empty cell absent; a column that its schema does not know is text.

    Raises InputError that names file, line, column and value where the table is cut, foreign or holds something else.
    """
    schema = schema_of(path, columns)
    try:
        with path.open(encoding=ENCODING, newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            _check_header(path, header)
            types = [schema[name].type if name in schema else "text" for name in header]
            for cells in reader:
                if len(cells) != len(header):
                    raise InputError(_cut(path, reader.line_num, len(cells), len(header)))
                try:
                    yield {name: cell_of(text, kind) for name, text, kind in zip(header, cells, types, strict=True) if text}
                except ValueError:
                    raise InputError(_wrong_cell(path, reader.line_num, header, cells, types)) from None
    except FileNotFoundError:
        raise InputError(missing(path)) from None
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}; {_AGAIN}") from error


def cell_of(text: str, kind: str) -> Cell:
    """Return what a cell says by the type of its column; raises ValueError where it holds something else."""
    if kind == "text":
        return unguarded(text)
    value = int(text) if kind == "integer" else float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


def unguarded(text: str) -> str:
    """Return a text cell without the apostrophe that keeps a spreadsheet from taking it for a formula."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_STARTS) else text


def read_manifest(path: Path) -> Mapping[str, Any]:
    """Return a manifest; raises InputError, naming the file, where it is missing or cannot be read."""
    try:
        manifest = json.loads(path.read_text(encoding=ENCODING))
    except FileNotFoundError:
        raise InputError(missing(path)) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}; {_AGAIN}") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{path} cannot be read: it holds no JSON object; {_AGAIN}")
    if not isinstance(manifest.get("run_id", ""), str):
        raise InputError(f"{path} cannot be read: run_id is no text; {_AGAIN}")
    return manifest


def check_count(folder: Path, count: int, manifest: Mapping[str, Any]) -> None:
    """Raise InputError where summary.csv has fewer rows of a run than its manifest tells of cases: somebody cut it."""
    cases = manifest.get("cases")
    total = cases.get("total") if isinstance(cases, Mapping) else None
    if isinstance(total, int) and count < total:
        told = f"has {counted(count, 'row')} of its run, but manifest.json tells of {counted(total, 'case')}"
        raise InputError(f"{folder / 'summary.csv'} {told}, so rows are missing; {_AGAIN}")


def missing(path: Path) -> str:
    """Say that a file of a run's folder is not there."""
    return f"{path.name} is missing in {path.parent}: a run's folder has one; {_AGAIN}"


def _typed(kind: str) -> ColumnType:
    return "integer" if kind == "integer" else "number" if kind == "number" else "text"


def _check_header(path: Path, header: Sequence[str]) -> None:
    needed = _NEEDED.get(path.name)
    if needed is None or needed in header:
        return
    if len(header) == 1 and ";" in header[0]:
        raise InputError(
            f"{path}:1: its cells are parted by semicolons, as a spreadsheet or --export csv-semicolon writes them; allowed: "
            f"commas; {_AGAIN}"
        )
    begins = ", ".join(header[:4]) or "nothing"
    raise InputError(f"{path}:1: this is no {path.name} of a run: it has no column {needed}, and begins with {begins}; {_AGAIN}")


def _cut(path: Path, line: int, found: int, wanted: int) -> str:
    what = f"the row has {counted(found, 'cell')} and the header {wanted}"
    return f"{path}:{line}: {what}, so the file is cut or was changed; {_AGAIN}"


def _wrong_cell(path: Path, line: int, header: Sequence[str], cells: Sequence[str], types: Sequence[str]) -> str:
    for name, text, kind in zip(header, cells, types, strict=True):
        try:
            if text:
                cell_of(text, kind)
        except ValueError:
            allowed = "a whole number" if kind == "integer" else "a finite number"
            return f"{path}:{line}: {name}: {text!r} is not what the column holds; allowed: {allowed} or nothing; {_AGAIN}"
    return f"{path}:{line}: the row cannot be read; {_AGAIN}"
