"""`make wheels`: fetch into a folder all that `make run WHEELS=folder` needs on a machine without network and with this Python.

With a driver's CUDA version (`make wheels CUDA=13.0`, or that of this machine's driver) PyCUDA's source, what builds it, and
NVIDIA's compiler are fetched too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from runner.install import FIRST_WITH_COMPILER, Release, applicable, compiler_packages, find_driver, packages_for
from tools.lock import ROOT, lock_of

BUILDERS: Final = ("hatchling", "editables", "setuptools", "wheel")
"""What builds dmalab and PyCUDA; pip does not fetch it with the packages themselves."""


def wanted(release: Release | None) -> list[str]:
    """Return what is fetched, for a driver of this CUDA version or for none."""
    cuda = [*packages_for(release)] if release else []
    compiler = [*compiler_packages(release)] if release and release[0] >= FIRST_WITH_COMPILER else []
    return [".[dev]", *BUILDERS, *cuda, *compiler]


def release_of(text: str) -> Release:
    """Read a CUDA version such as `13.0`; raises ValueError for anything else."""
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", text)
    if match is None:
        raise ValueError(f"{text} is no CUDA version such as 13.0")
    return int(match[1]), int(match[2])


def main(arguments: Sequence[str]) -> int:
    """Fetch; returns pip's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--to", type=Path, default=Path("wheels"))
    parser.add_argument("--cuda", type=release_of, help="CUDA version of the driver there, such as 13.0")
    options = parser.parse_args(arguments)
    driver = find_driver()
    release = options.cuda or (driver.release if driver else None)
    options.to.mkdir(parents=True, exist_ok=True)
    lock = lock_of(f"{sys.version_info[0]}.{sys.version_info[1]}")
    constraints = options.to / "constraints.txt"
    constraints.write_text("\n".join(applicable(lock.read_text(encoding="utf-8").splitlines() if lock.is_file() else [])))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(options.to)]
    code = subprocess.run([*command, "--constraint", str(constraints), *wanted(release)], cwd=ROOT, check=False).returncode
    if code == 0:
        size = sum(path.stat().st_size for path in options.to.iterdir())
        cuda = f"for CUDA {release[0]}.{release[1]}" if release else "without CUDA (make wheels CUDA=13.0 adds it)"
        print(f"{options.to}: {size / 1e6:.0f} MB {cuda}. Take it along, then: make run EXP=overlap.yaml WHEELS={options.to}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
