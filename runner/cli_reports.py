"""The verbs that show one run: `report`, `show`, `pivot`, `export`; and what `run` writes beside its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from runner.cli_shell import guarded, say, say_error
from runner.errors import EnvironmentProblem
from runner.forms import ExportForm, GridForm

PLAIN_WIDTH: Final = 100_000
"""Columns where the output is no terminal: nobody wants a pipe's lines folded."""


def begun_runs(begun: str) -> list[str]:
    """Return the experiments that have run and whose names begin so, for a shell to complete with."""
    from runner.find_run import names_of_runs

    return [name for name in names_of_runs() if name.startswith(begun)]


RunArgument = Annotated[
    str,
    typer.Argument(
        help="A run's folder, or an experiment that has run, of which the newest run counts.",
        metavar="RUN",
        autocompletion=begun_runs,
    ),
]
ReportOption = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html, too.")]
ExportOption = Annotated[
    list[ExportForm] | None, typer.Option("--export", help="Write the tables in this form, too; may be repeated.")
]


@guarded
def report(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option("--out", help="The page; report.html in the run's folder else.", metavar="FILE")
    ] = None,
    predicted: Annotated[
        bool, typer.Option("--predicted", help="Show beside what was measured what the device's profile predicts.")
    ] = False,
) -> int:
    """Write the page of a run: one HTML file with plots and tables that needs no network."""
    from runner.find_run import find_run
    from runner.report.page import write_report
    from runner.tables import check_writable

    folder = find_run(run)
    if out is not None:
        check_writable(out)
    predictions = []
    if predicted:
        from runner.profile_of_run import predictions_of

        predictions = predictions_of(folder)
    say([f"The page is {write_report(folder, out, predictions)}."])
    return 0


@guarded
def show(
    run: RunArgument,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of the table.", metavar="N")] = 40,
) -> int:
    """Show what came out of a run: doubts, answer, verdicts, and the cases with small bars."""
    from rich.console import Console

    from runner.find_run import find_run
    from runner.report.reading import read_run
    from runner.report.terminal import show_run

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    with console.capture() as captured:
        console.print(show_run(read_run(find_run(run)), rows))
    say([line.rstrip() for line in captured.get().rstrip("\n").split("\n")])
    return 0


@guarded
def pivot(
    run: RunArgument,
    rows: Annotated[str, typer.Option("--rows", help="The axis down, as chunk.", metavar="COLUMN")],
    columns: Annotated[str, typer.Option("--columns", help="The axis across, as streams.", metavar="COLUMN")],
    values: Annotated[
        str | None,
        typer.Option("--values", help="The figure in the cells; the time that gives the rate where omitted.", metavar="COLUMN"),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", help="Only cases that have this value; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    form: Annotated[GridForm, typer.Option("--as", help="tsv is what spreadsheets paste.")] = GridForm.tsv,
    out: Annotated[Path | None, typer.Option("--out", help="A file instead of the screen.", metavar="FILE")] = None,
) -> int:
    """Write one figure over two axes as a grid to paste, such as the time by chunk and streams."""
    from runner.find_run import find_run
    from runner.pivot import pivot as grid_of
    from runner.report.reading import read_run
    from runner.tables import check_writable, write_whole

    if out is not None:
        check_writable(out)
    grid = grid_of(read_run(find_run(run)), rows, columns, values, where or [])
    text = grid.text(form)
    if grid.note:
        # Apart from the grid, which is read by what comes after a pipe.
        say_error(grid.note)
    if out is None:
        say([text.rstrip("\n")])
        return 0
    write_whole(out, text.encode("utf-8"))
    say([f"The grid is {out}."])
    return 0


@guarded
def export(
    run: RunArgument,
    forms: Annotated[list[ExportForm], typer.Option("--as", help="The form; may be repeated.")],
    out: Annotated[Path | None, typer.Option("--out", help="A folder; the run's own else.", metavar="DIR")] = None,
) -> int:
    """Write the tables of a run as a workbook, as Parquet, or as CSV with decimal commas."""
    from runner.export import export_run
    from runner.find_run import find_run

    folder = find_run(run)
    if out is not None:
        make_folder(out)
    for form in forms:
        say([f"{form}: {', '.join(map(str, export_run(folder, form, out)))}"])
    return 0


def after_run(folder: Path, *, page: bool, forms: Sequence[ExportForm]) -> list[str]:
    """Write what a run was asked for beside its tables, and return the lines that say so."""
    lines = []
    if page:
        from runner.report.page import write_report

        lines.append(f"The page is {write_report(folder)}.")
    if forms:
        from runner.export import export_run

        lines += [f"{form}: {', '.join(map(str, export_run(folder, form)))}" for form in forms]
    return lines


def make_folder(path: Path) -> None:
    """Make a folder for files; raises EnvironmentProblem where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"the folder {path} cannot be made: {error.strerror}; choose another with --out") from error
