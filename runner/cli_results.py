"""The verbs that look at what runs left behind; `runner.cli` registers them beside the others."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line, in the order in which its help lists them."""
