"""Following a run between its cases: a progress bar on a terminal, plain lines elsewhere; `runner.cli` lends what prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from runner.claims_page import counts_sentence, screen_grid
from runner.device.contract import DeviceFacts
from runner.flow import RunOutcome
from runner.forecast import Forecast
from runner.measure.result import CaseResult
from runner.screen import case_line, closing_lines, opening_lines, rows_of, summary_grid
from runner.spec.load import LoadedExperiment
from runner.units import format_seconds

if TYPE_CHECKING:
    from runner.claims import ClaimsOutcome
    from runner.claims_session import ClaimResult

STOPPING: Final = "Stopping after the play under way, then writing what was measured; once more stops at once."
MOST_LINES: Final = 40
"""Lines about single cases where there is no terminal; of a larger grid only some cases are told."""


@dataclass(slots=True)
class LineWatcher:
    """Says in plain lines how a run goes: at its start, now and then, and at its end."""

    show: Callable[[str], None]
    total: int = 0

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None:
        """Say what begins."""
        self.total = total
        self._lines(opening_lines(loaded, facts, note, total))

    def foreseen(self, forecast: Forecast) -> None:
        """Say what it will hold and last."""
        self._lines(forecast.lines())

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        """Say how a case ended; of a large grid only every so many cases."""
        every = -(-self.total // MOST_LINES)
        if done % every == 0 or done == self.total:
            self.show(case_line(result, done, self.total, seconds_left))

    def stopping(self) -> None:
        """Say that the run ends soon."""
        self.show(STOPPING)

    def finished(self, outcome: RunOutcome) -> None:
        """Show the summary and what came out."""
        rows = rows_of(outcome)
        self._lines(["", *summary_grid(outcome, rows).lines(), "", *closing_lines(outcome, rows)])

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self.show(line)


@dataclass(slots=True)
class TerminalWatcher:
    """Moves a progress bar of `bar_columns` and draws the summary as a table.

    The bar is drawn only when a case is done: a thread that redraws it would run beside what is timed.
    """

    show: Callable[[RenderableType], None]
    progress: Progress
    task: TaskID | None = None

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None:
        """Say what begins and show the empty bar."""
        for line in opening_lines(loaded, facts, note, total):
            self.show(line)
        self.task = self.progress.add_task(loaded.experiment.name, total=total, left="")
        self.progress.start()
        self.progress.refresh()

    def foreseen(self, forecast: Forecast) -> None:
        """Say what it will hold and last."""
        for line in forecast.lines():
            self.show(line)

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        """Move the bar."""
        assert self.task is not None, "a run opens before its cases end"
        self.progress.update(self.task, completed=done, left=f"about {format_seconds(seconds_left)} left", refresh=True)

    def stopping(self) -> None:
        """Say that the run ends soon."""
        self.show(STOPPING)

    def finished(self, outcome: RunOutcome) -> None:
        """Take the bar away and show the summary and what came out."""
        self.progress.stop()
        rows = rows_of(outcome)
        self.show(summary_grid(outcome, rows).drawn(self.progress.console.width))
        for line in closing_lines(outcome, rows):
            self.show(line)


@dataclass(slots=True)
class ClaimLines:
    """Says in plain lines how the testing of claims goes: each file as it begins and ends, and all verdicts at the end."""

    show: Callable[[str], None]
    total: int = 0

    def opened(self, facts: DeviceFacts, note: str, total: int) -> None:
        """Say what begins."""
        self.total = total
        simulated = ["SIMULATED: every figure is computed from a profile, none is measured on a GPU."]
        told = [*(simulated if facts.kind == "simulated" else []), *([note] if note else [])]
        for line in [*told, f"{total} files of claims on {facts.name}"]:
            self.show(line)

    def claim_begins(self, name: str, place: int) -> None:
        """Say which file is next."""
        self.show(f"[{place}/{self.total}] {name} ...")

    def claim_done(self, claim: ClaimResult, place: int) -> None:
        """Say what came of each claim of the file."""
        for verdict in claim.verdicts:
            self.show(f"  {verdict.verdict}: {verdict.claim} ({claim.seconds:.1f} s)")

    def stopping(self) -> None:
        """Say that it ends soon."""
        self.show(STOPPING)

    def finished(self, outcome: ClaimsOutcome) -> None:
        """Show all verdicts and where they lie."""
        rows = outcome.verdict_rows()
        for line in ["", *screen_grid(rows).lines(), "", counts_sentence(rows), f"The page is {outcome.folder / 'claims.md'}."]:
            self.show(line)


def bar_columns() -> tuple[TextColumn | BarColumn | MofNCompleteColumn, ...]:
    """Return what the progress bar shows: the experiment, the bar, cases done, and the time left."""
    return (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
