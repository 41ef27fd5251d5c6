"""Fresh private pages of the system, normal or huge, how many of them are really huge, and which the system counts as held.

Linux gives huge pages as a favour: a mapping may ask for them by madvise, and only /proc/self/smaps tells whether it got any
(Linux kernel documentation, transparent hugepage support).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from runner.errors import CaseUnsupported
from runner.pattern import Bytes
from runner.units import format_size

HUGE_PAGE_BYTES: Final = 2 << 20
HUGE_SHARE: Final = 0.9
"""The share of a mapping that must lie on huge pages; the system may lack a few, but a mixture says nothing of either."""

_COUNTS: Final = frozenset({"VmRSS", "VmLck", "VmPin"})
_MODE: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SMAPS: Final = Path("/proc/self/smaps")
_STATUS: Final = Path("/proc/self/status")


def map_pages(size: int, pages: str, *, prove: bool) -> tuple[mmap.mmap, Bytes]:
    """Map `size` bytes of fresh private memory that start on a page of their own.

    `prove` touches huge pages and counts them, which takes milliseconds; all other pages are left untouched. Raises
    CaseUnsupported where the system gives no huge pages though they were asked for, OSError and its kin where the memory is
    refused.
    """
    if pages == "huge":
        return _map_huge(size, prove)
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mapping, np.frombuffer(mapping, dtype=np.uint8)


def touch_pages(array: Bytes) -> None:
    """Write to each page of a mapping once."""
    array[:: mmap.PAGESIZE] = 0


def huge_page_mode() -> str | None:
    """Return the system's words on transparent huge pages, such as `always [madvise] never`; None where it has none."""
    try:
        return _MODE.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def huge_bytes_at(address: int, lines: Iterable[str]) -> int:
    """Return the bytes on huge pages of the mapping that holds `address`, from the lines of an smaps file; 0 where none does."""
    inside = False
    for line in lines:
        head, _, rest = line.partition(" ")
        if not head.endswith(":"):
            begin, _, end = head.partition("-")
            inside = int(begin, 16) <= address < int(end, 16)
        elif inside and head == "AnonHugePages:":
            return int(rest.split()[0]) << 10
    return 0


def process_memory_bytes(status: Path = _STATUS) -> tuple[int, int] | None:
    """Return how many bytes of this process are resident, and how many are locked; None where the system does not tell both.

    Linux counts what mlock has locked as VmLck and what drivers have pinned as VmPin (proc(5)); the larger counts here, since one
    page may be in both.
    """
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        counts = {
            name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines) if name in _COUNTS
        }
    except (OSError, ValueError, IndexError):
        return None
    return (counts["VmRSS"], max(counts["VmLck"], counts["VmPin"])) if counts.keys() == _COUNTS else None


def _map_huge(size: int, prove: bool) -> tuple[mmap.mmap, Bytes]:
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None:
        raise _unsupported(size, "this system cannot be asked for huge pages")
    whole = -(-size // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
    mapping = mmap.mmap(-1, whole + HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    begin = -np.frombuffer(mapping, dtype=np.uint8).ctypes.data % HUGE_PAGE_BYTES
    try:
        mapping.madvise(advice, begin, whole)
    except OSError as error:
        raise _unsupported(size, f"the system refused to be asked ({error})") from error
    array = np.frombuffer(mapping, dtype=np.uint8, count=whole, offset=begin)
    if prove:
        # Neighbours that asked for the same may lie in one mapping with this, so what touching adds is counted.
        before = _huge_bytes_of(array)
        touch_pages(array)
        given = _huge_bytes_of(array) - before
        if given < HUGE_SHARE * whole:
            raise _unsupported(size, f"the system gave {format_size(given) if given else 'none'}")
    return mapping, array[:size]


def _huge_bytes_of(array: Bytes) -> int:
    try:
        with _SMAPS.open(encoding="utf-8", errors="replace") as lines:
            return huge_bytes_at(array.ctypes.data, lines)
    except OSError:
        return 0


def _unsupported(size: int, why: str) -> CaseUnsupported:
    mode = huge_page_mode()
    says = f"{_MODE} says: {mode}" if mode else f"{_MODE} cannot be read"
    return CaseUnsupported(f"{format_size(size)} on huge pages were asked for, but {why}; {says}")
