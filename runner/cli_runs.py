"""The verb `compare`: two runs held against each other, or the history of a folder of runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli_model import show_predicted
from runner.cli_reports import begun_runs
from runner.cli_shell import JsonOption, guarded, hushed, say, say_json
from runner.errors import UsageError

if TYPE_CHECKING:
    from runner.compare import Comparison
    from runner.history import History
    from runner.rows import Row

REGRESSION: int = 5
"""The exit code of a regression that `--fail-on` asks for."""


class Allowed(StrEnum):
    """What `--allow` lets pass."""

    simulated = "simulated"


@guarded
def compare(
    a: Annotated[
        Path,
        typer.Argument(help="A run's folder, or an experiment's for its newest run.", metavar="A", autocompletion=begun_runs),
    ],
    b: Annotated[
        Path | None,
        typer.Argument(help="The run to compare with A; without it the history of A, a folder or a name, is shown.", metavar="B"),
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="A time such as wall_ms; each case's own where omitted.")] = None,
    threshold: Annotated[
        str, typer.Option("--threshold", help="By how much a time may differ and count as the same.", metavar="P%")
    ] = "2%",
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit with 5 on slower, slower:P%, undecided, missing; may be repeated.", metavar="WHAT"),
    ] = None,
    allow: Annotated[list[Allowed] | None, typer.Option("--allow", help="Compare measured with simulated times.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write every case into this table.", metavar="FILE")] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw it into this file (.svg, .png, .pdf).", metavar="FILE")
    ] = None,
    predicted: Annotated[
        bool, typer.Option("--predicted", help="Hold run A against what a profile predicts; its table goes into predicted.csv.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="The profile for --predicted; by the device's name where omitted.", metavar="NAME"),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Say which cases of run B are faster or slower than in run A, and which cannot be told; or show a folder's history."""
    _check_targets(csv, picture)
    if predicted or profile:
        if b is not None:
            raise UsageError("--predicted holds one run against a profile; leave B out")
        if as_json:
            raise UsageError("--json tells of --predicted nothing; its table is predicted.csv")
        show_predicted(a, profile, csv)
        return 0
    from runner.compare_gate import parse_gate, parse_share

    share = parse_share(threshold)
    gate = parse_gate(fail_on or [], share)
    if b is None:
        if fail_on:
            raise UsageError("--fail-on needs two runs, A and B")
        with hushed(as_json):
            rows = _show_histories(a, metric, share, csv, picture)
        if as_json:
            say_json({"cases": rows})
        return 0
    allowed = Allowed.simulated in (allow or [])
    comparison = _compared(a, b, metric, share, allow_simulated=allowed)
    judgement = gate.judge(comparison.a, comparison.b, allow_simulated=allowed)
    with hushed(as_json):
        _show_comparison(comparison, judgement.lines(), csv, picture)
    if as_json:
        from runner.compare_page import comparison_rows

        say_json({"cases": comparison_rows(comparison), "failures": list(judgement.failures), "left_open": judgement.left_open})
    return REGRESSION if judgement.failures else 0


def _check_targets(csv: Path | None, picture: Path | None) -> None:
    """Raise what writing these files would raise, before the work whose fruit they are."""
    from runner.drawing import check_picture
    from runner.tables import check_writable

    if csv is not None:
        check_writable(csv)
    if picture is not None:
        check_picture(picture)
        check_writable(picture)


def _compared(a: Path, b: Path, metric: str | None, threshold: float, *, allow_simulated: bool) -> Comparison:
    from runner.compare import compare_runs
    from runner.compared_run import compared_run
    from runner.results import read_results

    one, two = (compared_run(read_results(path), metric) for path in (a, b))
    if one.folder == two.folder:
        raise UsageError(f"A and B are one run, {one.run_id} ({one.folder}): nothing can differ; give another run")
    return compare_runs(one, two, threshold=threshold, allow_simulated=allow_simulated)


def _show_comparison(comparison: Comparison, judged: list[str], csv: Path | None, picture: Path | None) -> None:
    from runner.compare_page import COMPARISON_COLUMNS, comparison_grid, comparison_lines, comparison_rows, method_line
    from runner.tables import write_csv

    grid = comparison_grid(comparison)
    table = [*grid.lines(), "", method_line(comparison)] if grid.rows else []
    say([*comparison_lines(comparison), "", *table, *judged])
    if csv is not None:
        write_csv(csv, comparison_rows(comparison), COMPARISON_COLUMNS)
        say([f"Every case is in {csv}."])
    if picture is not None:
        from runner.drawing import save_picture
        from runner.plots_of_runs import plot_comparison

        save_picture(lambda axes: plot_comparison(comparison, axes=axes), picture)
        say([f"The picture is {picture}."])


def _show_histories(folder: Path, metric: str | None, threshold: float, csv: Path | None, picture: Path | None) -> list[Row]:
    """Show every history of a folder, write what was asked for, and return a row a case and run."""
    from runner.history import HISTORY_COLUMNS, history_grid, history_lines, history_rows, read_histories
    from runner.tables import write_csv

    histories = read_histories(folder, metric, threshold)
    for place, history in enumerate(histories):
        say([*([""] if place else []), *history_lines(history), "", *history_grid(history).lines()])
    rows = [row for history in histories for row in history_rows(history)]
    if csv is not None:
        write_csv(csv, rows, HISTORY_COLUMNS)
        say([f"Every case of every run is in {csv}."])
    if picture is not None:
        _draw_history(histories, picture)
        say([f"The picture is {picture}."])
    return rows


def _draw_history(histories: list[History], picture: Path) -> None:
    from runner.drawing import save_picture
    from runner.plots_of_runs import plot_history

    if len(histories) > 1:
        names = ", ".join(f"{each.runs[0].experiment} on {each.runs[0].device}" for each in histories)
        raise UsageError(f"one picture shows one history, and there are {len(histories)} ({names}); give one experiment's folder")
    save_picture(lambda axes: plot_history(histories[0], axes=axes), picture)
