"""What listens to the measuring of cases: whoever notes each play, watches a deadline, or wants to stop between two plays."""

from __future__ import annotations

from typing import Final, Protocol

from runner.expand import Case
from runner.measure.result import Sample


class Listener(Protocol):
    """Is called between plays, never in a timed region; what it raises ends the measuring, with every session closed."""

    def begins(self, case: Case) -> None:
        """Tell that the next thing done is for this case: measuring its companions, opening, warming up, or playing it."""

    def played(self, case: Case, sample: Sample) -> None:
        """Tell of a play of a case on a device whose plays differ, as soon as its data were compared."""


class Nobody:
    """Listens to nothing."""

    def begins(self, case: Case) -> None:
        """Pass over it."""

    def played(self, case: Case, sample: Sample) -> None:
        """Pass over it."""


NOBODY: Final = Nobody()
