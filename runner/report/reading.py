"""Reading a run's folder for those who look at it: rows as mappings without empty cells, and no pandas, which is slow to load."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runner.columns import Column, ColumnType, all_columns
from runner.errors import InputError
from runner.rows import Row
from runner.scenarios.base import Cell

PREDICTED: Final = (
    Column("metric", "text", "", "The figure that the profile of a simulated device predicts."),
    Column("measured", "number", "", "What was measured, in the figure's unit."),
    Column("predicted", "number", "", "What the profile predicts, in the same unit."),
    Column("error_percent", "number", "%", "How far the prediction lies above what was measured."),
)
"""Columns of predicted.csv beside `case_id`."""
_ENCODING: Final = "utf-8-sig"
"""UTF-8 with or without a byte order mark: a spreadsheet adds one when it saves."""


@dataclass(frozen=True, slots=True)
class RunTables:
    """One run as it lies in its folder.

    `rows` are those of summary.csv, `verdicts` and `predicted` of their tables (empty where there is none); a cell is an integer,
    a number or text by `columns`, and an empty cell is absent. `foreign` counts rows of summary.csv that other runs wrote, which
    are left out.
    """

    folder: Path
    columns: Mapping[str, Column]
    rows: tuple[Row, ...]
    verdicts: tuple[Row, ...]
    predicted: tuple[Row, ...]
    manifest: Mapping[str, Any]
    foreign: int = 0

    @property
    def simulated(self) -> bool:
        """Whether any figure is computed from a profile rather than measured."""
        device = self.manifest.get("device")
        kinds = {row.get("device_kind") for row in self.rows} | {device.get("kind") if isinstance(device, dict) else None}
        return "simulated" in kinds

    @property
    def of_several(self) -> bool:
        """Whether several experiments are in one table, as after testing claims: their scenarios have nothing in common."""
        return len({row.get("experiment") for row in self.rows}) > 1

    def samples(self) -> Iterator[Row]:
        """Yield the rows of samples.csv one by one; raises InputError where it cannot be read."""
        return _rows(self.folder / "samples.csv", self.columns)


def find_run(given: str, results: Path = Path("results")) -> Path:
    """Return the folder of a run.

    `given` is the folder itself, a `latest` link, the folder of an experiment's runs, or the name of an experiment whose runs lie
    in `results`; of several runs the newest counts. Raises InputError where there is none.
    """
    for place in (Path(given), results / given):
        if (place / "summary.csv").is_file():
            return place.resolve()
        if place.is_dir() and (found := _newest(place)):
            return found.resolve()
    raise InputError(
        f"{given} is no run: there is no summary.csv in it, in {Path(given) / 'latest'} or in {results / given / 'latest'}; "
        "give a run's folder, or the name of an experiment that has run"
    )


def read_run(folder: Path) -> RunTables:
    """Read the tables of a run, samples apart; raises InputError, naming the file, where one cannot be read."""
    columns = _columns(folder / "columns.csv")
    manifest = _manifest(folder / "manifest.json")
    rows = list(_rows(folder / "summary.csv", columns))
    ours = [row for row in rows if row.get("run_id") == manifest.get("run_id", row.get("run_id"))]
    return RunTables(
        folder,
        columns,
        tuple(ours),
        tuple(_rows(folder / "verdicts.csv", columns)) if (folder / "verdicts.csv").exists() else (),
        tuple(_rows(folder / "predicted.csv", columns)) if (folder / "predicted.csv").exists() else (),
        manifest,
        len(rows) - len(ours),
    )


def _newest(place: Path) -> Path | None:
    """Return the run that `latest` names, else the last by name, which begins with its time: some file systems have no links."""
    latest = place / "latest"
    if (latest / "summary.csv").is_file():
        return latest
    return max((table.parent for table in place.glob("*/summary.csv")), key=lambda folder: folder.name, default=None)


def _columns(path: Path) -> dict[str, Column]:
    """Return the columns as the run's own folder describes them; what it lacks is as this version knows it."""
    known = {column.name: column for column in (*all_columns(), *PREDICTED)}
    text = Column("", "text", "", "")
    for row in _rows(path, dict.fromkeys(("name", "type", "unit", "meaning", "formula"), text)):
        kind = str(row.get("type", "text"))
        if kind in ("integer", "number", "text") and row.get("name"):
            words = (str(row.get(each, "")) for each in ("unit", "meaning", "formula"))
            known[str(row["name"])] = Column(str(row["name"]), _typed(kind), *words)
    return known


def _typed(kind: str) -> ColumnType:
    return "integer" if kind == "integer" else "number" if kind == "number" else "text"


def _rows(path: Path, columns: Mapping[str, Column]) -> Iterator[Row]:
    try:
        with path.open(encoding=_ENCODING, newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            types = [columns[name].type if name in columns else "text" for name in header]
            for cells in reader:
                yield {name: _cell(text, kind) for name, text, kind in zip(header, cells, types, strict=True) if text}
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error


def _cell(text: str, kind: str) -> Cell:
    if kind == "text":
        return text
    value = int(text) if kind == "integer" else float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


def _manifest(path: Path) -> Mapping[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding=_ENCODING))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{path} cannot be read: it holds no JSON object")
    return manifest
