"""Profiles for the tests of the simulated device."""

from __future__ import annotations

import pytest

from runner.device.simulated import Profile, load_profile
from tests.simulated.profiles import without_overheads


@pytest.fixture(scope="session")
def round_numbers() -> Profile:
    """The frozen profile `test`."""
    return load_profile("test")


@pytest.fixture(scope="session")
def ideal() -> Profile:
    """Links and a kernel of 10 GB/s, two copy engines, and nothing else that takes time."""
    return without_overheads(load_profile("test"))
