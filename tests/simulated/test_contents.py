"""Symbolic data against real bytes: whatever is done to both, they agree on where they are right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import pattern
from runner.device.simulated.contents import UNTOUCHED, Contents, added_to, expected, in_words
from runner.pattern import FLAT
from runner.plan import Expect

SIZE = 64
Step = tuple[str, int, int, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["fill", "copy", "add"]), *[st.integers(0, SIZE - 1)] * 2, st.integers(1, SIZE), st.integers(0, 3)),
    max_size=12,
)


class Bytes:
    """A buffer of real bytes."""

    def __init__(self) -> None:
        self.data = np.zeros(SIZE, np.uint8)

    def fill(self, offset: int, size: int, salt: int) -> None:
        pattern.fill(self.data[offset : offset + size], offset, pattern.offset_of(salt, 0), pattern.step_of(salt))

    def add(self, offset: int, size: int, passes: int) -> None:
        words = self.data[offset : offset + size].view(np.uint32)
        words += np.uint32(passes)


def expected_bytes(offset: int, size: int, salt: int, shift: int, added: int) -> np.ndarray:
    """The bytes of places `offset` … that a tag stands for."""
    whole = np.zeros(4 * SIZE, np.uint8)
    pattern.fill(whole, 0, (pattern.offset_of(salt, 0) + added) & 0xFFFFFFFF, pattern.step_of(salt))
    return whole[offset + shift : offset + shift + size]


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_symbols_follow_bytes(steps: list[Step]) -> None:
    symbols, real = [Contents(SIZE), Contents(SIZE)], [Bytes(), Bytes()]
    for index in range(2):
        symbols[index].fill(0, SIZE, 9, 0)
        real[index].fill(0, SIZE, 9)
    for what, at, source_at, wanted, extra in steps:
        here, there = extra % 2, 1 - extra % 2
        size = min(wanted, SIZE - at, SIZE - source_at)
        if what == "fill":
            salt = FLAT + extra if extra > 1 else extra
            symbols[here].fill(at, size, salt, 0)
            real[here].fill(at, size, salt)
        elif what == "copy":
            symbols[here].write(at, size, symbols[there].read(source_at, size), source_at)
            real[here].data[at : at + size] = real[there].data[source_at : source_at + size]
        else:
            at, size = at // 4 * 4, max(4, min(wanted, SIZE - at) // 4 * 4)
            pieces = added_to(symbols[here].read(at, size), at, size, extra + 1)
            symbols[here].write(at, size, pieces, at)
            real[here].add(at, size, extra + 1)
    for contents, held in zip(symbols, real, strict=True):
        agrees(contents, held)


def agrees(contents: Contents, held: Bytes) -> None:
    assert contents.starts[0] == 0
    assert contents.starts == sorted(set(contents.starts))
    assert all(one != next_one for one, next_one in zip(contents.tags, contents.tags[1:], strict=False))
    ends = [*contents.starts[1:], SIZE]
    for start, end, (salt, _, shift, added) in zip(contents.starts, ends, contents.tags, strict=True):
        if salt >= 0:
            expected = expected_bytes(start, end - start, salt, shift, added)
            assert np.array_equal(held.data[start:end], expected)


def test_differences_are_counted_where_they_lie() -> None:
    contents = Contents(100)
    contents.fill(0, 100, 1, 0)
    assert contents.differences(0, 100, (1, 0, 0, 0)) is None
    contents.fill(40, 8, 2, 0)
    contents.fill(60, 1, 2, 0)
    assert contents.differences(0, 100, (1, 0, 0, 0)) == (40, 9, (2, 0, 0, 0))
    assert contents.differences(45, 10, (1, 0, 0, 0)) == (45, 3, (2, 0, 0, 0))
    contents.fill(40, 21, 1, 0)
    assert (contents.starts, contents.tags) == ([0], [(1, 0, 0, 0)])


def test_untouched_bytes_are_counted() -> None:
    contents = Contents(100)
    assert contents.untouched(0, 100) == 100
    contents.fill(10, 20, 1, 0)
    assert contents.untouched(0, 100) == 80
    assert contents.untouched(15, 10) == 0
    assert contents.tags[0] is UNTOUCHED


def test_copying_untouched_memory_touches_its_destination() -> None:
    source, destination = Contents(8), Contents(8)
    destination.write(0, 8, source.read(0, 8), 0)
    assert destination.untouched(0, 8) == 0


def test_a_tag_reads_as_words() -> None:
    assert in_words((1, 2, -8, 3)) == "pattern 1 of sample 2, moved by 8 bytes, plus 3"
    assert in_words(UNTOUCHED) == "memory never written"


@pytest.mark.parametrize(("shift", "same"), [(0, True), (4, True), (40, True), (3, False)])
def test_the_place_of_a_flat_pattern_matters_only_inside_a_word(shift: int, same: bool) -> None:
    source, destination = Contents(SIZE), Contents(SIZE)
    source.fill(0, SIZE, FLAT, 5)
    destination.write(0, 16, source.read(shift, 16), shift)
    for source_offset in (0, 8, 1_000_000):
        tag = expected(Expect(1, 0, 16, FLAT, source_offset), 5)
        assert (destination.differences(0, 16, tag) is None) is same


def test_touching_keeps_what_is_there() -> None:
    contents = Contents(100)
    contents.fill(10, 20, 1, 0)
    contents.touch()
    assert contents.untouched(0, 100) == 0
    assert contents.differences(10, 20, (1, 0, 0, 0)) is None
