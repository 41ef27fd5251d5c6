"""Set-ups from nothing, as a newcomer makes them; they need the package index and minutes, so only `make soak` makes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runner.device.cuda.kernels import SOURCE
from runner.install import compiler_packages

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
ARCHITECTURES = ("sm_75", "sm_90", "sm_120")
RELEASE = (13, 0)
COMPILED_BY_PYCUDA = """
import os
from pycuda.compiler import compile
from runner.device.cuda.kernels import SOURCE
from runner.device.cuda.toolchain import find_nvcc
print(compile(SOURCE, nvcc=find_nvcc("cuda", os.environ).path, arch="sm_90", no_extern_c=True)[:4])
"""
SOAKING = os.environ.get("DMALAB_SOAK") == "1"
"""What `make soak` sets; a share of it is for tests that can be done in part."""
pytestmark = pytest.mark.skipif(not SOAKING, reason="make soak makes environments from nothing")


def done(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    ended = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    return ended.stdout


def bare(home: Path, *folders: Path) -> dict[str, str]:
    """Return nearly no variables: a new home, so an empty cache, and a short PATH."""
    home.mkdir(exist_ok=True)
    return {"HOME": str(home), "PATH": ":".join([*map(str, folders), "/usr/bin", "/bin"])}


def checkout(folder: Path) -> Path:
    """Copy what git has, as a clone would."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def environment_of(folder: Path, python: str = sys.executable) -> Path:
    done([python, "-m", "venv", str(folder)], ROOT, bare(folder.parent / "home"))
    return folder / "bin" / "python"


def python_of(version: str) -> Path:
    """Return a Python of this version that starts; a name on PATH alone may be a manager's that has none."""
    found = shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"python{version} is not here")
    asked = [found, "-c", "import sys, ensurepip, venv; print(sys._base_executable)"]
    # pyenv's name on PATH starts the version that this variable tells; no other Python heeds it.
    told = subprocess.run(asked, capture_output=True, text=True, check=False, env={**os.environ, "PYENV_VERSION": version})
    if told.returncode:
        pytest.skip(f"{found} does not start, or has no module venv")
    return Path(told.stdout.strip())


@pytest.mark.parametrize("version", PYTHONS)
def test_one_command_from_a_clone_to_tables_and_once_more_without_network(tmp_path: Path, version: str) -> None:
    clone = checkout(tmp_path / "clone")
    only = tmp_path / "python"
    only.mkdir()
    (only / f"python{version}").symlink_to(python_of(version))
    env = bare(tmp_path / "home", only)
    run = ["make", "run", "EXP=bandwidth.yaml", "DEVICE=simulated"]
    if version != PYTHONS[-1]:  # make takes the newest that it finds, which may be the system's
        run.append(f"PYTHON=python{version}")
    assert f"Python {version}" in done(run, clone, env)
    assert (clone / "results" / "bandwidth" / "latest" / "summary.csv").is_file()
    done(["make", "wheels", f"WHEELS={tmp_path / 'wheels'}"], clone, env)
    shutil.rmtree(clone / ".venv")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    assert "The tables are in" in done([*run, f"WHEELS={tmp_path / 'wheels'}"], clone, env | nowhere)


@pytest.mark.parametrize("form", ["wheel", "sdist"])
def test_what_is_built_runs_outside_the_checkout(tmp_path: Path, form: str) -> None:
    builder = environment_of(tmp_path / "builder")
    env = bare(tmp_path / "home")
    done([str(builder), "-m", "pip", "install", "--quiet", "build"], tmp_path, env)
    done(
        [str(builder), "-m", "build", f"--{form}", "--outdir", str(tmp_path / "dist"), str(checkout(tmp_path / "clone"))],
        tmp_path,
        env,
    )
    (built,) = (tmp_path / "dist").iterdir()
    user = environment_of(tmp_path / "user")
    done([str(user), "-m", "pip", "install", "--quiet", str(built)], tmp_path, env)
    dmalab = str(user.parent / "dmalab")
    assert "overlap" in done([dmalab, "list", "experiments"], tmp_path, env)
    done([dmalab, "init", "mine.yaml"], tmp_path, env)
    schema = re.search(r"\$schema=file://(\S+)", (tmp_path / "mine.yaml").read_text())
    assert schema is not None
    assert Path(schema[1]).read_bytes() == (tmp_path / "clone" / "schema" / "experiment.schema.json").read_bytes()
    assert "The tables are in" in done([dmalab, "run", "mine.yaml", "--device", "simulated"], tmp_path, env)


def stub_driver(folder: Path, packages: Path) -> Path:
    """Build a library that has every function of the driver, tells its version, and has no device, from NVIDIA's headers."""
    folder.mkdir()
    headers = "".join((packages / "nvidia" / "cu13" / "include" / name).read_text() for name in ("cuda.h", "cudaProfiler.h"))
    names = set(re.findall(r"CUresult CUDAAPI\s+(\w+)\(", headers)) | set(re.findall(r"#define +cu\w+ +(cu\w+)", headers))
    bodies = dict.fromkeys(sorted(names), "(void) { return 100; }")
    bodies["cuDriverGetVersion"] = f"(int *version) {{ *version = {1000 * RELEASE[0] + 10 * RELEASE[1]}; return 0; }}"
    (folder / "stub.c").write_text("".join(f"int {name}{body}\n" for name, body in bodies.items()))
    library = folder / "libcuda.so.1"
    flags = ["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
    done(["gcc", *flags, "-o", str(library), str(folder / "stub.c")], folder, os.environ)
    return library


def test_with_the_driver_alone_pycuda_is_built_and_a_kernel_compiled(tmp_path: Path) -> None:
    python = environment_of(tmp_path / "new")
    env = bare(tmp_path / "home")
    done([str(python), "-m", "pip", "install", "--quiet", str(checkout(tmp_path / "clone"))], tmp_path, env)
    headers = [name for name in compiler_packages(RELEASE) if "runtime" in name or "profiler" in name]
    done(
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "headers"), *headers],
        tmp_path,
        env,
    )
    library = stub_driver(tmp_path / "driver", tmp_path / "headers")
    env |= {"LD_LIBRARY_PATH": str(library.parent)}
    said = done([str(python), "-m", "runner", "install-cuda", "--from-packages", "--log", str(tmp_path / "log")], tmp_path, env)
    assert "PyCUDA is ready, with nvcc 13.0" in said
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(SOURCE)
    find = "import os; from runner.device.cuda.toolchain import find_nvcc; print(find_nvcc('cuda', os.environ).path)"
    nvcc = done([str(python), "-c", find], tmp_path, env).strip()
    assert "site-packages/nvidia/cu13/bin/nvcc" in nvcc
    for architecture in ARCHITECTURES:
        cubin = tmp_path / f"{architecture}.cubin"
        done([nvcc, "--cubin", f"-arch={architecture}", "-o", str(cubin), str(kernel)], tmp_path, env)
        assert cubin.read_bytes()[:4] == b"\x7fELF"
    compiled = done([str(python), "-c", COMPILED_BY_PYCUDA], tmp_path, env)
    assert compiled.strip() == r"b'\x7fELF'"
