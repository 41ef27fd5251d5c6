"""Kernels and the processor working in place, kernels as copiers, migration both ways, and kernels that go astray."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runner.device.cuda.device import CudaDevice
from runner.memory import KINDS
from runner.pattern import FLAT
from runner.plan import (
    Access,
    Alloc,
    Buffer,
    Busy,
    Drain,
    Event,
    Expect,
    Fill,
    HostAccess,
    KernelAccess,
    KernelCopy,
    Launch,
    Mark,
    Operation,
    Plan,
    Prefetch,
    Record,
    Stream,
)
from tests.cuda.test_gpu_data import play

pytestmark = pytest.mark.gpu

MIB = 1 << 20
IN_PLACE = [*(name for name, kind in KINDS.items() if kind.kernel_access), "device"]


def in_place(kind: str, size: int, begin: int, length: int, operation: Operation, access: Access) -> Plan:
    """Do one access to a range; what lies beside it must stay as it was."""
    salt, added = (FLAT + 1, 0) if access == "write" else (1, int(access == "increment"))
    ends = ((0, begin), (begin + length, size - begin - length))
    return Plan(
        buffers=(Buffer("data", kind, size),),
        setup=(Alloc(0),),
        prepare=(Fill(0, 0, size, 1),),
        lanes=((operation, Drain(0)),),
        streams=(Stream("s"),),
        expects=(
            Expect(0, begin, length, salt, begin, added),
            *(Expect(0, at, rest, 1, at) for at, rest in ends if rest),
        ),
    )


@pytest.mark.parametrize("kind", IN_PLACE)
@pytest.mark.parametrize("access", ["read", "write", "increment"])
@pytest.mark.parametrize(("begin", "length"), [(0, 4), (4, 4_004), (16, MIB), (8, 3 * MIB + 20)])
def test_a_kernel_works_in_place(cuda: CudaDevice, kind: str, access: Access, begin: int, length: int) -> None:
    operation = KernelAccess(0, 0, begin, length, access, FLAT + 1)
    play(cuda, in_place(kind, begin + length + 9, begin, length, operation, access), plays=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("access", ["read", "write", "increment"])
@pytest.mark.parametrize("threads", [1, 5])
def test_the_processor_works_in_place(cuda: CudaDevice, kind: str, access: Access, threads: int) -> None:
    operation = HostAccess(0, 8, MIB + 12, access, threads, FLAT + 1)
    play(cuda, in_place(kind, MIB + 29, 8, MIB + 12, operation, access), plays=3)


@pytest.mark.parametrize("kind", [kind for kind in IN_PLACE if kind != "device"])
@pytest.mark.parametrize(("at", "words"), [(0, 1), (0, 4_099), (4, 1_000_003), (16, 262_144), (0, 4_194_304)])
def test_a_kernel_copies_every_word_both_ways(cuda: CudaDevice, kind: str, at: int, words: int) -> None:
    size = 4 * words
    plan = Plan(
        buffers=(Buffer("in", kind, at + size), Buffer("data", "device", size), Buffer("out", kind, at + size)),
        setup=(Alloc(0), Alloc(1), Alloc(2)),
        prepare=(Fill(0, 0, at + size, 1), Fill(2, 0, at + size, 2)),
        lanes=((KernelCopy(0, 1, 0, 0, at, size), Launch(0, 1, 0, size), KernelCopy(0, 2, at, 1, 0, size), Drain(0)),),
        streams=(Stream("s"),),
        expects=(Expect(2, at, size, 1, at, 1), *((Expect(2, 0, at, 2, 0),) if at else ())),
    )
    play(cuda, plan)


@pytest.mark.parametrize("ahead", [False, True])
def test_managed_pages_go_to_the_device_and_come_back(cuda: CudaDevice, ahead: bool) -> None:
    size = 24 * MIB + 4
    there, back = (Prefetch(0, 0, 0, size, "device"), Prefetch(0, 0, 0, size, "host")) if ahead else (None, None)
    lane = (there, KernelAccess(0, 0, 0, size, "increment"), back, Drain(0), HostAccess(0, 0, size, "increment"))
    plan = Plan(
        buffers=(Buffer("data", "managed", size),),
        setup=(Alloc(0),),
        prepare=(Fill(0, 0, size, 1),),
        lanes=(tuple(operation for operation in lane if operation is not None),),
        streams=(Stream("s"),),
        expects=(Expect(0, 0, size, 1, 0, 2),),
    )
    play(cuda, plan, plays=3)


def test_pages_may_be_sent_ahead_before_a_play(cuda: CudaDevice) -> None:
    size = 8 * MIB
    plan = Plan(
        buffers=(Buffer("data", "managed", size),),
        setup=(Alloc(0),),
        prepare=(Fill(0, 0, size, 1), Prefetch(0, 0, 0, size, "device")),
        lanes=((HostAccess(0, 0, size, "increment", 2),),),
        streams=(Stream("s"),),
        expects=(Expect(0, 0, size, 1, 0, 1),),
    )
    play(cuda, plan)


def test_a_busy_stream_is_busy_for_as_long_as_asked(cuda: CudaDevice) -> None:
    plan = Plan(
        buffers=(),
        setup=(),
        prepare=(),
        lanes=((Record(0, 0), Busy(0, 5_000_000), Record(0, 1), Drain(0)),),
        streams=(Stream("s"),),
        events=(Event("begin", timed=True), Event("end", timed=True)),
    )
    session = cuda.open(plan)
    try:
        begin, end = session.play(0).event_ns
        assert begin == 0
        assert end is not None
        assert end >= 5_000_000
    finally:
        session.close()


def test_processor_time_is_told_where_it_is_asked_for(cuda: CudaDevice) -> None:
    size = 8 * MIB
    plan = Plan(
        buffers=(Buffer("data", "pinned", size),),
        setup=(Alloc(0),),
        prepare=(Fill(0, 0, size, 1),),
        lanes=((Mark(0, cpu=True), HostAccess(0, 0, size, "increment"), Mark(1, cpu=True)),),
        marks=("begin", "end"),
    )
    session = cuda.open(plan)
    try:
        begin, end = session.play(0).cpu_ns
        assert begin is not None
        assert end is not None
        assert end > begin
    finally:
        session.close()


def test_the_facts_tell_what_the_device_may_reach(cuda: CudaDevice) -> None:
    told = cuda.facts().environment
    for name in ("concurrent_managed_access", "pageable_memory_access", "can_map_host_memory"):
        assert isinstance(told[name], bool)
    assert told["async_engine_count"] == cuda.facts().copy_engines
    assert {"memlock_bytes", "transparent_huge_pages", "page_bytes"} <= set(told)


ASTRAY = """
from runner.device.cuda.device import CudaDevice
from runner.errors import CaseFailed
from runner.plan import *
device = CudaDevice()
plan = Plan(
    buffers=(Buffer("data", "pageable", 1 << 20),), setup=(Alloc(0),), prepare=(Fill(0, 0, 1 << 20, 1),),
    lanes=((KernelAccess(0, 0, 0, 1 << 20, "increment"), Drain(0)),), streams=(Stream("s"),),
    expects=(Expect(0, 0, 1 << 20, 1, 0, 1),), faults_wanted=frozenset({0}),
)
reaches = device.facts().environment["pageable_memory_access"]
session = device.open(plan)
try:
    session.play(0)
    print(reaches, "works", session.verify())
except CaseFailed as error:
    print(reaches, "lost" if device.lost else "alive", error)
session.close()
device.close()
"""


def test_a_kernel_given_pageable_memory_works_or_fails_by_name_and_leaves_the_machine_well(cuda: CudaDevice) -> None:
    done = subprocess.run([sys.executable, "-c", ASTRAY], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (done.returncode, done.stderr) == (0, "")
    if done.stdout.startswith("True"):
        assert done.stdout == "True works ()\n"
    else:
        assert done.stdout.startswith("False lost ")
        assert "address" in done.stdout
        assert "the kernel of operation 0 of lane 0, KernelAccess(" in done.stdout
        assert "used the host's address of data" in done.stdout
    operation = KernelAccess(0, 0, 0, MIB, "increment")
    play(cuda, in_place("device", MIB, 0, MIB, operation, "increment"))
