"""What follows a run in tests of clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner.measure.result import CaseResult


class Watch:
    """Does something when so many cases are done."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at, self.act, self.seen = at, act, 0

    def opened(self, *_: Any) -> None: ...

    def foreseen(self, *_: Any) -> None: ...

    def stopping(self) -> None: ...

    def finished(self, *_: Any) -> None: ...

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        self.seen += 1
        if self.seen == self.at:
            self.act()
