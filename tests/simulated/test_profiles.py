"""The profiles give back the published and measured figures that they were made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.device.simulated import Profile, SimulatedDevice, load_profile, profile_names
from runner.device.simulated.profile import Sourced
from runner.errors import DeviceUnavailable
from runner.memory import DEVICE, KINDS
from runner.plan import Buffer, Copy, Drain, HostAccess, HostCopy, KernelAccess, Mark, Prefetch, Register, Unregister
from tests import plans
from tests.plans import plan_of
from tests.simulated.profiles import MS, play, span_ns

MIB = 2**20


@pytest.fixture(scope="module")
def h200() -> Profile:
    return load_profile("h200")


@pytest.fixture(scope="module")
def rtx_4090() -> Profile:
    return load_profile("rtx-4090")


def event_ns(profile: Profile, size: int, direction: str, memory: str = "pinned") -> int:
    """Return the time between two events around one copy."""
    time = play(profile, plans.one_copy(size, direction, memory)).event_ns[1]  # type: ignore[arg-type]
    assert time is not None
    return time


def ms(profile: Profile, plan: plans.Plan) -> float:
    return span_ns(play(profile, plan)) / MS


RTX_4090_TABLE = {
    1: (11.60, 22.58, 8.93, 25.54),
    4: (15.23, 23.61, 11.99, 26.66),
    16: (16.56, 23.88, 12.84, 18.37),
    64: (14.70, 19.55, 3.53, 16.95),
    256: (12.36, 23.62, 3.61, 23.85),
}


@pytest.mark.parametrize("size_mib", RTX_4090_TABLE)
def test_the_public_table_reads_back(rtx_4090: Profile, size_mib: int) -> None:
    cells = (("h2d", "pageable"), ("h2d", "pinned"), ("d2h", "pageable"), ("d2h", "pinned"))
    rates = [size_mib * MIB / event_ns(rtx_4090, size_mib * MIB, *cell) for cell in cells]
    assert rates == pytest.approx(RTX_4090_TABLE[size_mib], rel=0.03)


def test_the_public_pipelines_read_back(rtx_4090: Profile) -> None:
    assert ms(rtx_4090, plans.serialized(8, 32 * MIB)) == pytest.approx(174.996, rel=0.05)
    assert ms(rtx_4090, plans.ring(8, 32 * MIB, 3)) == pytest.approx(99.332, rel=0.05)


@pytest.mark.parametrize(("size", "us"), [(4096, 8.1), (MIB, 27.3), (256 * MIB, 4_869.0)], ids=["4KiB", "1MiB", "256MiB"])
def test_pinned_uploads_of_the_h200_between_events(h200: Profile, size: int, us: float) -> None:
    assert event_ns(h200, size, "h2d") / 1_000 == pytest.approx(us, rel=0.015)


def test_pinned_copies_of_the_h200_on_their_engine(h200: Profile) -> None:
    for size, us in ((4096, 2.6), (MIB, 21.6), (256 * MIB, 4_843.0)):
        copy = play(h200, plans.one_copy(size)).activities[0]
        assert (copy.end_ns - copy.begin_ns) / 1_000 == pytest.approx(us, rel=0.035)


@pytest.mark.parametrize(("size_mib", "low", "high"), [(1, 12, 14), (16, 12, 14), (64, 6, 7), (256, 6, 7)])
def test_pageable_uploads_of_the_h200(h200: Profile, size_mib: int, low: float, high: float) -> None:
    assert low <= size_mib * MIB / event_ns(h200, size_mib * MIB, "h2d", "pageable") <= high


@pytest.mark.parametrize("size_mib", [1, 4, 16, 64, 256])
def test_pageable_downloads_of_the_h200(h200: Profile, size_mib: int) -> None:
    assert 9 <= size_mib * MIB / event_ns(h200, size_mib * MIB, "d2h", "pageable") <= 12


def test_the_pipelines_of_the_h200(h200: Profile) -> None:
    assert 94 <= ms(h200, plans.ring(8, 32 * MIB, 3)) <= 103
    assert 166 <= ms(h200, plans.serialized(8, 32 * MIB)) <= 320


@pytest.mark.parametrize(
    ("chunks", "measured_ms"),
    [
        (8, (10.1, 6.1, 6.0, 6.0, 6.0)),
        (32, (10.5, 5.9, 5.7, 5.7, 5.8)),
        (128, (12.2, 6.7, 6.1, 6.1, 6.0)),
        (512, (17.5, 10.5, 8.6, 8.3, 7.9)),
        (1024, (26.8, 14.6, 12.4, 10.9, 10.1)),
    ],
)
def test_direct_pipelines_of_the_h200(h200: Profile, chunks: int, measured_ms: tuple[float, ...]) -> None:
    simulated = [ms(h200, plans.direct(chunks, 256 * MIB // chunks, streams)) for streams in (1, 2, 3, 4, 8)]
    assert simulated == pytest.approx(measured_ms, rel=0.11)


def test_both_directions_at_once_on_the_h200(h200: Profile) -> None:
    size = 256 * MIB
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("a", DEVICE, size), Buffer("b", DEVICE, size)]
    lane = [Copy(0, "h2d", 2, 0, 0, 0, size), Copy(1, "d2h", 1, 0, 3, 0, size), Drain(0), Drain(1)]
    trace = play(h200, plan_of(buffers, [lane], data=[0, 3], streams=2))
    rates = [size / (activity.end_ns - activity.begin_ns) for activity in trace.activities]
    assert rates == pytest.approx([50.9, 50.9], rel=0.01)


@pytest.mark.parametrize(("kib", "us"), [(4, 0.74), (512, 1.2), (4096, 3.4), (32768, 21), (524288, 434)])
def test_kernels_of_the_h200(h200: Profile, kib: int, us: float) -> None:
    assert h200.engines.kernel.ns(kib * 1024) / 1_000 == pytest.approx(us)


@pytest.mark.parametrize(("size_mib", "call_ms"), [(2.0, 0.19), (2.5, 15.2)])
def test_pageable_uploads_behind_work_on_the_h200(h200: Profile, size_mib: float, call_ms: float) -> None:
    size, busy = int(size_mib * MIB), 32 * MIB
    buffers = [Buffer("host", "pageable", size), Buffer("device", DEVICE, size), Buffer("busy", DEVICE, busy)]
    lane = [plans.Launch(0, 2, 0, busy, 720), Mark(0), Copy(0, "h2d", 1, 0, 0, 0, size), Mark(1), Drain(0), Mark(2)]
    profile = h200.model_copy(
        update={"calls": h200.calls.model_copy(update={"launch_ns": h200.calls.copy_ns.model_copy(update={"value": 0})})}
    )
    assert span_ns(play(profile, plan_of(buffers, [lane], data=[0, 2], poison=[1]))) / MS == pytest.approx(call_ms, rel=0.03)


@pytest.mark.parametrize(("threads", "gb_per_s"), [(1, 5.5), (4, 19), (8, 33), (16, 49)])
def test_host_copies_of_the_h200(h200: Profile, threads: int, gb_per_s: float) -> None:
    size = 256 * MIB
    lane = [Mark(0), HostCopy(1, 0, 0, 0, size, threads), Mark(1)]
    plan = plan_of([Buffer("from", "pageable", size), Buffer("to", "pageable", size)], [lane], data=[0], poison=[1])
    assert size / span_ns(play(h200, plan)) == pytest.approx(gb_per_s, rel=0.001)


def test_memory_of_the_h200(h200: Profile) -> None:
    size = 256 * MIB
    registered = [Mark(0), Register(0), Mark(1), Unregister(0)]
    assert 7 <= ms(h200, plan_of([Buffer("it", "pageable", size)], [registered], data=[0])) <= 9
    assert ms(h200, plan_of([Buffer("it", "pageable", size, "huge")], [registered], data=[0])) == pytest.approx(4, rel=0.01)
    for memory, expected in (("pinned", 127), (DEVICE, 0.3)):
        lane = [Mark(0), *plans.alloc_and_free(0)[:1], Mark(1), *plans.alloc_and_free(0)[1:]]
        assert ms(h200, plan_of([Buffer("it", memory, size)], [lane], in_lanes=[0])) == pytest.approx(expected, rel=0.01)


def test_a_fresh_output_costs_page_faults(h200: Profile) -> None:
    """65,536 pages of 0.53 us; 30 to 40 ms were measured."""
    size = 256 * MIB
    lane = [Mark(0), HostCopy(1, 0, 0, 0, size), Mark(1)]
    buffers = [Buffer("from", "pageable", size), Buffer("to", "pageable", size)]
    fresh, touched = plan_of(buffers, [lane], data=[0]), plan_of(buffers, [lane], data=[0], poison=[1])
    assert 30 <= ms(h200, fresh) - ms(h200, touched) <= 40


def test_registered_memory_of_the_h200_costs_its_pages_and_their_locking(h200: Profile) -> None:
    """65,536 pages of 0.53 us and 7 to 9 ms, or 128 huge ones and 4 ms; pinned by the driver, 256 MiB take 127 ms."""
    size = 256 * MIB
    lane = [Mark(0), *plans.alloc_and_free(0)[:1], Mark(1), *plans.alloc_and_free(0)[1:]]
    normal, huge = (
        ms(h200, plan_of([Buffer("it", "registered", size, pages)], [lane], in_lanes=[0])) for pages in ("normal", "huge")
    )
    assert 34.7 + 7 <= normal <= 34.7 + 9.1
    assert huge < normal / 2


def test_migration_on_the_h200(h200: Profile) -> None:
    """256 MiB faulted in by a kernel 31 to 33 ms, touched back 35 to 38 ms; sent ahead, both are about as fast as the link."""
    size = 256 * MIB
    lane = [Mark(0), KernelAccess(0, 0, 0, size, "read"), Drain(0), Mark(1), HostAccess(0, 0, size, "read", 16), Mark(2)]
    lane += [HostAccess(0, 0, size, "read", 16), Mark(3), Prefetch(0, 0, 0, size, "device"), Drain(0), Mark(4)]
    trace = play(h200, plan_of([Buffer("it", "managed", size)], [lane], data=[0]))
    fault, back, resident, sent = (span_ns(trace, number, number + 1) / MS for number in range(4))
    assert 31 <= fault <= 33
    assert 35 <= back - resident <= 38
    assert 4.8 <= sent <= 5.6


@pytest.mark.parametrize("name", ["h200", "rtx-4090"])
def test_kernels_reach_host_memory_at_most_as_fast_as_the_engine_copies_it(name: str) -> None:
    profile, size = load_profile(name), 64 * MIB
    plan = plans.in_place(2 * size)
    write, increment, _, read, copy = (activity.end_ns - activity.begin_ns for activity in play(profile, plan).activities)
    assert copy / 2 <= min(read, write) <= increment
    up, _, down = (activity.end_ns - activity.begin_ns for activity in play(profile, plans.kernel_copies(2 * size)).activities)
    assert copy / 2 <= min(up, down)


def test_write_combined_memory_is_slow_to_read_and_not_to_write(h200: Profile) -> None:
    lane = [Mark(0), HostAccess(0, 0, MIB, "write"), Mark(1), HostAccess(0, 0, MIB, "read"), Mark(2)]
    trace = play(h200, plan_of([Buffer("it", "write_combined", MIB)], [lane], data=[0]))
    assert 0.1 <= MIB / span_ns(trace, 1, 2) <= 0.2
    assert MIB / span_ns(trace) >= 5


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_says_where_each_figure_is_from(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert set(profile.kinds) >= {DEVICE, *KINDS}
    found = list(sourced(profile))
    assert len(found) > 20
    assert all(len(parameter.source) >= 3 for parameter in found)
    facts = SimulatedDevice(profile).facts()
    assert (facts.name, facts.kind) == (f"simulated:{name}", "simulated")
    assert facts.environment["link_gb_per_s"] == profile.link_gb_per_s
    assert facts.environment["profile_source"] == profile.source


def sourced(model: object) -> list[Sourced]:
    if isinstance(model, Sourced):
        return [model]
    parts = (
        model.values() if isinstance(model, dict) else (getattr(model, name) for name in getattr(type(model), "model_fields", ()))
    )
    return [found for part in parts for found in sourced(part)]


def test_the_names_are_those_of_the_files() -> None:
    assert profile_names() == ["h200", "rtx-4090", "test"]


@pytest.mark.parametrize(("name", "nearest"), [("h20", "h200"), ("rtx4090", "rtx-4090"), ("zzz", "h200, rtx-4090, test")])
def test_an_unknown_profile_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(DeviceUnavailable, match=f"simulated:{name}.*no such profile.*{nearest}"):
        load_profile(name)


TEXT = (Path(__file__).parents[2] / "runner" / "device" / "profiles" / "test.yaml").read_text(encoding="utf-8")


def test_a_profile_of_ones_own_is_read_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT.replace("name: test", "name: mine"), encoding="utf-8")
    assert SimulatedDevice(load_profile(str(path))).facts().name == "simulated:mine"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("copy_engines: 2", "copy_engines: 3", "copy_engines"),
        ("duplex_ppm: {value: 800000,", "duplex_ppm: {value: fast,", "engines.duplex_ppm.value"),
        ("duplex_ppm:", "duplex_share:", "engines.duplex_ppm"),
        ("how: assumed, source: four fifths", "how: guessed, source: four fifths", "engines.duplex_ppm.how"),
        ("then_gb_per_s: 5,", "then_gb_per_s: -5,", "kinds.pageable.h2d.then_gb_per_s"),
        ("{1: 5, 2: 10, 4: 20}", "{2: 10}", "the first row is for 1 thread"),
        ("name: test", "- 5", "cannot be read"),
        ("name: test", "name: 2026-01-01", "cannot be read"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_place(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in TEXT
    path = tmp_path / "wrong.yaml"
    path.write_text(TEXT.replace(old, new), encoding="utf-8")
    with pytest.raises(DeviceUnavailable, match=why):
        load_profile(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceUnavailable, match="cannot be read"):
        load_profile(str(tmp_path / "nothing.yaml"))
