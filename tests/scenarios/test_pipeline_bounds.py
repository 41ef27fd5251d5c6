"""What pipelines are held against, in whole simulated runs: handed over as they are, and never above what they take."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from runner.device.simulated import SimulatedDevice, load_profile
from runner.results import read_results
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.pipeline_legs import twin_of
from tests.scenarios.runs import run

RING = "kind: pipeline, schedule: overlapped, total: 8MiB, chunk: 512KiB, streams: 3"


FIELDS = {"kind": "pipeline", "schedule": "overlapped", "total": 8 << 20, "chunk": 512 << 10, "streams": 3}


def rows(folder: Path, fields: str) -> pd.DataFrame:
    """Return the summary of one pipeline without noise."""
    folder.mkdir(exist_ok=True)
    return read_results(run(folder, f"  ring: {{{fields}}}\n").folder).summary


@pytest.mark.parametrize(
    "fields",
    [
        f"{RING}, compute: {{ratio: 2}}, submit: [calls, graph]",
        f"{RING}, chunk: [64KiB, 1MiB], submit: graph".replace("chunk: 512KiB, ", ""),
        f"{RING}, staging: register, submit: [calls, graph]",
        f"{RING}, slots: [3, 12], layout: per_engine, issue: breadth_first, submit: batch",
        f"{RING}, direction: [upload, download], submit: graph",
        f"{RING}, staging: copy, staging_lanes: [1, 2, 3], staging_threads: [1, 2], slots: [3, 4, 6, 9]",
        f"{RING}, staging: copy, staging_lanes: [2, 3], direction: [upload, download], slots: [3, 5]",
        f"{RING}, staging: copy, staging_lanes: 3".replace("8MiB", "7MiB").replace("streams: 3", "streams: 6"),
    ],
)
def test_no_pipeline_is_faster_than_its_bound_or_gains_more_than_there_is(tmp_path: Path, fields: str) -> None:
    summary = rows(tmp_path, fields)
    assert (summary["status"] == "ok").all()
    assert (summary["median_wall_ms"] >= summary["bound_full_ms"]).all()
    assert summary["overlap_efficiency"].between(0, 1).all()
    assert (summary["flags"] == "").all()


def test_the_kernels_of_a_graph_take_the_ratio_that_was_asked_for(tmp_path: Path) -> None:
    """Passes that were solved by calls would take a third of it: a launch by call takes longer than a pass."""
    (row,) = rows(tmp_path, f"{RING}, compute: {{ratio: 2}}, submit: graph").to_dict("records")
    assert row["among_kernel_ms"] / max(row["leg_h2d_ms"], row["leg_d2h_ms"]) == pytest.approx(2, rel=0.1)


def test_a_graph_on_one_stream_hides_nothing_and_gains_nothing(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, f"{RING}, submit: graph".replace("streams: 3", "streams: 1")).to_dict("records")
    assert (row["hidden_fraction"], row["overlap_efficiency"]) == (0, 0)
    assert row["twin_ms"] == pytest.approx(row["median_wall_ms"])


@pytest.mark.parametrize("submit", ["calls", "graph"])
def test_page_locking_and_a_graph_that_is_made_in_the_play_belong_to_the_bounds(tmp_path: Path, submit: str) -> None:
    (row,) = rows(tmp_path, f"{RING}, staging: register, submit: {submit}").to_dict("records")
    unhidden = row["median_register_ms"] + row["median_unregister_ms"]
    unhidden += row["median_instantiate_ms"] if submit == "graph" else 0
    legs = [row[f"leg_{part}_ms"] for part in ("h2d", "kernel", "d2h")]
    assert row["bound_full_ms"] == pytest.approx(max(legs) + unhidden)
    assert row["bound_one_way_ms"] == pytest.approx(legs[0] + legs[2] + unhidden)
    assert row["bound_none_ms"] == pytest.approx(sum(legs) + unhidden)


def test_a_graph_that_was_made_before_costs_no_bound(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, f"{RING}, submit: graph").to_dict("records")
    assert row["median_instantiate_ms"] > 0
    assert row["bound_full_ms"] == max(row[f"leg_{part}_ms"] for part in ("h2d", "kernel", "d2h"))


def test_a_ring_of_few_slots_is_held_against_stagers_that_stay_in_the_caches_as_its_own_do(tmp_path: Path) -> None:
    """On the profile of the H200 more and larger stagers are slower to copy through."""
    ring = "kind: pipeline, schedule: overlapped, staging: copy, total: 128MiB, chunk: [4MiB, 16MiB]"
    lines = f"  one: {{{ring}, streams: [1, 2, 3]}}\n  two: {{{ring}, streams: [4, 6], staging_lanes: 2, staging_threads: 8}}\n"
    summary = read_results(run(tmp_path, lines, device="simulated:h200").folder).summary
    one = summary[summary["scenario"] == "one"]
    assert (one["median_wall_ms"] >= one["bound_full_ms"]).all()
    # Lanes of a leg go in step; those of a ring need not, and one begins to share a copy while the other has the memory.
    assert (summary["median_wall_ms"] >= 0.95 * summary["bound_full_ms"]).all()
    assert not summary["flags"].str.contains("implausible").any()


def test_the_twin_of_lanes_copies_by_their_copier_and_one_chunk_has_no_efficiency(tmp_path: Path) -> None:
    """On the profile of the H200 several threads copy past the caches, and one alone by memcpy."""
    twin = twin_of(Pipeline.model_validate({**FIELDS, "staging": "copy", "staging_lanes": 2}))
    assert (twin.plan().shared_copier(), len(twin.plan().lanes)) == (True, 1)
    assert not twin_of(Pipeline.model_validate({**FIELDS, "staging": "copy"})).plan().shared_copier()
    assert rows(tmp_path, f"{RING}, staging: copy, staging_lanes: 2")["overlap_efficiency"].between(0, 1).all()
    (alone,) = rows(tmp_path, f"{RING}, staging: copy, staging_threads: 16".replace("8MiB", "512KiB")).to_dict("records")
    assert pd.isna(alone["overlap_efficiency"])
    assert alone["twin_ms"] > 0
    with closing(SimulatedDevice(load_profile("h200")).open(twin.plan())) as session:
        assert session.play(0).host_copier == "c_streaming"


def test_more_threads_than_the_simulated_host_has_processors_gain_nothing_and_flag_the_row(tmp_path: Path) -> None:
    fields = f"{RING}, staging: copy, staging_threads: [16, 64]"
    few, many = read_results(run(tmp_path, f"  ring: {{{fields}}}\n", device="simulated:h200").folder).summary.to_dict("records")
    assert (few["flags"], many["flags"]) == ("", "oversubscribed")
    assert many["median_wall_ms"] >= few["median_wall_ms"]
    assert (rows(tmp_path / "other", fields)["flags"] == "").all(), "a profile that names no processors has no limit"
