"""What a run will likely hold and last, against what the machine has: told before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from runner.errors import CaseError
from runner.expand import Case
from runner.measure.preflight import Limits
from runner.plan import Demand
from runner.pricing import glance, largest
from runner.spec.experiment import Measure
from runner.units import about_size, format_seconds


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many cases are to be measured, what the largest of them hold at once, and what there is.

    `seconds` is by a simulated device from a few cases, None where the run itself is simulated, whose time is that of this
    machine. Each sort of memory in `demand` is the most of any case that was looked at: the one with the largest numbers.
    """

    cases: int
    demand: Demand
    limits: Limits
    seconds: float | None = None

    def lines(self) -> list[str]:
        """Say in two lines at most what the run will likely hold and last, and what there is."""
        demand, limits = self.demand, self.limits
        held = (
            ("pageable", demand.pageable_bytes, limits.host_bytes),
            ("pinned", demand.pinned_bytes, limits.pinned_bytes),
            ("on the device", demand.device_bytes, limits.facts.free_bytes),
        )
        told = ", ".join(f"{about_size(needed)} {sort} of {about_size(there)}" for sort, needed, there in held)
        skips = "; what does not fit is skipped" if any(needed > there for _, needed, there in held) else ""
        time = "" if self.seconds is None else f"likely {format_seconds(self.seconds)} of measuring, by a simulated device"
        return [f"memory at the peak: {told}{skips}", *([time] if time else [])]

    def described(self) -> dict[str, Any]:
        """Return what the manifest says of it."""
        return {
            "cases": self.cases,
            "estimated_seconds": None if self.seconds is None else round(self.seconds, 3),
            "needed": asdict(self.demand),
            "available": {
                "host_bytes": self.limits.host_bytes,
                "pinned_bytes": self.limits.pinned_bytes,
                "device_bytes": self.limits.facts.free_bytes,
            },
        }


def foresee(cases: Sequence[Case], measure: Measure, limits: Limits) -> Forecast:
    """Return the forecast of the cases that are not excluded, on a machine of these limits."""
    asked = [case for case in cases if not case.excluded]
    real = limits.facts.kind != "simulated"
    seen = glance(asked, measure, "auto") if real else None
    demands = [demand for case in _largest(asked) if (demand := _demand(case)) is not None]
    demand = largest([*demands, *([seen.demand] if seen else [])])
    return Forecast(len(asked), demand, limits, seen.seconds if seen else None)


def _largest(cases: Sequence[Case]) -> list[Case]:
    """Return, of each scenario and each choice of its axes that are words, the case whose numbers are largest together.

    Memory grows with sizes, chunks and slots alike, so in a full grid that is the one that holds most.
    """
    found: dict[Hashable, tuple[float, Case]] = {}
    for case in cases:
        words = tuple((axis, value) for axis, value in case.axes.items() if isinstance(value, str))
        numbers = [value for value in case.axes.values() if isinstance(value, int | float) and value > 0]
        key, product = (case.scenario, words), math.prod(numbers)
        if key not in found or product > found[key][0]:
            found[key] = (product, case)
    return [case for _, case in found.values()]


def _demand(case: Case) -> Demand | None:
    try:
        return case.model.demand()
    except CaseError:
        return None
