"""Where an operation of a Plan stands and what it touches, in words for the one who reads an error."""

from __future__ import annotations

from runner.plan import (
    Copy,
    HostAccess,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Operation,
    Plan,
    Prefetch,
    Record,
    StreamWait,
)


def place(plan: Plan, phase: str, index: int, operation: Operation) -> str:
    """Say where an operation stands and what it touches: `lane 0, operation 7 (Copy h2d of 'input' to 'slot 0')`."""
    kind = type(operation).__name__
    match operation:
        case Copy(direction=direction, src=src, dst=dst):
            kind += f" {direction} of {name_of(plan, src)} to {name_of(plan, dst)}"
        case HostCopy(src=src, dst=dst) | KernelCopy(src=src, dst=dst):
            kind += f" of {name_of(plan, src)} to {name_of(plan, dst)}"
        case HostAccess(buffer=buffer, access=access) | KernelAccess(buffer=buffer, access=access):
            kind += f" {access} of {name_of(plan, buffer)}"
        case Prefetch(buffer=buffer, to=to):
            kind += f" of {name_of(plan, buffer)} to the {to}"
        case Record(event=event) | StreamWait(event=event) | HostWait(event=event):
            kind += f" of event {event}"
        case _ if hasattr(operation, "buffer"):
            kind += f" of {name_of(plan, operation.buffer)}"
        case _:
            pass
    return f"{phase}, operation {index} ({kind})"


def name_of(plan: Plan, buffer: int) -> str:
    """Return `buffer 'input'`, or its number where the table has no such buffer."""
    return f"buffer {plan.buffers[buffer].name!r}" if 0 <= buffer < len(plan.buffers) else f"buffer {buffer}"
