"""Making PyCUDA ready: which compiler is taken, which packages are asked for, and what is said where something is missing."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from runner import cli, install
from runner.device.cuda.toolchain import Nvcc
from runner.doctor_advice import System, cuda_line, in_checkout, pip_line, this_system
from runner.errors import EnvironmentProblem
from runner.install import (
    COMPILER_PARTS,
    NO_CURAND,
    Driver,
    Installer,
    applicable,
    build_environment,
    compiler_packages,
    find_driver,
    last_words,
    logging_to,
    packages_for,
)

DEBIAN = System("apt-get", root=False, distribution="debian")
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def program(folder: Path, name: str, says: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


class Machine:
    """A machine with a driver and, where `toolkit` is a release, a CUDA toolkit; pip only notes what it was asked for."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolkit: str = "", fail_at: str = "") -> None:
        self.bin, self.site, self.fail_at = tmp_path / "bin", tmp_path / "site", fail_at
        program(self.bin, "g++")
        self.toolkit = program(self.bin, "nvcc", f"release {toolkit}, V{toolkit}.1") if toolkit else None
        (tmp_path / "include").mkdir()
        (tmp_path / "include" / "Python.h").touch()
        paths = {"purelib": str(self.site), "include": str(tmp_path / "include")}
        monkeypatch.setattr(install.sysconfig, "get_path", paths.__getitem__)
        monkeypatch.setattr("runner.device.cuda.toolchain._USUAL_PLACE", tmp_path / "nothing")
        monkeypatch.setattr("runner.device.cuda.toolchain.sys.path", [str(self.site)])
        self.calls: list[tuple[list[str], dict[str, str], list[str]]] = []
        self.linked: list[str] = []
        self.said: list[str] = []

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        lock = Path(command[command.index("--constraint") + 1]) if "--constraint" in command else None
        self.calls.append((list(command), dict(environment), lock.read_text().splitlines() if lock else []))
        for folder in environment.get("LIBRARY_PATH", "").split(":")[:1]:
            self.linked += (
                [str(path.readlink()) for path in Path(folder).iterdir() if path.name == "libcuda.so"] if folder else []
            )
        if any(each.startswith("nvidia-cuda-nvcc") for each in command):
            program(self.site / "nvidia" / "cu13" / "bin", "nvcc", "release 13.0, V13.0.88")
        failed = bool(self.fail_at) and any(self.fail_at in each for each in command)
        return subprocess.CompletedProcess(command, int(failed), "", "ERROR: No matching distribution found" if failed else "")

    def install(self, release: tuple[int, int] = (13, 0), *, from_packages: bool = False, lock: Sequence[str] = ()) -> Nvcc:
        driver = Driver(release, "/usr/lib/libcuda.so.1")
        installer = Installer(driver, {"PATH": str(self.bin)}, DEBIAN, self.start, self.said.append, lock)
        return installer.install(from_packages=from_packages)


# which compiler


def test_a_toolkit_of_the_machine_is_used_and_nothing_else_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, "12.8")
    assert machine.install() == Nvcc(str(machine.toolkit), (12, 8))
    (command, environment, _), (check, _, _) = machine.calls
    assert NO_CURAND in command
    assert command[-5:] == list(packages_for((13, 0)))
    assert environment["PATH"].startswith(f"{machine.bin}:")
    assert machine.linked == ["/usr/lib/libcuda.so.1"]
    assert check[-1] == install.CHECK


def test_with_the_driver_alone_the_compiler_comes_from_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch)
    nvcc = machine.install()
    assert nvcc == Nvcc(str(machine.site / "nvidia" / "cu13" / "bin" / "nvcc"), (13, 0))
    fetched, built, _ = machine.calls
    assert fetched[0][-5:] == list(compiler_packages((13, 0)))
    assert "LIBRARY_PATH" not in fetched[1]
    assert built[1]["PATH"].startswith(f"{machine.site}/nvidia/cu13/bin:")
    assert [line.split()[0] for line in machine.said] == ["fetching", "building"]


def test_a_toolkit_can_be_passed_over_and_one_newer_than_the_driver_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, "14.1")
    assert "cu13" in machine.install().path
    assert machine.said[0].endswith("nvcc 14.1 is newer than the driver, which has CUDA 13.0")
    machine.said.clear()
    assert "cu13" in machine.install(from_packages=True).path
    assert machine.said[0].startswith("fetching")


def test_cuda_12_without_a_toolkit_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch)
    with pytest.raises(EnvironmentProblem, match=r"no nvcc for CUDA 12; .*apt-get install -y nvidia-cuda-toolkit; or .*580"):
        machine.install((12, 8))
    assert machine.calls == []


# which packages


def test_packages_are_of_the_drivers_major_version_and_no_newer_than_it() -> None:
    assert compiler_packages((13, 2))[0] == "nvidia-cuda-nvcc>=13.0,<13.3"
    assert len(compiler_packages((13, 2))) == len(COMPILER_PARTS) == 5
    assert packages_for((13, 2))[1:] == ("cuda-bindings>=13,<14", "nvidia-ml-py>=12", "nvtx>=0.2.11", "cupti-python>=13,<13.3")
    assert packages_for((12, 9))[1:] == ("cuda-bindings>=12.8,<13", "nvidia-ml-py>=12", "nvtx>=0.2.11")


def test_a_lock_holds_but_for_what_goes_by_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = ["# made", "pycuda==2026.1", "cuda-bindings==13.5.0", "cupti-python==13.4.0", "nvidia-cuda-cupti==13.5.25", "nvtx==1"]
    assert list(applicable(lock)) == ["# made", "pycuda==2026.1", "nvtx==1"]
    machine = Machine(tmp_path, monkeypatch, "13.0")
    machine.install(lock=lock)
    assert machine.calls[0][2] == ["# made", "pycuda==2026.1", "nvtx==1"]


def test_a_build_finds_the_compiler_first_and_the_drivers_library_by_its_linkers_name(tmp_path: Path) -> None:
    environment = {"PATH": "/bin", "LIBRARY_PATH": "/mine", "HOME": "/me"}
    built = build_environment(environment, Nvcc("/cuda/bin/nvcc", (13, 0)), tmp_path)
    assert built == {"PATH": "/cuda/bin:/bin", "LIBRARY_PATH": f"{tmp_path}:/mine", "HOME": "/me"}
    assert build_environment(environment, None, tmp_path) == environment


# what is missing


def test_what_the_build_needs_is_told_at_once_with_one_line_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, "13.0")
    (machine.bin / "g++").unlink()
    (tmp_path / "include" / "Python.h").unlink()
    line = rf"sudo apt-get install -y g\+\+ python{PYTHON}-dev$"
    with pytest.raises(EnvironmentProblem, match=rf"needs a C\+\+ compiler \(g\+\+\) and Python's headers .*type: {line}"):
        machine.install()
    assert machine.calls == []


@pytest.mark.parametrize("at", ["nvidia-nvvm", "pycuda>="])
def test_what_pip_cannot_do_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    with pytest.raises(EnvironmentProblem, match=r"pip could not install .*: ERROR: No matching distribution found"):
        Machine(tmp_path, monkeypatch, fail_at=at).install()


def test_a_pycuda_that_does_not_load_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentProblem, match="built but cannot be loaded"):
        Machine(tmp_path, monkeypatch, "13.0", fail_at="import pycuda").install()


def test_the_words_that_tell_most_are_shown() -> None:
    assert last_words("one\nfile.cpp:3: error: no such type\ntwo\n") == "file.cpp:3: error: no such type"
    assert last_words("one\n\ntwo\nthree\nfour\n") == "two | three | four"
    assert last_words("") == "it said nothing"


# the driver


def told(version: int, code: int = 0) -> Any:
    def tell(pointer: Any) -> int:
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int))[0] = version
        return code

    return SimpleNamespace(cuDriverGetVersion=tell)


def test_a_driver_tells_its_version_and_where_its_library_lies(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text("7f-80 r-xp 0 0:1 7  /usr/lib/x/libcuda.so.580.65.06\n7f-80 r-xp 0 0:1 7 /usr/lib/libc.so.6\n")
    assert find_driver(lambda name: told(12080), maps) == Driver((12, 8), "/usr/lib/x/libcuda.so.580.65.06")
    assert find_driver(lambda name: told(13000), tmp_path / "none") == Driver((13, 0), "libcuda.so.1")
    assert find_driver(lambda name: told(0), maps) is None
    assert find_driver(lambda name: told(13000, 100), maps) is None

    def absent(name: str) -> Any:
        raise OSError(name)

    assert find_driver(absent) is None


def test_the_verb_says_what_it_lacks_and_what_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "find_driver", lambda: None)
    result = CliRunner().invoke(cli.app, ["install-cuda"])
    assert result.exit_code == 3
    assert "no NVIDIA driver that answers" in result.stderr
    machine = Machine(tmp_path, monkeypatch, "13.0")
    monkeypatch.setattr(install, "find_driver", lambda: Driver((13, 0), "/usr/lib/libcuda.so.1"))
    monkeypatch.setattr(install.subprocess, "run", lambda command, env, **_: machine.start(command, env))
    monkeypatch.setenv("PATH", str(machine.bin))
    lock, log = tmp_path / "lock.txt", tmp_path / "cuda.log"
    lock.write_text("nvtx==0.2.11\n")
    monkeypatch.setattr("runner.device.cuda.toolchain._release_of", lambda path: (13, 0))
    result = CliRunner().invoke(cli.app, ["install-cuda", "--lock", str(lock), "--log", str(log)])
    assert result.exit_code == 0, result.stderr
    assert "PyCUDA is ready, with nvcc 13.0" in result.stdout
    assert machine.calls[0][2] == ["nvtx==0.2.11"]
    assert log.read_text().startswith(f"$ {sys.executable} -m pip install")


def test_every_word_of_what_was_started_is_kept(tmp_path: Path) -> None:
    with logging_to(tmp_path / "log") as start:
        done = start([sys.executable, "-c", "import sys; print(1); print(2, file=sys.stderr); sys.exit(3)"], {})
    assert (done.returncode, (tmp_path / "log").read_text().splitlines()[-3:]) == (3, ["1", "2", ""])


# what to type


@pytest.mark.parametrize(
    ("system", "thing", "line"),
    [
        (DEBIAN, "compiler", "type: sudo apt-get install -y g++"),
        (System("apt-get", root=True), "headers", f"type: apt-get install -y python{PYTHON}-dev"),
        (System("apt-get", distribution="ubuntu"), "driver", "type: sudo ubuntu-drivers install"),
        (DEBIAN, "driver", "type: sudo apt-get install -y nvidia-driver"),
        (System("dnf"), "compiler", "type: sudo dnf install -y gcc-c++"),
        (System("dnf"), "driver", "get driver from https://www.nvidia.com/drivers"),
        (System("pacman", root=True), "toolkit", "type: pacman -S cuda"),
        (System("zypper"), "headers", f"type: sudo zypper install -y python{PYTHON.replace('.', '')}-devel"),
        (System("apk"), "toolkit", "get toolkit from https://developer.nvidia.com/cuda-downloads"),
        (System(), "numactl", "get numactl from your system"),
    ],
)
def test_a_missing_thing_has_the_line_of_this_system(system: System, thing: Any, line: str) -> None:
    assert system.install(thing) == line


def test_the_driver_of_a_container_or_of_wsl_is_another_systems_affair() -> None:
    assert "start the container with --gpus all" in System("apt-get", container="docker").install("driver")
    assert "in Windows" in System("apt-get", wsl=True, container="docker").install("driver")
    assert System("apt-get", True, container="docker").install("compiler") == "type: apt-get install -y g++"


def test_a_system_is_told_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text('NAME="Fedora Linux"\nID="fedora"\n')
    (tmp_path / "proc" / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "proc" / "sys" / "kernel" / "osrelease").write_text("5.15.90.1-microsoft-standard-WSL2\n")
    program(tmp_path / "bin", "dnf")
    system = this_system(tmp_path, {"PATH": str(tmp_path / "bin")}, "podman")
    assert (system.manager, system.distribution, system.container, system.wsl) == ("dnf", "fedora", "podman", True)
    assert this_system(tmp_path / "nothing", {}).manager == ""


def test_lines_for_this_very_python_and_this_very_dmalab() -> None:
    assert pip_line("nvidia-ml-py") == f"type: {sys.executable} -m pip install nvidia-ml-py"
    assert cuda_line(in_checkout(), driver=True) == "type: make cuda"
    assert cuda_line(False, driver=True) == "type: dmalab install-cuda"
    assert cuda_line(False, driver=False) == "after the driver, type: dmalab install-cuda"
