"""What to type on this system for a thing that is missing: its package manager's own line, or where the thing comes from."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Thing = Literal["compiler", "headers", "driver", "toolkit", "venv", "cpupower", "numactl"]

PACKAGES: Final[Mapping[str, Mapping[Thing, str]]] = {
    "apt-get": {
        "compiler": "g++",
        "headers": "python{python}-dev",
        "driver": "nvidia-driver",
        "toolkit": "nvidia-cuda-toolkit",
        "venv": "python{python}-venv",
        "cpupower": "linux-cpupower",
        "numactl": "numactl",
    },
    "dnf": {
        "compiler": "gcc-c++",
        "headers": "python{python}-devel",
        "venv": "python{python}",
        "cpupower": "kernel-tools",
        "numactl": "numactl",
    },
    "zypper": {
        "compiler": "gcc-c++",
        "headers": "python{digits}-devel",
        "venv": "python{digits}",
        "cpupower": "cpupower",
        "numactl": "numactl",
    },
    "pacman": {
        "compiler": "gcc",
        "headers": "python",
        "driver": "nvidia-utils",
        "toolkit": "cuda",
        "venv": "python",
        "cpupower": "cpupower",
        "numactl": "numactl",
    },
    "apk": {"compiler": "g++", "headers": "python3-dev", "venv": "python3", "cpupower": "cpupower", "numactl": "numactl"},
}
"""Package manager → thing → the package's name there; a thing that is absent is in none of its usual sources."""
COMMANDS: Final = {
    "apt-get": "apt-get install -y",
    "dnf": "dnf install -y",
    "zypper": "zypper install -y",
    "pacman": "pacman -S",
    "apk": "apk add",
}
PAGES: Final[Mapping[Thing, str]] = {
    "driver": "https://www.nvidia.com/drivers",
    "toolkit": "https://developer.nvidia.com/cuda-downloads",
}
"""Where NVIDIA itself gives what a system's own packages lack."""


@dataclass(frozen=True, slots=True)
class System:
    """A system as far as installing goes: its package manager (empty where unknown), and whether this user is root.

    `distribution` is the `ID` of /etc/os-release, `container` the kind of container that this is, `wsl` whether Windows is below.
    """

    manager: str = ""
    root: bool = False
    distribution: str = ""
    container: str = ""
    wsl: bool = False

    def install(self, *things: Thing) -> str:
        """Return the line that installs these things, or in words where they come from."""
        if "driver" in things and (where := self._driver_of_the_host()):
            return where
        known = PACKAGES.get(self.manager, {})
        there, absent = [each for each in things if each in known], [each for each in things if each not in known]
        python, digits = f"{sys.version_info[0]}.{sys.version_info[1]}", f"{sys.version_info[0]}{sys.version_info[1]}"
        names = [known[each].format(python=python, digits=digits) for each in there]
        lines = [f"type: {self._as_root()}{COMMANDS[self.manager]} {' '.join(names)}"] if names else []
        return "; ".join([*lines, *(f"get {each} from {PAGES.get(each, 'your system')}" for each in absent)])

    def _driver_of_the_host(self) -> str:
        """Say where the driver comes from where it is not this system's own affair, or has a command of its own."""
        if self.wsl:
            return "install NVIDIA's driver in Windows; none is installed inside WSL"
        if self.container:
            return "install the driver on the host and NVIDIA's container toolkit, and start the container with --gpus all"
        return f"type: {self._as_root()}ubuntu-drivers install" if self.distribution == "ubuntu" else ""

    def _as_root(self) -> str:
        return "" if self.root else "sudo "


def this_system(files: Path, environment: Mapping[str, str], container: str = "") -> System:
    """Look at the system whose files lie below `files`."""
    manager = next((name for name in PACKAGES if shutil.which(name, path=environment.get("PATH", ""))), "")
    release = _text(files / "etc/os-release")
    entries = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    wsl = "microsoft" in _text(files / "proc/sys/kernel/osrelease").lower()
    return System(manager, os.geteuid() == 0, entries.get("ID", "").strip('"'), container, wsl)


def pip_line(what: str) -> str:
    """Return the line that installs packages into this very Python."""
    return f"type: {sys.executable} -m pip install {what}"


def cuda_line(checkout: bool, *, driver: bool) -> str:
    """Return the line that makes PyCUDA and what it needs ready, in a checkout or for an installed dmalab.

    It stops where there is no `driver`, so that this comes first.
    """
    line = "type: make cuda" if checkout else "type: dmalab install-cuda"
    return line if driver else f"after the driver, {line}"


def in_checkout() -> bool:
    """Tell whether this dmalab runs from a checkout, which has a Makefile."""
    return (Path(__file__).resolve().parents[1] / "Makefile").is_file()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
