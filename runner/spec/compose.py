"""From YAML text to PyYAML's nodes, within limits, every refusal in plain words with its line and column.

PyYAML's pure Python scanner is used on every machine, also where libyaml is at hand: the two differ in tabs and in what they say,
and an experiment is too short for the difference in speed to matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

from runner.errors import Problem, SpecError

DEEPEST: Final = 32
MOST_NODES: Final = 20_000
"""Keys and values of one document, aliases counted as often as they are used, so that nested aliases cannot fill the memory."""
_LONGEST_SHOWN: Final = 60
_BREAKS: Final = "\r\n\x85\u2028\u2029"


@dataclass(slots=True)
class Refused(Exception):
    """Reading stops here: the document is no YAML that we take."""

    message: str
    mark: Any = None
    hint: str = ""


class _Loader(yaml.SafeLoader):
    """Composes nodes only: refuses tags and too many or too deep nodes while reading, and resolves no scalar."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.nodes += 1
        self.depth += 1
        if self.nodes > MOST_NODES:
            raise Refused(f"the document has more than {MOST_NODES:,} keys and values", event.start_mark)
        if self.depth > DEEPEST:
            raise Refused(f"the document is nested deeper than {DEEPEST} levels", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise Refused(
                f"the tag {shorten(event.tag.replace('tag:yaml.org,2002:', '!!'))} is not allowed",
                event.start_mark,
                "leave it out; put text in quotes",
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        return "tag:yaml.org,2002:str"


def compose(text: str, file: str, placed: bool = True) -> yaml.Node | None:
    """Return the node of the one document in `text`, None for none; raises SpecError, with lines and columns where `placed`."""
    try:
        loader = _Loader(text)
        node: yaml.Node | None = loader.get_single_node()
    except Refused as refused:
        raise SpecError([problem_of(file, refused, placed)]) from None
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text, error.position) if placed else (0, 0)
        message = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        raise SpecError([Problem(file, message, line, column)]) from None
    except yaml.MarkedYAMLError as error:
        raise SpecError([problem_of(file, _explain(text, error), placed)]) from None
    except (yaml.YAMLError, ValueError, ArithmeticError) as error:
        # PyYAML lets a few such out of its scanner, for example for an escape beyond Unicode ("\UFFFFFFFF").
        raise SpecError([Problem(file, f"this is not YAML: {error}")]) from None
    return node


def _explain(text: str, error: yaml.MarkedYAMLError) -> Refused:
    """Say in plain words what PyYAML found: a tab first of all, since it cannot be seen."""
    mark = error.problem_mark or error.context_mark
    tab = _tab_near(text, mark.index) if mark else None
    if tab is not None:
        line, column = _line_and_column(text, tab)
        return Refused("tab character; use spaces", yaml.Mark("", tab, line - 1, column - 1, None, 0))
    problem = error.problem or "it cannot be read"
    if "expected a single document" in (error.context or ""):
        return Refused("one document expected, another one begins here", mark, "keep one experiment in a file")
    if "found undefined alias" in problem:
        return Refused(problem.replace("found undefined", "there is no anchor for the"), mark)
    if "mapping values are not allowed" in problem:
        return Refused("a colon makes no mapping here", mark, "put a text with a colon in quotes; check the indentation")
    context = f", {error.context}" if error.context else ""
    if error.context_mark and mark and error.context_mark.line != mark.line:
        context += f" that begins in line {error.context_mark.line + 1}"
    return Refused(f"this is not YAML: {problem.replace(chr(10), ' ')}{context}", mark)


def _tab_near(text: str, index: int) -> int | None:
    """Return the index of a tab at the place of an error, or in the blanks at the begin of its line."""
    if text[index : index + 1] == "\t":
        return index
    begin = max(text.rfind(each, 0, index) for each in _BREAKS) + 1
    blanks = text[begin : len(text) - len(text[begin:].lstrip(" \t"))]
    return begin + blanks.index("\t") if "\t" in blanks else None


def problem_of(file: str, refused: Refused, placed: bool = True) -> Problem:
    """Make the Problem of a refusal."""
    line, column = (refused.mark.line + 1, refused.mark.column + 1) if refused.mark and placed else (0, 0)
    return Problem(file, refused.message, line, column, hint=refused.hint)


def _line_and_column(text: str, index: int) -> tuple[int, int]:
    lines = text[:index].replace("\r\n", "\n").splitlines(keepends=True) or [""]
    if lines[-1][-1:] and lines[-1][-1] in _BREAKS:
        lines.append("")
    return len(lines), len(lines[-1]) + 1


def shorten(text: str) -> str:
    """Return a text in one line of at most 60 characters, to be shown."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _LONGEST_SHOWN else one_line[: _LONGEST_SHOWN - 1] + "…"
