"""The contract of a device: it receives a Plan, which is data, and returns a Trace, which is what its clocks said.

    device = ...                      # runner.device.select.open_device(name)
    session = device.open(plan)       # setup: allocates, binds each operation to a ready call
    trace = session.play(sample)      # prepare (untimed), then the lanes (timed), then everything is waited for (untimed)
    trace = session.play(sample, record=True)   # the same, with what the engines and the host did, where `device.recording` is ""
    wrong = session.verify()          # compares the Plan's expects with the bytes of the play just done
    session.close()                   # teardown; buffers outlive every operation on them, also after an exception

`open` raises CaseFailed (a refused allocation, with the figures) or CaseUnsupported; both devices refuse what they cannot do
with the same words. A device is used by one thread and closed by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from runner.plan import Plan

DeviceKind = Literal["cuda", "simulated"]


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What identifies a device and limits it.

    `name` stands in every row (`NVIDIA H200`, `simulated:h200`), `kind` says whether numbers are measured or simulated,
    `memory_bytes` and `free_bytes` are its own memory, `copy_engines` what it reports, `environment` everything else for the
    manifest (driver, versions, UUID, bus id; a profile's source). `link_gb_per_s` is the limit of the link in one direction,
    `host_bytes` and `processors` are the host memory and the processors that a simulated device claims to have; None where
    unknown, and for the host of a real device, which the runner reads itself.
    """

    name: str
    kind: DeviceKind
    memory_bytes: int
    free_bytes: int
    copy_engines: int
    environment: Mapping[str, str | int | float | bool | None]
    link_gb_per_s: float | None = None
    host_bytes: int | None = None
    processors: int | None = None


@dataclass(frozen=True, slots=True)
class Activity:
    """One operation as it was done: operation `index` of `lane`, on `engine`, from `begin_ns` to `end_ns`.

    `engine` is `h2d` or `d2h` (`copy` where one engine serves both), `compute`, `busy` for a kernel that only passes time, or
    `host` for what the lane itself did: its copies, its waits, its dealings with memory. `stream` is an index into the Plan, -1
    on the host. `size_bytes` is what it moved or touched. `memory` is the driver's own word on the host's side of a copy
    (`pageable`, `pinned`, …), empty for all else. `host_begin_ns` and `host_end_ns` are when the lane made the call and had it
    back, None where that is not known. All four times are by the clock of `Trace.host_ns`, to which the real device ties the
    engines' own by readings of both before and after a play.
    """

    lane: int
    index: int
    engine: str
    begin_ns: int
    end_ns: int
    stream: int = -1
    size_bytes: int = 0
    memory: str = ""
    host_begin_ns: int | None = None
    host_end_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """What the clocks said during one play.

    `host_ns[m]` is the host's clock at mark m (None: not passed). `event_ns[e]` is the device's clock at timed event e, counted
    from the first timed event of the Plan (None: not timed). The two clocks share no origin. `activities` are there where the
    device records them: of a recorded play all, on the simulated device those of the engines and of the processor always.
    `not_recorded` says in a sentence why a play that was to be recorded has none. `buffer_facts[b]` is what the driver says of
    buffer b (`pageable`, `pinned`, `device`, …). `gate_timeout` tells that a gate opened by its limit. `cpu_ns[m]` is the
    processor time of the lane at mark m, and `memory_bytes[m]` what the system counts as (resident, locked) memory of the process
    there (None: not asked for, or not told). `numa_nodes[b]` is the host's NUMA node on which most pages of buffer b lie (None:
    on the device, or not told). `spent_ns` is how long this machine took for the preparation and for the lanes until all was
    done, by its own clock, which no two plays have alike (None: not parted). `instantiate_ns` is what capturing, instantiating
    and uploading the Plan's graphs took when it was opened, and capturing and instantiating those that the play makes (None:
    it has none). `host_copier` is what made the lanes' copies between host buffers: `numpy`, `c` or `c_streaming`, as the column
    of that name has it; empty where there are none.
    """

    host_ns: tuple[int | None, ...]
    event_ns: tuple[int | None, ...]
    buffer_facts: tuple[str, ...] = ()
    activities: tuple[Activity, ...] = ()
    gate_timeout: bool = False
    cpu_ns: tuple[int | None, ...] = ()
    memory_bytes: tuple[tuple[int, int] | None, ...] = ()
    not_recorded: str = ""
    numa_nodes: tuple[int | None, ...] = ()
    instantiate_ns: int | None = None
    host_copier: str = ""
    spent_ns: tuple[int, int] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A range that did not hold what it should: `offset` is the first wrong byte in the buffer, `wrong_bytes` how many."""

    buffer: str
    offset: int
    wrong_bytes: int
    expected: str = ""
    actual: str = ""


class Session(Protocol):
    """One opened Plan."""

    def play(self, sample: int, *, record: bool = False) -> Trace:
        """Play the Plan once; `sample` varies the data.

        `record` asks for the activities, at a price: such a play is never the one that is quoted, unless its engines' time is
        what is asked for.
        """
        ...

    def verify(self) -> tuple[Mismatch, ...]:
        """Compare the expects with the data of the last play; empty where every byte is right."""
        ...

    def close(self) -> None:
        """Wait for all work, then free everything; safe to call twice and after a failure."""
        ...


class Device(Protocol):
    """A real or simulated device."""

    @property
    def deterministic(self) -> bool:
        """Whether every play of a Plan gives the same Trace, so that one is enough and no interval may be made of them."""
        ...

    @property
    def lost(self) -> bool:
        """Whether an error has made the device useless for this process, so that no number of it can be trusted any more."""
        ...

    @property
    def recording(self) -> str:
        """Empty where plays can be recorded, else the reason why not, in a sentence."""
        ...

    def facts(self) -> DeviceFacts:
        """Return what identifies and limits the device."""
        ...

    def open(self, plan: Plan) -> Session:
        """Allocate and bind a Plan that `runner.plan_check` has passed."""
        ...

    def close(self) -> None:
        """Give the device back; safe to call twice."""
        ...
