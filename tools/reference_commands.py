"""The page of commands, from the command line's own tree.

Typer brings click along or a copy of its own, by version: what both have is used here, and neither is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import typer

from runner import cli
from tools.reference_models import table

_EXIT_CODES = (
    ("0", "all well"),
    ("2", "a bad file or a wrong use; nothing ran"),
    ("3", "this machine lacks something, or no case could run"),
    ("4", "some case failed, timed out, was corrupt, skipped or not run; the others have their rows"),
    ("5", "the results miss an expectation of the file, or a comparison regressed"),
    ("130", "interrupted; what was measured is written, and `--resume` goes on"),
    ("70", "a fault of dmalab itself; `DMALAB_TRACEBACK=1` shows all of it"),
)


def commands_page() -> str:
    """Return every command with its arguments and options, and the exit codes."""
    root = typer.main.get_command(cli.app)
    lines = [
        "# Commands",
        "",
        "`dmalab VERB`, or `python -m runner VERB`. `dmalab VERB --help` says the same as this page.",
        "",
        *(line for name, command in sorted(_commands(root)) for line in _section(name, command)),
        "## Exit codes",
        "",
        *table(["code", ""], _EXIT_CODES),
        "",
        "Where several hold, the first of 130, 70, 3, 2, 4, 5. `make` turns every one of them into 2: scripts call `dmalab`.",
    ]
    return "\n".join(lines) + "\n"


def _commands(root: Any, lead: str = "") -> Iterator[tuple[str, Any]]:
    children = getattr(root, "commands", {})
    for name, command in children.items():
        if not command.hidden:
            yield from _commands(command, f"{lead}{name} ")
    if not children:
        yield lead.strip(), root


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not getattr(one, "hidden", False)]
    used = " ".join(["dmalab", name, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    yield from (f"## {name}", "", f"`{used}`", "", " ".join((command.help or "").split()), "")
    rows = [(_argument(one), _help(one)) for one in arguments] + [(_option(one), _help(one)) for one in options]
    if rows:
        yield from (*table(["argument or option", ""], [(f"`{one}`", text) for one, text in rows]), "")


def _argument(parameter: Any) -> str:
    shown = parameter.metavar or (parameter.name or "").upper()
    many = f"{shown}…" if parameter.nargs == -1 else shown
    return many if parameter.required or many.startswith("[") else f"[{many}]"


def _option(parameter: Any) -> str:
    names = ", ".join(sorted(parameter.opts + parameter.secondary_opts, key=len))
    return names if getattr(parameter, "is_flag", False) else f"{names} {parameter.metavar or parameter.name.upper()}"


def _help(parameter: Any) -> str:
    text = " ".join((getattr(parameter, "help", None) or "").split())
    default = parameter.default
    plain = isinstance(default, str | int | float | PurePath) and not isinstance(default, bool) and str(default)
    return f"{text} Default: `{default}`." if plain else text
