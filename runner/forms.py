"""The forms in which tables and grids can be written; apart, so that the command line knows them without what writes them."""

from __future__ import annotations

from enum import StrEnum


class ExportForm(StrEnum):
    """In which form the tables of a run can be written beside its CSV files."""

    xlsx = "xlsx"
    parquet = "parquet"
    csv_semicolon = "csv-semicolon"


class GridForm(StrEnum):
    """How a pivot is written."""

    tsv = "tsv"
    csv = "csv"
    csv_semicolon = "csv-semicolon"
    markdown = "markdown"
