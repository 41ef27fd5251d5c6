"""Judging a case by its own samples: which of its numbers should not be believed as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runner.device.contract import DeviceFacts
from runner.measure.result import Sample
from runner.scenarios.base import Clock, Scenario
from runner.stats import median, median_interval

LINK_TOLERANCE: Final = 1.02
CLOCK_TOLERANCE: Final = 0.10
NOISY_SHARE: Final = 0.05
HELD_SHARE: Final = 0.5


def flags_of(
    model: Scenario, clock: Clock, samples: Sequence[Sample], facts: DeviceFacts, *, gate_timeout: bool, deterministic: bool
) -> tuple[str, ...]:
    """Return the flags of a case (`runner.measure.result.FLAGS` says what each means), in alphabetical order.

    `clock` is the one whose time gives the rate.
    """
    times = {
        name: [sample.figures[name] for sample in samples if sample.role == "sample" and name in sample.figures]
        for name in ("wall_ms", "event_ms", "call_us")
    }
    middle = {name: median(values) for name, values in times.items() if values}
    timed = f"{clock}_ms"
    flags = set()
    if gate_timeout:
        flags.add("gate_timeout")
    if _above_link(model, middle.get(timed), facts):
        flags.add("implausible")
    if _clocks_disagree(middle):
        flags.add("clock_disagree")
    if _holds_the_host(model, middle):
        flags.add("async_ineffective")
    if not deterministic and _noisy(times.get(timed, [])):
        flags.add("noisy")
    return tuple(sorted(flags))


def _above_link(model: Scenario, time_ms: float | None, facts: DeviceFacts) -> bool:
    """Whether the payload went faster than the link allows; both directions together may use it twice."""
    if not time_ms or facts.link_gb_per_s is None or not model.ways():
        return False
    return model.payload_bytes() / (time_ms * 1e6) > facts.link_gb_per_s * model.ways() * LINK_TOLERANCE


def _clocks_disagree(middle: dict[str, float]) -> bool:
    wall, event = middle.get("wall_ms"), middle.get("event_ms")
    if wall is None or event is None or event <= 1:
        return False
    return abs(wall - event) > CLOCK_TOLERANCE * event


def _holds_the_host(model: Scenario, middle: dict[str, float]) -> bool:
    """Whether calls named async held the host for most of the time; too short a copy (under 1 ms) tells nothing."""
    wall, held = middle.get("wall_ms"), middle.get("call_us")
    if wall is None or held is None or wall < 1:
        return False
    return held * model.async_calls() / 1e3 > HELD_SHARE * wall


def _noisy(values: Sequence[float]) -> bool:
    interval = median_interval(values)
    return interval is not None and interval[1] - interval[0] > NOISY_SHARE * median(values)
