"""`dmalab doctor`: what this machine has, whether its numbers could be trusted, and what to type where they could not.

A diagnosis is a list of checks, each `ok`, `warn` (a run works, with less or with doubt) or `bad` (a run could not be trusted, or
the device that was asked for cannot run at all). Nothing is written and nothing is changed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from runner.device.contract import DeviceFacts
from runner.device.select import open_device
from runner.doctor_advice import System, cuda_line, in_checkout, pip_line, this_system
from runner.doctor_probes import Check, probe
from runner.errors import DeviceUnavailable
from runner.measure.environment import (
    cgroup_limits,
    container,
    governors,
    memlock_bytes,
    mps_pipe,
    numa_flags,
    read_text,
    variables,
    virtualisation,
    why_slow,
)
from runner.placement import ROOT, allowed_cpus, format_list, read_topology
from runner.units import about_size, counted

Level = Literal["ok", "warn", "bad"]

ENOUGH_LOCKED: Final = 1 << 30
"""A limit of locked memory from here on is in nobody's way: the experiments that ship here lock less."""
BLOCKING: Final = "CUDA_LAUNCH_BLOCKING"
DOUBTFUL: Final[Mapping[str, str]] = {
    "CUDA_INJECTION64_PATH": "a profiler is loaded into every CUDA process, which slows calls and may hold CUPTI",
    "NVTX_INJECTION64_PATH": "a profiler is loaded into every process that marks ranges",
    "LD_PRELOAD": "a library is loaded before all others and may replace the C library's copies or allocations",
    "CUDA_DEVICE_MAX_CONNECTIONS": "streams share fewer or more queues of the hardware than usual",
    "CUDA_MPS_PIPE_DIRECTORY": "work goes through the multi-process service, which shares the GPU with others",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "kernels may use a part of the multiprocessors only",
    "CUDA_DISABLE_PERF_BOOST": "the driver does not raise the clocks for CUDA",
}
"""Variables that change what is measured, and how."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks of a machine, in the order in which a person would want to read them."""

    device: str
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """3 where a run could not be trusted, else 0."""
        return 3 if any(check.level == "bad" for check in self.checks) else 0

    def lines(self) -> list[str]:
        """Return a line a check, what to do below it, and what follows from all of them."""
        width = max(len(check.name) for check in self.checks)
        lines: list[str] = []
        for check in self.checks:
            lines.append(f"{check.level:<4}  {check.name:<{width}}  {check.found}")
            if check.remedy:
                lines.append(f"      {'':<{width}}  -> {check.remedy}")
        return [*lines, "", self._sum()]

    def as_json(self) -> str:
        """Return the same for a program."""
        content = {"device": self.device, "trusted": self.exit_code == 0, "checks": [asdict(check) for check in self.checks]}
        return json.dumps(content, indent=2, ensure_ascii=False)

    def _sum(self) -> str:
        bad, warned = (sum(check.level == level for check in self.checks) for level in ("bad", "warn"))
        if bad:
            return f"Numbers of {self.device} could not be trusted: {counted(bad, 'check')} bad, {warned} with a warning."
        return f"Runs on {self.device} can go ahead" + (f"; read {counted(warned, 'warning')} above." if warned else ".")


def diagnose(device: str = "auto", root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> Diagnosis:
    """Look at this machine and, where the device is a real one, measure on it for some seconds.

    What a real device needs and does not find is bad only where `device` asks for one; else a simulated device serves. Raises
    InputError for a text that is no device.
    """
    asked = device.startswith("cuda")
    missing: Level = "bad" if asked else "warn"
    system = this_system(root, environment, container(root) or "")
    checks = [*_software(missing, environment, system), *_host(root, environment, system)]
    checks += _variables(missing, root, environment)
    try:
        opened = open_device(device)
    except DeviceUnavailable as error:
        serves = "" if "simulated" in error.remedy else "; or use device: simulated, which needs none of it"
        return Diagnosis(error.device, (*checks, Check("device", "bad", error.why, error.remedy + serves)))
    with closing(opened.device):
        facts = opened.device.facts()
        if facts.kind == "simulated":
            checks.append(_simulated(facts, opened.note))
        else:
            checks += [*_device(facts), *_place(facts, root), *probe(opened.device, facts)]
    return Diagnosis(facts.name, tuple(checks))


def _software(missing: Level, environment: Mapping[str, str], system: System) -> Iterator[Check]:
    """Look for each piece by itself, so that all that is missing is told at once, each with the line that installs it here."""
    # Imported here: it needs NumPy, which the command line does not wait for.
    from runner.device.cuda.nvml import nvml_missing
    from runner.device.cuda.opening import load_module, require_driver_library
    from runner.device.cuda.toolchain import find_nvcc, host_compiler

    name = "cuda"

    def compiler() -> str:
        nvcc = find_nvcc(name, environment)
        host = shutil.which("g++", path=environment.get("PATH", "")) or "named by a variable"
        return f"{nvcc.version} ({nvcc.path}), host compiler {host}"

    def driver() -> str:
        require_driver_library(name)
        return "its library is there"

    def package(module: str, distribution: str, label: str) -> Callable[[], str]:
        def find() -> str:
            load_module(name, module, label)
            return _version(distribution)

        return find

    yield Check("python", "ok", f"{platform.python_version()}, NumPy {_version('numpy')}")
    found = _piece("driver", driver, missing, f"{system.install('driver')}; or use device: simulated, which needs none")
    yield found
    ready = cuda_line(in_checkout(), driver=found.level == "ok")
    yield _piece("pycuda", package("pycuda.driver", "pycuda", "PyCUDA"), missing, ready)
    yield _piece("cuda-bindings", package("cuda.bindings.driver", "cuda-bindings", "cuda-bindings"), missing, ready)
    lacking = (
        system.install("compiler")
        if host_compiler(environment) is None
        else f"{ready}; or for a CUDA toolkit {system.install('toolkit')}"
    )
    yield _piece("nvcc", compiler, missing, lacking)
    why = nvml_missing()
    remedy = f"{pip_line('nvidia-ml-py')}; its library comes with the driver" if why else ""
    yield Check("nvml", "warn" if why else "ok", why or f"nvidia-ml-py {_version('nvidia-ml-py')}", remedy)


def _piece(name: str, find: Callable[[], str], missing: Level, remedy: str) -> Check:
    try:
        return Check(name, "ok", find())
    except DeviceUnavailable as error:
        return Check(name, missing, error.why, remedy)


def _host(root: Path, environment: Mapping[str, str], system: System) -> Iterator[Check]:
    """Check the limits and settings of the host."""
    around = ", in a container of " + within if (within := container(root)) else ""
    yield Check("host", "ok", f"{platform.release()}, virtualisation {virtualisation(root) or 'unknown'}{around}")
    limit = memlock_bytes(root)
    if limit is not None and limit < ENOUGH_LOCKED:
        found = f"this process may lock {about_size(limit)}, so registering more may be refused"
        yield Check("memlock", "warn", found, "ulimit -l unlimited (as root, or memlock in /etc/security/limits.conf)")
    else:
        yield Check("memlock", "ok", "no limit" if limit is None else about_size(limit))
    mode = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")
    if mode is None or "[never]" in mode:
        remedy = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" if mode else ""
        yield Check("huge pages", "warn", f"{mode or 'this system has none'}: cases with pages: huge are unsupported", remedy)
    else:
        yield Check("huge pages", "ok", mode)
    slow = [each for each in governors(root) or [] if each != "performance"]
    if slow:
        first = "" if shutil.which("cpupower", path=environment.get("PATH", "")) else f"{system.install('cpupower')}; then "
        yield Check("cpu governor", "warn", ", ".join(slow), f"{first}sudo cpupower frequency-set -g performance")
    quota = cgroup_limits(root).get("cpu.max", "max")
    if not quota.startswith("max"):
        found = f"the control group stops its threads after a quota (cpu.max {quota})"
        yield Check("cpu quota", "warn", found, "run without a limit of processor time, or pin whole processors (cpuset)")


def _variables(missing: Level, root: Path, environment: Mapping[str, str]) -> Iterator[Check]:
    """Check the variables that change what is measured."""
    found = variables(environment)
    if found.get(BLOCKING, "0") not in ("", "0"):
        yield Check("variables", missing, f"{BLOCKING}={found[BLOCKING]} makes every call wait", f"unset {BLOCKING}")
    doubtful = [name for name in DOUBTFUL if found.get(name)]
    for name in doubtful:
        yield Check("variables", "warn", f"{name}={found[name]}: {DOUBTFUL[name]}", f"unset {name}")
    if not doubtful and BLOCKING not in found:
        yield Check("variables", "ok", ", ".join(f"{name}={value}" for name, value in found.items() if len(value) < 40) or "none")
    pipe = mps_pipe(root, environment)
    if pipe and "CUDA_MPS_PIPE_DIRECTORY" not in doubtful:
        found_pipe = f"the multi-process service runs ({pipe}) and shares the GPU with others"
        yield Check("mps", "warn", found_pipe, "echo quit | nvidia-cuda-mps-control")


def _simulated(facts: DeviceFacts, note: str) -> Check:
    if note:
        return Check("device", "warn", note, "for a real one mend what is missing above, then: dmalab doctor --device cuda")
    return Check("device", "ok", f"{facts.name}: its numbers are computed from a profile, none is measured")


def _device(facts: DeviceFacts) -> Iterator[Check]:
    """Check what the device and its driver say of themselves under load."""
    told = facts.environment
    engines = counted(facts.copy_engines, "copy engine")
    versions = f"driver {told.get('driver') or 'unknown'}, CUDA {told.get('cuda_driver_api')}"
    yield Check("device", "ok", f"{facts.name} at {told.get('pci_bus_id')}, {versions}, {engines}")
    link = f"PCIe {told.get('pcie_generation')} x{told.get('pcie_width')} under load"
    if facts.link_gb_per_s is None:
        remedy = f"{pip_line('nvidia-ml-py')}; or read `nvidia-smi -q` (GPU Link Info) while copies run"
        yield Check("link", "warn", "nobody tells its speed, so rates cannot be held against its limit", remedy)
    elif any(_below(facts, name) for name in ("pcie_generation", "pcie_width")):
        most = f"PCIe {told.get('pcie_generation_max')} x{told.get('pcie_width_max')}"
        yield Check("link", "warn", f"{link}, the card can do {most}", "look at the slot, the riser and the firmware's settings")
    else:
        yield Check("link", "ok", f"{link}, {facts.link_gb_per_s:.1f} GB/s in one direction at most")
    slow = why_slow(facts)
    clock = f"{told['sm_clock_mhz']} MHz, memory {told.get('memory_clock_mhz')} MHz" if told.get("sm_clock_mhz") else "not told"
    yield Check("clocks", "warn" if slow else "ok", slow or clock, "see nvidia-smi -q -d CLOCK,PERFORMANCE" if slow else "")
    others = told.get("other_processes")
    if isinstance(others, int) and others > 0:
        yield Check(
            "other processes",
            "warn",
            f"{others} other process{'' if others == 1 else 'es'} on the GPU",
            "end what nvidia-smi lists",
        )
    else:
        yield Check("other processes", "ok", "none" if others == 0 else "not told")
    if told.get("mig"):
        yield Check("mig", "warn", "the GPU is cut into instances, which share its link", "sudo nvidia-smi -mig 0")


def _place(facts: DeviceFacts, root: Path) -> Iterator[Check]:
    """Check where the thread, its memory and the GPU lie."""
    topology, cpus, node = read_topology(root), allowed_cpus(), facts.environment.get("numa_node")
    nodes = len(topology.cpus)
    where = f"{counted(nodes, 'node')}, GPU on {'an unknown one' if node is None else node}, this thread on processors"
    found = f"{where} {format_list(cpus)}; a pinned buffer lay on {facts.environment.get('pinned_numa_node', 'an unknown one')}"
    if nodes > 1 and (node is None or numa_flags(facts, topology=topology)):
        yield Check("numa", "warn", found, "measure: {placement: local} in the file, or numactl --cpunodebind --membind")
    else:
        yield Check("numa", "ok", found)


def _below(facts: DeviceFacts, name: str) -> bool:
    now, most = facts.environment.get(name), facts.environment.get(f"{name}_max")
    return isinstance(now, int) and isinstance(most, int) and now < most


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
