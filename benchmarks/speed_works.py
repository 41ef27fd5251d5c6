"""What benchmarks/gpu.py lets both programs do, and the goals that it holds the runner to."""

from __future__ import annotations

from typing import Final

from speed_goals import Goal, Work, best_ratio, best_time, slowest_rate

from runner.units import format_size

KIB, MIB = 1 << 10, 1 << 20
TOTAL: Final = 256 * MIB
COPIES: Final = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
DIRECT_CHUNKS: Final = (4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB)
STAGED: Final = ((4 * MIB, 4, 4), (8 * MIB, 2, 8), (8 * MIB, 3, 5), (16 * MIB, 1, 16), (16 * MIB, 2, 8))
"""The runner's best on an H200 with 16 cores: bytes of a chunk, lanes of the host, threads of each of their copies."""
SLOTS_OF_A_LANE: Final = 3
STAGED_NATIVE: Final = (("stream", 1 * MIB, 16), ("stream", 2 * MIB, 16), ("plain", 1 * MIB, 16), ("plain", 2 * MIB, 16))
"""The twin's best: stores into the stager, bytes of a chunk, and threads with one slot each."""
CALLS: Final = 1000
GRAPH_CHUNK: Final = 128 * KIB

GOALS: Final = (
    Goal("rate of pinned copies, one between two events", "copy", slowest_rate, at_least=0.99),
    Goal("rate of pinned copies, sixteen behind a gate", "gated", slowest_rate, at_least=0.99),
    Goal("256 MiB there and back, data already pinned", "direct", best_time, "ms", at_most=5.75),
    Goal("the same over native code", "direct", best_ratio, at_most=1.01),
    Goal("256 MiB there and back, from pageable to pageable", "staged", best_time, "ms", at_most=10),
    Goal("the same over native threads with streaming stores", "staged", best_ratio, at_most=1.2),
    Goal("the example's ring over native code", "ring", best_ratio, at_most=1.03),
    Goal("one async copy submitted, over native code", "submit copy", best_ratio, at_most=1.1),
    Goal("one launch submitted, over native code", "submit launch", best_ratio, at_most=1.1),
    Goal("2,048 chunks by a graph over a native graph", "graph", best_ratio, at_most=1.05),
)


def all_works() -> list[Work]:
    """Return all works without samples, the order of a round."""
    works = [copy_work(way, size) for way in ("h2d", "d2h") for size in COPIES]
    works += [gated_work(way, size) for way in ("h2d", "d2h") for size in COPIES if size <= 16 * MIB]
    works += [direct_work(chunk) for chunk in DIRECT_CHUNKS]
    works += [staged_work(*shape) for shape in STAGED]
    works += [staged_native_work(*shape) for shape in STAGED_NATIVE]
    works += [ring_work(), serial_work()]
    works += [submit_work(operation) for operation in ("copy", "launch", "record")]
    return [*works, graph_work()]


def copy_work(way: str, size: int) -> Work:
    samples = 30 if size <= MIB else 8
    case = {"kind": "transfer", "buffer": "pinned", "direction": way, "size": size}
    return Work(f"{way} {format_size(size)}", "copy", f"copy {way} {size} {samples}", case, "event_ms", "ms", samples)


def gated_work(way: str, size: int) -> Work:
    batch = {"batch": 16, "lead_in": 4, "gated": True}
    case = {"kind": "transfer", "buffer": "pinned", "direction": way, "size": size, **batch}
    samples = 30 if size <= MIB else 8
    return Work(
        f"{way} {format_size(size)} gated", "gated", f"peak {way} alone {size} {samples}", case, "event_ms", "ms", samples
    )


def direct_work(chunk: int) -> Work:
    request = f"direct {TOTAL} {chunk} 3 4"
    return Work(f"chunks of {format_size(chunk)}", "direct", request, ring(chunk, 3, "direct"), "wall_ms", "ms", 4)


def staged_work(chunk: int, lanes: int, threads: int) -> Work:
    case = ring(chunk, SLOTS_OF_A_LANE * lanes, "copy") | {"staging_lanes": lanes, "staging_threads": threads}
    name = f"chunks of {format_size(chunk)}, {lanes} lanes of {threads} threads"
    return Work(name, "staged", "", case, "wall_ms", "ms", 5)


def staged_native_work(stores: str, chunk: int, threads: int) -> Work:
    name = f"chunks of {format_size(chunk)}, {threads} threads, {stores} stores up"
    return Work(name, "staged", f"staged {stores} {TOTAL} {chunk} {threads} 5", {}, "wall_ms", "ms", 5)


def ring_work() -> Work:
    chunk = 32 * MIB
    return Work("three slots of 32 MiB", "ring", f"ring {TOTAL} {chunk} 3 4", ring(chunk, 3, "copy"), "wall_ms", "ms", 4)


def serial_work() -> Work:
    chunk = 32 * MIB
    case = {"kind": "pipeline", "schedule": "serialized", "buffer": "pageable", "total": TOTAL, "chunk": chunk}
    request = f"serial {TOTAL} {chunk} 2"
    return Work("serialized pageable loop", "serial", request, case | {"allocate": "per_chunk"}, "wall_ms", "ms", 2)


def submit_work(operation: str) -> Work:
    case = {"kind": "submission", "operation": operation, "count": CALLS}
    return Work(f"one {operation}", f"submit {operation}", f"submit {operation} {CALLS} 10", case, "call_us", "us", 10)


def graph_work() -> Work:
    case = ring(GRAPH_CHUNK, 3, "direct") | {"submit": "graph"}
    return Work("2,048 chunks by a graph", "graph", f"graph {TOTAL} {GRAPH_CHUNK} 3 4", case, "wall_ms", "ms", 4)


def ring(chunk: int, streams: int, staging: str) -> dict[str, object]:
    case = {"kind": "pipeline", "schedule": "overlapped", "buffer": "pinned", "staging": staging}
    return case | {"total": TOTAL, "chunk": chunk, "streams": streams}
