"""What one call hands over together, and memory of the pool, which comes and goes in the order of a stream.

Each function is a handler as `runner.device.simulated.play` describes them. The operations of a group are issued at the end of
its one call and cost no call of their own; engines take them as they take any others. Memory of the pool keeps what lay in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from runner.device.simulated.profile import Calls, Profile
from runner.plan import Batch, Graph, GroupEnd, Plan, PoolAlloc, PoolFree
from runner.plan_groups import graphs_made_before, nodes_from

if TYPE_CHECKING:
    from runner.device.simulated.play import Lane, Play


def graph(play: Play, lane: Lane, operation: Graph) -> int:
    """One launch of what was captured before."""
    calls = play.calls
    return _hand_over(play, lane, calls.graph_launch_ns.value, calls.graph_node_ns.value)


def graph_made_in_play(play: Play, lane: Lane, operation: Graph) -> int:
    """A launch, before which the graph is made; that is told apart, too."""
    calls = play.calls
    making_ns = _making_ns(calls, nodes_from(play.plan.lanes[lane.number], lane.at))
    play.making_ns = (play.making_ns or 0) + making_ns
    return _hand_over(play, lane, making_ns + calls.graph_launch_ns.value, calls.graph_node_ns.value)


def batch(play: Play, lane: Lane, operation: Batch) -> int:
    """One call for many copies."""
    return _hand_over(play, lane, play.calls.batch_ns.value, play.calls.batch_copy_ns.value)


def group_end(play: Play, lane: Lane, operation: GroupEnd) -> int:
    """From here on calls cost again."""
    lane.handed_over = False
    return play.agenda.now


def pool_alloc(play: Play, lane: Lane, operation: PoolAlloc) -> int:
    """One call; the device does nothing for it. Raises CaseFailed where the memory does not suffice."""
    play.memory.held.take(operation.buffer)
    return play.call(lane, play.calls.pool_alloc_ns.value)


def pool_free(play: Play, lane: Lane, operation: PoolFree) -> int:
    """One call; whoever allocates next may have the memory, behind this in the stream."""
    play.memory.held.give(operation.buffer)
    return play.call(lane, play.calls.pool_free_ns.value)


def making_ns(profile: Profile, plan: Plan) -> int | None:
    """Return the ns that making graphs takes when a Plan is opened; None where it has none that are made then."""
    graphs = graphs_made_before(plan)
    return sum(_making_ns(profile.calls, group.nodes()) for group in graphs) if graphs else None


def _making_ns(calls: Calls, nodes: int) -> int:
    return calls.graph_make_ns.value + calls.graph_make_node_ns.value * nodes


def _hand_over(play: Play, lane: Lane, once_ns: int, each_ns: int) -> int:
    nodes = nodes_from(play.plan.lanes[lane.number], lane.at)
    entry = play.call(lane, once_ns + each_ns * nodes)
    lane.handed_over = True
    return entry


HANDLERS: Final[dict[type[Any], Callable[..., int]]] = {
    Graph: graph,
    Batch: batch,
    GroupEnd: group_end,
    PoolAlloc: pool_alloc,
    PoolFree: pool_free,
}
