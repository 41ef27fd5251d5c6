"""Why two runs should not be compared without a second look: what of machine, driver and settings is not the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from runner.compared_run import SETTINGS, ComparedRun
from runner.stats import median
from runner.two_samples import ratio_of
from runner.units import counted, digits

WATCHED: Final[Mapping[str, str]] = {
    "device.name": "the device",
    "device.uuid": "the very GPU",
    "device.driver": "the driver",
    "device.cuda_driver_api": "the driver's CUDA version",
    "device.numa_node": "the GPU's NUMA node",
    "device.pcie_generation": "the link's generation under load",
    "device.pcie_width": "the link's width under load",
    "device.sm_clock_mhz": "the GPU's clock under load",
    "device.clock_limits": "what held the clock down",
    "device.power_limit_w": "the power limit",
    "device.mig": "MIG mode",
    "device.other_processes": "the number of other processes on the GPU",
    "device.nvtx": "the use of NVTX ranges in the timed loop",
    "device.sha256": "the profile",
    "device.cpu_model": "the processor",
    "host.platform": "the operating system",
    "host.cpus": "the number of processors",
    "host.transparent_huge_pages": "the huge-page mode",
    "host.cpu_governors": "the choice of frequency governors",
    "host.numa_balancing": "NUMA balancing",
    "host.allowed_cpus": "the set of processors that the process may use",
    "host.virtualisation": "the virtualisation",
    "host.memlock_bytes": "the limit of locked memory",
    "host.dmalab": "dmalab",
    "host.python": "Python",
    "host.packages.pycuda": "PyCUDA",
    "host.packages.numpy": "NumPy",
}
"""What of a manifest changes what is measured, in words."""
FINISHED: Final = "complete"


def doubts_between(a: ComparedRun, b: ComparedRun, threshold: float) -> Iterator[str]:
    """Yield a sentence for each doubt: unlike surroundings, unlike files, a run that is not complete, a machine that changed.

    A fact that either manifest does not tell is passed over, as an older version may not have asked. `threshold` is the share by
    which the sentinel may differ.
    """
    if a.run_id == b.run_id:
        yield f"both are called {a.run_id}: one may be a copy of the other, in which nothing can differ"
    for name, run in (("A", a), ("B", b)):
        yield from (f"{name}: {doubt}" for doubt in run.doubts)
    if a.device_kind != b.device_kind:
        yield "one run is measured and the other simulated"
    for path, what in WATCHED.items():
        mine, theirs = _at(a.manifest, path), _at(b.manifest, path)
        if mine is not None and theirs is not None and mine != theirs:
            yield f"{what} differs: {_short(mine)} in A, {_short(theirs)} in B"
    for column, what in SETTINGS.items():
        mine, theirs = a.settings.get(column), b.settings.get(column)
        if mine and theirs and mine != theirs:
            yield f"{what} differs: {mine} in A, {theirs} in B"
    if any(a.manifest.get(name) != b.manifest.get(name) for name in ("spec_sha256", "overrides")):
        yield "the two files of the experiment, or what --set changed, are not the same"
    for name, run in (("A", a), ("B", b)):
        status = run.manifest.get("status")
        if status not in (None, FINISHED):
            yield f"{name} is {status}: not every case was measured"
        if run.foreign_rows:
            yield f"{name} has {counted(run.foreign_rows, 'row')} of other runs in its summary.csv, which are left out"
    yield from _sentinel(a, b, threshold)


def _sentinel(a: ComparedRun, b: ComparedRun, threshold: float) -> Iterator[str]:
    if a.sentinel is None or b.sentinel is None:
        return
    ratio = ratio_of(a.sentinel, b.sentinel)
    if not 1 / (1 + threshold) <= ratio.value <= 1 + threshold:
        mine, theirs = median(a.sentinel.values), median(b.sentinel.values)
        yield (
            f"the sentinel, a small copy that is in every run, took {digits(mine)} ms in A and {digits(theirs)} ms in B: "
            "the machine itself changed"
        )


def _at(manifest: Mapping[str, Any], path: str) -> Any:
    found: Any = manifest
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _short(value: object) -> str:
    text = str(value) if str(value) else "nothing"
    return text if len(text) <= 60 else f"{text[:57]}..."
