"""What a lane does to start kernels and migrations: which engine serves them, for how long, and what they write.

Each function is a handler as `runner.device.simulated.play` describes them. Pages that migrate change sides when the operation is
issued, and the operation that touches them takes the time of their way. A kernel that works over the link does not slow the
copies beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from runner.device.simulated.contents import Pieces
from runner.device.simulated.engines import NOTHING_MOVED, Engine, Moved, Work
from runner.errors import CaseFailed
from runner.plan import Busy, KernelAccess, KernelCopy, Launch, Prefetch

if TYPE_CHECKING:
    from runner.device.simulated.play import Lane, Play


class IllegalAddress(CaseFailed):
    """A kernel was given an address that it cannot reach; the device is lost to its process."""


def launch(play: Play, lane: Lane, operation: Launch) -> int:
    """One call a pass: the first kernel may begin after the first call, the last ends after its own. A graph has all at once."""
    buffer, offset, size, passes = operation.buffer, operation.offset, operation.size, operation.passes
    _require_reach(play, lane, buffer)
    later_ns = 0 if lane.handed_over else play.launch_ns * (passes - 1)
    returned = play.call(lane, play.launch_call_ns(lane) + later_ns)
    kernel_ns = play.memory.kernel_ns(buffer, "increment", size)
    engine_ns = play.memory.fault_in_ns(buffer, offset, size) + kernel_ns + (kernel_ns + play.kernel_gap_ns) * (passes - 1)
    moved = (buffer, offset, buffer, offset, size, passes)
    node = Work(
        (play.streams[operation.stream], returned - later_ns, play.handoff_ns),
        play.engines.compute,
        engine_ns,
        _origin(lane),
        moved,
    )
    node.floor_ns = returned + kernel_ns if later_ns else 0
    play.engines.enqueue(node)
    return returned


def kernel_copy(play: Play, lane: Lane, operation: KernelCopy) -> int:
    """One launch whose kernel reads one side and writes the other."""
    dst, dst_offset, src, src_offset, size = (
        operation.dst,
        operation.dst_offset,
        operation.src,
        operation.src_offset,
        operation.size,
    )
    _require_reach(play, lane, src)
    _require_reach(play, lane, dst)
    entry = play.call(lane, play.launch_call_ns(lane))
    memory = play.memory
    upload = memory.buffers[dst].on_device
    engine_ns = memory.fault_in_ns(src, src_offset, size) + memory.fault_in_ns(dst, dst_offset, size)
    engine_ns += memory.kernel_copy_ns(src if upload else dst, upload, size)
    _enqueue(play, lane, operation.stream, entry, engine_ns, play.engines.compute, (dst, dst_offset, src, src_offset, size, 0))
    return entry


def kernel_access(play: Play, lane: Lane, operation: KernelAccess) -> int:
    """One launch whose kernel uses a range where it lies."""
    buffer, offset, size, access = operation.buffer, operation.offset, operation.size, operation.access
    _require_reach(play, lane, buffer)
    entry = play.call(lane, play.launch_call_ns(lane))
    engine_ns = play.memory.fault_in_ns(buffer, offset, size) + play.memory.kernel_ns(buffer, access, size)
    moved = NOTHING_MOVED if access == "read" else (buffer, offset, buffer, offset, size, int(access == "increment"))
    written: Pieces | None = [(0, (operation.salt, play.sample, 0, 0))] if access == "write" else None
    _enqueue(play, lane, operation.stream, entry, engine_ns, play.engines.compute, moved, written)
    return entry


def busy(play: Play, lane: Lane, operation: Busy) -> int:
    """One launch of a kernel so small that others run beside it: it has an engine of its own."""
    entry = play.call(lane, play.launch_ns)
    _enqueue(play, lane, operation.stream, entry, operation.duration_ns, Engine("busy"), NOTHING_MOVED)
    return entry


def prefetch(play: Play, lane: Lane, operation: Prefetch) -> int:
    """One call, in which a copy engine begins to move the pages; it returns when no more of them hold it."""
    entry = play.call(lane, play.copy_ns)
    engine = play.engines.up if operation.to == "device" else play.engines.down
    engine_ns, held_ns = play.memory.prefetch_ns(operation)
    _enqueue(play, lane, operation.stream, entry, engine_ns, engine, NOTHING_MOVED)
    return entry + held_ns


def _require_reach(play: Play, lane: Lane, buffer: int) -> None:
    if not play.memory.reachable(buffer):
        raise IllegalAddress(
            f"{play.where(lane)}: an illegal address: a kernel was given {play.memory.buffers[buffer].memory} memory, which this "
            "device cannot reach; the device is lost to this process"
        )


def _enqueue(
    play: Play, lane: Lane, stream: int, entry: int, engine_ns: int, by: Engine, moved: Moved, pieces: Pieces | None = None
) -> None:
    node = Work((play.streams[stream], entry, play.handoff_ns), by, engine_ns, _origin(lane), moved)
    node.pieces = pieces
    play.engines.enqueue(node)


def _origin(lane: Lane) -> tuple[int, int]:
    """Return lane and index of the operation that a lane is at."""
    return lane.number, lane.at - 1


HANDLERS: Final[dict[type[Any], Callable[..., int]]] = {
    Launch: launch,
    KernelCopy: kernel_copy,
    KernelAccess: kernel_access,
    Busy: busy,
    Prefetch: prefetch,
}
