"""The command line: `dmalab VERB`. With `runner.cli_shell` the only place that prints or exits;
everything else returns lines or raises.

Exit codes: 0 all well, 2 bad file or use, 3 environment (also when no case could run), 4 some case gave no number, 5 an
expectation missed, 130 interrupted, 70 our own fault. Of several runs the first of 130, 70, 3, 2, 4, 5 that holds. What only
`run` or `plan` needs is imported there, so that `validate` and `list` do not wait for it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from runner import __version__, cli_results
from runner.cli_fleet import ClusterOption, FailOption, GpusOption, RunAsked, TlsOption
from runner.cli_reports import ExportOption, ReportOption, after_run
from runner.cli_shell import JsonOption, QuietOption, Verbs, coloured, guarded, hushed, is_hushed, say, say_json
from runner.device.ranges import NVTX
from runner.errors import InputError
from runner.expand import MOST_CASES
from runner.garbage import collect_seldom
from runner.grid_count import GridCount, count_grid
from runner.spec.experiment import why_no_device
from runner.spec.load import LoadedExperiment, list_experiments, load_experiment
from runner.units import ALLOWED_SIZE, counted, parse_size_text

if TYPE_CHECKING:
    from runner.flow import Watcher

WORST_FIRST: Final = (130, 70, 3, 2, 4, 5, 0)
LARGEST_GRID: Final = 10_000_000
"""The most that `--max-cases` can be raised to: a case takes about a kilobyte of memory."""
DEVICES: Final = ("auto", "all", "cuda", "simulated")
"""What the shell completes `--device` with; behind a colon a shell begins a new word, so the rest is left to be typed."""
Result = TypeVar("Result")

app = typer.Typer(
    cls=Verbs,
    help="Declarative experiments on how bytes cross between host and GPU: YAML in, tidy tables out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cli_results.register(app)


def checked_device(text: str | None) -> str | None:
    """Return what `--device` was given; raises a refusal by the same rules as in a file."""
    if text is not None and (why := why_no_device(text)):
        raise typer.BadParameter(why)
    return text


def checked_size(text: str | None) -> str | None:
    """Return what `--allow-pinned` was given; raises a refusal by the same rules as in a file."""
    try:
        if text is not None:
            parse_size_text(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; allowed: {ALLOWED_SIZE}") from None
    return text


def begun_names(begun: str) -> list[str]:
    """Return the experiments whose names begin so, for a shell to complete with; paths it completes by itself."""
    return [name for name in list_experiments() if name.startswith(begun)]


FileArgument = Annotated[
    str, typer.Argument(help="A path, or a name in experiments/.", metavar="FILE", autocompletion=begun_names)
]
FilesArgument = Annotated[
    list[str], typer.Argument(help="Paths, or names in experiments/.", metavar="FILE", autocompletion=begun_names)
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="auto, cuda, cuda:N, all, simulated, simulated:PROFILE or simulated:PROFILE*N instead of the file's.",
        metavar="D",
        callback=checked_device,
        autocompletion=lambda: DEVICES,
    ),
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for the results.", metavar="DIR")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change one key for this run, as in measure.samples=5; may be repeated.", metavar="KEY=VALUE"),
]
CasesOption = Annotated[
    int, typer.Option("--max-cases", min=1, max=LARGEST_GRID, help="Refuse a grid of more cases than this.", metavar="N")
]


PinnedOption = Annotated[
    str | None,
    typer.Option(
        "--allow-pinned",
        help="The most page-locked memory of one case, instead of half of what is available.",
        metavar="SIZE",
        callback=checked_size,
    ),
]


class Topic(StrEnum):
    """What `list` can list."""

    experiments = "experiments"
    profiles = "profiles"
    kinds = "kinds"


def main() -> None:
    """Run the command line with this process's arguments and exit."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign shows a question mark
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends a run wants what was measured, as with Ctrl-C
    collect_seldom()
    app(prog_name="dmalab")


@app.command()
@guarded
def run(
    files: FilesArgument,
    device: DeviceOption = None,
    out: OutOption = Path("results"),
    overrides: SetOption = None,
    max_cases: CasesOption = MOST_CASES,
    report: ReportOption = True,
    export: ExportOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest run of each FILE that did not come to its end.")
    ] = False,
    allow_pinned: PinnedOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            max=256,
            help="Processes that share a simulated grid, instead of as many as are worth it.",
            metavar="N",
        ),
    ] = None,
    nvtx: Annotated[bool, typer.Option("--nvtx", help="Name cases and operations for nsys, on a GPU; rows are flagged.")] = False,
    fail_on: FailOption = None,
    cluster: ClusterOption = None,
    tls: TlsOption = "",
    gpus: GpusOption = 1,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Run every case of each FILE and write its tables; nothing runs if one of the files is bad."""
    from runner.execution.ready import seen_off_later
    from runner.scripted import run_told

    if nvtx:
        os.environ[NVTX] = "1"  # the device may be opened in a process of its own
    experiments = load_all(files, overrides or [])
    if len(experiments) > 1:
        count_all(experiments, max_cases)
    most_pinned = None if allow_pinned is None else parse_size_text(allow_pinned)
    asked = RunAsked(device, out, max_cases, resume, most_pinned, workers, fail_on, cluster, tls, gpus, watching)
    codes, told = [], []
    with hushed(quiet or as_json), seen_off_later():
        for loaded in experiments:
            folder, code = asked.run(loaded)
            if folder is not None and (report or export):
                say(after_run(folder, page=report, forms=export or []))
            codes.append(code)
            if as_json:
                told.append(run_told(loaded.experiment.name, folder, code))
            if code == 130:
                say(["Interrupted; the same command with --resume goes on from here."])
                break
    if as_json:
        say_json({"runs": told, "exit_code": min(codes, key=WORST_FIRST.index)})
    return min(codes, key=WORST_FIRST.index)


@app.command()
@guarded
def plan(
    file: FileArgument,
    device: DeviceOption = None,
    overrides: SetOption = None,
    max_cases: CasesOption = MOST_CASES,
    allow_pinned: PinnedOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what a run of FILE would do, skip and cost, without running it."""
    from runner.pricing import price
    from runner.screen import price_grid, price_lines
    from runner.scripted import plan_told

    (loaded,) = load_all([file], overrides or [])
    most_pinned = None if allow_pinned is None else parse_size_text(allow_pinned)
    cost = price(loaded, device=device, max_cases=max_cases, most_pinned=most_pinned)
    if as_json:
        say_json(plan_told(loaded, cost))
        return 0
    say([*price_lines(loaded, cost), "", *price_grid(cost).lines()])
    return 0


@app.command()
@guarded
def validate(
    files: FilesArgument,
    overrides: SetOption = None,
    max_cases: CasesOption = MOST_CASES,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Check each FILE and every case of its grid; all problems of all files are shown."""
    if as_json:
        from runner.scripted import files_told

        told = files_told(files, overrides or [], max_cases)
        say_json(told)
        return 0 if all(each["ok"] for each in told["files"]) else InputError.exit_code
    experiments = load_all(files, overrides or [])
    with hushed(quiet):
        for loaded, counts in zip(experiments, count_all(experiments, max_cases), strict=True):
            excluded = f", {counts.excluded:,} of them excluded" if counts.excluded else ""
            say([f"{loaded.path}: all well, {counted(counts.cases, 'case')}{excluded}", *counts.advice_lines()])
    return 0


@app.command("list")
@guarded
def list_things(
    topic: Annotated[Topic | None, typer.Argument(help="What to list; everything where omitted.")] = None,
    as_json: JsonOption = False,
) -> int:
    """List the experiments, the profiles of simulated devices, or the kinds of scenarios and buffers."""
    from runner import catalogue

    if as_json:
        from runner.scripted import catalogue_told

        say_json(catalogue_told(topic))
        return 0
    topics = {
        Topic.experiments: catalogue.experiment_lines,
        Topic.profiles: catalogue.profile_lines,
        Topic.kinds: catalogue.kind_lines,
    }
    for place, (each, lines) in enumerate(topics.items()):
        if topic in (each, None):
            say([*([""] if topic is None and place else []), *lines()])
    return 0


@app.command()
@guarded
def claims(
    files: Annotated[list[str] | None, typer.Argument(help="Names or paths; every claim where omitted.", metavar="FILE")] = None,
    device: DeviceOption = None,
    out: OutOption = Path("results"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest testing of the same files that did not come to its end.")
    ] = False,
) -> int:
    """Test the claims of the source documents on this machine: each is confirmed, refuted, or undecided and why."""
    from runner.claims import claim_files, earlier_testing, run_claims
    from runner.watch import ClaimLines

    paths = claim_files(files or [])
    earlier = earlier_testing(paths, out) if resume else None
    if earlier is not None and earlier.finished:
        say([f"claims: the run in {earlier.folder.path} is complete, nothing is left to do"])
        return 0
    outcome = run_claims(paths, device=device, out=out, watcher=ClaimLines(lambda line: say([line])), earlier=earlier)
    if outcome.interrupted:
        say(["Interrupted; the same command with --resume goes on from here."])
    return 130 if outcome.interrupted else 0


@app.command()
@guarded
def doctor(
    device: DeviceOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Check what this machine has and whether its numbers could be trusted, and say what to change where not."""
    from runner.doctor import diagnose

    diagnosis = diagnose(device or "auto")
    with hushed(quiet):
        say([diagnosis.as_json()] if as_json else coloured(diagnosis.lines()))
    return diagnosis.exit_code


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    """Declarative experiments on how bytes cross between host and GPU: YAML in, tidy tables out."""
    if version:
        say([f"dmalab {__version__}"])
        raise typer.Exit(0)


def load_all(files: Sequence[str], overrides: Sequence[str]) -> list[LoadedExperiment]:
    """Read all files; raises one InputError with every problem of every file."""
    return gathered([functools.partial(load_experiment, file, overrides) for file in files])


def count_all(experiments: Sequence[LoadedExperiment], max_cases: int) -> list[GridCount]:
    """Expand every grid and count its cases, or raise one InputError with every problem."""
    return gathered([functools.partial(count_grid, loaded, max_cases) for loaded in experiments])


def gathered(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return what all calls return; where some raise InputError, raise one that says it all."""
    results, errors = [], []
    for call in calls:
        try:
            results.append(call())
        except InputError as error:
            errors.append(str(error))
    if errors:
        raise InputError("\n".join(errors))
    return results


@contextmanager
def watching() -> Iterator[Watcher]:
    """Lend the means to print to what follows a run: a progress bar on a terminal, plain lines elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    from runner.watch import LineWatcher, TerminalWatcher, bar_columns

    console = Console(highlight=False, markup=False)
    if is_hushed() or not console.is_interactive:
        yield LineWatcher(lambda line: say([line]))
        return
    progress = Progress(*bar_columns(), console=console, auto_refresh=False, transient=True)
    try:
        yield TerminalWatcher(console.print, progress)
    finally:
        progress.stop()
