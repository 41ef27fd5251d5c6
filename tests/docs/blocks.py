"""The fenced blocks of a page, and how each is tried: commands are run, files are written and loaded, Python is executed.

The line before a fence may be a comment that says more:

    <!-- not run: WHY -->    nothing here can run in a test, for the reason given
    <!-- gpu -->             meant for a machine with a GPU; tried on the simulated device
    <!-- exit: 5 -->         the exit code of the commands, where it is not 0; or several: 0 or 3
    <!-- scenarios -->       YAML that belongs under `scenarios:`
    <!-- expect -->          YAML that belongs under `expect:` of the page's last whole file
    <!-- recipe: PATH -->    what a reader adds to a file of the package; tests/test_recipes.py does

In a block `console` lines that begin with `$ ` are commands, the others what they print, with … for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("console", "yaml", "python", "text")
MARKS: Final = ("not run", "gpu", "exit", "scenarios", "expect", "recipe")
_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
_MARK: Final = re.compile(r"<!-- (?P<word>[a-z ]+)(?:: (?P<value>[^>]*?))? -->\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, the line of its page on which it begins, and what the comment before it says."""

    language: str
    text: str
    line: int
    mark: str
    value: str

    def commands(self) -> Iterator[tuple[str, str]]:
        """Yield each command with what it is to print; empty for anything."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed.strip("\n")


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order; a comment before one that is no mark is none."""
    text, found = page.read_text(encoding="utf-8"), []
    for fence in _FENCE.finditer(text):
        mark = _MARK.search(text, 0, fence.start())
        known = mark is not None and mark["word"] in MARKS
        lines = (line.removeprefix(fence["indent"]) for line in fence["text"].splitlines(keepends=True))
        found.append(
            Block(
                fence["language"],
                "".join(lines),
                text.count("\n", 0, fence.start()) + 1,
                mark["word"] if known and mark else "",
                (mark["value"] or "") if known and mark else "",
            )
        )
    return found


def prints(expected: str, output: str) -> bool:
    """Whether `output` holds the lines of `expected`, … standing for anything."""
    pattern = r"[\s\S]*?".join(re.escape(part) for part in expected.split("…"))
    return re.search(pattern, output) is not None
