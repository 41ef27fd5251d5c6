from __future__ import annotations

import pytest

from runner.device.cuda.facts import link_rate, system_facts


@pytest.mark.parametrize(
    ("generation", "width", "rate"),
    [
        (5, 16, 63.015),
        (4, 16, 31.508),
        (3, 16, 15.754),
        (1, 16, 4.0),
        (None, 16, None),
        (5, None, None),
        (9, 16, None),
        (5, 0, None),
    ],
)
def test_the_link_rate_is_lanes_times_their_payload(generation: int | None, width: int | None, rate: float | None) -> None:
    assert link_rate(generation, width) == rate


def test_every_variable_of_cuda_is_told_and_no_other() -> None:
    facts = system_facts({"CUDA_VISIBLE_DEVICES": "1", "CUDA_MODULE_LOADING": "EAGER", "SECRET": "x"})
    assert facts["CUDA_VISIBLE_DEVICES"] == "1"
    assert facts["CUDA_MODULE_LOADING"] == "EAGER"
    assert "SECRET" not in facts
    assert isinstance(facts["cpu_count"], int)
