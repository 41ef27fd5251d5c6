from __future__ import annotations

import stat
from pathlib import Path

import pytest

from runner.device.cuda.toolchain import (
    Nvcc,
    explain_compile_error,
    find_nvcc,
    packaged_nvccs,
    private_cache,
    require_architecture,
)
from runner.errors import DeviceUnavailable


def program(folder: Path, name: str, says: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_nvcc_on_path_comes_first_and_tells_its_release(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvcc", "Cuda compilation tools, release 12.4, V12.4.131")
    program(tmp_path / "bin", "g++")
    program(tmp_path / "home" / "bin", "nvcc", "release 13.0")
    found = find_nvcc("cuda:0", {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "home")})
    assert found == Nvcc(str(path), (12, 4))


def test_nvcc_below_cuda_home_is_found_where_path_lacks_it(tmp_path: Path) -> None:
    path = program(tmp_path / "home" / "bin", "nvcc", "release 13.0, V13.0.88")
    program(tmp_path / "bin", "g++")
    found = find_nvcc("cuda:0", {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "home")})
    assert found == Nvcc(str(path), (13, 0))


def test_nvcc_of_nvidias_packages_is_found_before_the_usual_place_and_behind_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = program(tmp_path / "site" / "nvidia" / "cu9" / "bin", "nvcc", "release 9.0")
    new = program(tmp_path / "site" / "nvidia" / "cu13" / "bin", "nvcc", "release 13.0")
    usual = program(tmp_path / "usual", "nvcc", "release 12.0")
    program(tmp_path / "bin", "g++")
    monkeypatch.setattr("runner.device.cuda.toolchain._USUAL_PLACE", usual)
    monkeypatch.setattr("runner.device.cuda.toolchain.sys.path", ["", str(tmp_path / "nothing"), str(tmp_path / "site")])
    assert packaged_nvccs([str(tmp_path / "site")]) == [new, old]
    assert find_nvcc("cuda:0", {"PATH": str(tmp_path / "bin")}).path == str(new)
    mine = program(tmp_path / "mine" / "bin", "nvcc", "release 12.4")
    assert find_nvcc("cuda:0", {"PATH": str(tmp_path / "bin"), "CUDA_PATH": str(tmp_path / "mine")}).path == str(mine)
    new.unlink()
    old.unlink()
    assert find_nvcc("cuda:0", {"PATH": str(tmp_path / "bin")}).path == str(usual)


def test_no_nvcc_is_told_with_the_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.device.cuda.toolchain.sys.path", [])
    monkeypatch.setattr("runner.device.cuda.toolchain._USUAL_PLACE", tmp_path / "nothing")
    with pytest.raises(
        DeviceUnavailable, match=r"nvcc was not found \(looked on PATH, below CUDA_HOME, .*install the CUDA toolkit"
    ):
        find_nvcc("cuda:0", {"PATH": str(tmp_path)})


def test_no_host_compiler_is_told(tmp_path: Path) -> None:
    program(tmp_path, "nvcc", "release 13.0")
    with pytest.raises(DeviceUnavailable, match=r"none \(g\+\+\) is on PATH; install g\+\+"):
        find_nvcc("cuda:0", {"PATH": str(tmp_path)})


@pytest.mark.parametrize("named", [{"NVCC_CCBIN": "/opt/g++"}, {"PYCUDA_DEFAULT_NVCC_FLAGS": "-ccbin g++-13"}])
def test_a_host_compiler_that_the_user_named_is_left_to_nvcc(tmp_path: Path, named: dict[str, str]) -> None:
    program(tmp_path, "nvcc", "release 13.0")
    assert find_nvcc("cuda:0", {"PATH": str(tmp_path), **named}).release == (13, 0)


@pytest.mark.parametrize(
    ("capability", "release", "architecture"),
    [
        ((7, 5), (13, 0), "sm_75"),
        ((7, 0), (12, 9), "sm_70"),
        ((9, 0), (11, 8), "sm_90"),
        ((12, 0), (12, 8), "sm_120"),
        ((13, 0), (13, 0), "sm_130"),
        ((9, 0), (0, 0), "sm_90"),
    ],
)
def test_a_pair_that_may_work_gives_the_architecture(
    capability: tuple[int, int], release: tuple[int, int], architecture: str
) -> None:
    assert require_architecture("cuda:0", "GPU", capability, Nvcc("nvcc", release)) == architecture


@pytest.mark.parametrize(
    ("capability", "release", "sentence"),
    [
        (
            (6, 1),
            (13, 0),
            "GPU has compute capability 6.1, which nvcc 13.0 cannot compile for any more; install a CUDA 12 toolkit",
        ),
        ((3, 7), (12, 4), "nvcc 12.4 cannot compile for any more; install a CUDA 11 toolkit"),
        ((12, 0), (12, 4), "compute capability 12.0, which nvcc 12.4 cannot compile for yet; install CUDA toolkit 12.8 or newer"),
        ((8, 9), (11, 7), "install CUDA toolkit 11.8 or newer"),
    ],
)
def test_a_toolkit_too_old_or_too_new_is_told_with_the_way_out(
    capability: tuple[int, int], release: tuple[int, int], sentence: str
) -> None:
    with pytest.raises(DeviceUnavailable) as caught:
        require_architecture("cuda:0", "GPU", capability, Nvcc("nvcc", release))
    assert sentence in str(caught.value)


def test_the_cache_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = private_cache({"HOME": str(tmp_path)})
    assert folder == tmp_path / ".cache" / "dmalab" / "kernels"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private_cache({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "x")}) == tmp_path / "x" / "dmalab" / "kernels"


def test_there_is_no_cache_where_others_could_write_or_nobody_can(tmp_path: Path) -> None:
    folder = private_cache({"HOME": str(tmp_path)})
    assert folder is not None
    folder.chmod(0o777)
    assert private_cache({"HOME": str(tmp_path)}) is None
    assert private_cache({}) is None
    assert private_cache({"XDG_CACHE_HOME": "relative"}) is None
    (tmp_path / "file").touch()
    assert private_cache({"HOME": str(tmp_path / "file")}) is None


@pytest.mark.parametrize(
    ("stderr", "remedy"),
    [
        (
            "a\nb\nc\nd\nerror: #error -- unsupported GNU version! gcc versions later than 15",
            "PYCUDA_DEFAULT_NVCC_FLAGS='-ccbin g++-NN'",
        ),
        ("nvcc fatal : Unsupported gpu architecture 'compute_130'", "toolkit that knows this GPU"),
        ("sh: g++: No such file or directory", "install a C++ compiler (g++)"),
        ("something else", "simulated"),
    ],
)
def test_a_compile_error_quotes_the_last_lines_and_says_what_to_do(stderr: str, remedy: str) -> None:
    sentence = str(explain_compile_error("cuda:0", stderr))
    assert stderr.splitlines()[-1] in sentence
    assert remedy in sentence
    assert "\n" not in sentence
    assert "a | b" not in sentence
