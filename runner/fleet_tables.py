"""The tables of a fleet, made of those of its GPUs row by row: a fleet may have more rows than a machine has memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from runner.columns import fleet_columns
from runner.fleet_parquet import write_samples
from runner.fleet_view import FleetView, values_of, view_of
from runner.run_folder import RunFolder
from runner.spec.load import LoadedExperiment
from runner.tables import write_csv, write_lines

PUT_TOGETHER: Final = ("summary.csv", "samples.csv", "verdicts.csv")
COPIED: Final = ("cases.csv", "columns.csv")
"""Tables that are the same for every GPU."""


def write_fleet_tables(loaded: LoadedExperiment, folder: RunFolder, runs: Sequence[Path]) -> FleetView:
    """Write fleet.csv and the tables of all GPUs under each other into the fleet's folder, and return the view.

    Rows of summary.csv and samples.csv get the fleet's run_id; which GPU they are of say their columns host, gpu_uuid and
    pci_bus_id. The rows of verdicts.csv and of the Parquet files keep the run_id of their GPU's own run.
    """
    view = view_of(value for run in runs for value in values_of(run / "summary.csv", _metrics(loaded)))
    write_csv(folder.path / "fleet.csv", view.rows, fleet_columns())
    for name in PUT_TOGETHER:
        tables = [run / name for run in runs if (run / name).exists()]
        if tables:
            own_id = None if name == "verdicts.csv" else folder.run_id
            write_lines(folder.path / name, _under_each_other(tables, own_id))
    hosts = {gpu.run_id: gpu.where[0] for gpu in view.gpus}
    for run in runs:
        write_samples(run / "samples.csv", folder.path, hosts.get(_run_id(run), "unknown"))
    for name in COPIED if runs else ():
        shutil.copyfile(runs[0] / name, folder.path / name)
    return view


def _run_id(run: Path) -> str:
    return str(json.loads((run / "manifest.json").read_text(encoding="utf-8")).get("run_id"))


def _metrics(loaded: LoadedExperiment) -> dict[str, str]:
    """Return the column that is compared of each scenario: the median by the clock that gives its rate."""
    clock = loaded.experiment.measure.clock
    return {spec.name: f"median_{clock or spec.model.CLOCK}_ms" for spec in loaded.scenarios}


def _under_each_other(tables: Iterable[Path], own_id: str | None) -> Iterator[bytes]:
    """Yield the lines of tables that have the same columns; the first column, the run's id, becomes `own_id`.

    A cell of text is one line, so a line is a row.
    """
    for place, table in enumerate(tables):
        with table.open("rb") as file:
            header = file.readline()
            if not place:
                yield header
            for line in file:
                yield line if own_id is None else own_id.encode() + line[line.index(b",") :]
