"""What compiling a kernel needs: nvcc, a host compiler, a toolkit that knows the device, and a private cache.

Everything here works without a GPU. What is missing is told as DeviceUnavailable, with the way out.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.errors import DeviceUnavailable

Capability = tuple[int, int]
Release = tuple[int, int]

FIRST_RELEASE: Final[Mapping[Capability, Release]] = {
    (7, 5): (10, 0),
    (8, 0): (11, 0),
    (8, 6): (11, 1),
    (8, 7): (11, 4),
    (8, 9): (11, 8),
    (9, 0): (11, 8),
    (10, 0): (12, 8),
    (10, 1): (12, 8),
    (10, 3): (12, 9),
    (11, 0): (13, 0),
    (12, 0): (12, 8),
    (12, 1): (12, 9),
}
"""The first CUDA toolkit that compiles for a compute capability (release notes of nvcc); all know the older ones."""

OLDEST_CAPABILITY: Final[Mapping[int, Capability]] = {11: (3, 5), 12: (5, 0), 13: (7, 5)}
"""The oldest compute capability that a major release of the toolkit still compiles for."""

_LOOKED_IN: Final = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
_FLAGS_OF_NVCC: Final = ("NVCC_PREPEND_FLAGS", "PYCUDA_DEFAULT_NVCC_FLAGS", "NVCC_APPEND_FLAGS")
_HOST_COMPILERS: Final = ("g++", "gcc", "cc", "clang++", "clang")
_USUAL_PLACE: Final = Path("/usr/local/cuda/bin/nvcc")


@dataclass(frozen=True, slots=True)
class Nvcc:
    """A CUDA compiler: its path and its release, (0, 0) where it would not tell."""

    path: str
    release: Release

    @property
    def version(self) -> str:
        """The release as people write it, such as `13.0`."""
        return f"{self.release[0]}.{self.release[1]}"


def find_nvcc(device: str, environment: Mapping[str, str]) -> Nvcc:
    """Find nvcc on PATH, below CUDA_HOME, CUDA_PATH and CUDA_ROOT, among this Python's packages, or in its usual place, in order.

    Raises DeviceUnavailable where there is none, or no host compiler beside it.
    """
    candidates = [shutil.which("nvcc", path=environment.get("PATH", ""))]
    candidates += [str(Path(environment[name]) / "bin" / "nvcc") for name in _LOOKED_IN if environment.get(name)]
    # What was installed beside this program was chosen for it, which the machine's usual toolkit was not.
    candidates += [*map(str, packaged_nvccs(sys.path)), str(_USUAL_PLACE)]
    path = next((candidate for candidate in candidates if candidate and os.access(candidate, os.X_OK)), None)
    if path is None:
        places = f"on PATH, below {', '.join(_LOOKED_IN)}, among this Python's packages and in {_USUAL_PLACE}"
        raise DeviceUnavailable(
            device,
            f"the CUDA compiler nvcc was not found (looked {places})",
            "install the CUDA toolkit, put the folder of nvcc on PATH, or let `dmalab install-cuda` fetch NVIDIA's packages",
        )
    _require_host_compiler(device, environment)
    return Nvcc(path, _release_of(path))


def packaged_nvccs(folders: Iterable[str]) -> list[Path]:
    """Return each nvcc that NVIDIA's Python packages put into these folders of packages, the newest major version first."""
    found = [path for folder in folders if folder for path in Path(folder).glob("nvidia/cu[0-9]*/bin/nvcc")]
    return sorted(found, key=lambda path: int(re.sub(r"\D", "", path.parts[-3])), reverse=True)


def require_architecture(device: str, name: str, capability: Capability, nvcc: Nvcc) -> str:
    """Return nvcc's name of the device's architecture, such as `sm_90`.

    Raises DeviceUnavailable where this toolkit is known to be too old or too new for it; an unknown pair is left to nvcc.
    """
    major, minor = capability
    about = f"{name} has compute capability {major}.{minor}, which nvcc {nvcc.version} cannot compile for"
    oldest = OLDEST_CAPABILITY.get(nvcc.release[0])
    if oldest is not None and capability < oldest:
        usable = max(release for release, floor in OLDEST_CAPABILITY.items() if floor <= capability or release == 11)
        raise DeviceUnavailable(device, f"{about} any more", f"install a CUDA {usable} toolkit and put its nvcc first on PATH")
    first = FIRST_RELEASE.get(capability)
    if first is not None and nvcc.release != (0, 0) and nvcc.release < first:
        raise DeviceUnavailable(device, f"{about} yet", f"install CUDA toolkit {first[0]}.{first[1]} or newer")
    return f"sm_{major}{minor}"


def private_cache(environment: Mapping[str, str], name: str = "kernels") -> Path | None:
    """Return a folder for what was compiled that only this user can write to; None where there cannot be one."""
    base = environment.get("XDG_CACHE_HOME") or (str(Path(environment["HOME"]) / ".cache") if environment.get("HOME") else "")
    if not os.path.isabs(base):
        return None
    folder = Path(base) / "dmalab" / name
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        facts = folder.stat()
        # Somebody else's file in this folder would be loaded as if it were ours.
        private = facts.st_uid == os.getuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    except OSError:
        return None
    return folder if private and os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def explain_compile_error(device: str, stderr: str) -> DeviceUnavailable:
    """Make one sentence of what nvcc said, with its last lines and the way out where the cause is known."""
    lines = [line.strip() for line in stderr.strip().splitlines() if line.strip()]
    tail = " | ".join(lines[-4:]) or "it said nothing"
    remedy = "see the compiler's words above, or use device: simulated"
    if "unsupported GNU version" in stderr or "unsupported clang version" in stderr or "unsupported Microsoft" in stderr:
        remedy = (
            "install a host compiler that this toolkit supports and name it with PYCUDA_DEFAULT_NVCC_FLAGS='-ccbin g++-NN' "
            "before the start"
        )
    elif "host compiler" in stderr or "No such file or directory" in stderr:
        remedy = "install a C++ compiler (g++) that nvcc can find on PATH"
    elif "gpu-architecture" in stderr or "Unsupported gpu architecture" in stderr:
        remedy = "install a CUDA toolkit that knows this GPU and put its nvcc first on PATH"
    return DeviceUnavailable(device, f"nvcc could not compile the kernels: {tail}", remedy)


def host_compiler(environment: Mapping[str, str]) -> str | None:
    """Return the compiler that nvcc calls, which takes gcc's options: the one that the user named, else a usual one.

    None where there is none, or the user named one that is not there.
    """
    named = _named_compiler(environment)
    names = _HOST_COMPILERS if named is None else (named, *(str(Path(named) / name) for name in _HOST_COMPILERS))
    found = (shutil.which(name, path=environment.get("PATH", "")) for name in names)
    return next((compiler for compiler in found if compiler), None)


def _named_compiler(environment: Mapping[str, str]) -> str | None:
    """Return the compiler, or its folder, that the user named for nvcc; its last word counts, as nvcc has it."""
    flags = " ".join(environment.get(name, "") for name in _FLAGS_OF_NVCC)
    named = re.findall(r"(?:-ccbin|--compiler-bindir)[= ]+(\S+)", flags)
    return named[-1] if named else environment.get("NVCC_CCBIN") or None


def _require_host_compiler(device: str, environment: Mapping[str, str]) -> None:
    """Look for the C++ compiler that nvcc calls; a compiler that the user named is left to nvcc."""
    if _named_compiler(environment):
        return
    path = environment.get("PATH", "")
    if not any(shutil.which(name, path=path) for name in ("g++", "gcc", "cl", "clang++")):
        raise DeviceUnavailable(
            device,
            "nvcc needs a host C++ compiler, and none (g++) is on PATH",
            "install g++ (package g++ or build-essential), or name one in NVCC_CCBIN",
        )


def _release_of(path: str) -> Release:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    match = re.search(r"release (\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)
