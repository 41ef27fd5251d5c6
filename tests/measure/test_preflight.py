from __future__ import annotations

from pathlib import Path

import pytest

from runner.device.contract import DeviceFacts
from runner.measure.preflight import Limits, available_host_bytes
from runner.plan import Demand

GIB = 2**30


FACTS = DeviceFacts("simulated:test", "simulated", 4 * GIB, 4 * GIB, 2, {})
LIMITS = Limits(FACTS, 8 * GIB)


def test_a_case_that_fits_is_not_refused() -> None:
    assert LIMITS.refusal_of(Demand(2 * GIB, 1 * GIB, 4 * GIB)) == ""


def test_a_refusal_names_the_memory_and_both_figures() -> None:
    assert LIMITS.refusal_of(Demand(0, 0, 4 * GIB + 1)) == (
        "needs 4,294,967,297B of device memory, 4,294,967,296B are free on simulated:test"
    )
    assert LIMITS.refusal_of(Demand(8 * GIB, 0, 0)).startswith("needs 8GiB of host memory, 7.75GiB are available")
    assert LIMITS.refusal_of(Demand(0, 5 * GIB, 0)).startswith("pins 5GiB, more than 4GiB, half of the host memory")


def test_the_limit_of_page_locked_memory_can_be_raised_and_lowered() -> None:
    most = Demand(0, 5 * GIB, 0)
    assert LIMITS.refusal_of(most).endswith("--allow-pinned raises that limit")
    assert Limits(FACTS, 8 * GIB, 6 * GIB).refusal_of(most) == ""
    assert Limits(FACTS, 8 * GIB, GIB).refusal_of(Demand(0, GIB + 1, 0)) == (
        "pins 1,073,741,825B, more than the 1,073,741,824B that --allow-pinned allows"
    )


def machine(root: Path, files: dict[str, str]) -> Path:
    """Write files of a machine of 50 kB that are read through `root`."""
    for name, content in {"proc/meminfo": "MemTotal:       100 kB\nMemAvailable:   50 kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def test_available_memory_is_the_least_of_the_machine_and_its_cgroup(tmp_path: Path) -> None:
    assert available_host_bytes(machine(tmp_path, {})) == 50 * 1024
    limited = {"sys/fs/cgroup/memory.max": "30000\n", "sys/fs/cgroup/memory.current": "10000\n"}
    assert available_host_bytes(machine(tmp_path, limited)) == 20000
    assert available_host_bytes(machine(tmp_path, {"sys/fs/cgroup/memory.high": "25000\n"})) == 15000
    unlimited = {"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.high": "max\n"}
    assert available_host_bytes(machine(tmp_path, unlimited)) == 50 * 1024
    assert available_host_bytes(tmp_path / "absent") == 2**63 - 1


@pytest.mark.parametrize(
    ("own", "top", "limit", "used", "cached"),
    [
        ("0::/slurm/job_7/step_0\n", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        (
            "9:cpu,cpuacct:/x\n4:memory:/slurm/job_7/step_0\n0::/\n",
            "sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    ],
)
def test_the_limit_of_a_job_counts_and_what_caches_files_does_not(
    own: str, top: str, limit: str, used: str, cached: str, tmp_path: Path
) -> None:
    job = f"{top}/slurm/job_7"
    files = {
        "proc/self/cgroup": own,
        f"{job}/{limit}": "30000\n",
        f"{job}/{used}": "29000\n",
        f"{job}/memory.stat": f"anon 1000\n{cached} 28000\n",
        f"{job}/step_0/{limit}": "40000\n",
        f"{job}/step_0/{used}": "1000\n",
    }
    assert available_host_bytes(machine(tmp_path, files)) == 29000


@pytest.mark.parametrize("own", ["0::/../../elsewhere\n", "0::/docker/not-here\n", "nonsense\n", ""])
def test_a_path_of_another_namespace_leaves_the_containers_own_limit(own: str, tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory.max": "30000\n", "sys/fs/cgroup/memory.current": "10000\n", "proc/self/cgroup": own}
    assert available_host_bytes(machine(tmp_path, files)) == 20000
