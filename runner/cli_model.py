"""The verbs of the simulated device's model: fit it to a machine, and hold its predictions against what was measured there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from runner.cli_shell import guarded, say

if TYPE_CHECKING:
    from runner.observed import ObservedRun

TABLES: Final = Path("results/model")
"""Where the tables of a validation go, by device; what is published with the code names another folder by --out."""
FromOption = Annotated[
    Path | None, typer.Option("--from", help="Use this finished run instead of running anything.", metavar="RUN")
]
DeviceOption = Annotated[str, typer.Option("--device", help="The device to run on: cuda, cuda:1.", metavar="D")]
RunsOption = Annotated[Path, typer.Option("--runs", help="Folder for the run that is made.", metavar="DIR")]


@guarded
def calibrate(
    device: DeviceOption = "cuda",
    from_run: FromOption = None,
    name: Annotated[str, typer.Option("--name", help="Name of the profile; the device's where omitted.", metavar="NAME")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="Write it here, not among your profiles.", metavar="FILE")] = None,
    runs: RunsOption = Path("results"),
) -> int:
    """Run calibrate.yaml on this machine and fit a profile to it, for the simulated device to predict with."""
    from runner.calibration.calibrate import EXPERIMENT, calibrate

    run = _observed(EXPERIMENT, device, from_run, runs)
    say([f"Fitting to run {run.run_id} on {run.device} ..."])
    say(calibrate(run, name, out).lines())
    return 0


@guarded
def validate_model(
    device: DeviceOption = "cuda",
    from_run: FromOption = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="The profile that predicts; by the device's name where omitted.", metavar="NAME"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the tables; results/model/DEVICE where omitted.", metavar="DIR")
    ] = None,
    runs: RunsOption = Path("results"),
) -> int:
    """Run validate.yaml on this machine and tell how well a profile predicts what it was not fitted to."""
    from runner.calibration.calibrate import name_for
    from runner.predict import predict_some
    from runner.profile_of_run import profile_for
    from runner.validation import EXPERIMENT, write_validation

    run = _observed(EXPERIMENT, device, from_run, runs)
    model = profile_for(run, profile)
    folder = TABLES / name_for(run.device) if out is None else out
    table = write_validation(run, model, predict_some(run, model), folder)
    say(
        [
            f"Profile {model.name} against run {run.run_id}:",
            "",
            *table,
            "",
            f"The tables are in {folder} (validation.md, validation.csv, predicted.csv).",
        ]
    )
    return 0


def show_predicted(path: Path, profile: str | None, csv: Path | None) -> None:
    """Print measured and predicted of a run beside each other, and write them to `csv`, or to predicted.csv in its folder."""
    from runner.observed import read_observed
    from runner.predict import accuracy_lines, accuracy_of, predict_some
    from runner.predict_page import predicted_grid, predicted_rows
    from runner.profile_of_run import profile_for, why_it_had_to_fit
    from runner.run_files import PREDICTED
    from runner.tables import check_writable, write_csv

    run = read_observed(path)
    model = profile_for(run, profile)
    target = run.folder / "predicted.csv" if csv is None else csv
    check_writable(target)
    predictions = predict_some(run, model)
    write_csv(target, predicted_rows(predictions, model.name), PREDICTED)
    say([*predicted_grid(predictions).lines(), "", f"Profile {model.name} against run {run.run_id}:"])
    say([*accuracy_lines(accuracy_of(run, predictions)), *why_it_had_to_fit(run, model), "", f"Every case is in {target}."])


def _observed(experiment: str, device: str, from_run: Path | None, runs: Path) -> ObservedRun:
    """Return a finished run: the one that is named, or one of an experiment that is made now, as `run` makes it."""
    from runner.expand import MOST_CASES
    from runner.flow import run_experiment
    from runner.observed import read_observed
    from runner.spec.load import load_experiment
    from runner.watch import LineWatcher

    if from_run is not None:
        return read_observed(from_run)
    watcher = LineWatcher(lambda line: say([line]))
    outcome = run_experiment(load_experiment(experiment), device=device, out=runs, max_cases=MOST_CASES, watcher=watcher)
    return read_observed(outcome.folder)
