"""What identifies the real device and the machine around it, for the manifest."""

from __future__ import annotations

import importlib.metadata
import mmap
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from runner.device.contract import DeviceFacts
from runner.device.cuda.burst import under_load
from runner.device.cuda.driver import CudaContext
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.nvml import Fact, open_nvml, own_processes
from runner.device.cuda.pages import huge_page_mode
from runner.device.cuda.toolchain import Nvcc
from runner.placement import node_of_pci

LANE_GB_PER_S: Final[Mapping[int, float]] = {
    1: 2.5 * 8 / 10 / 8,
    2: 5.0 * 8 / 10 / 8,
    3: 8.0 * 128 / 130 / 8,
    4: 16.0 * 128 / 130 / 8,
    5: 32.0 * 128 / 130 / 8,
    6: 64.0 * 242 / 256 / 8,
}
"""10^9 bytes a second of one PCIe lane by generation: transfers a second by the share of payload in the line code, over 8 bits
(PCI Express base specification)."""


def read_facts(context: CudaContext, nvcc: Nvcc, kernels: Kernels) -> DeviceFacts:
    """Ask driver, NVML and the system, the GPU under load; a fact that nobody tells is None. Takes a quarter of a second."""
    cuda, device = context.cuda, context.device
    state = read_state(context, kernels)
    free, total = cuda.mem_get_info()
    environment: dict[str, Fact] = {
        "ordinal": context.ordinal,
        "uuid": uuid_text(context.raw, context.ordinal),
        "pci_bus_id": device.pci_bus_id(),
        "compute_capability": "{}.{}".format(*device.compute_capability()),
        "multiprocessors": context.attribute("MULTIPROCESSOR_COUNT"),
        "async_engine_count": context.attribute("ASYNC_ENGINE_COUNT"),
        "can_map_host_memory": bool(context.attribute("CAN_MAP_HOST_MEMORY")),
        "managed_memory": bool(context.attribute("MANAGED_MEMORY")),
        "concurrent_managed_access": bool(context.attribute("CONCURRENT_MANAGED_ACCESS")),
        "pageable_memory_access": bool(context.attribute("PAGEABLE_MEMORY_ACCESS")),
        "cuda_driver_api": _version(cuda.get_driver_version()),
        "cuda_of_pycuda": "{}.{}.{}".format(*cuda.get_version()),
        "nvcc": nvcc.version,
        "pycuda": _package("pycuda"),
        "cuda_bindings": _package("cuda-bindings"),
        "numpy": _package("numpy"),
        "wait": context.wait,
        "numa_node": node_of_pci(device.pci_bus_id()),
        **state,
        **system_facts(os.environ),
    }
    return DeviceFacts(
        name=device.name(),
        kind="cuda",
        memory_bytes=int(total),
        free_bytes=int(free),
        copy_engines=context.attribute("ASYNC_ENGINE_COUNT"),
        environment=environment,
        link_gb_per_s=link_rate(state.get("pcie_generation"), state.get("pcie_width")),
    )


def system_facts(environment: Mapping[str, str]) -> dict[str, Fact]:
    """Return what the machine is: processor, kernel, pages, limit of locked memory, and every CUDA_* variable that is set."""
    facts: dict[str, Fact] = {
        "cpu_count": os.cpu_count(),
        "cpu_model": _cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "memlock_bytes": _memlock(),
        "page_bytes": mmap.PAGESIZE,
        "transparent_huge_pages": huge_page_mode(),
    }
    facts.update({name: value for name, value in sorted(environment.items()) if name.startswith("CUDA_")})
    return facts


def read_state(context: CudaContext, kernels: Kernels) -> dict[str, Fact]:
    """Return what NVML says of the GPU while copies run, who else uses it, and where a pinned buffer lies.

    `pcie_generation_idle` is the link before the copies; without NVML there is only `pinned_numa_node`.
    """
    with open_nvml(uuid_text(context.raw, context.ordinal), context.device.pci_bus_id()) as nvml:
        if nvml is None:
            return {"pinned_numa_node": under_load(context, kernels, lambda: None, seconds=0)[1]}
        idle = nvml.link()["pcie_generation"]
        state, node = under_load(context, kernels, nvml.state)
        others = nvml.other_processes(own_processes())
        return {
            **nvml.lasting(),
            "pcie_generation_idle": idle,
            **state,
            "other_processes": others,
            "pinned_numa_node": node,
        }


def link_rate(generation: Fact, width: Fact) -> float | None:
    """Return 10^9 bytes a second that a PCIe link carries in one direction before packet headers; None where unknown."""
    if not isinstance(generation, int) or not isinstance(width, int) or generation not in LANE_GB_PER_S or width < 1:
        return None
    return round(LANE_GB_PER_S[generation] * width, 3)


def uuid_text(raw: Any, ordinal: int) -> str | None:
    """Return the UUID of a device as nvidia-smi writes it, None where the driver does not tell."""
    status, answer = raw.cuDeviceGetUuid(ordinal)
    if int(status) != 0:
        return None
    digits = bytes(answer.bytes).hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _package(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None


def _memlock() -> int | None:
    """Return the soft limit of locked memory in bytes, None where there is no limit or none is known."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft
