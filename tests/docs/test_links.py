"""Every link of the README, of CONTRIBUTING and of docs/ leads somewhere, and the menu of the built pages has all of docs/."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings as GitHub and the built pages make them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{link} leads nowhere"
        assert found.is_relative_to(DOCS) or not page.is_relative_to(DOCS), f"{link} leaves the pages that are built"
        assert not anchor or anchor in headings(found), f"{link} has no such heading"


def test_the_menu_has_every_page_once() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = re.findall(r"'([^']+\.md)'", str(menu))
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")), "nav in mkdocs.yml names it"


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="mkdocs-material (the extra docs) is not installed")
@pytest.mark.parametrize("planted", ["", "\n[nowhere](no-such-page.md)\n"], ids=["as it is", "with a broken link"])
def test_the_pages_are_built_and_a_broken_link_is_refused(tmp_path: Path, planted: str) -> None:
    for name in ("Makefile", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(DOCS, tmp_path / "docs")
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write(planted)
    words = ["make", "-C", str(tmp_path), "-o", ".venv/.installed", f"PY={sys.executable}", "docs"]
    built = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | {"MAKEFLAGS": ""})
    assert (built.returncode == 0) == (not planted), built.stderr
    assert ("no-such-page.md" in built.stderr) == bool(planted)
