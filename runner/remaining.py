"""How long the rest of a run will likely take: by what was foreseen at first, and more and more by what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BELIEVED_SHARE: Final = 0.1
"""What was foreseen counts as much as having measured this share of the run."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """`effort` is what all cases together take, in any unit, `foreseen_s` how long that likely lasts, None where nobody knows."""

    effort: float
    foreseen_s: float | None = None

    def seconds(self, done: float, passed_s: float) -> float:
        """Return the seconds that are left once `done` of the effort has taken `passed_s`.

        The pace is that of the cases that are done, drawn towards the one that was foreseen by BELIEVED_SHARE of the run; without
        either it is 0.
        """
        believed = 0.0 if self.foreseen_s is None else BELIEVED_SHARE
        weight = done + believed * self.effort
        if not weight:
            return 0.0
        pace = (passed_s + believed * (self.foreseen_s or 0.0)) / weight
        return pace * max(0.0, self.effort - done)
