"""How long a case may take before it counts as hung: a floor, and a multiple of what it likely takes on a simulated device."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from runner.device.select import open_twin
from runner.errors import CaseError
from runner.expand import Case
from runner.measure.preflight import available_host_bytes
from runner.plan import Fill
from runner.plan_check import check_plan
from runner.scenarios.base import Known
from runner.spec.experiment import Measure

START_S: Final = 60.0
"""Seconds that every case and every start of a process has: imports, the context, compiling where no cache has the kernels."""
PATIENCE: Final = 20.0
"""How many times its estimate a case may take before it counts as hung; the estimate is of another machine."""
FILLED_BYTES_PER_SECOND: Final = 4e9
"""Assumed rate at which patterns are written and compared between the plays."""
GRACE_S: Final = 10.0
"""Seconds more for a case in a process of its own: the one that started it shall be the one that gives it up."""


class Deadline:
    """The time of the cases that one process is at; each has its own account, since cases take turns."""

    def __init__(self, measure: Measure) -> None:
        self.case_id = ""
        self._measure = measure
        self._case: Case | None = None
        self._spent_s: dict[str, float] = {}
        self._limits_s: dict[str, float] = {}

    def begins(self, case_id: str, case: Case | None) -> None:
        """Let the time that passes from now on be that of this case; None where it is none of the grid."""
        self.case_id, self._case = case_id, case

    def pause(self) -> None:
        """Let no case have begun: what comes next may be another one."""
        self.begins("", None)
        self._spent_s.pop("", None)

    def passed(self, seconds: float) -> None:
        """Count time for the case that has begun."""
        self._spent_s[self.case_id] = self._spent_s.get(self.case_id, 0.0) + seconds

    def left_s(self) -> float:
        """Return the seconds that the case still has."""
        return max(0.0, self.limit_s() - self._spent_s.get(self.case_id, 0.0))

    def limit_s(self) -> float:
        """Return the seconds that the case has in all, as far as that was asked for."""
        floor = START_S if self._measure.deadline_s is None or self._case is None else self._measure.deadline_s
        return self._limits_s.get(self.case_id, floor)

    def extended(self) -> bool:
        """Whether the case has more time than it seemed: only for those that take long is it worth estimating how long."""
        if self._case is None or self.case_id in self._limits_s:
            return False
        model = self._case.model
        grace = GRACE_S if model.ISOLATED or model.memlock_bytes() is not None else 0.0
        self._limits_s[self.case_id] = grace + deadline_of(self._case, self._measure, available_host_bytes())
        return self.left_s() > 0


def deadline_of(case: Case, measure: Measure, host_bytes: int) -> float:
    """Return the seconds after which a case counts as hung: what the file says, or START_S and PATIENCE times its estimate."""
    if measure.deadline_s is not None:
        return measure.deadline_s
    plays = measure.most_warmups() + measure.most_samples()
    try:
        plan = case.model.resolved(Known(host_bytes)).plan()
        check_plan(plan)
        with closing(open_twin("simulated")) as device, closing(device.open(plan)) as session:
            marks = [mark for mark in session.play(0).host_ns if mark is not None]
    except CaseError:
        # The simulated device may not know what the case needs; then only the start is allowed for.
        return START_S
    filled = sum(each.size for each in plan.prepare if isinstance(each, Fill)) + sum(each.size for each in plan.expects)
    timed_s = (max(marks, default=0) - min(marks, default=0)) / 1e9
    return START_S + PATIENCE * plays * (timed_s + filled / FILLED_BYTES_PER_SECOND)
