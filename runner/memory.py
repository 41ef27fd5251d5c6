"""The table of buffer kinds: one row a kind of host memory, with the traits that the rest of the code asks for.

Nothing outside this file compares a kind's name; it asks a trait. How a kind is allocated on a real device is one method of the
same name in `runner.device.cuda.memory`, how long that takes on the simulated one is one entry of a profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

DEVICE: Final = "device"
"""The `memory` of a buffer in the device's own memory; it is no buffer kind, since no file may ask for it."""

BufferKind = Literal["pageable", "pinned"]


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """One kind of host memory.

    `asynchronous`: a copy engine can use its pages where they lie, so an async copy returns at once.
    `page_locked`: it counts against the pinned memory of the machine.
    `slow_cpu_read`: the processor should never read it in bulk, so verification goes by the device.
    `driver_says`: the answers of the driver about a pointer of this kind that are accepted as true.
    """

    name: str
    meaning: str
    asynchronous: bool
    page_locked: bool
    slow_cpu_read: bool
    driver_says: frozenset[str]


_ROWS: Final = (
    MemoryKind(
        "pageable",
        "ordinary memory, which the driver stages through a pinned buffer of its own",
        asynchronous=False,
        page_locked=False,
        slow_cpu_read=False,
        driver_says=frozenset({"pageable"}),
    ),
    MemoryKind(
        "pinned",
        "page-locked memory allocated by the driver",
        asynchronous=True,
        page_locked=True,
        slow_cpu_read=False,
        driver_says=frozenset({"pinned"}),
    ),
)
KINDS: Final = {row.name: row for row in _ROWS}


def kind_of(name: str) -> MemoryKind:
    """Return the row of the kind called `name`; raises KeyError for any other name."""
    return KINDS[name]


assert set(KINDS) == set(get_args(BufferKind)), "the table of kinds and the type of the YAML field name the same kinds"
