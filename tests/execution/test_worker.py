from __future__ import annotations

import pytest

from runner.execution.worker import least_limit

NONE = -1
"""What stands for no limit, as RLIM_INFINITY does."""


@pytest.mark.parametrize(
    ("bounds", "least"), [((NONE, NONE), 100), ((50, NONE), 50), ((NONE, 70), 70), ((200, 150), 100), ((0, 10), 0)]
)
def test_a_limit_is_never_raised_and_no_bound_is_no_number(bounds: tuple[int, int], least: int) -> None:
    assert least_limit(100, bounds, NONE) == least
