"""The verb `timeline`: what each engine, stream and host lane did in one case of a run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from runner.cli_reports import RunArgument
from runner.cli_shell import guarded, say
from runner.errors import UsageError

FORMATS: tuple[str, ...] = (".json", ".svg")
WIDTH: int = 120
"""Columns of the drawing where it goes to no terminal."""


@guarded
def timeline(
    run: RunArgument,
    case: Annotated[
        list[str],
        typer.Argument(help="A case_id or its start, or a scenario and fields such as chunk=4MiB streams=3.", metavar="CASE"),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write it as .json, for Perfetto and chrome://tracing, or draw it as .svg.", metavar="FILE"),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Play the case on this device now, instead of the run's own play.", metavar="D")
    ] = None,
) -> int:
    """Show when each engine, stream and host lane worked in one case, and write it for a viewer of traces."""
    from runner.find_run import find_run
    from runner.results import read_results
    from runner.tables import check_writable, write_whole
    from runner.timeline_case import case_timeline
    from runner.timeline_page import timeline_lines, timeline_svg
    from runner.trace_events import trace_json

    if out is not None and out.suffix not in FORMATS:
        raise UsageError(f"{out} names no format of a timeline; allowed: {', '.join(FORMATS)}")
    if out is not None:
        check_writable(out)
    shown = case_timeline(read_results(find_run(run)), case, device)
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    say(timeline_lines(shown, width))
    if out is not None:
        as_events = out.suffix == ".json"
        write_whole(out, trace_json(shown) if as_events else timeline_svg(shown).encode())
        say([f"The timeline is in {out}{' (open it at ui.perfetto.dev or chrome://tracing)' if as_events else ''}."])
    return 0
