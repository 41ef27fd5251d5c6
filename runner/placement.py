"""Where thread, memory and GPU lie on the host's NUMA nodes, and keeping a thread and its memory on a chosen one.

All of it is plain Linux: sysfs tells the nodes, `sched_setaffinity` moves the thread, `set_mempolicy` its future pages and
`move_pages` tells where pages lie; the last two are called by number, since the C library has no functions for them and libnuma
is rarely there. Everywhere else there is one node and nothing to choose.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from runner.errors import CaseUnsupported

Placement = Literal["any", "local", "remote"]
Wait = Literal["spin", "yield", "block"]
"""How a thread waits for the device: it asks again and again, lets others run between, or sleeps until an interrupt."""

ROOT: Final = Path("/")
SAMPLED_PAGES: Final = 64
"""Pages of a buffer that are asked for their node: enough to see a mixture, and some microseconds."""
BIND: Final = 2
"""MPOL_BIND of linux/mempolicy.h: pages come from the given nodes or not at all."""
_NODE_BITS: Final = 1024
_CALLS: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {"set_mempolicy": 238, "get_mempolicy": 239, "move_pages": 279},
    "aarch64": {"set_mempolicy": 237, "get_mempolicy": 236, "move_pages": 239},
}
"""Numbers of system calls by machine (asm/unistd.h of the Linux kernel)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A memory policy of a thread: its mode in linux/mempolicy.h and the nodes it names."""

    mode: int = 0
    nodes: frozenset[int] = frozenset()


class Linux:
    """The calls that read and change where the calling thread runs and where its next pages come from."""

    def affinity(self) -> frozenset[int]:
        """Return the processors on which this thread may run."""
        return allowed_cpus()

    def set_affinity(self, cpus: Collection[int]) -> None:
        """Let this thread, and the threads that it starts from now on, run on these processors; raises OSError."""
        os.sched_setaffinity(0, cpus)

    def policy(self) -> Policy:
        """Return this thread's memory policy; raises OSError."""
        mode, mask = ctypes.c_int(), (ctypes.c_ulong * (_NODE_BITS // 64))()
        _system_call("get_mempolicy", ctypes.byref(mode), mask, ctypes.c_ulong(_NODE_BITS), None, ctypes.c_ulong(0))
        return Policy(mode.value, frozenset(bit for bit in range(_NODE_BITS) if mask[bit // 64] >> (bit % 64) & 1))

    def set_policy(self, policy: Policy) -> None:
        """Let the pages that this thread touches first from now on follow a policy; raises OSError."""
        mask = (ctypes.c_ulong * (_NODE_BITS // 64))()
        for node in policy.nodes:
            mask[node // 64] |= 1 << (node % 64)
        # The kernel reads one bit less than it is told (set_mempolicy(2), bugs).
        _system_call("set_mempolicy", ctypes.c_int(policy.mode), mask if policy.nodes else None, ctypes.c_ulong(_NODE_BITS + 1))


@dataclass(frozen=True, slots=True)
class Topology:
    """The host's nodes and the processors of each; a machine without NUMA has one node, or none that it tells of."""

    cpus: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def nodes_of(self, cpus: Collection[int]) -> frozenset[int]:
        """Return the nodes on which some of these processors lie."""
        return frozenset(node for node, its in self.cpus.items() if not its.isdisjoint(cpus))

    def node_for(self, placement: Placement, gpu_node: int | None) -> int | None:
        """Return the node on which a thread and its memory shall lie, None where it does not matter.

        `remote` is the first node with processors that is not the GPU's. Raises CaseUnsupported where the machine has no such
        node or does not tell on which one its GPU is.
        """
        usable = sorted(node for node, its in self.cpus.items() if its)
        if placement == "any" or (placement == "local" and len(usable) < 2):
            return None
        if len(usable) < 2:
            raise CaseUnsupported("placement: remote needs a second NUMA node, and this machine has one")
        if gpu_node is None:
            raise CaseUnsupported(f"placement: {placement} needs the GPU's NUMA node, which this machine does not tell")
        if placement == "local" and gpu_node not in usable:
            raise CaseUnsupported(f"placement: local needs processors on the GPU's NUMA node {gpu_node}, which has none")
        return gpu_node if placement == "local" else next(node for node in usable if node != gpu_node)


@contextmanager
def placed(
    placement: Placement, gpu_node: int | None, topology: Topology | None = None, system: Linux | None = None
) -> Iterator[int | None]:
    """Keep this thread, those it starts and the pages they touch on a node for the length of a block; yield the node, if any.

    Both are as before afterwards. Raises CaseUnsupported where the placement cannot be had (`Topology.node_for`), or where this
    process may use no processor of the node.
    """
    known, host = topology or read_topology(), system or Linux()
    node = known.node_for(placement, gpu_node)
    if node is None:
        yield None
        return
    before = host.affinity()
    mine = before & known.cpus[node]
    if not mine:
        raise CaseUnsupported(f"placement: {placement} needs a processor of NUMA node {node}, and this process may use none")
    with _pages_from(node, host):
        host.set_affinity(mine)
        try:
            yield node
        finally:
            host.set_affinity(before)


@contextmanager
def _pages_from(node: int, host: Linux) -> Iterator[None]:
    """Take new pages from a node only; where a container forbids that, first touch by a thread on the node does the same."""
    try:
        before = host.policy()
        host.set_policy(Policy(BIND, frozenset({node})))
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS):
            raise CaseUnsupported(f"memory of NUMA node {node} was refused: {error.strerror}") from error
        yield
        return
    try:
        yield
    finally:
        host.set_policy(before)


def read_topology(root: Path = ROOT) -> Topology:
    """Return the nodes that are online and their processors, from sysfs; empty where it tells none."""
    found: dict[int, frozenset[int]] = {}
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        try:
            found[int(folder.name.removeprefix("node"))] = parse_list((folder / "cpulist").read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return Topology(found)


def node_of_pci(bus_id: str, root: Path = ROOT) -> int | None:
    """Return the NUMA node of a PCI device such as `0000:00:06.0`; None where it is -1 or absent, which both mean unknown."""
    domain, _, rest = bus_id.lower().partition(":")
    try:
        path = root / "sys/bus/pci/devices" / f"{int(domain, 16):04x}:{rest}" / "numa_node"
        node = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def allowed_cpus() -> frozenset[int]:
    """Return the processors on which this thread may run; all of them where the system cannot be asked."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return frozenset(range(os.cpu_count() or 1))


def nodes_of_pages(address: int, size: int, sample: int = SAMPLED_PAGES) -> dict[int, int]:
    """Return how many pages of a range lie on each node, of `sample` pages spread over it (move_pages(2) without a target).

    Untouched pages and those that the kernel does not tell of (a driver's own mappings) are left out; empty where it tells none.
    """
    page = mmap.PAGESIZE
    first, last = address // page, (address + max(size, 1) - 1) // page
    count = min(sample, last - first + 1)
    step = (last - first + 1) / count
    pages = (ctypes.c_void_p * count)(*((first + int(place * step)) * page for place in range(count)))
    status = (ctypes.c_int * count)(*[-errno.ENOENT] * count)
    try:
        _system_call("move_pages", ctypes.c_int(0), ctypes.c_ulong(count), pages, None, status, ctypes.c_int(0))
    except OSError:
        return {}
    return dict(Counter(node for node in status if node >= 0))


def node_of_pages(address: int, size: int) -> int | None:
    """Return the node on which most of the sampled pages of a range lie, None where that is unknown."""
    found = nodes_of_pages(address, size)
    return max(found, key=lambda node: (found[node], -node)) if found else None


def parse_list(text: str) -> frozenset[int]:
    """Read a list as the kernel writes it, such as `0-3,8`; raises ValueError for anything else."""
    numbers: set[int] = set()
    for part in filter(None, (each.strip() for each in text.strip().split(","))):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def format_list(numbers: Collection[int]) -> str:
    """Write numbers as the kernel does: `0-3,8`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _system_call(name: str, *arguments: object) -> None:
    """Make a system call by its number; raises OSError as the kernel refuses it, ENOSYS where its number is unknown here."""
    number = _CALLS.get(platform.machine(), {}).get(name)
    if number is None or platform.system() != "Linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    # Some sandboxes end a process that makes a call they do not know; those that answer say EPERM or ENOSYS.
    if ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
