"""`--set KEY=VALUE`: changing single values of a document after it was read and before it is validated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.errors import Problem, SpecError
from runner.spec.compose import shorten
from runner.spec.nodes import read_value
from runner.spec.places import Document, Path, Place, nearest


def override(document: Document, settings: Sequence[str]) -> list[Problem]:
    """Change `document` in place by each `KEY=VALUE` in turn; return what is wrong with them.

    KEY is a dotted way such as `scenarios.overlapped.chunk` or `measure.samples`, with numbers from 0 for places in a list; VALUE
    is YAML by the same rules as in the file. A key that no model knows is left to the validation, which names the `--set`.
    """
    return [problem for setting in settings for problem in _apply(document, setting)]


def _apply(document: Document, setting: str) -> list[Problem]:
    label = f"--set {shorten(setting)}"
    key, equals, text = setting.partition("=")
    steps = key.strip().split(".")
    if not equals or not all(steps):
        return [Problem(label, "KEY=VALUE is expected", hint="write for example --set measure.samples=20")]
    try:
        given, problems = read_value(text, label)
    except SpecError as error:
        return list(error.problems)
    fault = _unknown_scenario(document, steps, label)
    if fault is not None:
        return [fault, *problems]
    node, path, message = _walk(document, steps[:-1], label)
    if message == "":
        message = _put(document, node, path, steps[-1], given)
    return problems if message == "" else [Problem(label, message, path=key.strip()), *problems]


def _unknown_scenario(document: Document, steps: Sequence[str], label: str) -> Problem | None:
    """Refuse a scenario that the file does not have: the override would make a new one, out of a misspelt name."""
    scenarios = document.content.get("scenarios")
    if steps[0] != "scenarios" or len(steps) < 2 or not isinstance(scenarios, dict) or steps[1] in scenarios:
        return None
    hint = nearest(steps[1], scenarios)
    message = f"there is no scenario {steps[1]}"
    return Problem(label, message, path=".".join(steps), allowed=", ".join(scenarios), hint=hint)


def _walk(document: Document, steps: Sequence[str], label: str) -> tuple[Any, Path, str]:
    """Return the mapping or list to which `steps` lead, made where it is missing, its path, and why it cannot be reached."""
    node: Any = document.content
    path: Path = ()
    for step in steps:
        where = _step(node, step)
        if where is None:
            return node, path, f"{step} cannot be reached: {_what(node)}"
        path = (*path, where)
        if isinstance(node, dict) and (where not in node or node[where] is None):
            node[where] = {}
            document.values[path] = Place(label, text="a mapping")
            document.keys[path] = Place(label, text=step)
        node = node[where]
    return node, path, ""


def _put(document: Document, node: Any, path: Path, step: str, given: Document) -> str:
    where = _step(node, step)
    if where is None:
        return f"{step} cannot be set: {_what(node)}"
    path = (*path, where)
    for places in (document.values, document.keys):
        for old in [each for each in places if each[: len(path)] == path]:
            del places[old]
    node[where] = given.content
    document.keys[path] = Place(given.file, text=step)
    document.values.update({path + inner: place for inner, place in given.values.items()})
    document.keys.update({path + inner: place for inner, place in given.keys.items()})
    return ""


def _step(node: Any, step: str) -> str | int | None:
    """Return the key or index that `step` means in `node`, None where it means nothing there."""
    if isinstance(node, dict):
        return step
    if isinstance(node, list) and step.isascii() and step.isdigit() and len(step) < 6 and int(step) < len(node):
        return int(step)
    return None


def _what(node: Any) -> str:
    return f"a list of {len(node)} values is there, counted from 0" if isinstance(node, list) else "a single value is there"
