"""Judging a case by its own samples: which of its numbers should not be believed as they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from runner.device.contract import DeviceFacts
from runner.measure.result import Sample, StopWord
from runner.scenarios.base import Clock, Scenario
from runner.stats import drift, has_trend, interval_percent, median, median_interval

LINK_TOLERANCE: Final = 1.02
CLOCK_TOLERANCE: Final = 0.10
NOISY_PERCENT: Final = 5
DRIFT_SHARE: Final = 0.05
BOUND_TOLERANCE: Final = 0.05
IN_STEP_TOLERANCE: Final = 0.10
"""The same of a device without noise, where nothing ever brings the lanes of a leg out of step, as a ring's are."""
HELD_SHARE: Final = 0.5
HANDING_OVER_US: Final = 10.0
"""A call that only hands over a copy takes 2 to 5 us of an H200's host; one that waits takes as long as its copy, or longer."""


def flags_of(
    model: Scenario,
    clock: Clock,
    samples: Sequence[Sample],
    facts: DeviceFacts,
    *,
    gate_timeout: bool,
    deterministic: bool,
    derived: Mapping[str, float],
    stopped_by: StopWord,
    engine_disagrees: bool = False,
    event_overhead: bool = False,
) -> tuple[str, ...]:
    """Return the flags of a case (`runner.measure.result.FLAGS` says what each means), in alphabetical order.

    `clock` is the one whose time gives the rate, `derived` what follows from the case's companions;
    `engine_disagrees` and `event_overhead` are told by recorded plays.
    """
    times = {
        name: [sample.figures[name] for sample in samples if sample.role == "sample" and name in sample.figures]
        for name in ("wall_ms", "event_ms", "call_us")
    }
    middle = {name: median(values) for name, values in times.items() if values}
    timed = f"{clock}_ms"
    taken = [] if deterministic else times.get(timed, [])
    doubts = {
        "gate_timeout": gate_timeout,
        "implausible": _above_link(model, middle.get(timed), facts)
        or _below_bound(times.get(timed, []), derived, IN_STEP_TOLERANCE if deterministic else BOUND_TOLERANCE),
        "bound_above_twin": _bound_above_twin(derived),
        "clock_disagree": engine_disagrees or _clocks_disagree(middle),
        "event_overhead": event_overhead and clock == "event",
        "async_ineffective": _holds_the_host(model, middle),
        "noisy": (interval_percent(taken) or 0) > NOISY_PERCENT,
        "drift": abs(drift(taken) or 0) > DRIFT_SHARE and has_trend(taken),
        "not_converged": stopped_by in ("cap_samples", "cap_seconds"),
    }
    return tuple(sorted(name for name, doubtful in doubts.items() if doubtful))


def _above_link(model: Scenario, time_ms: float | None, facts: DeviceFacts) -> bool:
    """Whether the payload went faster than the link allows; both directions together may use it twice."""
    if not time_ms or facts.link_gb_per_s is None or not model.ways():
        return False
    return model.payload_bytes() / (time_ms * 1e6) > facts.link_gb_per_s * model.ways() * LINK_TOLERANCE


def _below_bound(times_ms: Sequence[float], derived: Mapping[str, float], tolerance: float) -> bool:
    """Whether a pipeline surely took less than the longest of its legs takes alone: more was gained than overlap can give.

    Surely: by the upper end of the median's interval, where there is one. The legs are medians themselves, of fewer plays.
    """
    bound = derived.get("bound_full_ms")
    if bound is None or not times_ms:
        return False
    _, high = median_interval(times_ms) or (0.0, median(times_ms))
    return high < bound * (1 - tolerance)


def _bound_above_twin(derived: Mapping[str, float]) -> bool:
    """Whether the legs of a pipeline took longer alone than all of its work without overlap: nothing follows from them."""
    twin, none, full = (derived.get(name) for name in ("twin_ms", "bound_none_ms", "bound_full_ms"))
    return twin is not None and none is not None and full is not None and none > full >= twin


def _clocks_disagree(middle: dict[str, float]) -> bool:
    wall, event = middle.get("wall_ms"), middle.get("event_ms")
    if wall is None or event is None or event <= 1:
        return False
    return abs(wall - event) > CLOCK_TOLERANCE * event


def _holds_the_host(model: Scenario, middle: dict[str, float]) -> bool:
    """Whether calls named async held the host for most of the time.

    Too short a copy (under 1 ms) tells nothing, nor do calls that take no more than handing over does: there are many of them.
    """
    wall, held = middle.get("wall_ms"), middle.get("call_us")
    if wall is None or held is None or wall < 1 or held < HANDING_OVER_US:
        return False
    return held * model.async_calls() / 1e3 > HELD_SHARE * wall
