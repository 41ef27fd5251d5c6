"""What measuring one case gives: its raw samples and what became of it. Every statistic is derived from these later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runner.errors import CaseError
from runner.expand import Case
from runner.timeline import Source

Status = Literal["ok", "excluded", "skipped", "unsupported", "failed", "timeout", "corrupt", "not_run"]
Role = str
"""What a play was for: `sample`, `warmup`, `sentinel`, `engine` (recorded, after the samples), or the name of a companion
(`twin`, `leg_h2d`, …)."""
StopWord = Literal["samples", "interval", "cap_samples", "cap_seconds", "deterministic"]
"""Why a case got no more samples: it had as many as asked for, its interval was narrow enough, it came to the limit of samples or
of seconds, or its device plays the same every time."""

FLAGS = {
    "implausible": "a rate above the limit of the link, a time below what its legs allow, or longer than that of a larger size",
    "bound_above_twin": "its parts, measured alone, took longer than all of its work one chunk at a time: the bounds are too "
    "high, and what was hidden cannot be told",
    "clock_disagree": "host and device clocks differ by more than 10 % over a transfer of more than 1 ms, or events and engines "
    "by more than 10 us and 2 % beside what a pair of events adds",
    "event_overhead": "more than 5 % of the time between the events is not the engine's but what the host needed between its "
    "calls, which differs from run to run: engine_ms, or a batch behind a gate, tells the copy's own",
    "async_ineffective": "a call named async held the host for most of the transfer",
    "gate_timeout": "a gate opened by its time limit instead of by the host",
    "noisy": "the interval of the median is wider than 5 % of it",
    "drift": "samples rise or fall as a whole, by more than 5 % from first to last third, or the sentinel did between blocks",
    "not_converged": "the interval of the median was still wider than asked for when sampling came to its limit",
    "low_clock": "under load the GPU's clock was below 60 % of its default, or was held down by heat, power or a fault",
    "gpu_shared": "other processes used the GPU at the begin or the end of the run",
    "launch_blocking": "CUDA_LAUNCH_BLOCKING made every call wait, by permission: nothing could overlap",
    "nvtx": "NVTX ranges around each operation were timed with it",
    "numa_remote": "the thread may have run, or host buffers lay, on another NUMA node than the GPU's",
    "unequal_gpu": "the GPUs that share the grid are not equal: the sentinel on this one lies far from what it is on the others",
    "oversubscribed": "more threads of the host worked at once than it has processors for them",
    "paging": "while the case was measured the process was swapped out or read many pages from a disk",
    "time_not_growing": "a smaller size of the same scenario took longer, beyond the noise; the smaller one is implausible",
}
"""Every flag that a row can carry, and what it says."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One play of a case; `figures` are numbers by column name (`wall_ms`, `event_ms`, …), what was not timed is absent.

    `round` is the number of the round in which cases took turns and `order` the place in it, both from 0; None outside of rounds.
    """

    role: Role
    index: int
    figures: Mapping[str, float]
    round: int | None = None
    order: int | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case and what became of it.

    `reason` is a sentence wherever `status` is not ok, and the error in which a hazard ended. `memory_actual` is what the driver
    said of the buffers (`input=pageable`, joined by blanks), `host_copier` what made the copies between host buffers. `samples`
    are raw and in the order in which they were taken, warm-ups among them.
    `companions` are the plays of twins and legs that were measured for this case first, `derived` what follows from them and
    from those that other cases share. `deterministic` tells that every sample is the same by construction, so that no interval
    may be made of them. `stopped_by` tells why there are no more samples, None where there are none, and `block` which reading of
    the sentinel was the last before them, from 0; None where there is no sentinel.
    `timeline_source` tells what the overlap was read from, `not_recorded` why plays that were to be recorded were not. `seconds`
    are what the case cost the run, by what they went to (`runner.measure.spent`), those of its companions included. `timeline`
    is the last recorded play as `runner.timeline_store` keeps it, empty where there is none, or once the run has kept it. `where`
    is the GPU of a fleet that measured it, by the columns `host`, `gpu_uuid` and `pci_bus_id`; empty where there was one alone.
    """

    case: Case
    status: Status
    reason: str = ""
    flags: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    memory_actual: str = ""
    host_copier: str = ""
    corrupt_bytes: int = 0
    deterministic: bool = False
    companions: tuple[Sample, ...] = ()
    derived: Mapping[str, float] = field(default_factory=dict)
    stopped_by: StopWord | None = None
    block: int | None = None
    timeline_source: Source = "none"
    not_recorded: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    timeline: str = field(default="", compare=False)
    where: Mapping[str, str] = field(default_factory=dict, compare=False)


def refused(case: Case, error: CaseError) -> CaseResult:
    """Return what becomes of a case that the device refused or broke: `failed` or `unsupported`, and the error's own sentence."""
    return CaseResult(case, error.status, str(error))
