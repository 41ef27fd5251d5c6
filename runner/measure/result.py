"""What measuring one case gives: its raw samples and what became of it. Every statistic is derived from these later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runner.expand import Case

Status = Literal["ok", "excluded", "skipped", "unsupported", "failed", "timeout", "corrupt", "not_run"]
Role = str
"""What a play was for: `sample`, `warmup`, or the name of a companion (`twin`, `leg_h2d`, …)."""

FLAGS = {
    "implausible": "a rate above the limit of the link",
    "clock_disagree": "host and device clocks differ by more than 10 % over a transfer of more than 1 ms",
    "async_ineffective": "a call named async held the host for most of the transfer",
    "gate_timeout": "a gate opened by its time limit instead of by the host",
    "noisy": "the interval of the median is wider than 5 % of it",
}
"""Every flag that a row can carry, and what it says."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One play of a case; `figures` are numbers by column name (`wall_ms`, `event_ms`, …), what was not timed is absent."""

    role: Role
    index: int
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case and what became of it.

    `reason` is a sentence wherever `status` is not ok, and the error in which a hazard ended. `memory_actual` is what the driver
    said of the buffers (`input=pageable`, joined by blanks). `samples` are raw and in the order in which they were taken,
    warm-ups among them.
    `companions` are the plays of twins and legs that were measured for this case first, `derived` what follows from them and
    from those that other cases share. `deterministic` tells that every sample is the same by construction, so that no interval
    may be made of them.
    """

    case: Case
    status: Status
    reason: str = ""
    flags: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    memory_actual: str = ""
    corrupt_bytes: int = 0
    deterministic: bool = False
    companions: tuple[Sample, ...] = ()
    derived: Mapping[str, float] = field(default_factory=dict)
