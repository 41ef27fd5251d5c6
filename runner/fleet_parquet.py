"""The samples of a fleet as Parquet, a file a GPU, a folder a host, as pyarrow, Dask and DuckDB read them without loading all."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

from runner.columns import ColumnType, sample_columns

FOLDER: Final = "samples"
BLOCK_BYTES: Final = 8 * 2**20
"""Bytes of a table of text that are in memory at once."""


def write_samples(samples: Path, out: Path, host: str) -> Path | None:
    """Write a GPU's samples.csv into `out/samples/<host>/<run>.parquet`; None where pyarrow is not installed.

    Block by block, so that memory does not grow with the table. The run is the folder that the table lies in.
    """
    if importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow.csv as reader
    from pyarrow import parquet

    types = _types()
    folder = out / FOLDER / re.sub(r"[^A-Za-z0-9.-]+", "-", host)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{samples.parent.name}-{samples.parent.parent.parent.name}.parquet"
    options = {
        "read_options": reader.ReadOptions(block_size=BLOCK_BYTES),
        "convert_options": reader.ConvertOptions(
            column_types=types, strings_can_be_null=False, quoted_strings_can_be_null=False, null_values=[""]
        ),
    }
    with reader.open_csv(samples, **options) as table, parquet.ParquetWriter(path, table.schema) as writer:
        for batch in table:
            writer.write_batch(batch)
    return path


def _types() -> dict[str, Any]:
    import pyarrow

    by_type: dict[ColumnType, Any] = {"integer": pyarrow.int64(), "number": pyarrow.float64(), "text": pyarrow.string()}
    return {column.name: by_type[column.type] for column in sample_columns()}
