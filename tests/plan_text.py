"""A lane of a Plan as text, so that tests can be read: `s0: h2d device 0[0:8] <- input[0:8]`."""

from __future__ import annotations

from runner.plan import (
    Alloc,
    Barrier,
    Batch,
    Busy,
    Copy,
    Drain,
    Free,
    Gate,
    Graph,
    GroupEnd,
    HostAccess,
    HostCopy,
    HostWait,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    PoolAlloc,
    PoolFree,
    Prefetch,
    Record,
    Register,
    Release,
    StreamWait,
    Unregister,
)


def lane_text(plan: Plan, lane: int = 0) -> list[str]:
    return [_line(plan, operation) for operation in plan.lanes[lane]]


def _line(plan: Plan, operation: Operation) -> str:
    def part(buffer: int, offset: int, size: int) -> str:
        return f"{plan.buffers[buffer].name}[{offset}:{offset + size}]"

    match operation:
        case Copy(stream, direction, dst, dst_offset, src, src_offset, size, blocking):
            call = f"{direction}{' blocking' if blocking else ''}"
            return f"s{stream}: {call} {part(dst, dst_offset, size)} <- {part(src, src_offset, size)}"
        case HostCopy(dst, dst_offset, src, src_offset, size, threads):
            by = f" by {threads} threads" if threads > 1 else ""
            return f"host: {part(dst, dst_offset, size)} <- {part(src, src_offset, size)}{by}"
        case KernelCopy(stream, dst, dst_offset, src, src_offset, size):
            return f"s{stream}: kernel {part(dst, dst_offset, size)} <- {part(src, src_offset, size)}"
        case KernelAccess(stream, buffer, offset, size, access, _):
            return f"s{stream}: kernel {access} {part(buffer, offset, size)}"
        case HostAccess(buffer, offset, size, access, threads, _):
            by = f" by {threads} threads" if threads > 1 else ""
            return f"host: {access} {part(buffer, offset, size)}{by}"
        case Prefetch(stream, buffer, offset, size, to):
            return f"s{stream}: prefetch {part(buffer, offset, size)} to the {to}"
        case Busy(stream, duration_ns):
            return f"s{stream}: busy for {duration_ns:,} ns"
        case Launch(stream, buffer, offset, size, passes):
            return f"s{stream}: add {passes} to {part(buffer, offset, size)}"
        case Record(stream, event):
            return f"s{stream}: record {plan.events[event].name}"
        case StreamWait(stream, event):
            return f"s{stream}: wait for {plan.events[event].name}"
        case HostWait(event):
            return f"host: wait for {plan.events[event].name}"
        case Drain(stream):
            return f"host: drain s{stream}"
        case Gate(stream, gate):
            return f"s{stream}: hold by gate {gate}"
        case Release(gate):
            return f"host: open gate {gate}"
        case Barrier():
            return "barrier"
        case Mark(mark, cpu, memory):
            return f"mark {plan.marks[mark]}{' with cpu' if cpu else ''}{' with memory' if memory else ''}"
        case Alloc(buffer):
            return f"alloc {plan.buffers[buffer].name}"
        case Free(buffer):
            return f"free {plan.buffers[buffer].name}"
        case PoolAlloc(stream, buffer):
            return f"s{stream}: alloc {plan.buffers[buffer].name}"
        case PoolFree(stream, buffer):
            return f"s{stream}: free {plan.buffers[buffer].name}"
        case Graph(stream) | Batch(stream):
            return f"s{stream}: begin {type(operation).__name__.lower()}"
        case GroupEnd():
            return "end"
        case Register(buffer):
            return f"register {plan.buffers[buffer].name}"
        case Unregister(buffer):
            return f"unregister {plan.buffers[buffer].name}"
    raise AssertionError(operation)
