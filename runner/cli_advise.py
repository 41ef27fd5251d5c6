"""The verb `advise`: how to do a job best on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli_shell import guarded, say
from runner.errors import UsageError
from runner.units import ALLOWED_SIZE, parse_size_text

if TYPE_CHECKING:
    from runner.advise_job import Work
    from runner.device.contract import DeviceFacts
    from runner.flow import RunOutcome
    from runner.forecast import Forecast
    from runner.measure.result import CaseResult
    from runner.spec.load import LoadedExperiment


class Data(StrEnum):
    """Where the data of a job live."""

    pageable = "pageable"
    pinned = "pinned"


@guarded
def advise(
    bytes_in: Annotated[str, typer.Option("--in", help="Bytes that go to the device; 0 where none do.", metavar="SIZE")] = "0",
    bytes_out: Annotated[str, typer.Option("--out", help="Bytes that come back; 0 where none do.", metavar="SIZE")] = "0",
    data: Annotated[Data, typer.Option("--data", help="Where they live in the host.")] = Data.pageable,
    passes: Annotated[int | None, typer.Option("--passes", min=1, help="Passes of the increment kernel.", metavar="N")] = None,
    ratio: Annotated[
        float | None, typer.Option("--ratio", min=0, help="Time of the kernels as a multiple of the copies one way.", metavar="R")
    ] = None,
    kernel_ms: Annotated[
        float | None, typer.Option("--kernel-ms", min=0, help="Time of the kernels for all the data, in ms.", metavar="MS")
    ] = None,
    pin: Annotated[
        str | None, typer.Option("--pin", help="The most memory that may be page-locked for it.", metavar="SIZE")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="As for run.", metavar="D")] = "auto",
    runs: Annotated[Path, typer.Option("--runs", help="Folder for the run that is made.", metavar="DIR")] = Path("results"),
    yaml: Annotated[Path | None, typer.Option("--yaml", help="Write an experiment of it into this file.", metavar="FILE")] = None,
) -> int:
    """Say which chunk, streams, staging, lanes, threads and submission do a job best, by the device's profile and by a run."""
    from runner.advise import advise as find
    from runner.advise_job import Job
    from runner.advise_lines import advice_lines

    job = Job(
        _size("--in", bytes_in),
        _size("--out", bytes_out),
        data is Data.pinned,
        _work(passes, ratio, kernel_ms),
        None if pin is None else _size("--pin", pin),
    )
    advice = find(job, device=device, out=runs, watcher=Quiet())
    say(advice_lines(advice))
    if yaml is not None:
        yaml.write_text(advice.yaml(), encoding="utf-8")
        say([f"An experiment of it is in {yaml}: dmalab run {yaml}"])
    return advice.outcome.exit_code


class Quiet:
    """Says of the run only on what it is made, and when somebody wants it to end."""

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None:
        """Say what is run where."""
        say([*([note] if note else []), f"Running {total} settings on {facts.name} ..."])

    def foreseen(self, forecast: Forecast) -> None:
        """Say nothing: the settings are what counts."""

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        """Say nothing: the advice has them all."""

    def stopping(self) -> None:
        """Say that the run ends soon."""
        say(["Stopping after the play under way."])

    def finished(self, outcome: RunOutcome) -> None:
        """Say nothing: the advice follows."""


def _work(passes: int | None, ratio: float | None, kernel_ms: float | None) -> Work:
    from runner.advise_job import Work

    given = [each for each in (passes, ratio, kernel_ms) if each is not None]
    if len(given) > 1:
        raise UsageError("the work is said by one of --passes, --ratio and --kernel-ms")
    return Work(passes, ratio, kernel_ms) if given else Work(passes=1)


def _size(option: str, text: str) -> int:
    if text == "0":
        return 0
    try:
        return parse_size_text(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}; allowed: 0, {ALLOWED_SIZE}") from None
