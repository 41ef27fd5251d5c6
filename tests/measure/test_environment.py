"""The machine around a run, read from a tree of files, and the flags that follow from its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.device.contract import DeviceFacts
from runner.errors import CaseUnsupported
from runner.measure.environment import (
    MOST_MAJOR_FAULTS,
    Paging,
    cgroup_limits,
    container,
    device_flags,
    flagged,
    governors,
    host_facts,
    memlock_bytes,
    mps_pipe,
    numa_flags,
    paging_flags,
    placed_for,
    read_paging,
    state_of,
    variables,
    virtualisation,
    why_slow,
)
from runner.measure.result import FLAGS, CaseResult, Sample
from runner.placement import Topology, allowed_cpus
from tests.results_for_tests import case, transfer

STATUS = "Name:\tpython\nVmSwap:\t      12 kB\nThreads:\t1\n"
STAT = "41 (a name) of) S 1 41 41 0 -1 4194560 900 0 37 0 10 5 0 0 20 0 1 0 100 1000 200\n"


def device(**environment: Any) -> DeviceFacts:
    return DeviceFacts("NVIDIA H200", "cuda", 1, 1, 3, environment)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


# the device's state


@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ({"sm_clock_mhz": 1980, "sm_clock_default_mhz": 1980, "clock_limits": ""}, ()),
        ({"sm_clock_mhz": 1188, "sm_clock_default_mhz": 1980}, ()),  # exactly 60 %
        ({"sm_clock_mhz": 1187, "sm_clock_default_mhz": 1980}, ("low_clock",)),
        ({"sm_clock_mhz": 2100, "sm_clock_default_mhz": 1830, "sm_clock_max_mhz": 2100}, ()),  # a boost
        (
            {"sm_clock_mhz": 1150, "sm_clock_default_mhz": 1830, "sm_clock_max_mhz": 2100},
            (),
        ),  # of the default, not of the highest
        ({"sm_clock_mhz": 345, "sm_clock_default_mhz": None, "sm_clock_max_mhz": 1980}, ("low_clock",)),
        ({"sm_clock_mhz": 1980, "sm_clock_max_mhz": 1980, "clock_limits": "gpu_idle applications_clocks_setting"}, ()),
        ({"sm_clock_mhz": 1980, "sm_clock_max_mhz": 1980, "clock_limits": "gpu_idle sw_power_cap"}, ("low_clock",)),
        ({"clock_limits": "hw_thermal_slowdown"}, ("low_clock",)),
        ({"other_processes": 2}, ("gpu_shared",)),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, ("launch_blocking",)),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, ()),
        ({"other_processes": 0}, ()),
        ({"other_processes": None, "sm_clock_mhz": None, "clock_limits": None}, ()),
        ({}, ()),
    ],
)
def test_what_the_device_says_under_load_flags_every_row(state: dict[str, Any], flags: tuple[str, ...]) -> None:
    assert device_flags(device(**state)) == flags
    assert set(flags) <= set(FLAGS)


def test_begin_and_end_of_a_run_both_count() -> None:
    begin = device(sm_clock_mhz=1980, sm_clock_max_mhz=1980, other_processes=1)
    end = device(sm_clock_mhz=600, sm_clock_max_mhz=1980, other_processes=0)
    assert device_flags(begin, end) == ("gpu_shared", "low_clock")
    assert why_slow(end) == "600 MHz under load, of 1980 MHz"
    assert state_of(end) == {"sm_clock_mhz": 600, "other_processes": 0}


def test_only_rows_with_samples_carry_the_flags_of_the_run() -> None:
    measured = CaseResult(case(transfer(size=4)), "ok", flags=("noisy",), samples=(Sample("sample", 0, {"wall_ms": 1.0}),))
    refused = CaseResult(case(transfer(size=8)), "unsupported", "no")
    assert [each.flags for each in flagged([measured, refused], ("low_clock",))] == [("low_clock", "noisy"), ()]
    assert flagged([measured, refused], ()) == [measured, refused]


# where things lie


def test_what_lies_on_another_node_than_the_gpu_is_flagged() -> None:
    cpus = allowed_cpus()
    here, split = Topology({1: cpus}), Topology({0: frozenset({min(cpus)}), 1: cpus - {min(cpus)} | {10_000}})
    assert numa_flags(device(numa_node=1), (1, None), here) == ()
    assert numa_flags(device(numa_node=1), (1, 0), here) == ("numa_remote",)
    assert numa_flags(device(numa_node=0), (), here) == ("numa_remote",)
    assert numa_flags(device(numa_node=1), (), split) == ("numa_remote",)  # the thread may run on either
    assert numa_flags(device(numa_node=None), (0,), here) == ()


def test_a_simulated_device_has_one_node_on_every_machine() -> None:
    simulated = DeviceFacts("simulated:h200", "simulated", 1, 1, 3, {})
    with placed_for(simulated, "local") as node:
        assert node is None
    with pytest.raises(CaseUnsupported, match="needs a second NUMA node"), placed_for(simulated, "remote"):
        pytest.fail("it cannot be remote")


# paging


def test_faults_and_swap_are_read_from_the_process(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/self/stat": STAT, "proc/self/status": STATUS})
    assert read_paging(root) == Paging(37, 12 << 10)
    assert read_paging(tmp_path / "nowhere") == Paging(0, 0)
    assert read_paging(write(tmp_path, {"proc/self/stat": "broken"})) == Paging(0, 0)


@pytest.mark.parametrize(
    ("after", "flags"),
    [
        (Paging(5, 100), ()),
        (Paging(5 + MOST_MAJOR_FAULTS, 100), ()),
        (Paging(6 + MOST_MAJOR_FAULTS, 100), ("paging",)),
        (Paging(5, 101), ("paging",)),
        (Paging(5, 0), ()),
    ],
)
def test_growth_is_flagged(after: Paging, flags: tuple[str, ...]) -> None:
    assert paging_flags(Paging(5, 100), after) == flags


# the host


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n"}, "qemu"),
        ({"sys/class/dmi/id/product_name": "KVM\n", "sys/class/dmi/id/sys_vendor": "Red Hat\n"}, "kvm"),
        ({"sys/class/dmi/id/product_name": "Google Compute Engine\n"}, "google"),
        ({"sys/class/dmi/id/sys_vendor": "Dell Inc.\n", "proc/cpuinfo": "flags\t\t: fpu vme\n"}, "none"),
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor lahf_lm\n"}, "unknown"),
        ({}, None),
    ],
)
def test_virtualisation_is_told_by_the_makers_name_or_the_processor(
    tmp_path: Path, files: dict[str, str], word: str | None
) -> None:
    assert virtualisation(write(tmp_path, files)) == word


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("Max locked memory         8388608              8388608              bytes     \n", 8388608),
        ("Max locked memory         unlimited            unlimited            bytes     \n", None),
        ("Max open files            1024                 4096                 files     \n", None),
    ],
)
def test_the_limit_of_locked_memory_is_the_soft_one(tmp_path: Path, limits: str, expected: int | None) -> None:
    assert memlock_bytes(write(tmp_path, {"proc/self/limits": limits})) == expected


def test_limits_are_those_of_the_own_control_group_then_of_the_top_one(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.max": "1048576\n",
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
    }
    assert cgroup_limits(write(tmp_path, files)) == {"memory.max": "1048576", "cpu.max": "200000 100000"}


def test_governors_containers_and_services_are_found(tmp_path: Path) -> None:
    assert (governors(tmp_path), container(tmp_path), mps_pipe(tmp_path, {})) == (None, None, None)
    files = {
        f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": f"{name}\n" for cpu, name in enumerate(("schedutil",) * 2)
    }
    write(tmp_path, files | {".dockerenv": "", "tmp/nvidia-mps/control": ""})
    assert (governors(tmp_path), container(tmp_path)) == (["schedutil"], "docker")
    assert mps_pipe(tmp_path, {}) == str(tmp_path / "tmp/nvidia-mps")
    assert mps_pipe(tmp_path, {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}) == "/run/mps"


def test_variables_that_change_a_measurement_are_kept_and_no_secret_is() -> None:
    kept = {
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "CUDA_INJECTION64_PATH": "/nsys.so",
        "GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=1048576",
        "LD_PRELOAD": "/lib/malloc.so",
        "NVTX_INJECTION64_PATH": "/nvtx.so",
    }
    assert variables(kept | {"AWS_SECRET": "x", "HOME": "/root"}) == kept


def test_an_unknown_machine_tells_what_it_can_and_breaks_nothing(tmp_path: Path) -> None:
    told = host_facts(tmp_path, {})
    assert told["numa_nodes"] == {}
    assert (told["memlock_bytes"], told["virtualisation"], told["cgroup"]) == (None, None, {})
    assert told["kernel"]
