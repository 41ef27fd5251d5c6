"""The devices that the contract suite runs on: each test asks for `device` and is run once on every one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.device.contract import Device
from runner.device.select import open_device
from runner.errors import DeviceUnavailable


@pytest.fixture(
    scope="module", params=["simulated", "simulated:test", "simulated:rtx-4090", pytest.param("cuda", marks=pytest.mark.gpu)]
)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    name = str(request.param)
    try:
        opened = open_device(name).device
    except DeviceUnavailable as error:
        if name != "cuda":
            raise
        pytest.skip(str(error))
    yield opened
    opened.close()
