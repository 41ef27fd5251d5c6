from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.device.cuda.device import CudaDevice
from runner.errors import DeviceUnavailable
from tests.cuda.standin import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A stand-in driver; at the end nothing may be held and no context may be left on the stack."""
    bench = Bench()
    yield bench
    bench.close()
    assert bench.driver.ranges == {}
    assert bench.driver.stack == []


@pytest.fixture(scope="module")
def cuda() -> Iterator[CudaDevice]:
    """The real device; tests that use it are marked gpu."""
    try:
        device = CudaDevice()
    except DeviceUnavailable as error:
        pytest.skip(str(error))
    yield device
    device.close()
