"""The verbs that look at what runs left behind; `runner.cli` registers them beside the others."""

from __future__ import annotations

import typer

from runner import cli_advise, cli_model, cli_reports, cli_runs, cli_start, cli_timeline


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line, in the order in which its help lists them."""
    app.command()(cli_start.init)
    app.command()(cli_start.schema)
    app.command("install-cuda")(cli_start.install_cuda)
    app.command()(cli_reports.show)
    app.command()(cli_reports.report)
    app.command()(cli_reports.pivot)
    app.command()(cli_reports.export)
    app.command()(cli_runs.compare)
    app.command()(cli_timeline.timeline)
    app.command()(cli_advise.advise)
    app.command()(cli_model.calibrate)
    app.command()(cli_model.validate_model)
