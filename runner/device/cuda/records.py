"""Activity records as plain numbers, and which operation of a Plan each belongs to.

A record names no call but by a correlation id, which grows with every call. So the ids of a lane's records, in their order,
belong to the lane's operations that give an engine work, in theirs. A play whose records do not match its Plan one for one,
kind for kind and size for size, counts as not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.device.activities import size_of
from runner.plan import Busy, Copy, Gate, KernelAccess, KernelCopy, Launch, Operation, Plan


class Unmatched(Exception):
    """The records of a play do not belong to its Plan, one for one."""


@dataclass(frozen=True, slots=True)
class Record:
    """Work of an engine between two times of CUPTI's clock; all records of one call have its correlation id.

    `engine` is h2d, d2h, `copy` for another copy, or compute. `size_bytes` and `memory`, the host's side, are a copy's.
    """

    correlation: int
    stream: int
    engine: str
    begin_ns: int
    end_ns: int
    size_bytes: int = 0
    memory: str = ""


def match(records: Sequence[Record], plan: Plan, stream_ids: Sequence[int], *, by_stream: bool) -> dict[tuple[int, int], Record]:
    """Return the record of each operation that gives an engine work, by (lane, index); raises Unmatched.

    Records of one call are joined, from the first begin to the last end, and so are those of the passes of one Launch. Of several
    lanes the calls are told apart by their streams (`by_stream`), `stream_ids` being the numbers that records give them; two
    lanes cannot share one.
    """
    calls: dict[int, list[Record]] = {}
    for record in _joined(records):
        calls.setdefault(record.stream if by_stream else 0, []).append(record)
    wanted: dict[int, list[tuple[int, int]]] = {}
    for lane, operations in enumerate(plan.lanes):
        for index, operation in enumerate(operations):
            if isinstance(operation, Copy | Launch | KernelCopy | KernelAccess | Busy | Gate):
                passes = operation.passes if isinstance(operation, Launch) else 1
                wanted.setdefault(stream_ids[operation.stream] if by_stream else 0, []).extend([(lane, index)] * passes)
    found: dict[tuple[int, int], Record] = {}
    for key in wanted.keys() | calls.keys():
        places, recorded = wanted.get(key, []), calls.get(key, [])
        if len({lane for lane, _ in places}) > 1:
            raise Unmatched("two lanes share a stream, so that no record tells whose it is")
        if len(places) != len(recorded):
            raise Unmatched(f"{len(places):,} calls gave the device work, but CUPTI recorded {len(recorded):,}")
        for place, record in zip(places, recorded, strict=True):
            _require_same(plan, place, record)
            found[place] = _join(found[place], record) if place in found else record
    return found


def engine_of(operation: Operation) -> str:
    """Return the engine that does an operation's work, as the contract calls it."""
    if isinstance(operation, Copy):
        return operation.direction
    return "busy" if isinstance(operation, Busy | Gate) else "compute"


def _require_same(plan: Plan, place: tuple[int, int], record: Record) -> None:
    operation = plan.lanes[place[0]][place[1]]
    wanted = operation.direction if isinstance(operation, Copy) else "compute"
    size = size_of(plan, operation) if isinstance(operation, Copy) else 0
    if record.engine != wanted or record.size_bytes != size or not 0 < record.begin_ns <= record.end_ns:
        raise Unmatched(
            f"operation {place[1]} of lane {place[0]} is {wanted} work of {size:,} bytes, but CUPTI recorded {record.engine} of "
            f"{record.size_bytes:,} bytes from {record.begin_ns} to {record.end_ns}"
        )


def _joined(records: Sequence[Record]) -> list[Record]:
    """Return one record a call, in the order of the calls."""
    calls: dict[int, Record] = {}
    for record in records:
        known = calls.get(record.correlation)
        calls[record.correlation] = record if known is None else _join(known, record)
    return [calls[correlation] for correlation in sorted(calls)]


def _join(one: Record, other: Record) -> Record:
    return Record(
        one.correlation,
        one.stream,
        one.engine,
        min(one.begin_ns, other.begin_ns),
        max(one.end_ns, other.end_ns),
        one.size_bytes + other.size_bytes,
        one.memory,
    )
