"""Streams and engines: what is queued, in which order it is served, and when it is done.

A stream is a chain of nodes. Copies and launches are served by an engine, which takes them in the order of issue over all
streams and waits for the one at its head (head-of-line blocking); events, stream waits and gates are nodes without an engine,
done as soon as what they wait for is done. A closed gate therefore holds its stream, and an engine only once something behind
the gate has come to that engine's head.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from runner.device.simulated.agenda import Agenda, Fluid, Job
from runner.device.simulated.contents import Contents, Pieces, added_to
from runner.device.simulated.profile import PER_MILLION, Profile


class Node:
    """One item of a stream.

    `waiting` counts what must be done before it, `ready_ns` is the earliest time for it, `delay_ns` the time from its end to
    what follows it on another engine. `waiters` are called so many ns after its end.
    """

    __slots__ = ("delay_ns", "dependents", "done", "end_ns", "engine", "ready_ns", "stream", "waiters", "waiting")

    def __init__(self, stream: Queue, ready_ns: int, delay_ns: int, engine: Engine | None = None) -> None:
        self.stream, self.ready_ns, self.delay_ns, self.engine = stream, ready_ns, delay_ns, engine
        self.waiting = 0
        self.done = False
        self.end_ns = 0
        self.dependents: list[Node] = []
        self.waiters: list[tuple[Callable[[Any], None], Any, int]] = []


class Work(Node):
    """A copy or a launch: `engine_ns` is its time on its engine `by` when nothing slows it.

    It reads its source when it begins (`pieces`, unless they were staged before, or are what it makes itself) and writes its
    destination when it ends. Work of size 0 moves nothing. On the compute engine it ends at `floor_ns` at the earliest.
    """

    __slots__ = (
        "begin_ns",
        "by",
        "dst",
        "dst_offset",
        "engine_ns",
        "floor_ns",
        "origin",
        "passes",
        "pieces",
        "size",
        "src",
        "src_offset",
    )

    def __init__(self, node: tuple[Queue, int, int], by: Engine, engine_ns: int, origin: tuple[int, int], moved: Moved) -> None:
        super().__init__(*node, by)
        self.by, self.engine_ns, self.origin = by, engine_ns, origin
        self.dst, self.dst_offset, self.src, self.src_offset, self.size, self.passes = moved
        self.begin_ns = self.floor_ns = 0
        self.pieces: Pieces | None = None


Moved = tuple[int, int, int, int, int, int]
"""Destination buffer and offset, source buffer and offset, bytes, passes of the kernel."""
NOTHING_MOVED: Final[Moved] = (0, 0, 0, 0, 0, 0)


class Queue:
    """A stream: its last node, and the streams that it waits for at each step (the null stream and the blocking ones)."""

    __slots__ = ("peers", "tail")

    def __init__(self) -> None:
        self.tail: Node | None = None
        self.peers: list[Queue] = []

    def unfinished(self) -> Node | None:
        """Return something that this stream still has to do before its next item, None where it is idle."""
        for queue in (self, *self.peers):
            if queue.tail is not None and not queue.tail.done:
                return queue.tail
        return None


class Engine:
    """A copy engine or the compute engine; `fluid` is the link that it shares with the opposite direction, if any.

    `same_ns` is the gap between two operations of one stream, `row_ns` the least time of an operation that follows another one.
    """

    __slots__ = ("current", "fluid", "free_ns", "last_stream", "name", "queue", "row_ns", "same_ns")

    def __init__(self, name: str, fluid: Fluid | None = None, same_ns: int = 0) -> None:
        self.name, self.fluid, self.same_ns = name, fluid, same_ns
        self.queue: deque[Work] = deque()
        self.current: Work | None = None
        self.last_stream: Queue | None = None
        self.free_ns = 0
        self.row_ns = 0


class Engines:
    """All engines of a device during one play, and the data that they move."""

    def __init__(self, profile: Profile, agenda: Agenda, contents: list[Contents]) -> None:
        self.agenda, self.contents = agenda, contents
        self.gap_ns = profile.engines.stream_change_ns.value
        switch = profile.engines.switch_ns
        self.switch_ns = 0 if switch is None else switch.value
        duplex = profile.engines.duplex_ppm.value
        if profile.copy_engines == 1:
            self.up = self.down = Engine("copy")
        else:
            link = Fluid(agenda, lambda copies: PER_MILLION if copies == 1 else copies * duplex)
            self.up, self.down = Engine("h2d", link), Engine("d2h", link)
            row = profile.engines.row_h2d_ns
            self.up.row_ns = 0 if row is None else row.value
        gap = profile.engines.kernel_gap_ns
        self.compute = Engine("compute", same_ns=0 if gap is None else gap.value)
        self.activities: list[tuple[int, int, str, int, int]] = []

    def enqueue(self, node: Node) -> None:
        """Append a node to its stream, and to its engine's queue where it has one."""
        stream = node.stream
        if stream.tail is not None:
            self.after(node, stream.tail)
        for peer in stream.peers:
            if peer.tail is not None:
                self.after(node, peer.tail)
        stream.tail = node
        if isinstance(node, Work):
            node.by.queue.append(node)
            if node.by.current is None:
                self._serve(node.by)
        elif not node.waiting:
            self._pass(node)

    def after(self, node: Node, earlier: Node) -> None:
        """Let a node wait for an earlier one."""
        if not earlier.done:
            node.waiting += 1
            earlier.dependents.append(node)
        elif node.engine is not None and earlier.engine is not node.engine:
            node.ready_ns = max(node.ready_ns, earlier.end_ns + earlier.delay_ns)

    def release(self, node: Node) -> None:
        """Take one thing away that a node without an engine waits for."""
        node.waiting -= 1
        if not node.waiting:
            self._pass(node)

    def _pass(self, node: Node) -> None:
        if node.ready_ns <= self.agenda.now:
            self._complete(node)
        else:
            self.agenda.at(node.ready_ns, self._complete, node)

    def _complete(self, node: Node) -> None:
        """Note that a node is done, with all that this allows at once; a long chain of events needs no recursion."""
        now = self.agenda.now
        done = [node]
        while done:
            node = done.pop()
            node.done, node.end_ns = True, now
            for action, argument, cost in node.waiters:
                self.agenda.at(now + cost, action, argument)
            dependents, node.dependents = node.dependents, []
            for other in dependents:
                other.waiting -= 1
                engine = other.engine
                if engine is None:
                    if not other.waiting:
                        if other.ready_ns <= now:
                            done.append(other)
                        else:
                            self.agenda.at(other.ready_ns, self._complete, other)
                    continue
                if engine is not node.engine and other.ready_ns < now + node.delay_ns:
                    other.ready_ns = now + node.delay_ns
                if engine.current is None:
                    self._serve(engine)

    def _serve(self, engine: Engine) -> None:
        """Let an idle engine take the node at its head, if nothing before that node is missing."""
        if not engine.queue or engine.queue[0].waiting:
            return
        node = engine.current = engine.queue.popleft()
        start = node.ready_ns
        if engine.last_stream is node.stream:
            start = max(start, engine.free_ns + engine.same_ns)
        elif engine.last_stream is not None:
            start = max(start + self.switch_ns, engine.free_ns + self.gap_ns)
        if start <= self.agenda.now:
            self._begin(node)
        else:
            self.agenda.at(start, self._begin, node)

    def _begin(self, node: Work) -> None:
        engine = node.by
        node.begin_ns = self.agenda.now
        if node.pieces is None and node.size:
            node.pieces = self.contents[node.src].read(node.src_offset, node.size)
        if engine.fluid is None:
            self.agenda.at(max(self.agenda.now + node.engine_ns, node.floor_ns), self._end, node)
        else:
            engine_ns = node.engine_ns
            if engine_ns < engine.row_ns and engine.last_stream is not None:
                engine_ns = engine.row_ns
            engine.fluid.begin(Job(engine_ns * PER_MILLION, 1, self._end, node))

    def _end(self, node: Work) -> None:
        engine, now, pieces = node.by, self.agenda.now, node.pieces
        if pieces is not None:
            if node.passes:
                pieces = added_to(pieces, node.src_offset, node.size, node.passes)
            self.contents[node.dst].write(node.dst_offset, node.size, pieces, node.src_offset)
        self.activities.append((*node.origin, engine.name, node.begin_ns, now))
        engine.current, engine.last_stream, engine.free_ns = None, node.stream, now
        self._complete(node)
        if engine.current is None:
            self._serve(engine)
