"""What an engine or a driver takes longer because of what it did before: each parameter by a Plan that shows it alone."""

from __future__ import annotations

import pytest

from runner.device.simulated import Profile, load_profile
from runner.device.simulated.profile_values import Curve
from runner.memory import DEVICE
from runner.operations import Copy, Drain, Launch, Mark, Operation
from runner.plan import Buffer
from tests.plans import plan_of
from tests.simulated.profiles import play, span_ns, without_overheads

PART = 10_000
"""Bytes that the ideal link carries in a microsecond."""


def ideal(**engines: int) -> Profile:
    """Return the `test` profile without overheads, and with these of its engines."""
    profile = without_overheads(load_profile("test"))
    values = {name: profile.engines.handoff_ns.model_copy(update={"value": value}) for name, value in engines.items()}
    return profile.model_copy(update={"engines": profile.engines.model_copy(update=values)})


def span(profile: Profile, memory: str, *lane: Operation) -> int:
    buffers = [Buffer("host", memory, 4 * PART), Buffer("device", DEVICE, 4 * PART)]
    ended = [Mark(0), *lane, Drain(0), Drain(1), Mark(1)]
    return span_ns(play(profile, plan_of(buffers, [ended], data=[0, 1], streams=2)))


def up(stream: int, part: int) -> Copy:
    return Copy(stream, "h2d", 1, part * PART, 0, part * PART, PART)


@pytest.mark.parametrize("streams", [(0, 0), (0, 1), (0, 0, 1)])
def test_a_copy_that_waits_for_its_engine_anyway_waits_no_longer_for_the_switch(streams: tuple[int, ...]) -> None:
    lane = [up(stream, part) for part, stream in enumerate(streams)]
    assert span(ideal(switch_ns=500), "pinned", *lane) == 1_000 * len(lane)


def test_work_that_becomes_ready_waits_for_an_engine_that_served_another_stream() -> None:
    lane = [up(0, 0), up(1, 1), Launch(0, 1, 0, PART), Launch(1, 1, PART, PART)]
    assert span(ideal(switch_ns=500), "pinned", *lane) == 3_000 + 500


def test_copies_to_the_device_that_follow_others_take_a_least_time() -> None:
    lane = [up(0, part) for part in range(3)]
    assert span(ideal(row_h2d_ns=1_700), "pinned", *lane) == 1_000 + 2 * 1_700
    assert span(ideal(row_h2d_ns=700), "pinned", *lane) == 3_000
    down = [Copy(0, "d2h", 0, part * PART, 1, part * PART, PART) for part in range(3)]
    assert span(ideal(row_h2d_ns=1_700), "pinned", *down) == 3_000


def test_the_first_copy_of_ordinary_memory_in_a_direction_takes_longer() -> None:
    profile = ideal()
    first = Curve(points=((0, 250),), how="assumed", source="a test")
    cold = profile.model_copy(update={"staging": profile.staging.model_copy(update={"first_d2h": first})})
    down = [Copy(0, "d2h", 0, part * PART, 1, part * PART, PART) for part in range(3)]
    assert span(cold, "pageable", *down) == span(profile, "pageable", *down) + 250
    assert span(cold, "pinned", *down) == span(profile, "pinned", *down)
