from __future__ import annotations

import pytest

from runner.device.simulated import SimulatedDevice, load_profile
from runner.plan_check import check_plan
from runner.scenarios.legs import Leg


@pytest.mark.parametrize("part", ["host_in", "h2d", "kernel", "d2h", "host_out"])
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("buffer", ["pageable", "pinned"])
@pytest.mark.parametrize(("total", "slots"), [(64, 1), (60, 1), (60, 3), (64, 9)])
def test_every_leg_is_proven_safe_and_its_data_are_right(part: str, staged: bool, buffer: str, total: int, slots: int) -> None:
    leg = Leg(part=part, buffer=buffer, staged=staged, total=total, chunk=16, slots=slots, passes=2)  # type: ignore[arg-type]
    plan = leg.plan()
    check_plan(plan)
    session = SimulatedDevice(load_profile("test")).open(plan)
    trace = session.play(0)
    assert session.verify() == ()
    assert plan.expects
    assert leg.figures(plan, trace)["leg_ms"] > 0


@pytest.mark.parametrize("part", ["host_in", "host_out"])
def test_lanes_and_threads_copy_at_the_rate_of_all_of_them(part: str) -> None:
    """The test profile copies at 5, 10 and 20 GB/s by 1, 2 and 4 threads."""
    times = {}
    for lanes, threads in ((1, 1), (2, 1), (1, 4), (2, 2), (4, 1)):
        size = 80_000_000
        fields = {"part": part, "buffer": "pinned", "staged": True, "total": size, "chunk": 5_000_000}
        leg = Leg.model_validate(fields | {"slots": 3 * lanes, "threads": threads, "lanes": lanes})
        plan = leg.plan()
        check_plan(plan)
        session = SimulatedDevice(load_profile("test")).open(plan)
        times[lanes, threads] = leg.figures(plan, session.play(0))["leg_ms"]
        assert session.verify() == ()
    expected = {(1, 1): 16.0, (2, 1): 8.0, (1, 4): 4.0, (2, 2): 4.0, (4, 1): 4.0}
    assert times == pytest.approx(expected, rel=0.01)


def test_a_leg_takes_what_its_chunks_take_one_after_another() -> None:
    mib = 2**20
    leg = Leg(part="h2d", buffer="pinned", staged=True, total=40 * 1_000_000, chunk=10 * 1_000_000, slots=2)
    session = SimulatedDevice(load_profile("test")).open(leg.plan())
    # Four copies of 1 ms at 10 GB/s, and the microsecond of the timed event before them.
    assert leg.figures(leg.plan(), session.play(0))["leg_ms"] == pytest.approx(4.001, abs=0.001)
    assert leg.payload_bytes() < 40 * mib


@pytest.mark.parametrize("part", ["host_in", "host_out"])
@pytest.mark.parametrize("total", [40_000_000, 42_000_000, 45_000_000])
def test_lanes_with_unequal_work_count_as_if_it_were_equal(part: str, total: int) -> None:
    """Three lanes copy at 15 GB/s; one with a chunk more than the others would take the rate of fewer for it."""
    leg = Leg.model_validate(
        {"part": part, "buffer": "pinned", "staged": True, "total": total, "chunk": 5_000_000, "slots": 6, "lanes": 3}
    )
    plan = leg.plan()
    check_plan(plan)
    session = SimulatedDevice(load_profile("test")).open(plan)
    assert leg.figures(plan, session.play(0))["leg_ms"] == pytest.approx(total / 15e6, rel=0.01)
    assert session.verify() == ()
