"""Reading a run's folder for those who look at it: rows as mappings without empty cells, and no pandas, which is slow to load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.columns import Column
from runner.errors import InputError
from runner.rows import Row
from runner.run_files import check_count, columns_of, read_manifest, read_rows


@dataclass(frozen=True, slots=True)
class RunTables:
    """One run as it lies in its folder.

    `rows` are those of summary.csv, `verdicts` and `predicted` of their tables (empty where there is none); a cell is an integer,
    a number or text by `columns`, and an empty cell is absent. `foreign` counts rows of summary.csv that other runs wrote, which
    are left out. `doubts` are sentences on files beside the tables that are missing or cannot be read.
    """

    folder: Path
    columns: Mapping[str, Column]
    rows: tuple[Row, ...]
    verdicts: tuple[Row, ...]
    predicted: tuple[Row, ...]
    manifest: Mapping[str, Any]
    foreign: int = 0
    doubts: tuple[str, ...] = ()

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
        return read_rows(self.folder / "samples.csv", self.columns)


def read_run(folder: Path) -> RunTables:
    """Read the tables of a run, samples apart.

    Raises InputError, naming the file, where one cannot be read or summary.csv lacks cases. A predicted.csv that cannot be read
    is a doubt alone: the run is what it is without it.
    """
    columns, doubts = columns_of(folder)
    manifest = read_manifest(folder / "manifest.json")
    rows = list(read_rows(folder / "summary.csv", columns))
    ours = [row for row in rows if row.get("run_id") == manifest.get("run_id", row.get("run_id"))]
    check_count(folder, len(ours), manifest)
    predicted, unread = _predicted(folder / "predicted.csv", columns)
    if not predicted:
        predicted = _of_this_run(_predicted(folder.parent / "predicted.csv", columns)[0], ours)
    return RunTables(
        folder,
        columns,
        tuple(ours),
        tuple(read_rows(folder / "verdicts.csv", columns)) if (folder / "verdicts.csv").exists() else (),
        predicted,
        manifest,
        len(rows) - len(ours),
        (*doubts, *unread),
    )


def _of_this_run(predicted: tuple[Row, ...], rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return predictions that were found beside a run's folder, where validations put them, if they are of its cases."""
    cases = {row.get("case_id") for row in rows}
    return predicted if all(row.get("case_id") in cases for row in predicted) else ()


def _predicted(path: Path, columns: Mapping[str, Column]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    try:
        return tuple(read_rows(path, columns)) if path.exists() else (), ()
    except InputError as error:
        return (), (f"The predictions are left out: {error}",)
