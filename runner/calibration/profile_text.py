"""A profile as the text of its file: a line a parameter, so that two profiles can be laid side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from runner.calibration.parameters import Node

_LEAVES: Final = ("how", "cases")
"""What has one of these keys stands on one line: a parameter with its origin, the errors of one sort of cases."""


def profile_text(data: Node) -> str:
    """Return the YAML of a profile."""
    return "\n".join(_lines(data, "")) + "\n"


def _lines(node: Node, indent: str) -> Iterator[str]:
    for name, value in node.items():
        key = _flow(name)
        if isinstance(value, dict) and not any(leaf in value for leaf in _LEAVES):
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{key}: {_flow(value)}"


def _flow(value: Any) -> str:
    """Return a value on one line; the end that the writer marks after a bare word is taken off."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.strip().removesuffix("...").strip()
