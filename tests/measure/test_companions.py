"""Companions are measured once for each distinct one, and cases are resolved by them."""

from __future__ import annotations

from pathlib import Path

from runner.flow import run_experiment
from runner.results import read_results
from runner.spec.load import load_experiment
from tests.test_flow import Watch

FILE = """
name: held
question: What is a ring held against?
device: simulated:test
measure: {warmup: 1, samples: 2}
scenarios:
  ring: {kind: pipeline, schedule: overlapped, staging: copy, total: 8MiB, chunk: 1MiB, streams: [2, 3]}
  busy: {kind: pipeline, schedule: overlapped, total: 8MB, chunk: 1MB, streams: 2, compute: {ratio: [1.0, 2.0]}}
"""


def test_cases_share_their_companions_and_tell_what_they_gained(tmp_path: Path) -> None:
    path = tmp_path / "held.yaml"
    path.write_text(FILE)
    outcome = run_experiment(load_experiment(path), device=None, out=tmp_path, max_cases=10, watcher=Watch())
    results = read_results(outcome.folder)
    roles = results.samples.groupby("case_id", sort=False)["role"].unique().map(list).tolist()
    legs = ["leg_host_in", "leg_h2d", "leg_kernel", "leg_d2h", "leg_host_out"]
    assert roles[0] == [*legs, "twin", "warmup", "sample"]
    # Another number of streams changes no leg, and the twin has one stream anyway.
    assert roles[1] == ["warmup", "sample"]
    rings = results.summary[results.summary.scenario == "ring"]
    assert (rings.bound_full_ms <= rings.median_wall_ms).all()
    assert (rings.median_wall_ms < rings.twin_ms).all()
    assert rings.overlap_efficiency.between(0, 1).all()
    assert rings.hidden_fraction.between(0, 1).all()


def test_a_ratio_is_resolved_by_the_times_of_this_device(tmp_path: Path) -> None:
    path = tmp_path / "held.yaml"
    path.write_text(FILE)
    outcome = run_experiment(load_experiment(path), device=None, out=tmp_path, max_cases=10, watcher=Watch())
    busy = read_results(outcome.folder).summary.query("scenario == 'busy'")
    # On this profile a pass over a chunk takes as long as its copy: 10 GB/s both.
    assert busy.compute_passes.tolist() == [1, 2]
    assert busy.compute_ratio.tolist() == [1.0, 2.0]
    # Eight chunks of 1 MB, and the microsecond of the timed event before them.
    assert busy.leg_kernel_ms.tolist() == [0.801, 1.601]
