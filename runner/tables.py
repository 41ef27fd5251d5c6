"""The tables as DataFrames and as CSV files that spreadsheets can open; the only place that builds them with pandas.

A column is an integer (`Int64`), a number (`Float64`) or text (`string`) by its description in `runner.columns`, also beside rows
that have no value: a numeric cell is a number or missing, a text cell is never missing but may be empty.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from runner.columns import Column, all_columns, case_columns, sample_columns, summary_columns, verdict_columns
from runner.errors import EnvironmentProblem
from runner.expand import Case
from runner.measure.result import CaseResult
from runner.rows import Row, RunInfo, case_rows, number, sample_rows, summary_rows, text, verdict_rows
from runner.verdicts import Verdict

if TYPE_CHECKING:
    import pandas as pd

Dtype = Literal["Int64", "Float64", "string"]
DTYPES: Final[dict[str, Dtype]] = {"integer": "Int64", "number": "Float64", "text": "string"}
"""The pandas type of each type of column."""


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
    write_csv(summary_frame(run, results), folder / "summary.csv")
    write_csv(samples_frame(run, [*results, *sentinels]), folder / "samples.csv")
    write_csv(cases_frame(run, [result.case for result in results]), folder / "cases.csv")
    if verdicts:
        write_csv(verdicts_frame(run, verdicts), folder / "verdicts.csv")
    write_csv(columns_frame(), folder / "columns.csv")


def summary_frame(run: RunInfo, results: Sequence[CaseResult]) -> pd.DataFrame:
    """Return exactly one row a case; rates and speedup are empty unless its status is ok."""
    return frame(summary_rows(run, results), summary_columns())


def samples_frame(run: RunInfo, results: Iterable[CaseResult]) -> pd.DataFrame:
    """Return one row a play, warm-ups too, told apart by `role`."""
    return frame(sample_rows(run, results), sample_columns())


def cases_frame(run: RunInfo, cases: Iterable[Case]) -> pd.DataFrame:
    """Return one row a case of the grid as it was expanded."""
    return frame(case_rows(run, cases), case_columns())


def verdicts_frame(run: RunInfo, verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """Return one row an expectation of the file."""
    return frame(verdict_rows(run, verdicts), verdict_columns())


def columns_frame() -> pd.DataFrame:
    """Return name, type, unit, meaning and formula of every column of the other tables."""
    described = [Column(name, "text", "", "") for name in ("name", "type", "unit", "meaning", "formula")]
    return frame((asdict(column) for column in all_columns()), described)


def frame(rows: Iterable[Row], columns: Sequence[Column]) -> pd.DataFrame:
    """Return a table of exactly these columns in this order; cells that a row lacks are empty.

    Raises ValueError for a cell whose column is not among them, TypeError for text in a numeric column.
    """
    import pandas as pd  # here, since it takes longer to import than a small run takes to reach its first row

    known = {column.name for column in columns}
    whole = list(rows)
    present = set().union(*whole)
    if not present <= known:
        raise ValueError(f"columns that runner.columns does not describe: {', '.join(sorted(present - known))}")
    series: dict[str, pd.Series[Any]] = {}
    empty: dict[str, pd.Series[Any]] = {}
    for column in columns:
        cell_of = text if column.type == "text" else number
        if column.name in present:
            cells = [cell_of(row.get(column.name)) for row in whole]
            series[column.name] = pd.Series(cells, dtype=DTYPES[column.type])
        else:
            # Most columns belong to other kinds; one empty column of a type serves them all.
            if column.type not in empty:
                empty[column.type] = pd.Series([cell_of(None)] * len(whole), dtype=DTYPES[column.type])
            series[column.name] = empty[column.type]
    return pd.DataFrame(series)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write UTF-8 without a byte order mark, commas, one LF a row; the file appears whole or not at all."""
    content = table.to_csv(index=False, lineterminator="\n")
    write_whole(path, content.encode("utf-8", errors="replace"))


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` at `path` through a temporary file beside it, so that no reader and no crash sees half of it.

    Raises EnvironmentProblem where it cannot be written, as on a full disk.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be written: {error.strerror}; choose another folder with --out") from error
