"""Whether a case fits this machine, asked before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
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


def available_host_bytes(proc: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of host memory that this process may still take: what is available, and what its cgroup leaves.

    Where neither can be read (no Linux), 2**63 - 1: then allocation itself is the judge.
    """
    left = 2**63 - 1
    try:
        lines = dict(line.split(":", 1) for line in proc.read_text().splitlines() if ":" in line)
        left = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            left = min(left, int((cgroup / limit).read_text()) - int((cgroup / used).read_text()))
        except (OSError, ValueError):
            continue
    return left
