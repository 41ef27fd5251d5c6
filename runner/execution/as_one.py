"""Answers of several that measure the same deterministic device side by side, made those of one that had measured alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.execution.records import Ended
from runner.expand import Case


@dataclass(slots=True)
class AsOne:
    """Takes the cases in the order of the grid.

    `known` are the companions that an earlier case needed, `count` is how many measure side by side.
    """

    known: set[str]
    count: int

    def __call__(self, ended: Ended, own: Case) -> Ended:
        """Return what one process would have given for the case that stands as `own` in the grid.

        Such a device plays a companion once, or refuses it (None). Seconds of processes side by side count for their part.
        """
        result = ended.result
        measured = [key for key, median_ms in ended.learnt.items() if median_ms is not None]
        # A case that was refused once its companions were known has none of their plays.
        plays = zip(measured, result.companions, strict=True) if result.companions else ()
        kept = tuple(play for key, play in plays if key not in self.known)
        learnt = {key: median_ms for key, median_ms in ended.learnt.items() if key not in self.known}
        self.known.update(learnt)  # in place: a union by |= with keys of a mapping makes the whole set anew for each case
        # The case itself is here already, and need not be held a second time.
        case = own if result.case.model == own.model else replace(own, model=result.case.model)
        seconds = {what: spent / self.count for what, spent in result.seconds.items()}
        return Ended(replace(result, case=case, companions=kept, seconds=seconds), learnt, ended.host_bytes)
