"""The rows of the tables as DataFrames with the types that `runner.read_results` gives, built without any file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from runner.columns import Column, sample_columns, summary_columns
from runner.measure.result import CaseResult
from runner.results import DTYPES
from runner.rows import Row, RunInfo, number, sample_rows, summary_rows, text
from runner.run_files import unguarded


def frame(rows: Iterable[Row], columns: Sequence[Column]) -> pd.DataFrame:
    whole = list(rows)
    series = {}
    for column in columns:
        cells = [row.get(column.name) for row in whole]
        read = [unguarded(text(cell)) for cell in cells] if column.type == "text" else [number(cell) for cell in cells]
        series[column.name] = pd.Series(read, dtype=DTYPES[column.type])
    return pd.DataFrame(series)


def summary_frame(run: RunInfo, results: Sequence[CaseResult]) -> pd.DataFrame:
    return frame(summary_rows(run, results), summary_columns())


def samples_frame(run: RunInfo, results: Iterable[CaseResult]) -> pd.DataFrame:
    return frame(sample_rows(run, results), sample_columns())
