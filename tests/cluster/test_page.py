"""The recipes of docs/cluster.md, as they stand there, with stand-ins for what is not here: other machines, Slurm, and GPUs."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.clusters import ROOT, free_port
from tests.docs.blocks import blocks_of

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or shutil.which("hostname") is None, reason="the recipes are for Linux"
    ),
]

SSH = """#!/bin/sh
# The other machine is this one.
while [ "${1#-}" != "$1" ]; do [ "$1" != -n ] || exec </dev/null; shift; done
STANDS_FOR=$1; export STANDS_FOR; shift
exec sh -c "$*"
"""
NVIDIA_SMI = """#!/bin/sh
echo "GPU-$STANDS_FOR-0"
echo "GPU-$STANDS_FOR-1"
"""
SBATCH = """#!/bin/sh
# A job begins at once, here.
for script; do :; done
echo "$@" >>"$JOBS"; cat "$script" >>"$JOBS"
sh "$script" >>"$JOBS.out" 2>&1 &
echo "Submitted batch job $$"
"""
LINKED = '#!/bin/sh\nexec "{python}" -m {module} "$@"\n'
SECONDS = 300


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Lend the environment of a new user, whose programs are the stand-ins; whatever was started in it ends after the test."""
    programs = {"ssh": SSH, "nvidia-smi": NVIDIA_SMI, "sbatch": SBATCH, "scancel": "#!/bin/sh\n"}
    installed = {"dask": "dask", "dmalab": "runner"}
    for folder, scripts in (
        ("bin", programs | {name: LINKED.format(python=sys.executable, module=module) for name, module in installed.items()}),
        ("dmalab/bin", {name: LINKED.format(python=sys.executable, module=module) for name, module in installed.items()}),
    ):
        (tmp_path / folder).mkdir(parents=True)
        for name, text in scripts.items():
            (tmp_path / folder / name).write_text(text)
            (tmp_path / folder / name).chmod(0o755)
    (tmp_path / "hosts").write_text("alpha\nbeta\n")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    sources = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    mark = f"DMALAB_TEST_OF={tmp_path}"
    yield (
        os.environ
        | {"HOME": str(tmp_path), "PATH": path, "PYTHONPATH": sources, "JOBS": str(tmp_path / "jobs")}
        | dict([mark.split("=", 1)])
    )
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def recipe(language: str, word: str) -> str:
    """Return the block of the page in that language that has a word in it."""
    (block,) = (each for each in blocks_of(ROOT / "docs" / "cluster.md") if each.language == language and word in each.text)
    return block.text


def ran(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    with (folder / "said").open("w+") as said:
        # Not by pipes: what the recipe leaves behind holds them open.
        ended = subprocess.run(command, cwd=folder, env=environment, stdout=said, stderr=said, timeout=SECONDS, check=False)
        said.seek(0)
        return subprocess.CompletedProcess(command, ended.returncode, said.read())


def gpus(folder: Path) -> set[str]:
    (table,) = folder.glob("results/bandwidth/2*/fleet.csv")
    with table.open(encoding="utf-8", newline="") as file:
        return {row["gpu_uuid"] for row in csv.DictReader(file)}


def test_the_ssh_recipe_ends_with_a_table_of_all_gpus_of_all_hosts(tmp_path: Path, machine: dict[str, str]) -> None:
    script = re.sub(r"^\$ ", "", recipe("console", "ssh -n -f"), flags=re.MULTILINE)
    install, _, script = script.partition("\n")
    assert "pip install" in install
    script = script.replace("8786", str(free_port())).replace("--device cuda", "--device simulated:test")
    ended = ran(["bash", "-euc", script], tmp_path, machine)
    assert ended.returncode == 0, ended.stdout
    assert "None of 4 GPUs is an outlier" in ended.stdout
    assert gpus(tmp_path) == {f"SIM-test-gpu-{host}-{place}" for host in ("alpha", "beta") for place in (0, 1)}


def test_the_slurm_recipe_does_the_same_in_jobs(tmp_path: Path, machine: dict[str, str]) -> None:
    pytest.importorskip("dask_jobqueue")
    script = recipe("python", "SLURMCluster").replace('"cuda"', '"simulated:test"')
    assert script.count("8") == 3
    script = script.replace("8", "3")
    (tmp_path / "fleet.py").write_text(script)
    ended = ran([sys.executable, "fleet.py"], tmp_path, machine)
    assert ended.returncode == 0, ended.stdout
    jobs = (tmp_path / "jobs").read_text()
    assert jobs.count("#SBATCH --gres=gpu:1") == 3
    assert "None of 3 GPUs is an outlier" in ended.stdout
    assert len(gpus(tmp_path)) == 3
