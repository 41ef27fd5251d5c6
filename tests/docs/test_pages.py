"""Every command, YAML and Python block of the README and of docs/ does what its page says, on the simulated device."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from runner import cli
from runner.expand import expand
from runner.spec.load import load_experiment
from tests.docs.blocks import LANGUAGES, Block, blocks_of, prints

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_BLOCKS: Final = [page for page in PAGES if blocks_of(page)]
ON_A_DEVICE: Final = ("run", "claims", "doctor", "advise")
"""Verbs that take the first GPU there is; here the simulated device instead, whatever the machine."""
ELSEWHERE: Final = {
    "test",
    "check",
    "docs",
    "bench",
    "bench-cluster",
    "bench-gpu",
    "soak",
    "clean",
    "wheels",
    "cuda",
    "calibrate",
    "validate-model",
}
"""Targets of make that take the whole suite, the network, a GPU, or the checkout itself: only that they exist is tried here."""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=named)
def test_every_block_of_a_page_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    for block in blocks_of(page):
        where = f"{named(page)}, line {block.line}"
        assert block.language in LANGUAGES, f"{where}: a block is {', '.join(LANGUAGES)}"
        if block.mark not in ("not run", "recipe"):
            TRIED[block.language](block, where, tmp_path)
        assert block.mark != "not run" or block.value, f"{where}: say why it cannot run"


def try_commands(block: Block, where: str, folder: Path) -> None:
    for command, printed in block.commands():
        code, output = done(shlex.split(command, comments=True), folder, on_gpu=block.mark == "gpu")
        wanted = block.value.split(" or ") if block.mark == "exit" else ["0"]
        assert str(code) in wanted, f"{where}: {command} exits with {code}\n{output}"
        assert prints(printed, output), f"{where}: {command} does not print\n{printed}\nbut\n{output}"


def try_yaml(block: Block, where: str, folder: Path) -> None:
    text = block.text
    if block.mark == "scenarios":
        text = "name: fragment\nquestion: Does it load?\nscenarios:\n" + indented(text)
    if block.mark == "expect":
        whole = max(folder.glob("*.yaml"), key=lambda path: path.stat().st_mtime_ns).read_text(encoding="utf-8")
        text = whole + ("" if re.search(r"^expect:", whole, re.MULTILINE) else "expect:\n") + indented(text)
    name = re.search(r"^name: ([a-z0-9_-]+)", text, re.MULTILINE)
    assert name, f"{where}: no whole file; say with a comment what it belongs to"
    path = folder / f"{name[1]}.yaml"
    path.write_text(text, encoding="utf-8")
    assert list(expand(load_experiment(path))), where


def try_python(block: Block, where: str, folder: Path) -> None:
    exec(compile(block.text, where, "exec"), {"__name__": "page"})  # the page's own words, run as a reader would


def try_text(block: Block, where: str, folder: Path) -> None:
    assert block.text.strip(), where


TRIED: Final = {"console": try_commands, "yaml": try_yaml, "python": try_python, "text": try_text}


def done(words: list[str], folder: Path, *, on_gpu: bool) -> tuple[int, str]:
    """Run a command of a page in `folder`; return its exit code and all that it printed."""
    if words[0] == "make":
        return made(words[1:], folder)
    assert words[0] == "dmalab", f"{words[0]} is neither dmalab nor make: mark the block `not run` and say why"
    arguments = [re.sub(r"^cuda(:\d+)?$", "simulated", word) for word in words[1:]] if on_gpu else words[1:]
    if arguments[0] in ON_A_DEVICE and "--device" not in arguments:
        arguments += ["--device", "simulated"]
    result = CliRunner().invoke(cli.app, arguments)
    return result.exit_code, result.output


def made(words: list[str], folder: Path) -> tuple[int, str]:
    """Run a target with this Python in place of .venv; of those that are not for here, only see that they exist."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert words[0] in targets, f"make {words[0]} does not exist"
    if words[0] in ELSEWHERE:
        return 0, ""
    # What is installed already is not installed again (-o), and nothing is written into the checkout.
    command = ["make", "-C", str(ROOT), "--no-print-directory", "-o", ".venv/.installed", f"PY={sys.executable}", *words]
    if words[0] in ("run", "claims"):
        command.append(f"OUT={folder / 'results'}")
    if words[0] in ("run", "plan", "claims", "doctor") and not any(word.startswith("DEVICE=") for word in words):
        command.append("DEVICE=simulated")
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"MAKEFLAGS": ""})
    return finished.returncode, finished.stdout + finished.stderr


def indented(text: str) -> str:
    return "".join(f"  {line}" if line.strip() else line for line in text.splitlines(keepends=True))
