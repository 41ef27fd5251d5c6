"""What a pipeline may not be: surely faster than the longest of its legs."""

from __future__ import annotations

import pytest

from runner.measure.flags import flags_of
from runner.measure.result import Sample
from runner.scenarios.pipeline import Pipeline
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
