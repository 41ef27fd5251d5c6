"""Nothing leaks, a failure leaves the device usable or says that it is lost, and a process ends by its own code, quietly."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runner.device.cuda.device import CudaDevice
from runner.errors import CaseFailed
from runner.plan import Alloc, Buffer, Copy, Drain, Expect, Fill, Launch, Operation, Plan, Stream

pytestmark = pytest.mark.gpu

SIZE = 8 << 20


def round_trip(*extra: Operation) -> Plan:
    return Plan(
        buffers=(Buffer("input", "pinned", SIZE), Buffer("data", "device", SIZE), Buffer("output", "pageable", SIZE)),
        setup=(Alloc(0), Alloc(1), Alloc(2)),
        prepare=(Fill(0, 0, SIZE, 1), Fill(2, 0, SIZE, 2)),
        lanes=(
            (
                Copy(0, "h2d", 1, 0, 0, 0, SIZE),
                Launch(0, 1, 0, SIZE),
                *extra,
                Copy(0, "d2h", 2, 0, 1, 0, SIZE),
                Drain(0),
            ),
        ),
        streams=(Stream("s"),),
        expects=(Expect(2, 0, SIZE, 1, 0, 1),),
    )


@pytest.mark.alone
def test_twenty_sessions_leave_no_device_memory_behind(cuda: CudaDevice) -> None:
    def once() -> None:
        session = cuda.open(round_trip())
        try:
            session.play(0)
            assert session.verify() == ()
        finally:
            session.close()

    once()
    free = cuda.facts().free_bytes
    for _ in range(20):
        once()
    assert cuda.facts().free_bytes == free


def test_a_failure_between_copies_under_way_names_its_operation_and_the_next_case_is_well(cuda: CudaDevice) -> None:
    # The range ends outside the allocation, which the driver refuses before the device sees it.
    session = cuda.open(round_trip(Copy(0, "h2d", 1, SIZE - 4096, 0, 0, SIZE)))
    try:
        with pytest.raises(CaseFailed, match=r"in operation 2 of lane 0, Copy\("):
            session.play(0)
    finally:
        session.close()
    assert not cuda.lost
    session = cuda.open(round_trip())
    try:
        session.play(1)
        assert session.verify() == ()
    finally:
        session.close()


START = """
from runner.device.cuda.device import CudaDevice
from runner.errors import CaseFailed
from runner.plan import *
device = CudaDevice()
plan = Plan(
    buffers=(Buffer("input", "pinned", 1 << 20), Buffer("data", "device", 1 << 20)),
    setup=(Alloc(0), Alloc(1)), prepare=(Fill(0, 0, 1 << 20, 1),),
    lanes=((Copy(0, "h2d", 1, 0, 0, 0, 1 << 20), Launch(0, 1, OFFSET, 1 << 20), Drain(0)),), streams=(Stream("s"),),
)
session = device.open(plan)
"""


def run(code: str, offset: int = 0) -> subprocess.CompletedProcess[str]:
    source = START.replace("OFFSET", str(offset)) + code
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, env=dict(os.environ))


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("session.play(0); session.close(); device.close()", 0, ""),
        ("session.play(0)", 0, ""),
        ("raise SystemExit(4)", 4, ""),
        ("session.play(0); 1 / 0", 1, "ZeroDivisionError"),
        ("session._lanes[0].calls.insert(1, lambda: 1 / 0); session._lanes[0].owners.insert(1, 0); session.play(0)", 1, "Zero"),
    ],
)
def test_a_process_ends_by_its_own_code_and_without_a_banner(cuda: CudaDevice, code: str, status: int, says: str) -> None:
    done = run(code)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert "PyCUDA" not in done.stderr
    assert done.stderr == "" or says


def test_ctrl_c_ends_a_process_as_an_interrupt_and_without_a_banner(cuda: CudaDevice) -> None:
    done = run(
        "try:\n    import signal; signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    raise SystemExit(130)"
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_a_kernel_astray_loses_the_device_and_the_process_still_ends_well(cuda: CudaDevice) -> None:
    code = """
try:
    session.play(0)
except CaseFailed as error:
    print(error)
print(device.lost)
session.close()
try:
    device.open(plan)
except CaseFailed as error:
    print(error)
device.close()
raise SystemExit(4)
"""
    done = run(code, offset=1 << 46)
    first, lost, after = done.stdout.splitlines()
    assert "of lane 0" in first
    assert lost == "True"
    assert "lost by an error before this case" in after
    assert (done.returncode, done.stderr) == (4, "")
