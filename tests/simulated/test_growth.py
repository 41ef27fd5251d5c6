"""What profiles may say beyond the frozen one: each costs the time that it names, where it is named, and nothing elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from runner.device.simulated import Profile
from runner.device.simulated.profile_files import as_profile, profile_data
from runner.memory import DEVICE
from runner.plan import Alloc, Buffer, Copy, Drain, Free, HostCopy, Launch, Mark, Plan
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


def test_fresh_pages_cost_a_driver_more(round_numbers: Profile) -> None:
    size = 40 * 4096
    buffers = [Buffer("device", DEVICE, size), Buffer("landing", "pageable", size)]
    lane = [Alloc(1), Mark(0), Copy(0, "d2h", 1, 0, 0, 0, size), Mark(1), Drain(0), Free(1)]
    plan = plan_of(buffers, [lane], data=[0], in_lanes=[1])
    profile = with_node("staging", "fresh_page_ns", value=2_500)
    assert span_ns(play(profile, plan)) == span_ns(play(round_numbers, plan)) + 40 * 2_000
