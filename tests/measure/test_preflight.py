from __future__ import annotations

from pathlib import Path

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
