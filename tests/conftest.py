"""What all tests stand on: how many run at once, and that no profile takes part that somebody has calibrated on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from runner.placement import allowed_cpus


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run a few more tests at once than there are processors: many wait for processes that they have started."""
    asked = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    if asked:
        return int(asked)
    return 2 + len(allowed_cpus())


@pytest.fixture(scope="session", autouse=True)
def _no_profiles_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield
