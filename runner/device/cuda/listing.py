"""The GPUs that this machine lends to CUDA, as JSON on standard output, for a process that shall not load the driver itself.

Started as `python -m runner.device.cuda.listing`. No context is opened: the driver
counts its devices and names them, as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER let it.
"""

from __future__ import annotations

import json
import os
from typing import Final

from runner.device.cuda.facts import uuid_text
from runner.device.cuda.opening import load_module, require_device, require_driver_library
from runner.errors import DeviceUnavailable

NAME: Final = "all"


def listed() -> dict[str, list[str | None]]:
    """Return `gpus`, the UUIDs by ordinal, or `refused`: what DeviceUnavailable says."""
    try:
        require_driver_library(NAME)
        cuda = load_module(NAME, "pycuda.driver", "PyCUDA")
        raw = load_module(NAME, "cuda.bindings.driver", "cuda-bindings")
        require_device(NAME, cuda, 0)
    except DeviceUnavailable as error:
        return {"refused": [error.device, error.why, error.remedy]}
    return {"gpus": [uuid_text(raw, ordinal) for ordinal in range(cuda.Device.count())]}


def main() -> None:
    """Write the answer, and nothing else, to standard output."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with answer:
        json.dump(listed(), answer)


if __name__ == "__main__":
    main()
