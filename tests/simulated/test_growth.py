"""What profiles may say beyond the frozen one: each costs the time that it names, where it is named, and nothing elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from runner.device.simulated import Profile
from runner.device.simulated.profile_files import as_profile, profile_data
from runner.memory import DEVICE
from runner.plan import Alloc, Barrier, Buffer, Copy, Drain, Free, HostCopy, Launch, Mark, Operation, Plan
from tests.plans import plan_of
from tests.simulated.profiles import play, span_ns

SIZE = 1_000_000
NOTED: dict[str, Any] = {"how": "assumed", "source": "a test"}


def with_node(part: str, name: str, **node: Any) -> Profile:
    """Return the profile `test` with one parameter more."""
    data = profile_data("test")
    data[part][name] = NOTED | node
    return as_profile(data, "test")


def launches(passes: int) -> Plan:
    lane = [Mark(0), Launch(0, 0, 0, SIZE, passes), Drain(0), Mark(1)]
    return plan_of([Buffer("device", DEVICE, SIZE)], [lane], data=[0])


def up_and_launch() -> Plan:
    buffers = [Buffer("host", "pinned", SIZE), Buffer("device", DEVICE, SIZE), Buffer("other", DEVICE, SIZE)]
    lane = [Mark(0), Copy(0, "h2d", 1, 0, 0, 0, SIZE), Launch(1, 2, 0, SIZE), Copy(0, "h2d", 1, 0, 0, 0, SIZE), Mark(1)]
    return plan_of(buffers, [[*lane, Drain(0), Drain(1), Mark(2)]], data=[0, 2], streams=2)


def staged(threads: int, memory: str = "pinned") -> Plan:
    buffers = [Buffer("data", "pageable", SIZE), Buffer("stager", memory, SIZE)]
    return plan_of(buffers, [[Mark(0), HostCopy(1, 0, 0, 0, SIZE, threads), Mark(1)]], data=[0])


def staged_by(lanes: int, threads: int) -> Plan:
    """Copies of lanes side by side, each into a stager of its own."""
    buffers = [Buffer("data", "pageable", SIZE), *(Buffer(f"stager {n}", "pinned", SIZE) for n in range(lanes))]
    work: list[list[Operation]] = [[Barrier(), HostCopy(n + 1, 0, 0, 0, SIZE, threads), Barrier()] for n in range(lanes)]
    return plan_of(buffers, timed(work), data=[0])


def calling(lanes: int) -> Plan:
    """Ten launches of each lane, all at once."""
    work: list[list[Operation]] = [[Barrier(), *[Launch(n, 0, 4 * n, 4)] * 10, Drain(n), Barrier()] for n in range(lanes)]
    return plan_of([Buffer("device", DEVICE, 4 * lanes)], timed(work), data=[0], streams=lanes)


def timed(work: list[list[Operation]]) -> list[list[Operation]]:
    """Lanes whose first one has marks behind the barrier at which all begin, and the one at which all have ended."""
    first, *others = work
    end = first.index(Barrier(), 1)
    return [[first[0], Mark(0), *first[1 : end + 1], Mark(1), *first[end + 1 :]], *others]


def test_kernels_of_one_stream_have_a_gap(round_numbers: Profile) -> None:
    profile = with_node("engines", "kernel_gap_ns", value=700)
    assert span_ns(play(profile, launches(5))) == span_ns(play(round_numbers, launches(5))) + 4 * 700
    assert span_ns(play(profile, launches(1))) == span_ns(play(round_numbers, launches(1)))


def test_a_call_of_another_sort_takes_longer(round_numbers: Profile) -> None:
    profile = with_node("calls", "change_ns", value=300)
    assert span_ns(play(profile, up_and_launch())) == span_ns(play(round_numbers, up_and_launch())) + 2 * 300


def test_the_first_copy_call_of_a_play_takes_longer(round_numbers: Profile) -> None:
    profile = with_node("calls", "cold_copy", points=[[0, 0], [2 * SIZE, 8000]])
    assert span_ns(play(profile, up_and_launch())) == span_ns(play(round_numbers, up_and_launch())) + 4000


@pytest.mark.parametrize(("threads", "more"), [(1, 0), (2, 500), (3, 750), (4, 1000), (9, 1000)])
def test_several_threads_take_time_to_begin(round_numbers: Profile, threads: int, more: int) -> None:
    profile = with_node("host", "start_ns", ns_by_threads={2: 500, 4: 1000})
    assert span_ns(play(profile, staged(threads))) == span_ns(play(round_numbers, staged(threads))) + more


@pytest.mark.parametrize(
    ("rows", "ppm"), [({1: 500_000}, 500_000), ({1: 1, 2 * SIZE: 2_000_000}, 1_000_000), ({9 * SIZE: 250_000}, 250_000)]
)
def test_copies_into_stagers_cost_by_the_bytes_of_all_stagers(rows: dict[int, int], ppm: int) -> None:
    profile = with_node("host", "stager_ppm", by_bytes=rows)
    assert span_ns(play(profile, staged(1))) == pytest.approx(200_000 * ppm / 1_000_000, abs=2)
    assert span_ns(play(profile, staged(1, "pageable"))) >= 200_000


@pytest.mark.parametrize(("threads", "lanes", "ppm"), [(1, 1, 1_000_000), (2, 1, 500_000), (1, 2, 500_000)])
def test_stagers_of_several_threads_cost_by_a_table_of_their_own(threads: int, lanes: int, ppm: int) -> None:
    profile = with_node("host", "shared_stager_ppm", by_bytes={1: 500_000})
    rate = profile.host.copied_per_second(threads * lanes)
    trace = play(profile, staged_by(lanes, threads))
    assert span_ns(trace) == pytest.approx(lanes * SIZE * 10**9 / rate * ppm / 1_000_000, abs=2)


@pytest.mark.parametrize(("lanes", "waiting"), [(1, 0), (2, 19), (4, 39)])
def test_a_call_that_waited_for_another_lane_takes_longer(round_numbers: Profile, lanes: int, waiting: int) -> None:
    profile = with_node("calls", "handover_ns", value=600)
    # Kernels of a few ns hide behind calls or not.
    more = span_ns(play(profile, calling(lanes))) - span_ns(play(round_numbers, calling(lanes)))
    # A wake-up costs the more the more lanes there are, by the logarithm: of four twice as much as of two.
    assert more == pytest.approx(waiting * 600 * (2 if lanes == 4 else 1), abs=50)


def test_fresh_pages_cost_a_driver_more(round_numbers: Profile) -> None:
    size = 40 * 4096
    buffers = [Buffer("device", DEVICE, size), Buffer("landing", "pageable", size)]
    lane = [Alloc(1), Mark(0), Copy(0, "d2h", 1, 0, 0, 0, size), Mark(1), Drain(0), Free(1)]
    plan = plan_of(buffers, [lane], data=[0], in_lanes=[1])
    profile = with_node("staging", "fresh_page_ns", value=2_500)
    assert span_ns(play(profile, plan)) == span_ns(play(round_numbers, plan)) + 40 * 2_000
