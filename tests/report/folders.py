"""Run folders with rows as a test wants them, for what looks at runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.columns import sample_columns, summary_columns, verdict_columns
from runner.rows import Row
from runner.run_files import PREDICTED
from runner.tables import write_columns, write_csv

MIB = 2**20
RUN_ID = "r_20260101T000000Z_abcdef"
LEAD = {"run_id": RUN_ID, "experiment": "demo", "scenario": "copy", "status": "ok", "device": "NVIDIA X", "device_kind": "cuda"}
HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> & "quoted" %{x} <b>bold</b>'


def transfer(size: int, rate: float, **cells: Any) -> Row:
    """A copy of `size` bytes at `rate` GB/s by events, whose interval is a tenth wide to each side of its time."""
    ms = size / rate / 1e6
    timed = {"median_event_ms": ms, "ci_low_event_ms": ms * 0.9, "ci_high_event_ms": ms * 1.1, "median_call_us": 10.0}
    rated = {"gb_per_s": rate, "link_gb_per_s": 63.0, "share_of_link": rate / 63, "samples": 10}
    own = {
        "case_id": f"c_{size:012x}",
        "buffer": "pinned",
        "direction": "h2d",
        "size_bytes": size,
        "chunk_bytes": size,
        "streams": 1,
    }
    return LEAD | own | timed | rated | cells


def pipeline(chunk: int, streams: int, wall: float, **cells: Any) -> Row:
    """A pipeline over 256 MiB in `wall` ms with a twin of 100 ms and bounds of 90, 50 and 40 ms."""
    total = 256 * MIB
    own = {
        "case_id": f"c_{chunk:06x}{streams:06x}",
        "scenario": "ring",
        "buffer": "pinned",
        "chunk_bytes": chunk,
        "streams": streams,
    }
    timed = {"median_wall_ms": wall, "ci_low_wall_ms": wall * 0.99, "ci_high_wall_ms": wall * 1.01}
    bounds = {"twin_ms": 100.0, "bound_none_ms": 90.0, "bound_one_way_ms": 50.0, "bound_full_ms": 40.0, "hidden_fraction": 0.5}
    rated = {"gb_per_s": total / wall / 1e6, "link_gb_per_s": 63.0, "samples": 10}
    return LEAD | own | {"total_bytes": total, "slots": streams} | timed | bounds | rated | cells


def run_folder(
    folder: Path,
    rows: Sequence[Row],
    samples: Sequence[Row] = (),
    verdicts: Sequence[Row] = (),
    predicted: Sequence[Row] = (),
    **manifest: Any,
) -> Path:
    """Write a run's folder of these rows, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "summary.csv", rows, summary_columns())
    write_csv(folder / "samples.csv", samples, sample_columns())
    write_columns(folder / "columns.csv")
    if verdicts:
        write_csv(folder / "verdicts.csv", verdicts, verdict_columns())
    if predicted:
        write_csv(folder / "predicted.csv", predicted, PREDICTED)
    device = {"name": "NVIDIA X", "kind": "cuda", "driver": "580", "link_gb_per_s": 63.0}
    told = {"run_id": RUN_ID, "experiment": "demo", "question": "How fast?", "status": "complete", "device": device, "host": {}}
    (folder / "manifest.json").write_text(json.dumps(told | manifest), encoding="utf-8")
    return folder


def grid_rows() -> list[Row]:
    """A baseline and a ring of two chunks on three streams; 4 MiB on 3 streams is the best, 4 MiB on 2 within its interval."""
    walls = {(1, 1): 80.0, (1, 2): 70.0, (1, 3): 66.0, (4, 1): 75.0, (4, 2): 60.5, (4, 3): 60.0}
    ring = [
        pipeline(chunk * MIB, streams, wall, speedup=200 / wall, ci_low_speedup=195 / wall, ci_high_speedup=205 / wall)
        for (chunk, streams), wall in walls.items()
    ]
    serial = pipeline(32 * MIB, 1, 200.0, scenario="serial", speedup=1.0)
    return [serial, *ring]
