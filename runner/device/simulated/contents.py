"""What lies in a simulated buffer, as symbols: which pattern, shifted by how much, plus what was added.

No byte is moved, so 256 MiB cost as much as 4 KiB, yet a chunk that is short, doubled, misplaced or left over from the sample
before differs from what is expected at exactly the bytes where it would on a real device.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from runner.pattern import FLAT, WORD
from runner.plan import Expect

Tag = tuple[int, int, int, int]
"""(salt, sample, shift, added): the byte at place p is byte p + shift of that pattern, in a word to which `added` was added.

All words of a flat pattern are the same, so its shifts lie inside a word."""
Pieces = list[tuple[int, Tag]]
"""Where each piece begins, counted from the start of the range, and what it holds."""

UNTOUCHED: Final[Tag] = (-1, 0, 0, 0)
"""Memory whose pages were never written."""
UNKNOWN: Final[Tag] = (-2, 0, 0, 0)
"""Bytes that follow no pattern: read from untouched memory, or words that a kernel added to across two patterns."""


class Contents:
    """The segments of one buffer: segment i holds `tags[i]` from `starts[i]` to the start of the next."""

    __slots__ = ("size", "starts", "tags")

    def __init__(self, size: int) -> None:
        self.size = size
        self.starts = [0]
        self.tags = [UNTOUCHED]

    def read(self, offset: int, size: int) -> Pieces:
        """Return the pieces of a range, their shifts still counted from places in this buffer."""
        starts, tags = self.starts, self.tags
        first = bisect_right(starts, offset) - 1
        if first + 1 == len(starts) or starts[first + 1] >= offset + size:
            return [(0, tags[first])]
        last = bisect_left(starts, offset + size)
        pieces = [(start - offset, tag) for start, tag in zip(starts[first:last], tags[first:last], strict=True)]
        pieces[0] = (0, pieces[0][1])
        return pieces

    def write(self, offset: int, size: int, pieces: Pieces, source_offset: int) -> None:
        """Replace a range by pieces that were read from `source_offset` on."""
        move = source_offset - offset
        if len(pieces) == 1:
            self._replace(offset, offset + size, [offset], [_moved(pieces[0][1], move)])
            return
        starts: list[int] = []
        tags: list[Tag] = []
        for start, tag in pieces:
            moved = _moved(tag, move)
            if not tags or tags[-1] != moved:
                starts.append(offset + start)
                tags.append(moved)
        self._replace(offset, offset + size, starts, tags)

    def fill(self, offset: int, size: int, salt: int, sample: int) -> None:
        """Write a pattern, which counts its bytes from the start of this buffer."""
        self._replace(offset, offset + size, [offset], [(salt, sample, 0, 0)])

    def touch(self) -> None:
        """Let no page be untouched any more, whatever lies in it."""
        self.tags = [UNKNOWN if tag is UNTOUCHED else tag for tag in self.tags]

    def untouched(self, offset: int, size: int) -> int:
        """Return how many bytes of a range were never written."""
        pieces = self.read(offset, size)
        if len(pieces) == 1:
            return size if pieces[0][1] is UNTOUCHED else 0
        ends = [start for start, _ in pieces[1:]] + [size]
        return sum(end - start for (start, tag), end in zip(pieces, ends, strict=True) if tag is UNTOUCHED)

    def differences(self, offset: int, size: int, expected: Tag) -> tuple[int, int, Tag] | None:
        """Compare a range; return (first wrong byte of the buffer, how many, what is there), None where all is right."""
        pieces = self.read(offset, size)
        ends = [start for start, _ in pieces[1:]] + [size]
        wrong = [(start, end - start, tag) for (start, tag), end in zip(pieces, ends, strict=True) if tag != expected]
        return (offset + wrong[0][0], sum(length for _, length, _ in wrong), wrong[0][2]) if wrong else None

    def _replace(self, begin: int, end: int, new_starts: list[int], new_tags: list[Tag]) -> None:
        """Put segments in place of [begin, end) and join equal neighbours at its edges."""
        starts, tags = self.starts, self.tags
        first, last = bisect_left(starts, begin), bisect_left(starts, end)
        if end < self.size and (last == len(starts) or starts[last] != end):
            if tags[last - 1] != new_tags[-1]:
                new_starts, new_tags = [*new_starts, end], [*new_tags, tags[last - 1]]
        elif last < len(starts) and tags[last] == new_tags[-1]:
            last += 1
        if first and tags[first - 1] == new_tags[0]:
            new_starts, new_tags = new_starts[1:], new_tags[1:]
        starts[first:last] = new_starts
        tags[first:last] = new_tags


def expected(expect: Expect, sample: int) -> Tag:
    """Return what a range must hold after a play of this sample."""
    return _moved((expect.salt, sample, 0, expect.added), expect.source_offset - expect.offset)


def added_to(pieces: Pieces, offset: int, size: int, passes: int) -> Pieces:
    """Return the pieces of a range of whole words after `passes` was added to each word.

    A piece that begins inside a word shares that word with the piece before, so the rest of the word follows no pattern any
    more (a carry may come out of its lower bytes); the lower bytes themselves are right. A piece whose pattern lies across the
    words of this buffer follows none at all.
    """
    result: Pieces = []
    for number, (start, tag) in enumerate(pieces):
        end = pieces[number + 1][0] if number + 1 < len(pieces) else size
        salt, sample, shift, added = tag
        ragged = -(offset + start) % WORD
        if salt < 0 or shift % WORD:
            result.append((start, UNKNOWN))
            continue
        if ragged:
            result.append((start, UNKNOWN))
        if start + ragged < end:
            result.append((start + ragged, (salt, sample, shift, added + passes)))
    return result


def _moved(tag: Tag, by: int) -> Tag:
    """Return what is there after a copy whose source lies `by` bytes further on than its destination."""
    salt, sample, shift, added = tag
    if salt < 0:
        return UNKNOWN
    return (salt, sample, shift + by if salt < FLAT else (shift + by) % WORD, added)


def in_words(tag: Tag) -> str:
    """Say what a tag is."""
    salt, sample, shift, added = tag
    if salt < 0:
        return "memory never written" if tag == UNTOUCHED else "bytes of no pattern"
    moved = f", moved by {-shift} bytes" if shift else ""
    return f"pattern {salt} of sample {sample}{moved}" + (f", plus {added}" if added else "")
