"""`make lock`: write the versions of all that a set-up installs, for each Python that is found, as requirements/lock-3.N.txt.

A lock is a file of constraints: `make` keeps to it, so that a set-up of next year is that of today. Users of the package get the
ranges of pyproject.toml instead.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ROOT / "requirements"
PYTHONS: Final = ("3.11", "3.12", "3.13")
EXTRAS: Final = "dev,cuda,plot,profile,parquet"
HEAD: Final = "# Written by `make lock`: what `make` installs with Python {python}."


def lock_of(python: str) -> Path:
    """Return the path of the lock for a Python such as `3.12`."""
    return LOCKS / f"lock-{python}.txt"


def pinned(report: Mapping[str, Any]) -> list[str]:
    """Return `name==version` for each package of a report of pip, but not for dmalab itself, in alphabetical order."""
    found = {each["metadata"]["name"].lower().replace("_", "-"): each["metadata"]["version"] for each in report["install"]}
    return [f"{name}=={version}" for name, version in sorted(found.items()) if name != "dmalab"]


def is_there(python: str) -> bool:
    """Tell whether this Python starts: a name on PATH alone may be a manager's that has no such version."""
    try:
        return subprocess.run([f"python{python}", "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def resolve(python: str) -> list[str]:
    """Ask pip of a fresh environment what it would install; raises CalledProcessError where it cannot tell."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([f"python{python}", "-m", "venv", scratch], check=True)
        report = Path(scratch) / "report.json"
        command = [f"{scratch}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        subprocess.run([*command, "--ignore-installed", "--report", str(report), f".[{EXTRAS}]"], cwd=ROOT, check=True)
        return pinned(json.loads(report.read_text(encoding="utf-8")))


def main(pythons: Iterable[str]) -> int:
    """Write the locks; says which Pythons are not here."""
    LOCKS.mkdir(exist_ok=True)
    for python in pythons:
        if not is_there(python):
            print(f"python{python} is not on PATH: {lock_of(python).name} stays as it is", file=sys.stderr)
            continue
        lines = resolve(python)
        lock_of(python).write_text("\n".join([HEAD.format(python=python), *lines]) + "\n", encoding="utf-8")
        print(f"{lock_of(python).relative_to(ROOT)}: {len(lines)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PYTHONS))
