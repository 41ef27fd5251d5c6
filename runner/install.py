"""`dmalab install-cuda`: from an NVIDIA driver to a PyCUDA that works, with the machine's CUDA toolkit or without one.

PyCUDA comes as source and is built with the headers and the nvcc of a CUDA toolkit. Where the machine has the driver alone, nvcc,
headers and runtime come from NVIDIA's own packages for Python, of the driver's major version and never newer than the driver,
and stay where `runner.device.cuda.toolchain` finds them. Only this Python's packages are changed.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runner.device.cuda.toolchain import Nvcc, find_nvcc, host_compiler
from runner.doctor_advice import System, Thing
from runner.errors import DeviceUnavailable, EnvironmentProblem

Release = tuple[int, int]

COMPILER_PARTS: Final = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-profiler-api")
"""NVIDIA's packages that are together a compiler, its headers and the runtime that PyCUDA's build and a kernel need."""
FIRST_WITH_COMPILER: Final = 13
"""The first major version whose packages have nvcc itself: those of CUDA 12 have ptxas and the headers alone."""
OF_THE_DRIVER: Final = ("cuda-", "cupti-")
"""Begins of the names of packages whose version goes by the driver's, so that no lock can name it."""
NO_CURAND: Final = "--config-settings=--global-option=--conf:CUDA_ENABLE_CURAND=False"
"""PyCUDA's random numbers need a library of 130 MB, and nothing here uses them."""
CHECK: Final = "import pycuda.driver, cuda.bindings.driver, pynvml; print(pycuda.VERSION_TEXT)"

Runner = Callable[[Sequence[str], Mapping[str, str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class Driver:
    """An NVIDIA driver: the CUDA version that it speaks, and the path of its library."""

    release: Release
    library: str

    @property
    def version(self) -> str:
        """The CUDA version as people write it, such as `13.0`."""
        return f"{self.release[0]}.{self.release[1]}"


@dataclass(slots=True)
class Installer:
    """Makes PyCUDA ready for a driver; every program that it starts is started by `start`, in `environment`.

    `constraints` are lines of a lock (`name==version`), `system` knows what to type on this machine, `say` is told each step.
    """

    driver: Driver
    environment: Mapping[str, str]
    system: System
    start: Runner
    say: Callable[[str], None]
    constraints: Sequence[str] = ()

    def install(self, *, from_packages: bool = False) -> Nvcc:
        """Install all and return the compiler; `from_packages` passes over a toolkit of this machine.

        Raises EnvironmentProblem with the cause and what to type.
        """
        self._require_build_tools()
        nvcc = None if from_packages else self._compiler_at_hand()
        if nvcc is None:
            nvcc = self._fetch_compiler()
        self.say(f"building PyCUDA with nvcc {nvcc.version} ({nvcc.path}), for CUDA {self.driver.version}; about a minute ...")
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "libcuda.so").symlink_to(self.driver.library)
            self._pip(folder, [NO_CURAND, "--no-cache-dir"], packages_for(self.driver.release), nvcc)
        self._check()
        return nvcc

    def _compiler_at_hand(self) -> Nvcc | None:
        try:
            found = find_nvcc("cuda", self.environment)
        except DeviceUnavailable:
            return None
        if found.release[0] <= self.driver.release[0]:
            return found
        newer = f"nvcc {found.version} is newer than the driver, which has CUDA {self.driver.version}"
        self.say(f"passing over {found.path}: {newer}")
        return None

    def _fetch_compiler(self) -> Nvcc:
        major = self.driver.release[0]
        if major < FIRST_WITH_COMPILER:
            raise EnvironmentProblem(
                f"this machine has no CUDA toolkit that its driver can use, and NVIDIA's packages for Python have no nvcc for "
                f"CUDA {major}; for the toolkit {self.system.install('toolkit')}; or install a driver of CUDA 13 (580 or newer)"
            )
        self.say(f"fetching nvcc, headers and runtime from NVIDIA's packages for CUDA {self.driver.version}; about 100 MB ...")
        with tempfile.TemporaryDirectory() as scratch:
            self._pip(Path(scratch), [], compiler_packages(self.driver.release), None)
        folder = Path(sysconfig.get_path("purelib")) / "nvidia" / f"cu{major}" / "bin"
        return find_nvcc("cuda", {**self.environment, "PATH": f"{folder}{os.pathsep}{self.environment.get('PATH', '')}"})

    def _pip(self, folder: Path, options: Sequence[str], packages: Sequence[str], nvcc: Nvcc | None) -> None:
        lock = folder / "constraints.txt"
        lock.write_text("\n".join(applicable(self.constraints)), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--constraint", str(lock)]
        done = self.start([*command, *options, *packages], build_environment(self.environment, nvcc, folder))
        if done.returncode:
            raise EnvironmentProblem(f"pip could not install {', '.join(packages)}: {last_words(done.stdout + done.stderr)}")

    def _check(self) -> None:
        done = self.start([sys.executable, "-c", CHECK], self.environment)
        if done.returncode:
            raise EnvironmentProblem(f"PyCUDA was built but cannot be loaded: {last_words(done.stderr)}; see: dmalab doctor")

    def _require_build_tools(self) -> None:
        """Raise EnvironmentProblem for what neither nvcc nor PyCUDA's build can do without, all at once."""
        missing: list[Thing] = []
        if host_compiler(self.environment) is None or not shutil.which("g++", path=self.environment.get("PATH", "")):
            missing.append("compiler")
        if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
            missing.append("headers")
        if missing:
            names: dict[Thing, str] = {"compiler": "a C++ compiler (g++)", "headers": "Python's headers (Python.h)"}
            lacking = " and ".join(names[each] for each in missing)
            raise EnvironmentProblem(f"PyCUDA is built here, which needs {lacking}; {self.system.install(*missing)}")


def find_driver(load: Callable[[str], Any] = ctypes.CDLL, maps: Path = Path("/proc/self/maps")) -> Driver | None:
    """Return the NVIDIA driver of this machine; None where there is none, or it does not tell its version."""
    try:
        library = load("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    if library.cuDriverGetVersion(ctypes.byref(version)) or version.value <= 0:
        return None
    # As a number: 1000 * major + 10 * minor (CUDA driver API, cuDriverGetVersion).
    release = (version.value // 1000, version.value % 1000 // 10)
    paths = re.findall(r"\S*/libcuda\.so\S*", maps.read_text(encoding="utf-8", errors="replace")) if maps.is_file() else []
    return Driver(release, paths[0] if paths else "libcuda.so.1")


def compiler_packages(release: Release) -> tuple[str, ...]:
    """Return NVIDIA's packages that are a compiler for a driver: of its major version, and no newer than it."""
    major, minor = release
    return tuple(f"{name}>={major}.0,<{major}.{minor + 1}" for name in COMPILER_PARTS)


def packages_for(release: Release) -> tuple[str, ...]:
    """Return what the extra `cuda` asks for, and the recorder of the extra `profile` where there is one for the driver."""
    major, minor = release
    bindings = f"cuda-bindings>={12.8 if major == 12 else major},<{major + 1}"
    recorder = (f"cupti-python>=13,<{major}.{minor + 1}",) if major >= FIRST_WITH_COMPILER else ()
    return ("pycuda>=2026.1", bindings, "nvidia-ml-py>=12", "nvtx>=0.2.11", *recorder)


def applicable(constraints: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a lock, but not those of packages whose version goes by the driver's."""
    return (line for line in constraints if not line.startswith((*OF_THE_DRIVER, *COMPILER_PARTS, "nvidia-cuda-")))


def build_environment(environment: Mapping[str, str], nvcc: Nvcc | None, libraries: Path) -> dict[str, str]:
    """Return the variables for a build of PyCUDA, which takes the toolkit of the first nvcc on PATH.

    `libraries` has libcuda.so, the name that the linker looks for and that a driver does not always bring.
    """
    if nvcc is None:
        return dict(environment)
    path = f"{Path(nvcc.path).parent}{os.pathsep}{environment.get('PATH', '')}"
    known = environment.get("LIBRARY_PATH")
    return {**environment, "PATH": path, "LIBRARY_PATH": f"{libraries}{os.pathsep}{known}" if known else str(libraries)}


def last_words(text: str) -> str:
    """Return the lines of a failed program's output that say most: those with `error`, else the last ones, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\berror\b|No matching distribution|No such file", line, re.IGNORECASE)]
    return " | ".join((telling or lines)[-3:]) or "it said nothing"


@contextmanager
def logging_to(log: Path | None) -> Iterator[Runner]:
    """Lend what starts a program and keeps what it says in the file `log`."""
    if log is not None:
        log.write_text("", encoding="utf-8")

    def start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}\n")
        return done

    yield start
