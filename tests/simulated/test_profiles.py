"""The profiles give back the published and measured figures that they were made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.device.simulated import Profile, SimulatedDevice, load_profile, profile_names
from runner.device.simulated.profile_values import Sourced
from runner.errors import DeviceUnavailable
from runner.memory import DEVICE, KINDS
from runner.plan import (
    Access,
    Alloc,
    Buffer,
    Busy,
    Copy,
    Drain,
    Expect,
    Free,
    HostAccess,
    HostCopy,
    KernelAccess,
    KernelCopy,
    Mark,
    Operation,
    Pages,
    Prefetch,
    Register,
    Unregister,
)
from runner.scenarios.pipeline import Pipeline
from tests import plans
from tests.plans import DATA, WRITTEN, plan_of
from tests.simulated.profiles import MS, play, span_ns

MIB = 2**20
Span = tuple[float, float]
"""From the least to the most of what was measured."""


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


H200_PAGEABLE_TABLE = {1: (7.88, 5.73), 4: (9.67, 8.27), 16: (9.36, 8.63), 64: (6.85, 13.47), 256: (6.90, 12.74)}
"""GB/s of h2d and d2h in the reference run of bandwidth.yaml."""


@pytest.mark.parametrize("size_mib", H200_PAGEABLE_TABLE)
def test_the_reference_run_reads_back(h200: Profile, size_mib: int) -> None:
    rates = [size_mib * MIB / event_ns(h200, size_mib * MIB, direction, "pageable") for direction in ("h2d", "d2h")]
    assert rates == pytest.approx(H200_PAGEABLE_TABLE[size_mib], rel=0.01)


def test_the_pipelines_of_the_h200(h200: Profile) -> None:
    ring, loop = ms(h200, plans.ring(8, 32 * MIB, 3)), ms(h200, plans.serialized(8, 32 * MIB))
    assert 94 <= ring <= 103
    assert 166 <= loop <= 320
    assert loop / ring >= 1.76


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


@pytest.mark.parametrize(("size_mib", "call_ms"), [(2.0, 0.27), (2.5, 15.2)])
def test_pageable_uploads_behind_work_on_the_h200(h200: Profile, size_mib: float, call_ms: float) -> None:
    size, busy = int(size_mib * MIB), 32 * MIB
    buffers = [Buffer("host", "pageable", size), Buffer("device", DEVICE, size), Buffer("busy", DEVICE, busy)]
    lane = [plans.Launch(0, 2, 0, busy, 720), Mark(0), Copy(0, "h2d", 1, 0, 0, 0, size), Mark(1), Drain(0), Mark(2)]
    profile = h200.model_copy(
        update={"calls": h200.calls.model_copy(update={"launch_ns": h200.calls.copy_ns.model_copy(update={"value": 0})})}
    )
    assert span_ns(play(profile, plan_of(buffers, [lane], data=[0, 2], poison=[1]))) / MS == pytest.approx(call_ms, rel=0.03)


@pytest.mark.parametrize(("threads", "gb_per_s"), [(1, 5.5), (4, 35), (8, 56), (16, 74)])
def test_host_copies_of_the_h200(h200: Profile, threads: int, gb_per_s: float) -> None:
    size = 256 * MIB
    lane = [Mark(0), HostCopy(1, 0, 0, 0, size, threads), Mark(1)]
    plan = plan_of([Buffer("from", "pageable", size), Buffer("to", "pageable", size)], [lane], data=[0], poison=[1])
    assert size / span_ns(play(h200, plan)) == pytest.approx(gb_per_s, rel=0.001)


@pytest.mark.parametrize(
    ("lanes", "threads", "chunk_mib", "wall_ms"),
    [(1, 1, 32, (94, 103)), (1, 16, 16, (6.8, 7.1)), (4, 4, 8, (6.2, 7.7)), (2, 8, 16, (6.2, 7.5))],
)
def test_staged_rings_of_the_h200(h200: Profile, lanes: int, threads: int, chunk_mib: int, wall_ms: tuple[float, float]) -> None:
    """From pageable to pageable, 256 MiB, three slots a lane, as measured on 2026-11-29."""
    sizes = {"total": 256 * MIB, "chunk": chunk_mib * MIB, "streams": 3 * lanes}
    fields = {"kind": "pipeline", "schedule": "overlapped", "staging": "copy"} | sizes
    model = Pipeline.model_validate(fields | {"staging_lanes": lanes, "staging_threads": threads})
    trace = play(h200, model.plan())
    assert wall_ms[0] <= model.figures(model.plan(), trace)["wall_ms"] <= wall_ms[1]
    assert trace.host_copier == ("c_streaming" if lanes * threads > 1 else "numpy")


@pytest.mark.parametrize(
    ("memory", "pages", "allocate_ms", "free_ms"),
    [
        ("pinned", "normal", (91, 135), (22, 42)),
        ("write_combined", "normal", (73, 135), (15, 42)),
        ("mapped", "normal", (86, 135), (22, 42)),
        ("registered", "normal", (100, 115), (11, 21)),
        ("registered", "huge", (30, 46), (4, 6)),
        ("managed", "normal", (0.1, 0.2), (1.9, 2.1)),
        ("pageable", "normal", (0.06, 0.09), (7, 15)),
        ("pageable", "huge", (0.06, 0.11), (0.3, 0.5)),
        (DEVICE, "normal", (0.06, 0.3), (0.09, 0.3)),
    ],
)
def test_what_memory_of_the_h200_costs(h200: Profile, memory: str, pages: Pages, allocate_ms: Span, free_ms: Span) -> None:
    """256 MiB of each, within what several hosts told."""
    lane = [Mark(0), Alloc(0), Mark(1), Free(0), Mark(2)]
    trace = play(h200, plan_of([Buffer("it", memory, 256 * MIB, pages)], [lane], in_lanes=[0]))
    assert allocate_ms[0] <= span_ns(trace) / MS <= allocate_ms[1]
    assert free_ms[0] <= span_ns(trace, 1, 2) / MS <= free_ms[1]


@pytest.mark.parametrize(
    ("pages", "touch", "lock", "unlock"),
    [("normal", (110, 157), (7.7, 13), (4, 5.7)), ("huge", (45, 77), (4.7, 5.8), (4, 4.5))],
)
def test_page_locking_on_the_h200(h200: Profile, pages: Pages, touch: Span, lock: Span, unlock: Span) -> None:
    """256 MiB written for the first time, locked where they lie, and unlocked."""
    size = 256 * MIB
    lane = [Alloc(0), Mark(0), HostAccess(0, 0, size, "write"), Mark(1), Register(0), Mark(2), Unregister(0), Mark(3), Free(0)]
    trace = play(h200, plan_of([Buffer("it", "pageable", size, pages)], [lane], in_lanes=[0]))
    for number, (low, high) in enumerate((touch, lock, unlock)):
        assert low <= span_ns(trace, number, number + 1) / MS <= high


def test_a_fresh_output_costs_page_faults(h200: Profile) -> None:
    """65,536 pages of 1.2 to 1.8 us."""
    size = 256 * MIB
    lane = [Mark(0), HostCopy(1, 0, 0, 0, size), Mark(1)]
    buffers = [Buffer("from", "pageable", size), Buffer("to", "pageable", size)]
    fresh, touched = plan_of(buffers, [lane], data=[0]), plan_of(buffers, [lane], data=[0], poison=[1])
    assert 78 <= ms(h200, fresh) - ms(h200, touched) <= 118


@pytest.mark.parametrize(
    ("size_mib", "fault", "back", "call", "sent", "returned"),
    [
        (16, (1.5, 1.9), (1.5, 2.1), (0.2, 0.35), (0.39, 0.53), (0.9, 1.0)),
        (256, (22, 33), (19, 38), (4.3, 4.5), (5.5, 5.9), (23, 25)),
    ],
)
def test_migration_on_the_h200(
    h200: Profile, size_mib: int, fault: Span, back: Span, call: Span, sent: Span, returned: Span
) -> None:
    """Faulted in by a kernel, touched back by the host, sent ahead (of which the call holds the host), and sent back."""
    size = size_mib * MIB
    lane = [Mark(0), KernelAccess(0, 0, 0, size, "read"), Drain(0), Mark(1), HostAccess(0, 0, size, "read", 16), Mark(2)]
    lane += [HostAccess(0, 0, size, "read", 16), Mark(3), Prefetch(0, 0, 0, size, "device"), Mark(4), Drain(0), Mark(5)]
    lane += [Prefetch(0, 0, 0, size, "host"), Mark(6), Drain(0), Mark(7)]
    trace = play(h200, plan_of([Buffer("it", "managed", size)], [lane], data=[0]))
    took = [span_ns(trace, number, number + 1) / MS for number in range(7)]
    resident = took[2]
    measured = {"fault": took[0], "back": took[1] - resident, "call": took[3], "sent": took[3] + took[4], "returned": took[5]}
    allowed = {"fault": fault, "back": back, "call": call, "sent": sent, "returned": returned}
    assert all(allowed[name][0] <= time <= allowed[name][1] for name, time in measured.items()), measured
    assert took[6] < 0.1


def test_fresh_managed_memory_costs_a_kernel_of_the_h200_its_pages(h200: Profile) -> None:
    """16.1 ms for 256 MiB that nobody had touched."""
    size = 256 * MIB
    lane = [Alloc(0), Mark(0), KernelAccess(0, 0, 0, size, "write"), Drain(0), Mark(1), Free(0)]
    assert ms(h200, plan_of([Buffer("it", "managed", size)], [lane], in_lanes=[0])) == pytest.approx(16.1, rel=0.05)


@pytest.mark.parametrize(("access", "gb_per_s"), [("read", (51.0, 37.5)), ("write", (52.4, 41.1)), ("increment", (41.6, 24.7))])
@pytest.mark.parametrize("memory", ["pinned", "registered", "write_combined", "mapped"])
def test_kernels_of_the_h200_work_over_the_link(h200: Profile, memory: str, access: Access, gb_per_s: Span) -> None:
    """64 MiB and 1 MiB between two events, which add 5.5 us."""
    rates = []
    for size in (64 * MIB, MIB):
        plan = plan_of([Buffer("it", memory, size)], [[KernelAccess(0, 0, 0, size, access, WRITTEN), Drain(0)]], data=[0])
        kernel = play(h200, plan).activities[0]
        rates.append(size / (kernel.end_ns - kernel.begin_ns + 5_500))
    assert rates == pytest.approx(gb_per_s, rel=0.03)


def test_kernels_of_the_h200_copy_both_ways_no_faster_than_one(h200: Profile) -> None:
    """54.5 GB/s in sum, where copy engines reach 101."""
    size = 64 * MIB
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("a", DEVICE, size), Buffer("b", DEVICE, size)]
    lane = [Mark(0), KernelCopy(0, 2, 0, 0, 0, size), KernelCopy(1, 1, 0, 3, 0, size), Drain(0), Drain(1), Mark(1)]
    assert 2 * size / span_ns(play(h200, plan_of(buffers, [lane], data=[0, 3], streams=2))) == pytest.approx(54.5, rel=0.06)


@pytest.mark.parametrize(
    ("memory", "issue_ms", "free_ms"),
    [
        ("pinned", (0, 0.1), (10, 11.2)),
        ("registered", (0, 0.1), (10, 11.2)),
        ("write_combined", (0, 0.1), (10, 11.2)),
        ("mapped", (0, 0.1), (10, 11.2)),
        ("pageable", (0.1, 0.25), (0, 0.1)),
        ("managed", (10, 10.3), (0, 0.4)),
    ],
)
def test_a_buffer_freed_in_flight_spoils_nothing_on_the_h200(h200: Profile, memory: str, issue_ms: Span, free_ms: Span) -> None:
    """1 MiB behind 10 ms of work: the call, or freeing, waits for the copy, or the copy has read its source."""
    size = MIB
    buffers = [Buffer("host", memory, size), Buffer("source", "pageable", size), Buffer("device", DEVICE, size)]
    lane = [Alloc(0), HostCopy(0, 0, 1, 0, size), Busy(0, 10 * MS), Mark(0), Copy(0, "h2d", 2, 0, 0, 0, size), Mark(1)]
    lane += [Free(0), Mark(2), Drain(0)]
    expects, wanted = [Expect(2, 0, size, DATA, 0)], [] if memory == "pageable" else [0]
    plan = plan_of(buffers, [lane], data=[1], poison=[2], in_lanes=[0], expects=expects, races_wanted=wanted)
    session = SimulatedDevice(h200).open(plan)
    trace = session.play(0)
    assert session.verify() == ()
    assert issue_ms[0] <= span_ns(trace) / MS <= issue_ms[1]
    assert free_ms[0] <= span_ns(trace, 1, 2) / MS <= free_ms[1]


@pytest.mark.parametrize("name", ["h200", "rtx-4090"])
def test_kernels_reach_host_memory_at_most_as_fast_as_the_engine_copies_it(name: str) -> None:
    profile, size = load_profile(name), 64 * MIB
    plan = plans.in_place(2 * size)
    write, increment, _, read, copy = (activity.end_ns - activity.begin_ns for activity in play(profile, plan).activities)
    assert copy / 2 <= min(read, write) <= increment
    up, _, down = (activity.end_ns - activity.begin_ns for activity in play(profile, plans.kernel_copies(2 * size)).activities)
    assert copy / 2 <= min(up, down)


@pytest.mark.parametrize("threads", [1, 8])
def test_the_processor_beside_an_h200_uses_all_host_memory_alike(h200: Profile, threads: int) -> None:
    """One thread reads at 12 to 20, writes at 6.7 to 11 and adds at 8 to 21 GB/s; write-combined memory is no slower."""
    size = 64 * MIB
    lane: list[Operation] = [Mark(0)]
    for number, access in enumerate(("read", "write", "increment")):
        lane += [HostAccess(0, 0, size, access, threads, WRITTEN), Mark(number + 1)]  # type: ignore[arg-type]
    kinds = ("pageable", "pinned", "write_combined", "mapped")
    traces = [play(h200, plan_of([Buffer("it", memory, size)], [lane], data=[0])) for memory in kinds]
    assert len({trace.host_ns for trace in traces}) == 1
    allowed = {1: ((12, 20), (6.7, 11), (8, 21)), 8: ((57, 99), (40, 73), (51, 93))}[threads]
    for number, (low, high) in enumerate(allowed):
        assert low <= size / span_ns(traces[0], number, number + 1) <= high


def test_write_combined_memory_is_slow_to_read_where_nothing_else_is_known(rtx_4090: Profile) -> None:
    lane = [Mark(0), HostAccess(0, 0, MIB, "write"), Mark(1), HostAccess(0, 0, MIB, "read"), Mark(2)]
    trace = play(rtx_4090, plan_of([Buffer("it", "write_combined", MIB)], [lane], data=[0]))
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
    assert facts.link_gb_per_s == facts.environment["link_gb_per_s"] == profile.link_gb_per_s
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
