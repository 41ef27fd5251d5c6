"""Reading a run back: `runner.read_results(path)` gives its tables as DataFrames with the types that they were written with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd

from runner.errors import InputError

Dtype = Literal["Int64", "Float64", "string"]
DTYPES: Final[Mapping[str, Dtype]] = {"integer": "Int64", "number": "Float64", "text": "string"}
"""The pandas type of each type of column."""
_ENCODING: Final = "utf-8-sig"
"""UTF-8 with or without a byte order mark: a spreadsheet adds one when it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """One run. `summary` has a row a case, `samples` a row a play, `columns` describes both.

    `verdicts` is None where the file expected nothing. Integer columns are `Int64`, numbers `Float64`, text `string`; a missing
    number is `pd.NA`, a missing text the empty text. `manifest` is the run's environment as written.
    """

    folder: Path
    summary: pd.DataFrame
    samples: pd.DataFrame
    columns: pd.DataFrame
    verdicts: pd.DataFrame | None
    manifest: Mapping[str, Any]


def read_results(path: str | Path) -> Results:
    """Read a run's folder, or the newest run of a folder such as `results/overlap`, which its `latest` names.

    Raises InputError where there is no such run or where a table cannot be read.
    """
    folder = _run_folder(Path(path))
    columns = _read(folder / "columns.csv", {})
    types = {} if not {"name", "type"} <= set(columns) else dict(zip(columns["name"], columns["type"], strict=True))
    verdicts = folder / "verdicts.csv"
    return Results(
        folder=folder,
        summary=_read(folder / "summary.csv", types),
        samples=_read(folder / "samples.csv", types),
        columns=columns,
        verdicts=_read(verdicts, types) if verdicts.exists() else None,
        manifest=_read_manifest(folder / "manifest.json"),
    )


def _run_folder(path: Path) -> Path:
    for folder in (path, path / "latest"):
        if (folder / "summary.csv").is_file():
            return folder.resolve()
    pointer = path / "latest"
    if pointer.is_file():
        named = path / pointer.read_text(encoding="utf-8").strip()
        if (named / "summary.csv").is_file():
            return named.resolve()
    what = "has no summary.csv and no latest run" if path.is_dir() else "is no folder"
    raise InputError(f"{path} {what}; give a run's folder, or the folder of an experiment's runs such as results/overlap")


def _read(path: Path, types: Mapping[str, str]) -> pd.DataFrame:
    """Read a table; a column that `types` does not know is text."""
    try:
        header = pd.read_csv(path, encoding=_ENCODING, nrows=0)
        dtypes = {name: DTYPES.get(types.get(str(name), "text"), "string") for name in header.columns}
        empty = {name: [""] for name, dtype in dtypes.items() if dtype != "string"}
        return pd.read_csv(path, encoding=_ENCODING, dtype=dtypes, keep_default_na=False, na_values=empty)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error


def _read_manifest(path: Path) -> Mapping[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding=_ENCODING))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{path} cannot be read: it holds no JSON object")
    return manifest
