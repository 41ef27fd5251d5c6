"""Whether a case fits this machine, asked before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from runner.device.contract import DeviceFacts
from runner.plan import Demand
from runner.units import sizes_apart

PINNED_SHARE: Final = 0.5
"""The most of the host's memory that one case may pin; beyond that the whole machine suffers."""
KEPT_FREE: Final = 256 * 2**20
"""Bytes of host memory that are left to the rest of the machine."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a case may hold: the device's free memory, `host_bytes` of the host, of which PINNED_SHARE may be page-locked.

    `most_pinned` is another limit of page-locked memory in bytes, None where it stays at that share.
    """

    facts: DeviceFacts
    host_bytes: int
    most_pinned: int | None = None

    @property
    def pinned_bytes(self) -> int:
        """The most page-locked memory of one case in bytes."""
        return int(self.host_bytes * PINNED_SHARE) if self.most_pinned is None else self.most_pinned

    def refusal_of(self, demand: Demand) -> str:
        """Return why a case of this demand cannot run, with the figures; empty where it fits."""
        needed, host = demand.pageable_bytes + demand.pinned_bytes, self.host_bytes
        if demand.device_bytes > self.facts.free_bytes:
            asked, free = sizes_apart(demand.device_bytes, self.facts.free_bytes)
            return f"needs {asked} of device memory, {free} are free on {self.facts.name}"
        if needed > host - KEPT_FREE:
            asked, free = sizes_apart(needed, max(0, host - KEPT_FREE))
            return f"needs {asked} of host memory, {free} are available"
        if demand.pinned_bytes > self.pinned_bytes:
            asked, most = sizes_apart(demand.pinned_bytes, self.pinned_bytes)
            if self.most_pinned is not None:
                return f"pins {asked}, more than the {most} that --allow-pinned allows"
            return f"pins {asked}, more than {most}, half of the host memory that is available; --allow-pinned raises that limit"
        return ""


def available_host_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of host memory that this process may still take: what is available, and what its control groups leave.

    Every group from the process's own up to the outermost counts: a job of a scheduler has its limit there. Where nothing can be
    read (no Linux), 2**63 - 1: then allocation itself is the judge.
    """
    left = 2**63 - 1
    with suppress(OSError, KeyError, ValueError):
        lines = dict(line.split(":", 1) for line in (root / "proc/meminfo").read_text().splitlines() if ":" in line)
        left = int(lines["MemAvailable"].split()[0]) * 1024
    return min(left, *(_left_in(group) for group in _groups(root)), 2**63 - 1)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's memory control groups, of version 1 and 2, from its own to the outermost.

    In a container the own path may be that of the host, which is not there; the outermost folder is then the container's.
    """
    try:
        entries = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except OSError:
        entries = []
    paths = {controllers: own for _, controllers, own in (each for each in entries if len(each) == 3)}
    version_1 = next((own for controllers, own in paths.items() if "memory" in controllers.split(",")), "/")
    for top, own in ((root / "sys/fs/cgroup", paths.get("", "/")), (root / "sys/fs/cgroup/memory", version_1)):
        inner = PurePosixPath(own.lstrip("/"))
        yield from (top / each for each in (inner, *inner.parents) if ".." not in each.parts)


def _left_in(group: Path) -> int:
    """Return what a control group leaves, 2**63 - 1 where it has no limit; what only caches files can be taken from them."""
    limits = [
        limit
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        if (limit := _number_in(group / name)) is not None
    ]
    used = [use for name in ("memory.current", "memory.usage_in_bytes") if (use := _number_in(group / name)) is not None]
    if not limits or not used:
        return 2**63 - 1
    cached = 0
    with suppress(OSError, KeyError, ValueError):
        told = dict(line.split(None, 1) for line in (group / "memory.stat").read_text().splitlines())
        cached = int(told.get("total_inactive_file") or told["inactive_file"])
    return max(0, min(limits) - max(0, used[0] - cached))


def _number_in(path: Path) -> int | None:
    """Return the number in a file, None where there is none: `max` is no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
