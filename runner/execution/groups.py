"""Which cases of a grid are measured side by side: those that use the same sorts of buffers, as far as memory lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from runner.errors import CaseError
from runner.expand import Case
from runner.measure.preflight import Limits
from runner.plan import Alloc, Demand, Free, Plan, Register, Unregister
from runner.scenarios.base import Known

MOST_TOGETHER: Final = 16
"""Cases that are measured side by side at most: with more of them the first result would come late."""
SEEN_AHEAD: Final = 256
"""Cases after the one whose turn it is among which its companions in a group are looked for; each needs its Plan written."""
HELD_SHARE: Final = 4
"""A group holds at most one part in so many of the free memory of the host, and of the device."""

Sorts = frozenset[tuple[str, int, str]]


@dataclass(frozen=True, slots=True)
class Traits:
    """What decides whether cases go together: the sorts of buffers and what they hold at once.

    A sort is the kind of memory, the power of two that holds its bytes, and the pages: neighbours in a fine grid of sizes meet
    the same caches, and recording them together lets CUPTI, which takes 15 ms to come and go, do so once for all.
    """

    sorts: Sorts
    demand: Demand


@dataclass(slots=True)
class Grouping:
    """Finds the group of each case of a grid on a machine of these limits."""

    cases: Sequence[Case]
    limits: Limits
    _traits: dict[int, Traits | None] = field(default_factory=dict)

    def group_of(self, place: int, done: set[int]) -> list[int]:
        """Return the places of the cases that are measured together with the one at `place`, itself first, none that is `done`.

        Only `place` where the case must be measured alone.
        """
        own = self._traits_at(place)
        if own is None:
            return [place]
        group, demands = [place], [own.demand]
        for other in range(place + 1, min(place + SEEN_AHEAD, len(self.cases))):
            if len(group) == MOST_TOGETHER:
                break
            traits = None if other in done else self._traits_at(other)
            if traits is not None and traits.sorts == own.sorts and self._fit([*demands, traits.demand]):
                group.append(other)
                demands.append(traits.demand)
        return group

    def forget(self, place: int) -> None:
        """Drop what is kept of a case that is done."""
        self._traits.pop(place, None)

    def _traits_at(self, place: int) -> Traits | None:
        if place not in self._traits:
            self._traits[place] = self._read(self.cases[place])
        return self._traits[place]

    def _read(self, case: Case) -> Traits | None:
        """Return the traits of a case, None for one that is measured alone.

        Alone are those that may break the device or lower a limit of the process, those that allocate or page-lock memory inside
        the timing, since what others hold would change what they time, those whose work is not known before their companions are
        measured, and those that do not run.
        """
        model = case.model
        if case.excluded or model.ISOLATED or model.TOLERATES or model.memlock_bytes() is not None:
            return None
        try:
            plan = model.resolved(Known(self.limits.host_bytes)).plan()
        except CaseError:
            return None
        demand = plan.demand()
        if _allocates(plan) or self.limits.refusal_of(demand):
            return None
        sorts = frozenset((buffer.memory, (buffer.size - 1).bit_length(), buffer.pages) for buffer in plan.buffers)
        return Traits(sorts, demand)

    def _fit(self, demands: Sequence[Demand]) -> bool:
        host = sum(demand.pageable_bytes + demand.pinned_bytes for demand in demands)
        device = sum(demand.device_bytes for demand in demands)
        return host * HELD_SHARE <= self.limits.host_bytes and device * HELD_SHARE <= self.limits.facts.free_bytes


def _allocates(plan: Plan) -> bool:
    return any(isinstance(operation, Alloc | Free | Register | Unregister) for lane in plan.lanes for operation in lane)
