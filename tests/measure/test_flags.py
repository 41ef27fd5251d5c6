"""What a pipeline may not be: surely faster than the longest of its legs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.measure.flags import flags_of
from runner.measure.result import Sample
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from tests.measure.doubles import FACTS

RING = Pipeline.model_validate({"kind": "pipeline", "schedule": "overlapped", "total": 2**20, "chunk": 2**18})


@pytest.mark.parametrize(
    ("times_ms", "flagged"),
    [
        ([94.0] * 8, True),
        ([96.0] * 8, False),
        # Half of it lies below, but the median's interval, 90 to 99, does not.
        ([90.0, 90.0, 90.0, 90.0, 99.0, 99.0, 99.0, 99.0], False),
        # Too few for an interval: the median itself.
        ([94.0, 94.0, 99.0], True),
    ],
)
def test_a_ring_is_implausible_only_if_its_interval_lies_below_its_bound(times_ms: list[float], flagged: bool) -> None:
    samples = [Sample("sample", number, {"wall_ms": time}) for number, time in enumerate(times_ms)]
    flags = flags_of(
        RING,
        "wall",
        samples,
        FACTS,
        gate_timeout=False,
        deterministic=False,
        derived={"bound_full_ms": 100.0},
        stopped_by="samples",
    )
    assert ("implausible" in flags) is flagged


@pytest.mark.parametrize(("call_us", "flagged"), [(4.5, False), (12.0, True)])
def test_many_calls_that_only_hand_over_do_not_hold_the_host(call_us: float, flagged: bool) -> None:
    """256 copies of 64 KiB: the calls take most of the time, but none waits for its copy."""
    both = Transfer(kind="transfer", direction="bidirectional", size=8 << 20, chunk=64 << 10, streams=3)
    samples = [Sample("sample", 0, {"wall_ms": call_us * 256 / 1e3, "event_ms": call_us * 256 / 1e3, "call_us": call_us})]
    facts = replace(FACTS, link_gb_per_s=None)
    flags = flags_of(both, "event", samples, facts, gate_timeout=False, deterministic=False, derived={}, stopped_by="samples")
    assert ("async_ineffective" in flags) is flagged


@pytest.mark.parametrize(
    ("twin_ms", "none_ms", "flagged"),
    [
        (79.0, 96.0, True),
        (87.0, 96.0, False),
        # One part alone: nothing could be hidden, and the twin is no more than the part again.
        (79.0, 86.0, False),
    ],
)
def test_bounds_above_the_twin_are_flagged(twin_ms: float, none_ms: float, flagged: bool) -> None:
    samples = [Sample("sample", number, {"wall_ms": 92.0}) for number in range(8)]
    derived = {"twin_ms": twin_ms, "bound_none_ms": none_ms, "bound_full_ms": 86.0}
    flags = flags_of(RING, "wall", samples, FACTS, gate_timeout=False, deterministic=False, derived=derived, stopped_by="samples")
    assert ("bound_above_twin" in flags) is flagged
