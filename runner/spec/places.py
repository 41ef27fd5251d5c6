"""A YAML document as plain values, with the place in its file of every key and value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from runner.errors import Problem

Path = tuple[str | int, ...]
"""The way from the top of a document to a value: keys of mappings and indices of lists."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key or value stands: the file (or the `--set` that gave it), line and column from 1, and its text as written."""

    file: str
    line: int = 0
    column: int = 0
    text: str = ""


@dataclass(slots=True)
class Document:
    """What was read from YAML: a mapping, or one value of an override.

    `values[path]` and `keys[path]` are the places of values and of the keys before them.

    Every value is a str, int, float, bool, None, list or dict of its own: aliases were copied, so changing one changes no other.
    """

    file: str
    content: Any
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)

    def path_of(self, loc: Iterable[str | int]) -> Path:
        """Return the longest way that exists here, leaving out what a validator put in between, such as a union's tag."""
        path: Path = ()
        for step in loc:
            if (*path, step) in self.values:
                path = (*path, step)
        return path

    def problem(
        self,
        loc: Iterable[str | int],
        message: str,
        *,
        at_key: bool = False,
        told: bool = True,
        allowed: str = "",
        hint: str = "",
    ) -> Problem:
        """Make a Problem at the value (or the key) at `loc`; a value is `told` with the text that the file has there."""
        path = self.path_of(loc)
        place = self.keys[path] if at_key and path in self.keys else self.values.get(path, Place(self.file))
        shown = "" if at_key or not told else place.text
        return Problem(place.file, message, place.line, place.column, dotted(path), shown, allowed, hint)


def dotted(path: Path) -> str:
    """Write a path as people do: `scenarios.overlapped.chunk[2]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `did you mean X?` for the known word closest to `word`, empty where none is close."""
    by_lower_case = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return f"did you mean {by_lower_case[found[0]]}?" if found else ""
