"""Folders of runs with known times, for the tests of what looks at finished runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.columns import AXES, own_columns
from runner.compared_run import ComparedCase, ComparedRun, times_or_none
from runner.measure.result import CaseResult, Sample
from runner.rows import RunInfo
from runner.tables import write_tables
from tests.results_for_tests import RUN, case, ok, transfer

CUDA = replace(RUN, device="NVIDIA Test", device_kind="cuda", baseline=None)
MIB = 2**20
NOISE = (1.0, 1.01, 0.99, 1.002, 0.998, 1.004, 0.996, 1.006, 0.994, 1.003)
"""Ten samples around 1, 0.994 to 1.01 at the ends of their interval."""


def copy(size: int, *times: float, **more: Any) -> CaseResult:
    """A copy of `size` MiB whose samples by CUDA events took `times` ms."""
    return ok(case(transfer(size=size * MIB), "copy", size=size * MIB), *times, name="event_ms", **more)


def noisy(size: int, level: float, **more: Any) -> CaseResult:
    """A copy of `size` MiB with samples around `level` ms."""
    return copy(size, *(level * each for each in NOISE), **more)


def compared(results: Sequence[CaseResult], run_id: str = "r_a") -> ComparedRun:
    """Return a measured run as comparisons see it, without writing its tables: as `compared_run` makes it of them."""
    columns = tuple(column.name for column in (*AXES, *own_columns()))
    cases = {}
    for place, result in enumerate(results):
        times = [sample.figures["event_ms"] for sample in result.samples if sample.role == "sample"]
        cases[result.case.case_id] = ComparedCase(
            result.case.case_id,
            result.case.scenario,
            place,
            {name: cell for name, cell in result.case.model.columns().items() if cell is not None},
            result.status,
            result.reason,
            " ".join(result.flags),
            "event_ms",
            "ms",
            times_or_none(times if result.status == "ok" else []),
        )
    return ComparedRun(run_id, Path(run_id), "demo", CUDA.device, CUDA.device_kind, "", {}, columns, cases, None, {})


def write_run(
    folder: Path,
    results: Sequence[CaseResult],
    *,
    run: RunInfo = CUDA,
    sentinel: Sequence[float] = (),
    **manifest: Any,
) -> Path:
    """Write the tables and the manifest of a run, and return its folder."""
    folder.mkdir(parents=True)
    plays = tuple(Sample("sentinel", index, {"event_ms": time}) for index, time in enumerate(sentinel))
    readings = [CaseResult(case(transfer(size=16 * MIB), "sentinel"), "ok", samples=plays)] if plays else []
    run = replace(run, run_id=f"r_{folder.name}")
    write_tables(folder, run, results, sentinels=readings)
    told = {"run_id": run.run_id, "experiment": run.experiment, "status": "complete"}
    told |= {"device": {"name": run.device, "kind": run.device_kind} | manifest.pop("device", {})}
    (folder / "manifest.json").write_text(json.dumps(told | manifest), encoding="utf-8")
    return folder
