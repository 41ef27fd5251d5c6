from __future__ import annotations

from pathlib import Path

from runner.device.contract import DeviceFacts
from runner.measure.preflight import available_host_bytes, refusal_of
from runner.plan import Demand

GIB = 2**30


FACTS = DeviceFacts("simulated:test", "simulated", 4 * GIB, 4 * GIB, 2, {})


def test_a_case_that_fits_is_not_refused() -> None:
    assert refusal_of(Demand(2 * GIB, 1 * GIB, 4 * GIB), FACTS, 8 * GIB) == ""


def test_a_refusal_names_the_memory_and_both_figures() -> None:
    assert refusal_of(Demand(0, 0, 4 * GIB + 1), FACTS, 8 * GIB) == (
        "needs 4,294,967,297 bytes of device memory, 4,294,967,296 are free on simulated:test"
    )
    assert refusal_of(Demand(8 * GIB, 0, 0), FACTS, 8 * GIB).startswith(
        "needs 8,589,934,592 bytes of host memory, 8,321,499,136 are"
    )
    assert refusal_of(Demand(0, 4 * GIB + 1, 0), FACTS, 8 * GIB).startswith(
        "pins 4,294,967,297 bytes, more than half of the 8,589,934,592"
    )


def test_available_memory_is_the_least_of_the_machine_and_its_cgroup(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       100 kB\nMemAvailable:   50 kB\n")
    assert available_host_bytes(meminfo, tmp_path) == 50 * 1024
    (tmp_path / "memory.max").write_text("30000\n")
    (tmp_path / "memory.current").write_text("10000\n")
    assert available_host_bytes(meminfo, tmp_path) == 20000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_host_bytes(meminfo, tmp_path) == 50 * 1024
    assert available_host_bytes(tmp_path / "absent", tmp_path) == 2**63 - 1
