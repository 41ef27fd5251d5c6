"""Recording a simulated play: when each lane came to each of its operations, and activities as the contract tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from runner.device.activities import Interval, device_activity, host_activities, host_side, in_order, with_groups
from runner.device.contract import Activity
from runner.device.simulated.play import Lane, Play, Steps
from runner.plan import Mark, Plan

Calls = list[list[int]]
"""For each lane the times at which it came to its operations, and then to its end (ns)."""


def noting(bound: Sequence[Steps], calls: Calls) -> list[Steps]:
    """Return steps that note in `calls` when their lane comes to each; a last step stands for the end of the lane."""

    def noted(handler: Callable[..., int]) -> Callable[..., int]:
        def note(play: Play, lane: Lane, operation: Any) -> int:
            mine = calls[lane.number]
            # A handler whose lane must wait first is called again for the same operation.
            if len(mine) < lane.at:
                mine.append(play.agenda.now)
            return handler(play, lane, operation)

        return note

    def end(play: Play, lane: Lane, operation: Any) -> int:
        return play.agenda.now

    return [[*((noted(handler), operation) for handler, operation in steps), (noted(end), Mark(0))] for steps in bound]


def activities_of(
    plan: Plan, done: Sequence[tuple[int, int, str, int, int]], facts: Sequence[str], calls: Calls | None
) -> tuple[Activity, ...]:
    """Return what the engines and the processor did; with `calls` also when it was called for, and the lanes' waits.

    `done` has lane, index, engine, begin and end of each, `facts` the driver's word on each buffer.
    """
    told: list[list[Interval | None]] = (
        [] if calls is None else [with_groups(lane, list(pairwise(times))) for lane, times in zip(plan.lanes, calls, strict=True)]
    )
    found = []
    for lane, index, engine, begin, end in done:
        if engine == "host" and told:
            continue
        side = host_side(plan.lanes[lane][index])
        memory = "" if side is None else facts[side]
        found.append(device_activity(plan, (lane, index), engine, (begin, end), memory, told[lane][index] if told else None))
    return in_order([*found, *host_activities(plan, told)]) if told else tuple(found)
