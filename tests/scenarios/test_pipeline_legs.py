from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.errors import CaseFailed
from runner.results import read_results
from runner.scenarios.base import Known
from runner.scenarios.legs import Leg
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.pipeline_legs import companions_of, derive, resolve, twin_of
from tests.scenarios.runs import run

MIB = 1 << 20


def pipeline(**fields: object) -> Pipeline:
    return Pipeline.model_validate(
        {"kind": "pipeline", "schedule": "overlapped", "total": 2048, "chunk": 256, "streams": 3, **fields}
    )


def test_a_staged_ring_is_held_against_five_legs_and_its_twin() -> None:
    companions = companions_of(pipeline(staging="copy", compute={"passes": 2}))
    assert list(companions) == ["leg_host_in", "leg_h2d", "leg_kernel", "leg_d2h", "leg_host_out", "twin"]
    twin = companions["twin"]
    assert isinstance(twin, Pipeline)
    assert (twin.schedule, twin.streams, twin.staging, twin.compute.passes) == ("serialized", 1, "copy", 2)
    assert twin == twin_of(twin), "the twin of a twin is itself"


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"schedule": "serialized", "streams": 1}, ["leg_h2d", "leg_kernel", "leg_d2h"]),
        ({"direction": "upload"}, ["leg_h2d", "leg_kernel", "twin"]),
        ({"direction": "download", "staging": "copy"}, ["leg_kernel", "leg_d2h", "leg_host_out", "twin"]),
        ({"compute": {"ratio": 1.5}}, ["leg_h2d", "leg_d2h", "leg_kernel"]),
    ],
)
def test_only_the_parts_that_a_pipeline_has_are_measured(fields: dict[str, object], names: list[str]) -> None:
    assert list(companions_of(pipeline(**fields))) == names


def test_the_way_back_moves_the_output_and_registered_data_are_copied_as_such() -> None:
    legs = companions_of(pipeline(output_ratio=0.5))
    assert [(legs[name].payload_bytes(), legs[name].chunk) for name in ("leg_h2d", "leg_d2h")] == [
        (2048, 256),
        (1024, 128),
    ]
    assert companions_of(pipeline(staging="register"))["leg_h2d"].buffer == "registered"


def test_cases_that_differ_in_streams_alone_share_their_kernel_leg() -> None:
    first, second = (companions_of(pipeline(streams=streams))["leg_kernel"] for streams in (2, 5))
    assert first == second


def test_the_legs_of_the_host_copy_on_as_many_lanes_by_as_many_threads() -> None:
    companions = companions_of(pipeline(staging="copy", staging_lanes=2, staging_threads=4))
    legs = {name: leg for name, leg in companions.items() if isinstance(leg, Leg)}
    assert {name: (leg.lanes, leg.threads, leg.slots) for name, leg in legs.items()} == {
        "leg_host_in": (2, 4, 2), "leg_h2d": (1, 1, 3), "leg_kernel": (1, 1, 1), "leg_d2h": (1, 1, 3), "leg_host_out": (2, 4, 2),
    }  # fmt: skip
    twin = companions["twin"]
    assert isinstance(twin, Pipeline)
    assert (twin.staging_lanes, twin.staging_threads) == (1, 4), "one chunk at a time has no use for lanes"
    Pipeline.model_validate(twin.model_dump())


def test_a_ratio_becomes_the_passes_that_take_so_long() -> None:
    case = pipeline(compute={"ratio": 1.5})
    known = Known(0, {"leg_h2d": 4.0, "leg_d2h": 5.0, "leg_kernel": 0.5})
    resolved = resolve(case, known)
    assert (resolved.compute.passes, resolved.compute.ratio) == (15, 1.5)
    assert resolve(resolved, known) is resolved
    with pytest.raises(CaseFailed, match="could not be measured"):
        resolve(case, Known(0, {"leg_h2d": 4.0}))


def test_bounds_and_what_was_gained_by_hand() -> None:
    case = pipeline(staging="copy")
    legs = {"leg_host_in": 3.0, "leg_h2d": 5.0, "leg_kernel": 1.0, "leg_d2h": 4.0, "leg_host_out": 3.0}
    figures = derive(case, Known(0, legs | {"twin": 16.0}), 8.0, {})
    assert (figures["bound_none_ms"], figures["bound_one_way_ms"], figures["bound_full_ms"]) == (16.0, 9.0, 6.0)
    assert figures["overlap_efficiency"] == pytest.approx(0.8)
    assert figures["hidden_fraction"] == pytest.approx(0.8)
    assert (figures["twin_ms"], figures["leg_h2d_ms"]) == (16.0, 5.0)


def test_where_the_legs_took_longer_than_the_twin_nothing_is_said_to_be_hidden() -> None:
    legs = {"leg_h2d": 9.0, "leg_kernel": 1.0, "leg_d2h": 4.0}
    figures = derive(pipeline(), Known(0, legs | {"twin": 8.5}), 8.0, {})
    assert figures["bound_full_ms"] == 9.0
    assert not figures.keys() & {"hidden_fraction", "overlap_efficiency"}


def test_without_a_leg_there_are_no_bounds() -> None:
    figures = derive(pipeline(), Known(0, {"leg_h2d": 5.0, "twin": 16.0}), 8.0, {})
    assert figures == {"leg_h2d_ms": 5.0, "twin_ms": 16.0}


def test_copies_both_ways_at_once_take_longer_than_alone_and_the_row_says_so(tmp_path: Path) -> None:
    """The test profile carries four fifths of a copy's rate while another runs the opposite way."""
    ring = "  ring: {kind: pipeline, schedule: overlapped, total: 16MiB, chunk: 1MiB, streams: 3, compute: {passes: 1}}\n"
    summary = read_results(run(tmp_path, ring).folder).summary
    row = summary.iloc[0]
    assert row["slowdown_h2d"] == pytest.approx(row["among_h2d_ms"] / row["leg_h2d_ms"])
    assert 1.15 < row["slowdown_h2d"] < 1.25
    assert (row["h2d_bytes"], row["d2h_bytes"]) == (16 * MIB, 16 * MIB)


@pytest.mark.parametrize(
    ("fields", "slots"),
    [
        ({"streams": 1}, 1),
        ({"streams": 2}, 2),
        ({"streams": 8}, 2),
        ({"streams": 2, "staging_lanes": 2}, 2),
        ({"streams": 3, "staging_lanes": 2}, 2),
        ({"streams": 4, "staging_lanes": 2}, 4),
        ({"streams": 9, "staging_lanes": 2}, 4),
    ],
)
def test_the_host_has_one_or_two_stagers_a_lane_and_no_more_than_the_ring(fields: dict[str, Any], slots: int) -> None:
    legs = {name: leg.slots for name, leg in companions_of(pipeline(staging="copy", **fields)).items() if isinstance(leg, Leg)}
    assert (legs["leg_host_in"], legs["leg_host_out"], legs["leg_h2d"], legs["leg_d2h"]) == (slots, slots, 3, 3)
