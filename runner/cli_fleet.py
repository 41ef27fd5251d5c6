"""What `run` does where many GPUs take part: a fleet on which each runs the file, or a grid that they share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli_shell import say

if TYPE_CHECKING:
    from runner.execution.bench import Bench
    from runner.execution.seats import Hall
    from runner.flow import Watcher
    from runner.spec.load import LoadedExperiment


class Odd(StrEnum):
    """What `run --fail-on` can be given."""

    outlier = "outlier"


FailOption = Annotated[Odd | None, typer.Option("--fail-on", help="Of many GPUs: exit with 5 where one is an outlier.")]


ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", help="A Dask scheduler, as tcp://host:8786, or local:N for N workers here.", metavar="ADDRESS"),
]
GpusOption = Annotated[
    int,
    typer.Option("--gpus", min=1, help="Of a cluster: how many GPUs are waited for, so that a fleet has them all.", metavar="N"),
]
TlsOption = Annotated[
    str,
    typer.Option(
        "--tls", help="For tls:// schedulers: a folder with ca.pem, cert.pem, key.pem, or CA,CERT,KEY.", metavar="FILES"
    ),
]


@dataclass(frozen=True, slots=True)
class RunAsked:
    """What `run` was asked for, whatever the file; `watching` lends what follows a run of one table."""

    device: str | None
    out: Path
    max_cases: int
    resume: bool
    most_pinned: int | None
    workers: int | None
    fail_on: Odd | None
    cluster: str | None
    tls: str
    gpus: int
    watching: Callable[[], AbstractContextManager[Watcher]]

    def run(self, loaded: LoadedExperiment) -> tuple[Path | None, int]:
        """Run a file; return the folder of a run that one page can show, None where there is none, and the exit code."""
        from runner.execution.members import is_many
        from runner.execution.seats import LocalHall

        experiment = loaded.experiment
        device = self.device or experiment.device
        if self.cluster is not None:
            return self._on_cluster(loaded, device, self.cluster)
        if not is_many(device):
            return self._one(loaded, None)
        return self.many(loaded, LocalHall(device, experiment.measure.wait, experiment.alone))

    def _on_cluster(self, loaded: LoadedExperiment, device: str, address: str) -> tuple[Path | None, int]:
        from runner.execution.cluster import ClusterHall

        hall = ClusterHall(loaded, device, address, self.tls, self.gpus)
        if hall.note:
            say([hall.note])
        if hall.dashboard:
            say([f"Dask's dashboard is {hall.dashboard}"])
        if hall.waiting:
            say([hall.waiting])
        return self.many(loaded, hall)

    def many(self, loaded: LoadedExperiment, hall: Hall) -> tuple[Path | None, int]:
        """Run a file on the GPUs of a hall: each the whole of it, or all together its grid."""
        from runner.execution.shared import Shared

        if loaded.experiment.spread == "cases":
            ended = self._one(loaded, Shared(hall))
            say([f"{name} took no part, or not to the end: {why}" for name, why in hall.refused.items()])
            return ended
        return None, self._each(loaded, hall)

    def _one(self, loaded: LoadedExperiment, bench: Bench | None) -> tuple[Path | None, int]:
        """Make one run, of one device or of all that a bench shares it between."""
        from runner.flow import run_experiment
        from runner.resume import newest_run

        earlier = newest_run(self.out, loaded) if self.resume else None
        if earlier is not None and earlier.finished:
            if bench is not None:
                bench.close()
            return _nothing_left(loaded, earlier.folder.path)
        with self.watching() as watcher:
            outcome = run_experiment(
                loaded,
                device=self.device,
                out=self.out,
                max_cases=self.max_cases,
                watcher=watcher,
                earlier=earlier,
                most_pinned=self.most_pinned,
                workers=self.workers,
                bench=bench,
            )
        return outcome.folder, outcome.exit_code

    def _each(self, loaded: LoadedExperiment, hall: Hall) -> int:
        """Run a file on each GPU of a hall, and show the fleet."""
        from runner.fleet import newest_fleet, run_fleet
        from runner.fleet_show import FleetLines, fleet_grid, fleet_lines

        outcome = run_fleet(
            loaded,
            hall,
            out=self.out,
            max_cases=self.max_cases,
            watcher=FleetLines(lambda line: say([line])),
            most_pinned=self.most_pinned,
            earlier=newest_fleet(self.out, loaded) if self.resume else None,
            fail_on_outlier=self.fail_on is not None,
        )
        say(["", *fleet_grid(outcome).lines(), "", *fleet_lines(outcome)])
        return outcome.exit_code


def _nothing_left(loaded: LoadedExperiment, folder: Path) -> tuple[None, int]:
    say([f"{loaded.experiment.name}: the run in {folder} is complete, nothing is left to do"])
    return None, 0
