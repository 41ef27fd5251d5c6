"""The verbs for the first steps: making a GPU usable, writing a first file, and the schema by which an editor helps."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from runner.cli_shell import guarded, say
from runner.errors import EnvironmentProblem, InputError, UsageError
from runner.starting_file import About, Check, Wishes, starting_text, wishes_by_asking


@guarded
def install_cuda(
    lock: Annotated[
        Path | None, typer.Option("--lock", help="Versions to keep to, a line name==version each.", metavar="FILE")
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", help="Keep what pip and the compiler say here.", metavar="FILE")] = None,
    from_packages: Annotated[
        bool, typer.Option("--from-packages", help="Take NVIDIA's packages even where this machine has a CUDA toolkit.")
    ] = False,
) -> int:
    """Make PyCUDA ready for this machine's NVIDIA driver, with its CUDA toolkit or with NVIDIA's packages for Python."""
    from runner.doctor_advice import this_system
    from runner.install import Installer, find_driver, logging_to
    from runner.measure.environment import container
    from runner.placement import ROOT

    system = this_system(ROOT, os.environ, container() or "")
    driver = find_driver()
    if driver is None:
        raise EnvironmentProblem(f"this machine has no NVIDIA driver that answers; {system.install('driver')}")
    lines = lock.read_text(encoding="utf-8").splitlines() if lock is not None and lock.is_file() else []
    with logging_to(log) as start:
        installer = Installer(driver, dict(os.environ), system, start, lambda line: say([line]), lines)
        nvcc = installer.install(from_packages=from_packages)
    say([f"PyCUDA is ready, with nvcc {nvcc.version} ({nvcc.path}). To see whether numbers can be trusted: dmalab doctor"])
    return 0


@guarded
def init(
    file: Annotated[Path, typer.Argument(help="The file to write, such as question.yaml.", metavar="FILE")],
    about: Annotated[About | None, typer.Option("--about", help="What it shall be about; link where nothing is said.")] = None,
    question: Annotated[str, typer.Option("--question", help="The question, in your words.", metavar="TEXT")] = "",
    sizes: Annotated[
        list[str] | None, typer.Option("--size", help="A size, such as 64MiB; may be repeated.", metavar="SIZE")
    ] = None,
    buffers: Annotated[
        list[str] | None, typer.Option("--buffer", help="A kind of host memory; may be repeated.", metavar="KIND")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="The device of the file.", metavar="D")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> int:
    """Write a first file with comments, by these options, or on a terminal without any by a few questions."""
    from runner.expand import MOST_CASES
    from runner.grid_count import count_grid
    from runner.spec.load import load_experiment
    from runner.tables import write_whole

    if file.is_dir():
        raise UsageError(f"{file} is a folder; name a file, such as {file / 'question.yaml'}")
    if file.exists() and not force:
        raise UsageError(f"{file} is there already; choose another name, or --force")
    silent = about is None and not (question or sizes or buffers or device)
    if silent and sys.stdin.isatty() and sys.stdout.isatty():
        wishes = wishes_by_asking(_asked)
    else:
        wishes = Wishes(about or About.link, question, sizes or (), buffers or (), device or "auto")
    before = file.read_bytes() if file.exists() else None
    write_whole(file, starting_text(wishes, file, _way_to_schema(file)).encode("utf-8"))
    try:
        count_grid(load_experiment(file), MOST_CASES)
    except InputError:
        if before is None:
            file.unlink()
        else:
            write_whole(file, before)
        raise
    typed = shlex.quote(str(file))
    say([f"{file} is written. Next: dmalab plan {typed}, then: dmalab run {typed}"])
    return 0


@guarded
def schema(
    out: Annotated[Path | None, typer.Option("--out", help="A file instead of the screen.", metavar="FILE")] = None,
) -> int:
    """Write the JSON Schema of experiments, by which editors complete, explain and check them."""
    from runner.cli_reports import make_folder
    from runner.editor_schema import schema_text
    from runner.tables import write_whole

    if out is None:
        say([schema_text().rstrip("\n")])
        return 0
    make_folder(out.parent)
    write_whole(out, schema_text().encode("utf-8"))
    say([f"The schema is {out}."])
    return 0


def _asked(text: str, empty: str, check: Check) -> str:
    """Ask on the terminal until the answer can be taken."""

    def taken(answer: str) -> str:
        try:
            return check(answer)
        except UsageError as error:
            raise typer.BadParameter(str(error)) from error

    return str(typer.prompt(text, default=empty, value_proc=taken))


def _way_to_schema(file: Path) -> str:
    """Return the way from a file to the schema: a relative one within one tree, else the whole path."""
    from runner.editor_schema import schema_file

    schema, folder = schema_file(), file.absolute().parent
    within = folder.is_relative_to(schema.parents[1])
    return Path(os.path.relpath(schema, folder)).as_posix() if within else schema.as_uri()
