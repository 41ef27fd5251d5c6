"""docs/reliability.md names what protects from each mistake: a test that there is, or a sentence why it cannot happen."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEADING = "## Mistakes that others have made\n"


def protections() -> list[tuple[str, str]]:
    """Return the rows of the table: what goes wrong, and what protects."""
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").partition(HEADING)[2]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(mistake.strip(), protection.strip()) for mistake, protection in rows[2:]]


def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


def test_the_table_is_found() -> None:
    mistakes = [mistake for mistake, _ in protections()]
    assert len(mistakes) == len(set(mistakes)) > 50


def rows_between(heading: str, end: str) -> list[str]:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").partition(heading)[2].partition(end)[0]
    return [line for line in text.splitlines() if line.startswith("| ")][2:]


def test_every_fault_around_a_run_is_shown_by_a_test() -> None:
    rows = rows_between("## Faults around a run\n", "\n## ")
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        assert all(name in names_in(ROOT / path) for path, name in named), row


@pytest.mark.parametrize(("mistake", "protection"), protections(), ids=[mistake for mistake, _ in protections()])
def test_what_protects_is_there(mistake: str, protection: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", protection)
    missing = [name for path, name in named if name not in names_in(ROOT / path)]
    assert not missing, f"{mistake}: there is no {missing}"
    assert named or protection.endswith("."), f"{mistake}: neither a test nor a sentence"
