"""Keeping the link and the processors busy for a moment, and looking at the GPU meanwhile.

At rest a GPU lowers its clocks and its link, so what NVML says then is no fact about a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from runner.device.cuda.driver import CudaContext
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.memory import allocate_pinned
from runner.placement import node_of_pages
from runner.plan import Buffer

WARM_SECONDS: Final = 0.2
"""How long copies run before anybody looks: what a link takes to speed up from its slowest state, many times over."""
BYTES: Final = 16 << 20
QUEUED: Final = 64
"""Copies that are under way when somebody looks: 20 ms on the fastest link, longer than NVML takes to answer."""

Seen = TypeVar("Seen")


def under_load(
    context: CudaContext, kernels: Kernels, look: Callable[[], Seen], seconds: float = WARM_SECONDS
) -> tuple[Seen, int | None]:
    """Copy to the device for a while, look while copies go on, and return what was seen.

    Each copy is followed by a kernel, so that the multiprocessors have work, too. The second value is the NUMA node of the pinned
    buffer that was copied, None where the system does not tell.
    """
    host = allocate_pinned(context, Buffer("burst", "pinned", BYTES), False)
    try:
        device = context.cuda.mem_alloc(BYTES)
        stream = context.cuda.Stream(1)
        launch = kernels.increment(int(device), BYTES, stream)

        def copy() -> None:
            context.cuda.memcpy_htod_async(int(device), host.array, stream)
            launch()

        try:
            host.view(0, BYTES)[:] = 1
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                for _ in range(QUEUED // 8):
                    copy()
                stream.synchronize()
            for _ in range(QUEUED):
                copy()
            seen = look()
        finally:
            stream.synchronize()
            device.free()
        return seen, node_of_pages(host.address, BYTES)
    finally:
        host.release()
