"""The tools for set-ups: locks that fit the package, and what is fetched for a machine without network."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import lock, wheels

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED = [
    *PROJECT["dependencies"],
    *(each for extra in lock.EXTRAS.split(",") for each in PROJECT["optional-dependencies"][extra]),
]


@pytest.mark.parametrize("python", lock.PYTHONS)
def test_every_lock_fits_what_the_package_asks_for(python: str) -> None:
    lines = lock.lock_of(python).read_text(encoding="utf-8").splitlines()
    assert lines[0] == lock.HEAD.format(python=python)
    assert all(re.fullmatch(r"[a-z0-9.-]+==[0-9][0-9a-z.+!]*", line) for line in lines[1:])
    versions = dict(line.split("==") for line in lines[1:])
    for text in ASKED:
        asked = Requirement(text)
        assert asked.specifier.contains(versions[asked.name.lower().replace("_", "-")]), f"{text}: make lock writes the locks"


def test_a_report_of_pip_becomes_lines_in_order_without_the_package_itself() -> None:
    report = {"install": [{"metadata": {"name": name, "version": "1"}} for name in ("PyYAML", "dmalab", "types_PyYAML", "a")]}
    assert lock.pinned(report) == ["a==1", "pyyaml==1", "types-pyyaml==1"]


def test_a_python_that_does_not_start_is_not_there() -> None:
    assert not lock.is_there("3.0")


def test_what_is_fetched_goes_by_the_driver() -> None:
    assert wheels.wanted(None) == [".[dev]", *wheels.BUILDERS]
    assert "nvidia-nvvm>=13.0,<13.1" in wheels.wanted((13, 0))
    assert "pycuda>=2026.1" in wheels.wanted((12, 8))
    assert not any(each.startswith("nvidia-nvvm") for each in wheels.wanted((12, 8)))
    assert wheels.release_of("13.0") == (13, 0)
    with pytest.raises(ValueError, match="no CUDA version"):
        wheels.release_of("13")
