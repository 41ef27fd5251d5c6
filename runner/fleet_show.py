"""What a person sees of a fleet's run: how far all GPUs are together, who was lost, and which one is odd at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from runner.device.contract import DeviceFacts
from runner.execution.seats import Seat
from runner.fleet import FleetOutcome
from runner.fleet_rule import FEWEST
from runner.fleet_view import GpuView
from runner.flow import RunOutcome
from runner.forecast import Forecast
from runner.measure.result import CaseResult
from runner.screen import Grid, case_line
from runner.spec.load import LoadedExperiment
from runner.watch import STOPPING

MOST_LINES: Final = 40
"""Lines about how far a run is; those about trouble come besides."""
MOST_ROWS: Final = 40


@dataclass(slots=True)
class FleetLines:
    """Says in plain lines how the runs of all GPUs go; they call from threads of their own."""

    show: Callable[[str], None]
    total: int = 0
    done: int = 0
    told: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def gpu(self, seat: Seat) -> GpuLines:
        """Return what follows the run of one GPU."""
        return GpuLines(self, seat)

    def lost(self, seat: Seat, why: str) -> None:
        """Say that a GPU is gone."""
        self.say(f"{seat.name} is lost: {why}")

    def stopping(self) -> None:
        """Say that the run ends soon."""
        self.say(STOPPING)

    def say(self, *lines: str) -> None:
        """Show lines that stay together."""
        with self.lock:
            for line in lines:
                self.show(line)


@dataclass(slots=True)
class GpuLines:
    """Follows the run of one GPU."""

    fleet: FleetLines
    seat: Seat
    total: int = 0

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None:
        """Say which GPU takes part."""
        with self.fleet.lock:
            self.total = total
            self.fleet.total += total
            if facts.kind == "simulated" and not self.fleet.told:
                self.fleet.show(f"SIMULATED: every number below is computed from the profile {facts.name.partition(':')[2]}.")
            if not self.fleet.told:
                self.fleet.show(f"{loaded.experiment.name}: {loaded.experiment.question}")
            self.fleet.told = True
            self.fleet.show(f"{self.seat.name} takes part: {facts.name}, bus id {self.seat.where['pci_bus_id']}")

    def foreseen(self, forecast: Forecast) -> None:
        """Say nothing: each GPU would say nearly the same."""

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        """Say now and then how far all are, and of each case that gave no number."""
        fleet = self.fleet
        with fleet.lock:
            fleet.done += 1
            every = -(-fleet.total // MOST_LINES)
            if fleet.done % every == 0 or fleet.done == fleet.total or result.status not in ("ok", "excluded"):
                line = case_line(result, done, self.total, seconds_left)
                fleet.show(f"[{fleet.done}/{fleet.total}] {self.seat.name} {line}")

    def stopping(self) -> None:
        """Say nothing: the fleet says it once for all."""

    def finished(self, outcome: RunOutcome) -> None:
        """Say how the run of the GPU ended."""
        bad = sum(verdict.verdict == "refuted" for verdict in outcome.verdicts)
        told = f", {bad} expectations refuted" if bad else ""
        self.fleet.say(f"{self.seat.name} is done, exit code {outcome.exit_code}{told}: {outcome.folder}/")


def fleet_grid(outcome: FleetOutcome) -> Grid:
    """Return a row a GPU: how far its cases lie from the fleet's medians, the odd ones first."""
    gpus = sorted(outcome.view.gpus, key=_oddest_first)
    rows = tuple(
        (
            *gpu.where,
            f"{gpu.cases}",
            f"{gpu.outliers}",
            "" if gpu.deviation_percent is None else f"{gpu.deviation_percent:+.2f} %",
            gpu.worst,
            gpu.verdict,
        )
        for gpu in gpus[:MOST_ROWS]
    )
    headers = ("host", "gpu_uuid", "pci_bus_id", "cases", "outliers", "median deviation", "furthest", "verdict")
    hidden = len(gpus) - len(rows)
    return Grid(headers, rows, f"... and {hidden:,} more in fleet.csv" if hidden else "")


def fleet_lines(outcome: FleetOutcome) -> list[str]:
    """Say who is odd, who took no part, and where the tables are."""
    odd = outcome.view.outliers
    refused = [f"{name} gave no whole run: {why}" for name, why in outcome.refused.items()]
    if len(outcome.view.gpus) < FEWEST:
        said = f"Of {len(outcome.view.gpus)} GPUs none can be called the odd one; see deviation_percent in fleet.csv."
    elif odd:
        said = f"Outliers: {', '.join(f'{gpu.where[0]} {gpu.where[1]} ({gpu.outliers} of {gpu.cases} cases)' for gpu in odd)}."
    else:
        count = len(outcome.view.gpus)
        said = f"None of {count} GPUs is an outlier: all lie within 5 % or 3.5 scaled MADs of the fleet's medians."
    return [
        *refused,
        said,
        f"The tables are in {outcome.folder}/ (fleet.csv, summary.csv, samples.csv; gpus/ has each GPU's run).",
    ]


def _oddest_first(gpu: GpuView) -> tuple[bool, float]:
    return gpu.verdict != "outlier", -abs(gpu.deviation_percent or 0.0)
