"""The profiles give back the published and measured figures that they were made from."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from runner.device.simulated import Profile, SimulatedDevice, load_profile, profile_names
from runner.device.simulated.profile_files import as_profile, profile_data
from runner.device.simulated.profile_values import Sourced
from runner.errors import DeviceUnavailable
from runner.memory import DEVICE, KINDS
from runner.plan import (
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
)
from tests import plans
from tests.plans import DATA, plan_of
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


def test_a_fresh_output_costs_page_faults(h200: Profile) -> None:
    """65,536 pages of 1.2 to 1.8 us."""
    size = 256 * MIB
    lane = [Mark(0), HostCopy(1, 0, 0, 0, size), Mark(1)]
    buffers = [Buffer("from", "pageable", size), Buffer("to", "pageable", size)]
    fresh, touched = plan_of(buffers, [lane], data=[0]), plan_of(buffers, [lane], data=[0], poison=[1])
    assert 78 <= ms(h200, fresh) - ms(h200, touched) <= 118


def test_fresh_managed_memory_costs_a_kernel_of_the_h200_its_pages(h200: Profile) -> None:
    """16.1 ms for 256 MiB that nobody had touched."""
    size = 256 * MIB
    lane = [Alloc(0), Mark(0), KernelAccess(0, 0, 0, size, "write"), Drain(0), Mark(1), Free(0)]
    assert ms(h200, plan_of([Buffer("it", "managed", size)], [lane], in_lanes=[0])) == pytest.approx(16.1, rel=0.05)


def test_kernels_of_the_h200_copy_both_ways_no_faster_than_one(h200: Profile) -> None:
    """51 GB/s in sum, where 54.5 were measured and copy engines reach 101."""
    size = 64 * MIB
    buffers = [Buffer("in", "pinned", size), Buffer("out", "pinned", size), Buffer("a", DEVICE, size), Buffer("b", DEVICE, size)]
    lane = [Mark(0), KernelCopy(0, 2, 0, 0, 0, size), KernelCopy(1, 1, 0, 3, 0, size), Drain(0), Drain(1), Mark(1)]
    assert 2 * size / span_ns(play(h200, plan_of(buffers, [lane], data=[0, 3], streams=2))) == pytest.approx(51.2, rel=0.01)


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
        ("then_gb_per_s: 4, how: assumed, source: two", "then_gb_per_s: -4, how: assumed, source: two", "kinds.pageable.d2h"),
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"copy_engines": 3}, "its profile is wrong at copy_engines: a value that is not allowed; allowed: 1 or 2"),
        ({"link_gb_per_s": -1.0}, "wrong at link_gb_per_s: a value that is not allowed; allowed: greater than 0"),
        ({"staging": 7}, "wrong at staging: a value that is not allowed; allowed: "),
        ({"colour": "red"}, "wrong at colour: extra inputs are not permitted; correct the profile"),
    ],
)
def test_a_wrong_profile_is_refused_in_our_own_words(changes: dict[str, object], words: str) -> None:
    with pytest.raises(DeviceUnavailable) as refused:
        as_profile({**profile_data("test"), **changes}, "simulated:mine")
    assert words in str(refused.value)
    assert "Input should" not in str(refused.value)


def test_what_our_own_rules_say_of_a_profile_loses_the_librarys_lead() -> None:
    data = deepcopy(profile_data("test"))
    data["kinds"]["pinned"]["free"]["points"] = [[8, 0]]
    with pytest.raises(DeviceUnavailable, match=r"wrong at kinds\.pinned\.free: points begin at 0 bytes and rise in bytes"):
        as_profile(data, "simulated:mine")
