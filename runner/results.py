"""Reading a run back: `runner.read_results(path)` gives its tables as DataFrames with the types that they were written with."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd

from runner.columns import Column
from runner.errors import InputError, UsageError
from runner.find_run import find_run
from runner.run_files import ENCODING, check_count, columns_of, missing, read_manifest, read_rows, unguarded

Dtype = Literal["Int64", "Float64", "string"]
DTYPES: Final[Mapping[str, Dtype]] = {"integer": "Int64", "number": "Float64", "text": "string"}
"""The pandas type of each type of column."""


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """One run. `summary` has a row a case, `samples` a row a play, `columns` describes both.

    `verdicts` is None where the file expected nothing. Integer columns are `Int64`, numbers `Float64`, text `string`; a missing
    number is `pd.NA`, a missing text the empty text. `manifest` is the run's environment as written. `doubts` are
    sentences on what is missing beside the tables.
    """

    folder: Path
    summary: pd.DataFrame
    samples: pd.DataFrame
    columns: pd.DataFrame
    verdicts: pd.DataFrame | None
    manifest: Mapping[str, Any]
    doubts: tuple[str, ...] = ()


def read_results(path: str | Path) -> Results:
    """Read a run by its folder, one of its files, or the folder or name of an experiment, of which the newest run counts.

    Raises UsageError for what is no path, InputError where there is no such run or where a table cannot be read: cut, foreign, or
    with another count of cases than its manifest tells of.
    """
    if not isinstance(path, str | Path):
        raise UsageError(f"read_results({path!r}): this is no path of a run; allowed: a text or a pathlib.Path")
    folder = find_run(path)
    columns, doubts = columns_of(folder)
    manifest = read_manifest(folder / "manifest.json")
    verdicts = folder / "verdicts.csv"
    results = Results(
        folder=folder,
        summary=_read(folder / "summary.csv", columns),
        samples=_read(folder / "samples.csv", columns),
        columns=_described(columns) if doubts else _read(folder / "columns.csv", {}),
        verdicts=_read(verdicts, columns) if verdicts.exists() else None,
        manifest=manifest,
        doubts=doubts,
    )
    run_id = manifest.get("run_id")
    ours = results.summary if run_id is None else results.summary[results.summary["run_id"] == run_id]
    check_count(folder, len(ours), manifest)
    return results


def _described(columns: Mapping[str, Column]) -> pd.DataFrame:
    return pd.DataFrame([asdict(column) for column in columns.values()], dtype="string")


def _read(path: Path, columns: Mapping[str, Column]) -> pd.DataFrame:
    """Read a table; a column that `columns` does not know is text."""
    try:
        _check_shape(path, columns)
        header = pd.read_csv(path, encoding=ENCODING, nrows=0)
        dtypes = {name: DTYPES[columns[name].type] if name in columns else "string" for name in map(str, header.columns)}
        empty = {name: [""] for name, dtype in dtypes.items() if dtype != "string"}
        table = pd.read_csv(path, encoding=ENCODING, dtype=dtypes, keep_default_na=False, na_values=empty)
    except FileNotFoundError:
        raise InputError(missing(path)) from None
    except (OSError, ValueError) as error:
        # pandas names no line: reading cell by cell finds the one that it stumbled over.
        for _ in read_rows(path, columns):
            pass
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    for name, dtype in dtypes.items():
        if dtype == "string" and table[name].str.startswith("'").any():
            table[name] = table[name].map(unguarded).astype("string")
    return table


def _check_shape(path: Path, columns: Mapping[str, Column]) -> None:
    """Raise ValueError where a row has more or fewer cells than the header: pandas fills what is missing without a word."""
    with path.open(encoding=ENCODING, newline="") as file:
        reader = csv.reader(file)
        width = len(next(reader, []))
        if next(read_rows(path, columns), None) is not None and any(len(row) != width for row in reader):
            raise ValueError("rows of unlike lengths")
