"""The machine around a run, for the manifest, and what of it casts doubt on every row.

Everything is read from files that Linux keeps, below `root`; what a system does not tell is None. Nothing here enters the tables
of a simulated run, whose numbers do not come from this machine.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from runner.device.contract import DeviceFacts
from runner.measure.result import CaseResult
from runner.placement import ROOT, Placement, Topology, allowed_cpus, format_list, placed, read_topology

LOW_CLOCK_SHARE: Final = 0.6
"""Below this share of its default clock (its highest, where it has no default) a GPU under load is held down or set wrongly."""
HARMLESS_LIMITS: Final = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting"})
"""Reasons for a clock below the highest that say only what somebody has set, or that there was no work."""
MOST_MAJOR_FAULTS: Final = 16
"""Pages that a case may read from a disk: the first use of a library reads some, memory under pressure reads thousands."""
STATE: Final = (
    "sm_clock_mhz",
    "memory_clock_mhz",
    "clock_limits",
    "temperature_c",
    "power_w",
    "pcie_generation",
    "pcie_width",
    "other_processes",
)
"""Facts of a device that change while a run lasts, and so are read at its begin and at its end."""
VARIABLES: Final = ("CUDA_", "NVIDIA_", "GLIBC_TUNABLES", "LD_PRELOAD", "NVTX_INJECTION64_PATH", "PYCUDA_", "OMP_")
"""Beginnings of the names of variables that change what a run measures."""

_HYPERVISORS: Final[Mapping[str, str]] = {
    "KVM": "kvm",
    "OpenStack": "kvm",
    "KubeVirt": "kvm",
    "QEMU": "qemu",
    "Amazon EC2": "amazon",
    "Google Compute Engine": "google",
    "VMware": "vmware",
    "VMW": "vmware",
    "innotek GmbH": "oracle",
    "VirtualBox": "oracle",
    "Xen": "xen",
    "Bochs": "bochs",
    "Parallels": "parallels",
    "BHYVE": "bhyve",
    "Hyper-V": "microsoft",
    "Virtual Machine": "microsoft",
    "Apple Virtualization": "apple",
}
"""Beginnings of DMI names of makers and products, and systemd's word for the hypervisor (systemd-detect-virt(1))."""
_DMI: Final = ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")


class Paging(NamedTuple):
    """What this process has had to fetch from a disk so far: page faults that read one, and bytes that are swapped out now."""

    major_faults: int
    swapped_bytes: int


def host_facts(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return what the host is and how it is set: nodes, limits, pages, clocks, virtualisation, control groups and variables."""
    topology, cpus = read_topology(root), allowed_cpus()
    return {
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "numa_nodes": {str(node): format_list(its) for node, its in sorted(topology.cpus.items())},
        "allowed_cpus": format_list(cpus),
        "allowed_numa_nodes": sorted(topology.nodes_of(cpus)),
        "numa_balancing": read_text(root / "proc/sys/kernel/numa_balancing"),
        "memlock_bytes": memlock_bytes(root),
        "transparent_huge_pages": read_text(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        "cpu_governors": governors(root),
        "virtualisation": virtualisation(root),
        "container": container(root),
        "cgroup": cgroup_limits(root),
        "swappiness": read_text(root / "proc/sys/vm/swappiness"),
        "mps": mps_pipe(root, environment),
        "variables": variables(environment),
    }


def state_of(facts: DeviceFacts) -> dict[str, Any]:
    """Return those facts of a device that change while a run lasts."""
    return {name: facts.environment[name] for name in STATE if name in facts.environment}


def device_flags(*states: DeviceFacts) -> tuple[str, ...]:
    """Return the flags of all rows that follow from the device's state, in alphabetical order; give begin and end of the run.

    `low_clock`: under load the multiprocessors ran below LOW_CLOCK_SHARE of their default clock, or something but a setting held
    them down; a boost above it is nothing to flag. `gpu_shared`: other processes used the GPU. `launch_blocking`: the driver let
    every call wait (CUDA_LAUNCH_BLOCKING), which a device opens with only where that was allowed. `nvtx`: NVTX ranges were on.
    """
    doubts: dict[str, Callable[[DeviceFacts], object]] = {
        "gpu_shared": _shared,
        "launch_blocking": lambda facts: facts.environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
        "low_clock": why_slow,
        "nvtx": lambda facts: facts.environment.get("nvtx"),
    }
    return tuple(flag for flag, doubt in doubts.items() if any(doubt(facts) for facts in states))


def flagged(results: Iterable[CaseResult], flags: Collection[str]) -> list[CaseResult]:
    """Return the results in their order, those with samples with these flags besides their own."""
    return [
        replace(result, flags=tuple(sorted({*result.flags, *flags}))) if flags and result.samples else result
        for result in results
    ]


def why_slow(facts: DeviceFacts) -> str:
    """Say why a device's clock is lower than it should be, empty where it is not or where nobody tells."""
    told = facts.environment
    clock, usual = told.get("sm_clock_mhz"), told.get("sm_clock_default_mhz") or told.get("sm_clock_max_mhz")
    limits = sorted(set(str(told.get("clock_limits") or "").split()) - HARMLESS_LIMITS)
    words = []
    if isinstance(clock, int | float) and isinstance(usual, int | float) and clock < LOW_CLOCK_SHARE * usual:
        words.append(f"{clock:g} MHz under load, of {usual:g} MHz")
    if limits:
        words.append(f"held down by {', '.join(limits)}")
    return "; ".join(words)


def numa_flags(facts: DeviceFacts, page_nodes: tuple[int | None, ...] = (), topology: Topology | None = None) -> tuple[str, ...]:
    """Return `numa_remote` where a real device's NUMA node is known and this thread or some pages may lie on another one.

    `page_nodes` are the nodes of the host buffers, None where unknown. Call it where the thread runs as it does when measuring.
    """
    node = facts.environment.get("numa_node")
    if not isinstance(node, int):
        return ()
    threads = (topology or read_topology()).nodes_of(allowed_cpus())
    away = bool(threads - {node}) or any(each is not None and each != node for each in page_nodes)
    return ("numa_remote",) if away else ()


@contextmanager
def placed_for(facts: DeviceFacts, placement: Placement) -> Iterator[int | None]:
    """Keep this thread and its memory where `placement` says, for the length of a block; yield the node, None where none matters.

    A simulated device has one node, whatever machine it runs on. Raises CaseUnsupported (`runner.placement.placed`).
    """
    node = facts.environment.get("numa_node")
    with placed(placement, node if isinstance(node, int) else None, Topology() if facts.kind == "simulated" else None) as taken:
        yield taken


def read_paging(root: Path = ROOT) -> Paging:
    """Return what this process has fetched from a disk so far, zeros where the system does not tell (proc(5))."""
    stat, status = read_text(root / "proc/self/stat"), read_text(root / "proc/self/status")
    try:
        # The name of the process, in brackets, may hold blanks; majflt is the twelfth field, the tenth behind it.
        faults = int(stat.rpartition(")")[2].split()[9]) if stat else 0
        lines = dict(line.split(":", 1) for line in (status or "").splitlines() if ":" in line)
        return Paging(faults, int(lines["VmSwap"].split()[0]) << 10 if "VmSwap" in lines else 0)
    except (IndexError, ValueError):
        return Paging(0, 0)


def paging_flags(before: Paging, after: Paging) -> tuple[str, ...]:
    """Return `paging` where a case read more pages from a disk than code that is used for the first time, or was swapped out."""
    faults, swapped = after.major_faults - before.major_faults, after.swapped_bytes - before.swapped_bytes
    return ("paging",) if faults > MOST_MAJOR_FAULTS or swapped > 0 else ()


def memlock_bytes(root: Path = ROOT) -> int | None:
    """Return the bytes that this process may lock (soft limit), None where there is no limit or none is known."""
    for line in (read_text(root / "proc/self/limits") or "").splitlines():
        if line.startswith("Max locked memory"):
            soft = line.removeprefix("Max locked memory").split()[0]
            return int(soft) if soft.isdigit() else None
    return None


def governors(root: Path = ROOT) -> list[str] | None:
    """Return the frequency governors of the processors, each once; None where the system leaves clocks to something else."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    found = {text for file in files if (text := read_text(file))}
    return sorted(found) or None


def virtualisation(root: Path = ROOT) -> str | None:
    """Return the hypervisor below this system, `none` on bare metal, `unknown` for one without a name; None where nobody tells.

    The sources are those of systemd-detect-virt: the DMI tables, and the processor's flag that it is a virtual one.
    """
    for name in _DMI:
        text = read_text(root / "sys/class/dmi/id" / name) or ""
        for start, word in _HYPERVISORS.items():
            if text.startswith(start):
                return word
    cpu = read_text(root / "proc/cpuinfo")
    if cpu is None:
        return None
    flags = next((line for line in cpu.splitlines() if line.startswith(("flags", "Features"))), "")
    return "unknown" if "hypervisor" in flags.split() else "none"


def container(root: Path = ROOT) -> str | None:
    """Return what manages the container that this process is in, None where it is in none that says so."""
    told = read_text(root / "run/systemd/container")
    if told:
        return told
    marks = {".dockerenv": "docker", "run/.containerenv": "podman"}
    return next((name for file, name in marks.items() if (root / file).exists()), None)


def cgroup_limits(root: Path = ROOT) -> dict[str, str]:
    """Return the limits of this process's control group (version 2, its own folder or the top one), as the kernel writes them."""
    own = next((line[3:] for line in (read_text(root / "proc/self/cgroup") or "").splitlines() if line.startswith("0::")), "/")
    limits: dict[str, str] = {}
    for name in ("memory.max", "memory.high", "cpu.max", "cpuset.cpus.effective", "cpuset.mems.effective"):
        for folder in (root / "sys/fs/cgroup" / own.lstrip("/"), root / "sys/fs/cgroup"):
            text = read_text(folder / name)
            if text:
                limits[name] = text
                break
    return limits


def mps_pipe(root: Path, environment: Mapping[str, str]) -> str | None:
    """Return the folder of the pipes of CUDA's multi-process service where one runs (or is named), None where none does."""
    named = environment.get("CUDA_MPS_PIPE_DIRECTORY")
    usual = root / "tmp/nvidia-mps"
    return named or (str(usual) if (usual / "control").exists() else None)


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that change what a run measures, by name."""
    return {name: value for name, value in sorted(environment.items()) if name.startswith(VARIABLES)}


def read_text(path: Path) -> str | None:
    """Return what a file of the system holds, without blanks around it; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _shared(facts: DeviceFacts) -> bool:
    others = facts.environment.get("other_processes")
    return isinstance(others, int) and others > 0
