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
