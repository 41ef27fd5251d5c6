"""Every word exactly once on the real device, at the sizes where 32-bit arithmetic breaks, and what the driver says of memory."""

from __future__ import annotations

import pytest

from runner.device.cuda.device import CudaDevice
from runner.errors import CaseFailed
from runner.plan import (
    Alloc,
    Buffer,
    Copy,
    Drain,
    Event,
    Expect,
    Fill,
    Gate,
    HostWait,
    Launch,
    Mark,
    Plan,
    Record,
    Register,
    Release,
    Stream,
    StreamWait,
    Unregister,
)

pytestmark = pytest.mark.gpu

EDGE = 1 << 20


def increments(size: int, offset: int, length: int, passes: int, check: tuple[tuple[int, int], ...], added: int) -> Plan:
    """Fill a device buffer, add to a range of it, and compare the ranges of `check`, which must have gained `added`."""
    return Plan(
        buffers=(Buffer("data", "device", size),),
        setup=(Alloc(0),),
        prepare=tuple(Fill(0, begin, end, 1) for begin, end in check),
        lanes=((Launch(0, 0, offset, length, passes), Drain(0)),),
        streams=(Stream("s"),),
        expects=tuple(Expect(0, begin, end, 1, begin, added) for begin, end in check),
    )


def play(device: CudaDevice, plan: Plan, plays: int = 2) -> None:
    session = device.open(plan)
    try:
        for sample in range(plays):
            session.play(sample)
            assert session.verify() == ()
    finally:
        session.close()


@pytest.mark.parametrize("size", [2_147_483_648, 4_294_967_296 + 4])
def test_first_and_last_words_of_large_buffers_gain_exactly_one(cuda: CudaDevice, size: int) -> None:
    ends = ((0, EDGE), (size // 2 & -4, EDGE), (size - EDGE, EDGE))
    play(cuda, increments(size, 0, size, 1, ends, 1))


@pytest.mark.parametrize("words", [1, 2, 3, 31, 33, 255, 257, 65_537, 1_000_003])
@pytest.mark.parametrize("passes", [1, 3])
def test_any_number_of_words_gains_exactly_the_passes(cuda: CudaDevice, words: int, passes: int) -> None:
    play(cuda, increments(4 * words, 0, 4 * words, passes, ((0, 4 * words),), passes))


def test_words_beside_the_range_stay_as_they_were(cuda: CudaDevice) -> None:
    size, begin, length = 1 << 16, 20, 4_004
    plan = Plan(
        buffers=(Buffer("data", "device", size),),
        setup=(Alloc(0),),
        prepare=(Fill(0, 0, size, 1),),
        lanes=((Launch(0, 0, begin, length), Drain(0)),),
        streams=(Stream("s"),),
        expects=(
            Expect(0, 0, begin, 1, 0),
            Expect(0, begin, length, 1, begin, 1),
            Expect(0, begin + length, size - begin - length, 1, begin + length),
        ),
    )
    play(cuda, plan)


def test_the_driver_tells_each_kind_of_memory(cuda: CudaDevice) -> None:
    buffers = (Buffer("pageable", "pageable", EDGE), Buffer("pinned", "pinned", EDGE), Buffer("device", "device", EDGE))
    session = cuda.open(Plan(buffers, (Alloc(0), Alloc(1), Alloc(2)), (), ((Mark(0),),), marks=("now",)))
    try:
        assert session.play(0).buffer_facts == ("pageable", "pinned", "device")
    finally:
        session.close()


def test_pageable_memory_is_pinned_while_it_is_registered(cuda: CudaDevice) -> None:
    plan = Plan(
        buffers=(Buffer("input", "pageable", EDGE), Buffer("data", "device", EDGE)),
        setup=(Alloc(0), Alloc(1)),
        prepare=(Fill(0, 0, EDGE, 1), Fill(1, 0, EDGE, 2)),
        lanes=((Register(0), Copy(0, "h2d", 1, 0, 0, 0, EDGE), Drain(0), Unregister(0)),),
        streams=(Stream("s"),),
        expects=(Expect(1, 0, EDGE, 1, 0),),
    )
    play(cuda, plan)


def test_a_gate_holds_its_stream_until_the_host_opens_it(cuda: CudaDevice) -> None:
    plan = Plan(
        buffers=(Buffer("input", "pinned", EDGE), Buffer("data", "device", EDGE), Buffer("output", "pinned", EDGE)),
        setup=(Alloc(0), Alloc(1), Alloc(2)),
        prepare=(Fill(0, 0, EDGE, 1), Fill(2, 0, EDGE, 2)),
        lanes=(
            (
                Gate(0, 0),
                Record(0, 0),
                Copy(0, "h2d", 1, 0, 0, 0, EDGE),
                Record(0, 1),
                StreamWait(1, 1),
                Launch(1, 1, 0, EDGE),
                Record(1, 2),
                StreamWait(2, 2),
                Copy(2, "d2h", 2, 0, 1, 0, EDGE),
                Record(2, 3),
                Mark(0),
                Release(0),
                HostWait(3),
                Mark(1),
            ),
        ),
        streams=(Stream("a"), Stream("b"), Stream("n", "null")),
        events=tuple(Event(f"e{index}", timed=True) for index in range(4)),
        gates=1,
        marks=("issued", "done"),
        expects=(Expect(2, 0, EDGE, 1, 0, 1),),
    )
    session = cuda.open(plan)
    try:
        for sample in range(3):
            trace = session.play(sample)
            assert session.verify() == ()
            assert not trace.gate_timeout
            times = [time for time in trace.event_ns if time is not None]
            assert times == sorted(times)
            assert times[0] == 0
            assert len(times) == 4
    finally:
        session.close()


def test_more_device_memory_than_there_is_is_refused_and_leaves_the_device_well(cuda: CudaDevice) -> None:
    size = 4 * cuda.facts().memory_bytes
    with pytest.raises(CaseFailed, match=r"of device memory for buffer data was refused .* the device has .* free"):
        cuda.open(increments(size, 0, 4, 1, (), 0))
    assert not cuda.lost
    play(cuda, increments(4096, 0, 4096, 1, ((0, 4096),), 1))
