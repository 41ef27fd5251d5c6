"""Every kind of memory on the real device: what the driver says of it, its data at odd sizes, and nothing of it left behind."""

from __future__ import annotations

import pytest

from runner.device.cuda.device import CudaDevice
from runner.errors import CaseFailed, CaseUnsupported
from runner.memory import KINDS
from runner.plan import (
    Alloc,
    Buffer,
    Busy,
    Copy,
    Drain,
    Event,
    Expect,
    Fill,
    Free,
    HostAccess,
    HostWait,
    Launch,
    Mark,
    Pages,
    Plan,
    Record,
    Stream,
)
from tests.cuda.test_gpu_data import play

pytestmark = pytest.mark.gpu

MIB = 1 << 20
HUGE = [name for name, kind in KINDS.items() if "huge" in kind.pages]


def round_trip(kind: str, size: int, pages: Pages = "normal") -> Plan:
    whole = size - size % 4
    return Plan(
        buffers=(Buffer("input", kind, size, pages), Buffer("data", "device", size), Buffer("output", kind, size, pages)),
        setup=(Alloc(0), Alloc(1), Alloc(2)),
        prepare=(Fill(0, 0, size, 1), Fill(2, 0, size, 2)),
        lanes=(
            (
                Copy(0, "h2d", 1, 0, 0, 0, size),
                *((Launch(0, 1, 0, whole),) if whole else ()),
                Copy(0, "d2h", 2, 0, 1, 0, size),
                Record(0, 0),
                HostWait(0),
            ),
        ),
        streams=(Stream("s"),),
        events=(Event("done"),),
        expects=(
            Expect(0, 0, size, 1, 0),
            *((Expect(2, 0, whole, 1, 0, 1),) if whole else ()),
            *((Expect(2, whole, size - whole, 1, whole),) if size > whole else ()),
        ),
    )


def play_or_skip(cuda: CudaDevice, plan: Plan) -> None:
    """Play; skip only where the machine says that it has no such memory."""
    try:
        play(cuda, plan)
    except CaseUnsupported as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 5, 4096, 65_537, 16 * MIB + 7, 40 * MIB + 3])
def test_every_byte_crosses_both_ways_in_each_kind(cuda: CudaDevice, kind: str, size: int) -> None:
    play(cuda, round_trip(kind, size))


@pytest.mark.parametrize("kind", KINDS)
def test_the_driver_says_what_each_kind_is(cuda: CudaDevice, kind: str) -> None:
    session = cuda.open(Plan((Buffer("data", kind, MIB),), (Alloc(0),), (), ((Mark(0),),), marks=("now",)))
    try:
        assert session.play(0).buffer_facts[0] in KINDS[kind].driver_says
    finally:
        session.close()


@pytest.mark.parametrize("kind", HUGE)
@pytest.mark.parametrize("size", [MIB, 16 * MIB + 7])
def test_every_byte_crosses_both_ways_on_huge_pages(cuda: CudaDevice, kind: str, size: int) -> None:
    play_or_skip(cuda, round_trip(kind, size, "huge"))


@pytest.mark.parametrize("kind", HUGE)
@pytest.mark.parametrize("pages", ["normal", "huge"])
def test_memory_can_be_allocated_first_touched_and_freed_in_a_lane(cuda: CudaDevice, kind: str, pages: Pages) -> None:
    size = 8 * MIB
    plan = Plan(
        buffers=(Buffer("fresh", kind, size, pages), Buffer("data", "device", size)),
        setup=(Alloc(1),),
        prepare=(),
        lanes=(
            (
                Alloc(0),
                HostAccess(0, 0, size, "write", 2),
                Copy(0, "h2d", 1, 0, 0, 0, size),
                Drain(0),
                Free(0),
            ),
        ),
        streams=(Stream("s"),),
        expects=(Expect(1, 0, size, HostAccess(0, 0, size, "write").salt, 0),),
    )
    play_or_skip(cuda, plan)


def leave_nothing(cuda: CudaDevice, plan: Plan) -> None:
    play_or_skip(cuda, plan)
    before = cuda.facts().free_bytes
    for _ in range(5):
        play(cuda, plan)
    assert cuda.facts().free_bytes == before


@pytest.mark.alone
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_leaves_device_memory_behind(cuda: CudaDevice, kind: str) -> None:
    leave_nothing(cuda, round_trip(kind, 8 * MIB))


@pytest.mark.parametrize("kind", KINDS)
def test_an_absurd_size_is_refused_with_the_figures_and_leaves_the_device_well(cuda: CudaDevice, kind: str) -> None:
    plan = Plan((Buffer("data", kind, 1 << 50),), (Alloc(0),), (), ((),))
    with pytest.raises(CaseFailed, match=rf"of {kind} memory for buffer data was refused .* the device has .* free"):
        cuda.open(plan)
    assert not cuda.lost
    play(cuda, round_trip(kind, 4096))


def test_pinned_memory_freed_while_its_copy_waits_leaves_the_device_well(cuda: CudaDevice) -> None:
    size = 8 * MIB
    plan = Plan(
        buffers=(Buffer("input", "pinned", size), Buffer("data", "device", size)),
        setup=(Alloc(1),),
        prepare=(Alloc(0), Fill(0, 0, size, 1)),
        lanes=((Mark(0), Busy(0, 20_000_000), Copy(0, "h2d", 1, 0, 0, 0, size), Mark(1), Free(0), Mark(2), Drain(0)),),
        streams=(Stream("s"),),
        marks=("begin", "issued", "freed"),
        races_wanted=frozenset({0}),
    )
    session = cuda.open(plan)
    try:
        for sample in range(3):
            trace = session.play(sample)
            assert None not in trace.host_ns
    finally:
        session.close()
    assert not cuda.lost
    play(cuda, round_trip("pinned", size))
