"""Batches of copies: one call of the driver for many (cuMemcpyBatchAsync, from CUDA 12.8 on), by cuda.bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from runner.device.cuda.driver import CudaContext
from runner.device.cuda.kernels import Call
from runner.errors import CaseUnsupported

FIRST_DRIVER: Final = 12_080
"""The first version of the driver that has batches, as cuDriverGetVersion tells it."""
NEW_CALL: Final = 13_000
"""From this version on bindings ask for another form of the call, which older drivers lack."""


def batch_call(context: CudaContext, copies: Sequence[tuple[int, int, int]], stream: Any) -> Call:
    """Return the ready call that makes `copies`, each (destination, source, bytes), in a stream; raises CaseUnsupported.

    Sources are read in the order of the stream, as by any async copy of page-locked memory.
    """
    raw, check = context.raw, context.check
    _require_batches(context)
    attributes = raw.CUmemcpyAttributes()
    attributes.srcAccessOrder = raw.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    to, source = [raw.CUdeviceptr(copy[0]) for copy in copies], [raw.CUdeviceptr(copy[1]) for copy in copies]
    sizes, number, handle, call = [copy[2] for copy in copies], len(copies), raw.CUstream(stream.handle), raw.cuMemcpyBatchAsync

    def copy() -> None:
        check("cuMemcpyBatchAsync", call(to, source, sizes, number, [attributes], [0], 1, handle))

    return copy


def _require_batches(context: CudaContext) -> None:
    raw = context.raw
    if not hasattr(raw, "cuMemcpyBatchAsync"):
        raise CaseUnsupported("copies were asked for in batches, but these cuda-bindings have no such call; CUDA 12.8 brought it")
    status, version = raw.cuDriverGetVersion()
    context.check("cuDriverGetVersion", (status,))
    needed = NEW_CALL if raw.CUDA_VERSION >= NEW_CALL else FIRST_DRIVER
    if version < needed:
        raise CaseUnsupported(
            f"copies were asked for in batches, but this driver is for CUDA {_told(version)} and the call of these cuda-bindings "
            f"came with {_told(needed)}"
        )


def _told(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
