"""The tables of a run for other programs: a workbook, CSV with decimal commas, Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from runner.columns import Column
from runner.errors import EnvironmentProblem
from runner.forms import ExportForm
from runner.report.reading import read_run
from runner.run_files import schema_of
from runner.tables import write_whole
from runner.workbook import workbook

TABLES: Final = ("summary", "samples", "verdicts", "cases", "columns", "predicted")


def export_run(folder: Path, form: ExportForm, out: Path | None = None) -> list[Path]:
    """Write the tables of a run in another form into `out`, or its own folder, and return the files.

    `xlsx` is summary.xlsx; `parquet` is one file a table, typed; `csv-semicolon` is one `.semicolon.csv` a table, with decimal
    commas and a byte order mark, as spreadsheets of such locales read them. Raises InputError where a table cannot be read,
    EnvironmentProblem where a file cannot be written or pyarrow is absent.
    """
    target = out or folder
    if form is ExportForm.xlsx:
        write_whole(target / "summary.xlsx", workbook(read_run(folder)))
        return [target / "summary.xlsx"]
    writers: dict[ExportForm, tuple[str, Callable[[Path, Mapping[str, Column]], bytes]]] = {
        ExportForm.parquet: (".parquet", _parquet),
        ExportForm.csv_semicolon: (".semicolon.csv", _semicolons),
    }
    suffix, content = writers[form]
    columns = read_run(folder).columns
    written = []
    for name in TABLES:
        source = folder / f"{name}.csv"
        if source.exists():
            write_whole(target / f"{name}{suffix}", content(source, schema_of(source, columns)))
            written.append(target / f"{name}{suffix}")
    return written


def _semicolons(path: Path, columns: Mapping[str, Column]) -> bytes:
    """Return a table with semicolons between its cells and commas in its numbers, which keep all their digits."""
    written = io.StringIO()
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        writer = csv.writer(written, delimiter=";", lineterminator="\n")
        writer.writerow(header)
        decimal = [name in columns and columns[name].type == "number" for name in header]
        for row in reader:
            writer.writerow(
                [cell.replace(".", ",") if is_decimal else cell for cell, is_decimal in zip(row, decimal, strict=True)]
            )
    return b"\xef\xbb\xbf" + written.getvalue().encode("utf-8")


def _parquet(path: Path, columns: Mapping[str, Column]) -> bytes:
    """Return a table as Parquet: int64, float64 and string columns; a missing number is null, a missing text empty."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise EnvironmentProblem("Parquet needs pyarrow: pip install 'dmalab[parquet]'") from None
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    types = {"integer": pyarrow.int64(), "number": pyarrow.float64(), "text": pyarrow.string()}
    kinds = {name: types[columns[name].type if name in columns else "text"] for name in header}
    options = pyarrow.csv.ConvertOptions(column_types=kinds, null_values=[""], strings_can_be_null=False)
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(path, convert_options=options, parse_options=parsing)
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()
