"""From nothing to a usable context: every piece that may be missing on a machine is looked for and told in one sentence."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runner.device.cuda.driver import CudaContext
from runner.device.cuda.kernels import Kernels, compile_kernels
from runner.device.cuda.toolchain import Nvcc, find_nvcc, require_architecture
from runner.errors import DeviceUnavailable
from runner.pattern import WORD
from runner.placement import Wait

INSTALL: Final = "install it with: pip install 'dmalab[cuda]'"
ALLOW_BLOCKING: Final = "DMALAB_ALLOW_LAUNCH_BLOCKING"
"""A variable, since workers inherit it and no file should make blocking launches its habit."""
_DRIVER_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@dataclass(frozen=True, slots=True)
class Opened:
    """A current context with its kernels compiled and launched once, and the compiler that made them."""

    context: CudaContext
    kernels: Kernels
    nvcc: Nvcc


def open_context(ordinal: int, environment: Mapping[str, str] = os.environ, wait: Wait = "spin") -> Opened:
    """Open device `ordinal`, for which threads shall `wait` so.

    Raises DeviceUnavailable with the cause and the way out, and leaves no context behind then.
    """
    name = f"cuda:{ordinal}"
    _refuse_blocking_launches(name, environment)
    require_driver_library(name)
    cuda = load_module(name, "pycuda.driver", "PyCUDA")
    raw = load_module(name, "cuda.bindings.driver", "cuda-bindings")
    require_device(name, cuda, ordinal)
    nvcc = find_nvcc(name, environment)
    device = cuda.Device(ordinal)
    architecture = require_architecture(name, device.name(), tuple(device.compute_capability()), nvcc)
    try:
        context = CudaContext(cuda, raw, ordinal, wait)
    except cuda.Error as error:
        raise DeviceUnavailable(name, f"its context could not be opened: {error}", "see nvidia-smi for who uses it") from error
    try:
        processors = device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT)
        kernels = compile_kernels(name, architecture, nvcc, dict(environment), processors)
        launch_all_once(context, kernels)
    except cuda.Error as error:
        context.close()
        raise DeviceUnavailable(name, f"its first kernels failed: {error}", "see nvidia-smi and the system log") from error
    except BaseException:
        context.close()
        raise
    return Opened(context, kernels, nvcc)


def launch_all_once(context: CudaContext, kernels: Kernels) -> None:
    """Launch every kernel once, since the driver loads a kernel at its first launch, and waits for all other work then."""
    flags = context.cuda.mem_alloc(8)
    address = int(flags)
    try:
        context.cuda.memcpy_htod(flags, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        for launch in (
            kernels.gate(address, address + 4, None),
            kernels.increment(address, WORD, None),
            kernels.pattern(address, WORD, 0, 1, 0),
            kernels.copy(address, address + 4, WORD, None),
            kernels.read(address, WORD, None),
            kernels.busy(1, None),
        ):
            launch()
        context.synchronize()
    finally:
        flags.free()


def load_module(device: str, module: str, package: str, load: Callable[[str], Any] = importlib.import_module) -> Any:
    """Import a module of an optional package; raises DeviceUnavailable where it is absent or broken."""
    try:
        with warnings.catch_warnings():
            # PyCUDA warns while it is imported of things that a later error says better.
            warnings.simplefilter("ignore")
            return load(module)
    except ModuleNotFoundError as error:
        if (error.name or "") in _parents(module):
            raise DeviceUnavailable(device, f"{package} is not installed", INSTALL) from error
        raise DeviceUnavailable(device, f"{package} lacks {error.name}", INSTALL) from error
    except ImportError as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DeviceUnavailable(
            device, f"{package} is installed but cannot be loaded ({words})", "reinstall it for this driver and this Python"
        ) from error


def _parents(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}


def _refuse_blocking_launches(device: str, environment: Mapping[str, str]) -> None:
    value = environment.get("CUDA_LAUNCH_BLOCKING", "0")
    if value not in ("", "0") and environment.get(ALLOW_BLOCKING) != "1":
        why = f"CUDA_LAUNCH_BLOCKING={value} makes every call wait, so nothing could overlap"
        raise DeviceUnavailable(device, why, f"unset CUDA_LAUNCH_BLOCKING, or set {ALLOW_BLOCKING}=1 to measure that, flagged")


def require_driver_library(device: str) -> None:
    """Raise DeviceUnavailable where the NVIDIA driver's library is absent."""
    try:
        ctypes.CDLL(_DRIVER_LIBRARY)
    except OSError as error:
        raise DeviceUnavailable(
            device,
            f"this machine has no NVIDIA driver ({_DRIVER_LIBRARY} was not found)",
            "install the driver on a machine with an NVIDIA GPU, or use device: simulated",
        ) from error


def require_device(device: str, cuda: Any, ordinal: int) -> None:
    """Raise DeviceUnavailable where the driver does not start or has no device of this ordinal."""
    try:
        cuda.init()
        count = cuda.Device.count()
    except cuda.Error as error:
        raise DeviceUnavailable(
            device, f"the NVIDIA driver does not start ({error})", "see whether nvidia-smi works, or use device: simulated"
        ) from error
    if ordinal >= count:
        there = {0: "there is none", 1: "there is only cuda:0"}.get(count, f"there are cuda:0 to cuda:{count - 1}")
        hidden = f" (CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']})" if "CUDA_VISIBLE_DEVICES" in os.environ else ""
        raise DeviceUnavailable(device, f"{there}{hidden}", "use one that is there, or device: simulated")
