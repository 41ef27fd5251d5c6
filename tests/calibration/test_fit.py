"""A fit reads a profile back from what the simulated device measured, and holds what it was not told for an assumption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.calibration.calibrate import calibrate, name_for
from runner.calibration.cases import witness
from runner.calibration.fit import Fitted, fit_profile
from runner.calibration.parameters import node_at
from runner.calibration.profile_text import profile_text
from runner.device.simulated.profile import ALL, Profile
from runner.device.simulated.profile_files import as_profile, load_profile, profile_data, user_folder
from runner.device.simulated.profile_values import Curve
from runner.errors import InputError
from runner.observed import Observation, ObservedRun
from tests.calibration.runs import observed

KIB, MIB = 2**10, 2**20
ASKED = """
name: asked
question: What does it take?
device: simulated:test
measure: {warmup: 0, samples: 3}
scenarios:
  calls: {kind: submission, operation: [copy, launch, record], size: 4KiB, count: 200}
  kernels: {kind: submission, operation: launch, size: [1MiB, 16MiB], count: 5}
  copies: {kind: transfer, buffer: [pinned, mapped], direction: [h2d, d2h], size: [4KiB, 1MiB, 16MiB]}
  pageable: {kind: transfer, buffer: pageable, direction: [h2d, d2h], size: [64KiB, 4MiB, 16MiB]}
  behind: {kind: blocking, buffer: pageable, direction: h2d, size: [64KiB, 1MB, 2MiB], busy_ms: 5}
  duplex: {kind: concurrency, copies: [h2d, d2h], size: 16MiB}
  in-place: {kind: access, by: kernel, pattern: [read, write, increment], buffer: mapped, size: [1MiB, 16MiB]}
  processor: {kind: access, by: cpu, pattern: [read, write, increment], buffer: pageable, size: 16MiB}
  slow: {kind: access, by: cpu, pattern: read, buffer: write_combined, size: [1MiB, 4MiB]}
  device: {kind: access, by: kernel, place: device, pattern: [read, write], size: [16MiB, 64MiB], passes: 2}
  memory: {kind: allocation, buffer: [pageable, pinned, registered], size: [1MiB, 16MiB]}
  huge: {kind: allocation, buffer: [pageable, registered], pages: huge, size: [2MiB, 16MiB]}
  prefetch: {kind: transfer, buffer: managed, migration: [fault, prefetch], direction: [h2d, d2h], size: [1MiB, 16MiB]}
  threads:
    {kind: pipeline, schedule: overlapped, staging: copy, total: 16MiB, chunk: [1MiB, 4MiB], streams: 3, staging_threads: [1, 4]}
  direct: {kind: pipeline, schedule: overlapped, total: 8MiB, chunk: [256KiB, 1MiB], streams: [1, 2, 4]}
  gpu: {kind: allocation, where: device, size: [1MiB, 16MiB]}
  fresh: {kind: pipeline, schedule: serialized, buffer: pageable, allocate: per_chunk, total: 8MiB, chunk: 2MiB}
"""
ROWS = """
name: rows
question: What does the first copy of a row take?
device: simulated:test
measure: {warmup: 0, samples: 3}
scenarios:
  calls: {kind: submission, operation: [copy, record], size: 4KiB, count: 200}
  events: {kind: transfer, buffer: pinned, direction: d2h, size: [64KiB, 1MiB]}
  single: {kind: transfer, buffer: pageable, direction: d2h, size: [256KiB, 1MiB, 4MiB, 16MiB]}
  rows: {kind: transfer, buffer: pageable, direction: d2h, size: 32MiB, chunk: [256KiB, 1MiB, 4MiB]}
"""
LANES = """
name: lanes
question: What do stagers and lanes cost where several threads copy?
device: simulated:lanes
measure: {warmup: 0, samples: 3}
scenarios:
  calls: {kind: submission, operation: [copy, launch, record], size: 4KiB, count: 200}
  copies: {kind: transfer, buffer: pinned, direction: [h2d, d2h], size: [64KiB, 1MiB, 16MiB]}
  stagers:
    {kind: pipeline, schedule: overlapped, staging: copy, total: 64MiB, chunk: 2MiB, streams: [4, 8, 12, 16, 32],
     staging_lanes: 2}
  small:
    {kind: pipeline, schedule: overlapped, staging: copy, total: 4MiB, chunk: [64KiB, 128KiB], streams: [8, 16],
     staging_lanes: 8}
  alone: {kind: pipeline, schedule: overlapped, staging: copy, total: 16MiB, chunk: 1MiB, streams: [2, 4]}
"""
NUMBERS = (
    ("calls", "copy_ns"),
    ("calls", "launch_ns"),
    ("calls", "record_ns"),
    ("engines", "timed_event_ns"),
    ("engines", "duplex_ppm"),
    ("engines", "handoff_ns"),
    ("engines", "stream_change_ns"),
    ("staging", "early_return_bytes"),
    ("staging", "fresh_page_ns"),
    ("host", "first_touch_ns"),
    ("host", "huge_first_touch_ns"),
)
CURVES = (
    *((("kinds", kind, way), 4 * MIB) for kind in ("pinned", "mapped", "pageable") for way in ("h2d", "d2h")),
    *((("kinds", kind, step), 16 * MIB) for kind in ("pageable", "pinned") for step in ("allocate", "free")),
    (("kinds", "write_combined", "cpu_read"), 4 * MIB),
    *((("registration", pages, step), 16 * MIB) for pages in ("normal", "huge") for step in ("lock", "unlock")),
    *((("in_place", pattern), 16 * MIB) for pattern in ("read", "write", "increment")),
    *((("migration", f"{how}_{way}"), 16 * MIB) for how in ("fault", "prefetch") for way in ("h2d", "d2h")),
    (("engines", "kernel"), 16 * MIB),
    (("staging", "held"), 1_000_000),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ObservedRun:
    return observed(ASKED, tmp_path_factory.mktemp("asked"))


@pytest.fixture(scope="module")
def fitted(run: ObservedRun) -> Fitted:
    return fit_profile(run, "mine", base="h200")


@pytest.fixture(scope="module")
def truth() -> Profile:
    return load_profile("test")


def curve_of(profile: Profile, path: tuple[str, ...]) -> Curve:
    found: Any = profile
    for name in path:
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert isinstance(found, Curve)
    return found


@pytest.mark.parametrize("path", NUMBERS, ids=[path[-1] for path in NUMBERS])
def test_numbers_read_back(fitted: Fitted, path: tuple[str, ...]) -> None:
    told = ("host", "first_touch_ns") if path == ("staging", "fresh_page_ns") else path
    expected = node_at(profile_data("test"), told)["value"]
    assert node_at(fitted.data, path)["value"] == pytest.approx(expected, rel=0.01)
    assert path in fitted.fitted


def test_the_wait_of_the_host_reads_back_within_what_shows_of_it(fitted: Fitted) -> None:
    """A direct pipeline waits once for its end: half a microsecond of it is a part of a thousand."""
    assert node_at(fitted.data, ("calls", "host_wait_ns"))["value"] == pytest.approx(1000, abs=500)


@pytest.mark.parametrize(("path", "size"), CURVES, ids=["-".join(path) for path, _ in CURVES])
def test_curves_read_back(fitted: Fitted, truth: Profile, path: tuple[str, ...], size: int) -> None:
    profile = as_profile(fitted.data, "mine")
    for part in (size, 2 * size):
        assert curve_of(profile, path).ns(part) == pytest.approx(curve_of(truth, path).ns(part), rel=0.01)


@pytest.mark.parametrize("access", ["read", "write", "increment"])
def test_work_in_place_reads_back(fitted: Fitted, access: str) -> None:
    """Its rate reads back, whatever it is that it is told as a part of."""
    data = profile_data("test")["host"]
    expected = data[f"{access}_ppm"]["value"] / data["copy_gb_per_s"]["by_threads"][1]
    found = fitted.data["host"][f"{access}_ppm"]["value"] / fitted.data["host"]["plain_gb_per_s"]["by_threads"][1]
    assert found == pytest.approx(expected, rel=0.01)


def test_rates_by_threads_read_back(fitted: Fitted, truth: Profile) -> None:
    host = as_profile(fitted.data, "mine").host
    for threads in (1, 4):
        assert host.copy_gb_per_s.bytes_per_second(threads) == pytest.approx(
            truth.host.copy_gb_per_s.bytes_per_second(threads), rel=0.01
        )


def test_the_profile_gives_its_run_back(fitted: Fitted) -> None:
    sorts = as_profile(fitted.data, "mine").fit
    assert sorts is not None
    assert sorts.sorts[ALL].cases == 73
    assert {name: each.worst_percent for name, each in sorts.sorts.items() if each.worst_percent > 1} == {}


def test_what_no_case_tells_is_assumed(fitted: Fitted) -> None:
    node = node_at(fitted.data, ("calls", "graph_launch_ns"))
    assert node["value"] == profile_data("h200")["calls"]["graph_launch_ns"]["value"]
    assert (node["how"], node["source"]) == ("assumed", "as in profile h200")
    assert ("calls", "graph_launch_ns") not in fitted.fitted


def test_a_fitted_parameter_names_its_run(fitted: Fitted, run: ObservedRun) -> None:
    node = node_at(fitted.data, ("kinds", "pinned", "h2d"))
    assert node["how"] == "measured"
    assert run.run_id in node["source"]
    assert node_at(fitted.data, ("engines", "handoff_ns"))["how"] == "fitted"


def test_the_text_of_a_profile_reads_back(fitted: Fitted, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(fitted.data), encoding="utf-8")
    assert load_profile(str(path)) == as_profile(fitted.data, "mine")


def test_a_calibrated_profile_is_found_by_its_name(run: ObservedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    small = ObservedRun(run.folder, run.loaded, run.manifest, run.observations[:3])
    done = calibrate(small)
    assert done.path == user_folder() / "simulated-test.yaml"
    assert not done.replaced
    assert load_profile("simulated-test") == done.profile
    assert "simulated:simulated-test" in done.lines()[-1]
    assert calibrate(small).replaced


@pytest.mark.parametrize("name", ["h200", "test", "rtx-4090"])
def test_no_shipped_profile_is_shadowed(run: ObservedRun, name: str) -> None:
    with pytest.raises(InputError, match="comes with dmalab"):
        calibrate(run, name)


@pytest.mark.parametrize("name", ["Mine", "../mine", "-", "a b"])
def test_a_name_is_one(run: ObservedRun, name: str) -> None:
    with pytest.raises(InputError, match="no name of a profile"):
        calibrate(run, name)


def test_a_run_that_tells_nothing_is_refused(run: ObservedRun) -> None:
    with pytest.raises(InputError, match=r"run calibrate\.yaml"):
        fit_profile(ObservedRun(run.folder, run.loaded, run.manifest, ()), "mine")


@pytest.mark.parametrize(
    ("device", "name"), [("NVIDIA H200", "nvidia-h200"), ("simulated:test", "simulated-test"), ("?", "calibrated")]
)
def test_a_profile_is_named_by_its_device(device: str, name: str) -> None:
    assert name_for(device) == name


def keep(data: dict[str, Any]) -> None:
    """Put a profile among the user's own, by its name."""
    user_folder().mkdir(parents=True)
    (user_folder() / f"{data['name']}.yaml").write_text(profile_text(data), encoding="utf-8")


@pytest.mark.slow
def test_first_copies_of_ordinary_memory_and_rows_of_small_ones_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    data = profile_data("test")
    mine = {"how": "assumed", "source": "a test"}
    data["staging"]["first_d2h"] = mine | {"points": [[0, 0], [MIB, 40_000]]}
    data["engines"]["row_h2d_ns"] = mine | {"value": 3_000}
    keep(data | {"name": "cold"})
    found = fit_profile(observed(ROWS, tmp_path, "simulated:cold"), "other")
    first = curve_of(as_profile(found.data, "other"), ("staging", "first_d2h"))
    assert [first.ns(size) for size in (256 * KIB, MIB, 4 * MIB)] == pytest.approx([10_000, 40_000, 40_000], rel=0.01)
    assert node_at(found.data, ("engines", "row_h2d_ns"))["value"] == pytest.approx(3_000, rel=0.01)


def test_what_a_first_copy_takes_longer_goes_on_as_it_is_beyond_the_longest_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single copies of 16 MiB cannot tell it from what each of them takes: it must not grow there, and swallow all of it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    data = profile_data("test")
    data["staging"]["first_d2h"] = {"how": "assumed", "source": "a test", "points": [[0, 0], [MIB, 40_000], [4 * MIB, 100_000]]}
    keep(data | {"name": "colder"})
    profile = as_profile(fit_profile(observed(ROWS, tmp_path, "simulated:colder"), "other", base="test").data, "other")
    assert curve_of(profile, ("staging", "first_d2h")).ns(64 * MIB) == pytest.approx(100_000, rel=0.01)
    truth, found = (curve_of(each, ("kinds", "pageable", "d2h")) for each in (as_profile(data, "test"), profile))
    assert found.ns(16 * MIB) == pytest.approx(truth.ns(16 * MIB), rel=0.01)


@pytest.mark.slow
def test_what_lanes_cost_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    noted, data = {"how": "assumed", "source": "a test"}, profile_data("test") | {"name": "lanes"}
    data["calls"]["handover_ns"] = {"value": 6000} | noted
    sizes = {8 * MIB: 800_000, 32 * MIB: 900_000, 64 * MIB: 1_000_000}
    data["host"]["shared_stager_ppm"] = {"by_bytes": sizes} | noted
    keep(data)
    found = as_profile(fit_profile(observed(LANES, tmp_path), "mine", base="test").data, "mine")
    assert found.calls.handover_ns is not None
    assert found.calls.handover_ns.value == pytest.approx(6000, rel=0.05)
    assert found.host.shared_stager_ppm is not None
    for size, ppm in sizes.items():
        assert found.host.shared_stager_ppm.ppm(size) == pytest.approx(ppm, rel=0.05)


def test_rings_of_one_thread_leave_what_several_copy_as_it_is(tmp_path: Path) -> None:
    """They were once taken to be as slow as one, since the table had no other row left."""
    one = [line for line in ASKED.splitlines() if "threads" not in line and "staging: copy" not in line]
    ring = "  ring: {kind: pipeline, schedule: overlapped, staging: copy, total: 16MiB, chunk: [1MiB, 4MiB], streams: 3}"
    found = as_profile(fit_profile(observed("\n".join([*one, ring]), tmp_path), "mine", base="h200").data, "mine").host
    base = load_profile("h200").host
    assert found.copy_gb_per_s.bytes_per_second(16) == base.copy_gb_per_s.bytes_per_second(16)
    assert found.start_ns is not None
    assert base.start_ns is not None
    assert found.start_ns.ns_by_threads == base.start_ns.ns_by_threads
    assert found.shared_stager_ppm is not None
    assert found.copied_per_second(1) == pytest.approx(load_profile("test").host.copied_per_second(1), rel=0.02)


def test_work_as_a_ratio_is_no_witness_and_no_fault(tmp_path: Path) -> None:
    text = ASKED + "  ratio: {kind: pipeline, schedule: overlapped, total: 8MiB, chunk: 1MiB, compute: {ratio: 1.5}}\n"
    assert fit_profile(observed(text, tmp_path), "mine", base="test").fitted


def test_disturbed_samples_are_stood_for_by_the_quick_ones(run: ObservedRun) -> None:
    case = run.observations[0].case
    calm, wild = (Observation(case, {"event_ms": 10.0}, {"event_ms": spread}, {"event_ms": 7.0}, "") for spread in (0.2, 0.3))
    assert witness(case.model, calm, "event_ms").measured == 10
    assert witness(case.model, wild, "event_ms").measured == 7
