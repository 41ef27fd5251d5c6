"""Activity records as plain numbers, and which operation of a Plan each belongs to.

A record names no call but by a correlation id, which grows with every call. So the ids of a lane's records, in their order,
belong to the lane's operations that give an engine work, in theirs. All nodes of a graph have the id of its launch; their own
ids grow in the order in which they were captured, and what the graph lets begin only after other work must have. A batch has the
id of whatever call came before it (CUPTI 13.0), so that the records of a stream that is handed batches are told by time instead:
a stream does its work in order, and a record says how many copies it stands for. Copies of a batch have no order; where CUPTI has
put several into one record, the first of the batch stands for them all. A play whose records do not match its Plan one for one,
kind for kind and size for size, counts as not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from runner.device.activities import size_of
from runner.plan import Busy, Copy, Gate, Launch, Operation, Plan
from runner.plan_groups import WORK, Group, groups_of, predecessors

SKEW_NS: Final = 2_000
"""By how much the records of two engines may disagree on what came first."""


class Unmatched(Exception):
    """The records of a play do not belong to its Plan, one for one."""


@dataclass(frozen=True, slots=True)
class Record:
    """Work of an engine between two times of CUPTI's clock; all records of one call have its correlation id.

    `engine` is h2d, d2h, `copy` for another copy, or compute. `size_bytes` and `memory`, the host's side, are a copy's. `node`
    is the id of a graph's node, 0 for what was called by itself, `copies` how many copies of a batch it stands for.
    """

    correlation: int
    stream: int
    engine: str
    begin_ns: int
    end_ns: int
    size_bytes: int = 0
    memory: str = ""
    node: int = 0
    copies: int = 1


def match(records: Sequence[Record], plan: Plan, stream_ids: Sequence[int], *, by_stream: bool) -> dict[tuple[int, int], Record]:
    """Return the record of each operation that gives an engine work, by (lane, index); raises Unmatched.

    Records of one call are joined, from the first begin to the last end, and so are those of the passes of one Launch. Of several
    lanes the calls are told apart by their streams (`by_stream`), `stream_ids` being the numbers that records give them; two
    lanes cannot share one, and no graph can tell its lane. Batches need those numbers, too.
    """
    calls = [call for lane, operations in enumerate(plan.lanes) for call in _calls_of(lane, operations)]
    batched = {call.stream: stream_ids[call.stream] for call in calls if call.batched}
    numbers = set(batched.values())
    pairs = _by_correlation(
        [call for call in calls if call.stream not in batched or call.captured],
        [record for record in records if record.stream not in numbers or record.node],
        stream_ids if by_stream else None,
    )
    for stream, number in batched.items():
        pairs += _by_time(
            [call for call in calls if call.stream == stream and not call.captured],
            [record for record in records if record.stream == number and not record.node],
        )
    found: dict[tuple[int, int], Record] = {}
    for call, of_call in pairs:
        for place, record in _told(plan, call, of_call):
            found[place] = _join(found[place], record) if place in found else record
    return found


@dataclass(frozen=True, slots=True)
class Call:
    """A call that gives the device work: one pass of an operation, or a whole group."""

    lane: int
    index: int
    stream: int
    group: Group | None = None

    @property
    def captured(self) -> bool:
        """Whether it launches a graph."""
        return self.group is not None and self.group.captured

    @property
    def batched(self) -> bool:
        """Whether it hands over a batch."""
        return self.group is not None and not self.group.captured

    @property
    def copies(self) -> int:
        """For how many copies its records stand; 1 for what is no batch."""
        return len(self.group.operations) if self.group is not None and self.batched else 1


Pairs = list[tuple[Call, list[Record]]]
"""Calls, each with its records."""


def _by_correlation(calls: Sequence[Call], records: Sequence[Record], stream_ids: Sequence[int] | None) -> Pairs:
    """Match calls by the order of their ids; `stream_ids` where several lanes make them."""
    called: dict[int, list[list[Record]]] = {}
    for of_call in _by_call(records):
        called.setdefault(of_call[0].stream if stream_ids else 0, []).append(of_call)
    wanted: dict[int, list[Call]] = {}
    for call in calls:
        if stream_ids and call.captured:
            raise Unmatched(
                "the nodes of a graph name no stream of the Plan, so that of several lanes no record tells whose it is"
            )
        wanted.setdefault(stream_ids[call.stream] if stream_ids else 0, []).append(call)
    pairs: Pairs = []
    for key in wanted.keys() | called.keys():
        mine, recorded = wanted.get(key, []), called.get(key, [])
        _require_one_lane(mine)
        if len(mine) != len(recorded):
            raise Unmatched(f"{len(mine):,} calls gave the device work, but CUPTI recorded {len(recorded):,}")
        pairs += zip(mine, recorded, strict=True)
    return pairs


def _by_time(calls: Sequence[Call], records: Sequence[Record]) -> Pairs:
    """Match the calls of a stream in its order: each has the next records, as many as stand for its copies."""
    _require_one_lane(calls)
    pairs: Pairs = []
    waiting = iter(sorted(records, key=lambda record: record.begin_ns))
    for call in calls:
        told: list[Record] = []
        while sum(record.copies for record in told) < call.copies and (record := next(waiting, None)) is not None:
            told.append(record)
        if sum(record.copies for record in told) != call.copies:
            copies = sum(record.copies for record in records)
            raise Unmatched(
                f"a stream was given {sum(call.copies for call in calls):,} copies and kernels, some in batches, but CUPTI "
                f"recorded {copies:,}, or others"
            )
        pairs.append((call, told))
    if next(waiting, None) is not None:
        raise Unmatched("CUPTI recorded more work of a stream than it was given")
    return pairs


def _require_one_lane(calls: Sequence[Call]) -> None:
    if len({call.lane for call in calls}) > 1:
        raise Unmatched("two lanes share a stream, so that no record tells whose it is")


def _calls_of(lane: int, operations: Sequence[Operation]) -> Iterator[Call]:
    groups, after = {group.begin: group for group in groups_of(operations)}, 0
    for index, operation in enumerate(operations):
        if index in groups:
            after = groups[index].end
            yield Call(lane, index, groups[index].opener.stream, groups[index])
        elif index >= after and isinstance(operation, (*WORK, Gate)):
            yield from [Call(lane, index, operation.stream)] * (operation.passes if isinstance(operation, Launch) else 1)


def _told(plan: Plan, call: Call, records: Sequence[Record]) -> Iterator[tuple[tuple[int, int], Record]]:
    """Yield which operation each record of a call belongs to."""
    if call.group is None:
        places, nodes = [(call.lane, call.index)], [_joined(records)]
    else:
        places = [
            (call.lane, call.group.begin + 1 + at)
            for at, operation in enumerate(call.group.operations)
            if isinstance(operation, WORK)
            for _ in range(operation.passes if isinstance(operation, Launch) else 1)
        ]
        nodes = _nodes(records) if call.captured else sorted(records, key=lambda record: record.begin_ns)
        if len(nodes) < len(places) and call.batched:
            yield from _told_as_one(call, records)
            return
    if len(places) != len(nodes):
        raise Unmatched(f"a graph of {len(places):,} copies and kernels was launched, but CUPTI recorded {len(nodes):,} of them")
    for place, record in zip(places, nodes, strict=True):
        _require_same(plan, place, record)
        yield place, record
    if call.group is not None and call.captured:
        _require_order(call.group, dict(zip(places, nodes, strict=True)), call.lane)


def _told_as_one(call: Call, records: Sequence[Record]) -> Iterator[tuple[tuple[int, int], Record]]:
    whole, copies = _joined(records), [copy for copy in call.group.operations if isinstance(copy, Copy)] if call.group else []
    if whole.size_bytes != sum(copy.size for copy in copies) or {record.engine for record in records} != {copies[0].direction}:
        raise Unmatched(f"a batch copies {sum(copy.size for copy in copies):,} bytes, but CUPTI recorded {whole.size_bytes:,}")
    yield (call.lane, call.index + 1), whole


def _nodes(records: Sequence[Record]) -> list[Record]:
    """Return one record a node of a graph, in the order of the nodes' ids."""
    nodes: dict[int, list[Record]] = {}
    for record in records:
        if not record.node:
            raise Unmatched("CUPTI does not tell which node of a graph a record belongs to")
        nodes.setdefault(record.node, []).append(record)
    return [_joined(nodes[node]) for node in sorted(nodes)]


def _require_order(group: Group, found: dict[tuple[int, int], Record], lane: int) -> None:
    """Hold the match against the order that the graph has by itself."""
    for earlier, later in predecessors(group.operations):
        before, after = (found[lane, group.begin + 1 + at] for at in (earlier, later))
        if after.begin_ns + SKEW_NS < before.end_ns:
            raise Unmatched("the records of a graph's nodes cannot be told apart: in the order of their ids some begin too early")


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


def _by_call(records: Sequence[Record]) -> list[list[Record]]:
    """Return the records of each call, in the order of the calls."""
    calls: dict[int, list[Record]] = {}
    for record in records:
        calls.setdefault(record.correlation, []).append(record)
    return [calls[correlation] for correlation in sorted(calls)]


def _joined(records: Sequence[Record]) -> Record:
    return reduce(_join, records)


def _join(one: Record, other: Record) -> Record:
    return Record(
        one.correlation,
        one.stream,
        one.engine,
        min(one.begin_ns, other.begin_ns),
        max(one.end_ns, other.end_ns),
        one.size_bytes + other.size_bytes,
        one.memory,
        one.node,
    )
