"""What bound calls share: the lanes they stand in, what changes from play to play, and all that a session has opened for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier as ThreadBarrier
from typing import Any

from runner.device.cuda.buffers import SessionMemory
from runner.device.cuda.data import DataWorkers
from runner.device.cuda.driver import CudaContext
from runner.device.cuda.events import Events
from runner.device.cuda.gates import Gates
from runner.device.cuda.graphs import Graphs
from runner.device.cuda.host_copier import HostCopier
from runner.device.cuda.kernels import Call, Kernels
from runner.pattern import first_word, offset_of, step_of


@dataclass(slots=True)
class BoundLane:
    """The ready calls of a lane; `owners[i]` is the index of the operation that call i belongs to."""

    calls: list[Call] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)


@dataclass(slots=True)
class PlayState:
    """What changes from play to play and is read or written by bound calls; `set_words` holds what depends on the sample."""

    sample: int
    host_ns: list[int | None]
    cpu_ns: list[int | None]
    memory_bytes: list[tuple[int, int] | None]
    set_words: list[tuple[int, Callable[[int], object]]] = field(default_factory=list)

    def begin(self, sample: int) -> None:
        """Make all ready for a play: no clock was read, and what writes the flat word of a salt has that of this sample."""
        self.sample = sample
        self.host_ns[:] = self.cpu_ns[:] = [None] * len(self.host_ns)
        self.memory_bytes[:] = [None] * len(self.memory_bytes)
        for salt, set_word in self.set_words:
            set_word(self.flat_word(salt))

    def flat_word(self, salt: int) -> int:
        """Return the word that a flat salt has in this sample."""
        return first_word(0, offset_of(salt, self.sample), step_of(salt))


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything that calls are bound to; `streams` holds None for the null stream."""

    context: CudaContext
    kernels: Kernels
    memory: SessionMemory
    workers: DataWorkers
    streams: list[Any]
    events: Events
    gates: Gates
    graphs: Graphs
    barrier: ThreadBarrier | None
    helpers: ThreadPoolExecutor | None
    copier: HostCopier | None
    state: PlayState
