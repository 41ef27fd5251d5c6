"""The table of buffer kinds: one row a kind of host memory, with the traits that the rest of the code asks for.

Nothing outside this file compares a kind's name; it asks a trait. How a kind is allocated on a real device is one method of the
same name in `runner.device.cuda.memory`, how long that takes on the simulated one is one entry of a profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

DEVICE: Final = "device"
"""The `memory` of a buffer in the device's own memory; it is no buffer kind, since no file may ask for it."""

BufferKind = Literal["pageable", "pinned", "registered", "write_combined", "mapped", "managed"]
Pages = Literal["normal", "huge"]


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """One kind of host memory.

    `asynchronous`: a copy engine can use its pages where they lie, so an async copy returns at once.
    `page_locked`: it counts against the pinned memory of the machine.
    `slow_cpu_read`: the processor should never read it in bulk, so verification goes by the device.
    `kernel_access`: a kernel may use it in place.
    `migrates`: its pages move to whoever touches them, so a transfer is a migration and there is no other buffer.
    `registers`: it is pageable memory that is page-locked where it lies, after its allocation.
    `pages`: the sizes of pages that can be asked for.
    `driver_says`: the answers of the driver about a pointer of this kind that are accepted as true.
    """

    name: str
    meaning: str
    driver_says: frozenset[str]
    asynchronous: bool = True
    page_locked: bool = True
    slow_cpu_read: bool = False
    kernel_access: bool = True
    migrates: bool = False
    registers: bool = False
    pages: frozenset[str] = frozenset({"normal"})


_ROWS: Final = (
    MemoryKind(
        "pageable",
        "ordinary memory, which the driver stages through a pinned buffer of its own",
        frozenset({"pageable"}),
        asynchronous=False,
        page_locked=False,
        kernel_access=False,
        pages=frozenset({"normal", "huge"}),
    ),
    MemoryKind("pinned", "page-locked memory allocated by the driver", frozenset({"pinned"})),
    MemoryKind(
        "registered",
        "ordinary memory, page-locked where it lies",
        frozenset({"pinned"}),
        registers=True,
        pages=frozenset({"normal", "huge"}),
    ),
    MemoryKind(
        "write_combined",
        "page-locked memory that the processor writes past its caches and reads slowly",
        frozenset({"write_combined"}),
        slow_cpu_read=True,
    ),
    # Under unified addressing mapped memory is pinned memory that a kernel uses in place; the driver knows no difference.
    MemoryKind("mapped", "page-locked memory mapped into the device's addresses, for access in place", frozenset({"pinned"})),
    MemoryKind(
        "managed",
        "memory whose pages move to whoever touches them",
        frozenset({"managed"}),
        page_locked=False,
        migrates=True,
    ),
)
KINDS: Final = {row.name: row for row in _ROWS}


def kind_of(name: str) -> MemoryKind:
    """Return the row of the kind called `name`; raises KeyError for any other name."""
    return KINDS[name]


assert set(KINDS) == set(get_args(BufferKind)), "the table of kinds and the type of the YAML field name the same kinds"
