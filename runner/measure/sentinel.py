"""The sentinel: one small fixed case, measured again and again over a run, so that a machine that changes meanwhile shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final

from runner.device.contract import Device, DeviceFacts
from runner.expand import Case
from runner.measure.case import measure_case
from runner.measure.companions import Prepared
from runner.measure.result import CaseResult
from runner.scenarios.base import Known
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from runner.stats import median

SENTINEL: Final = Case(
    "c_sentinel", "(sentinel)", -1, Transfer(kind="transfer", buffer="pinned", direction="h2d", size=16 * 2**20), "", {}
)
"""16 MiB of pinned memory to the device: large enough to be steady, and done in 0.1 s with all its plays."""
MEASURE: Final = Measure(warmup=2, samples=7)
APART_S: Final = 2.0
"""Seconds that lie between two readings at least, so that a grid of short cases does not spend its time on the sentinel."""


@dataclass(slots=True)
class Sentinel:
    """The readings of a run, in order. A device without noise needs none and gives none."""

    readings: list[CaseResult] = field(default_factory=list)
    _read_at: float = 0.0

    @property
    def block(self) -> int | None:
        """The number of the last reading, from 0; None before the first."""
        return len(self.readings) - 1 if self.readings else None

    def read(self, device: Device, facts: DeviceFacts, *, due: bool = False) -> None:
        """Measure the sentinel, unless it was measured less than APART_S ago and is not `due` all the same."""
        if device.deterministic or device.lost or not (due or not self.readings or monotonic() - self._read_at >= APART_S):
            return
        result = measure_case(device, facts, Prepared(SENTINEL, Known(0), ()), MEASURE)
        samples = tuple(replace(sample, role="sentinel" if sample.role == "sample" else sample.role) for sample in result.samples)
        self.readings.append(replace(result, samples=samples, block=len(self.readings)))
        self._read_at = monotonic()


def medians_ms(readings: Sequence[CaseResult]) -> list[float | None]:
    """Return the median of each reading by CUDA events, None for one that failed."""
    times = [
        [sample.figures["event_ms"] for sample in reading.samples if sample.role == "sentinel" and "event_ms" in sample.figures]
        for reading in readings
    ]
    return [median(values) if values else None for values in times]


def describe_sentinel(readings: Sequence[CaseResult]) -> dict[str, Any]:
    """Return what the manifest says of the sentinel; `spread_percent` is (largest / smallest median - 1) * 100."""
    medians = medians_ms(readings)
    known = [value for value in medians if value]
    return {
        "case": SENTINEL.model.describe(),
        "median_event_ms": medians,
        "spread_percent": 100 * (max(known) / min(known) - 1) if known else None,
    }
