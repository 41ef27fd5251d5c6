"""Profiles made from others, and the one way in which these tests play a Plan."""

from __future__ import annotations

from typing import Any

from runner.device.contract import Trace
from runner.device.simulated import Profile, SimulatedDevice
from runner.device.simulated.profile_values import Flag
from runner.plan import Plan
from runner.plan_check import check_plan

MS = 1_000_000
MS_BYTES = 10_000_000
"""Bytes that a link of 10 GB/s carries in 1 ms."""


def with_values(profile: Profile, **values: int) -> Profile:
    """Return the profile with other numbers, each named by its own key or one in `calls`, `engines`, `staging` or `host`."""
    data: dict[str, Any] = profile.model_dump()
    for key, value in values.items():
        home = next(part for part in (data, data["calls"], data["engines"], data["staging"], data["host"]) if key in part)
        if isinstance(home[key], dict):
            home[key]["value"] = value
        else:
            home[key] = value
    return Profile.model_validate(_rates_as_given(data))


def with_kind(profile: Profile, name: str, **answers: bool) -> Profile:
    """Return the profile with other answers about one kind of memory, each named by its key."""
    flags = {key: Flag(value=answer, how="assumed", source="a test") for key, answer in answers.items()}
    return profile.model_copy(update={"kinds": {**profile.kinds, name: profile.kinds[name].model_copy(update=flags)}})


def without_overheads(profile: Profile) -> Profile:
    """Return the profile with calls, gaps, handoffs, events and page faults that take no time, and no duplex loss."""
    names = ["copy", "launch", "record", "stream_wait", "host_wait", "batch", "batch_copy", "pool_alloc", "pool_free"]
    names += [f"graph_{what}" for what in ("launch", "node", "make", "make_node")]
    calls = dict.fromkeys((f"{name}_ns" for name in names), 0)
    engines = dict.fromkeys(("stream_change_ns", "handoff_ns", "timed_event_ns"), 0)
    return with_values(profile, **calls, **engines, duplex_ppm=1_000_000, first_touch_ns=0, huge_first_touch_ns=0)


def play(profile: Profile, plan: Plan, sample: int = 0) -> Trace:
    """Check and play a Plan and see that its data are right."""
    check_plan(plan)
    session = SimulatedDevice(profile).open(plan)
    trace = session.play(sample)
    assert session.verify() == ()
    session.close()
    return trace


def span_ns(trace: Trace, begin: int = 0, end: int = 1) -> int:
    """Return the host's time between two marks."""
    first, last = trace.host_ns[begin], trace.host_ns[end]
    assert first is not None
    assert last is not None
    return last - first


def _rates_as_given(data: Any) -> Any:
    """Turn the kept bytes a second back into the GB/s of a file."""
    if isinstance(data, dict):
        return {
            key: value / 10**9
            if key == "then_gb_per_s" and value is not None
            else {threads: rate / 10**9 for threads, rate in value.items()}
            if key == "by_threads"
            else _rates_as_given(value)
            for key, value in data.items()
        }
    return data
