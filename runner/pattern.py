"""The data that experiments move: 32-bit words that depend on their place, on a salt, and on the number of the sample.

Word w (little-endian, counted from the start of the buffer it was filled in) of salt s in sample n is
`w * STEP + offset(s, n)  mod 2**32`. Words wrap around, so "exactly one more" is exact for any pattern, and a chunk that is
missing, doubled, shifted or left over from the sample before differs in every word.

Salts from FLAT on are the same word everywhere: what a processor or a kernel can write as fast as memory takes it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
else:
    # NumPy takes a third of the start-up of `plan`, `validate` and `list`, which never touch a byte; so it is imported where it
    # is used.
    Bytes = Any

STEP: Final = 2654435761
"""An odd multiplier (Knuth's), so that words repeat only after 2**32 of them."""
WORD: Final = 4
FLAT: Final = 1 << 16
"""Salts from here on give every word the same value; see `step_of`."""
_BLOCK_WORDS: Final = 1 << 19
"""What is written or compared at once: 2 MiB, so that threads seldom meet at the interpreter's lock."""


def step_of(salt: int) -> int:
    """Return by how much one word differs from the next, modulo 2**32."""
    return STEP if salt < FLAT else 0


def offset_of(salt: int, sample: int) -> int:
    """Return what the words of this salt and sample have in common, 0 … 2**32 - 1; distinct for close salts and samples."""
    mixed = (salt * 0x9E3779B97F4A7C15 + sample * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (mixed ^ (mixed >> 31)) & (2**32 - 1)


def first_word(start: int, common: int, step: int = STEP) -> int:
    """Return the word of the pattern that holds byte `start` of the filled buffer."""
    return (start // WORD * step + common) & (2**32 - 1)


def fill(target: Bytes, start: int, common: int, step: int = STEP) -> None:
    """Write the pattern over `target`, whose first byte is byte `start` of the filled buffer.

    `common` is of `offset_of`, `step` of `step_of`.
    """
    for begin in range(0, len(target), _BLOCK_WORDS * WORD):
        piece = target[begin : begin + _BLOCK_WORDS * WORD]
        if _whole_words(start, piece):
            _write_words(_words_in(piece), start + begin, common, step)
        else:
            piece[:] = _bytes_of(start + begin, len(piece), common, step)


def first_difference(actual: Bytes, start: int, common: int, step: int = STEP) -> tuple[int, int] | None:
    """Compare with the pattern; return (index of the first wrong byte, number of wrong bytes), None where all is right."""
    import numpy as np

    first, wrong = -1, 0
    expected = np.empty(min(len(actual) // WORD, _BLOCK_WORDS), dtype=np.uint32)
    for begin in range(0, len(actual), _BLOCK_WORDS * WORD):
        piece = actual[begin : begin + _BLOCK_WORDS * WORD]
        if _whole_words(start, piece):
            _write_words(expected[: len(piece) // WORD], start + begin, common, step)
            if np.array_equal(_words_in(piece), expected[: len(piece) // WORD]):
                continue
        places = np.flatnonzero(piece != _bytes_of(start + begin, len(piece), common, step))
        if not len(places):
            continue
        first = begin + int(places[0]) if first < 0 else first
        wrong += len(places)
    return None if first < 0 else (first, wrong)


def _whole_words(start: int, piece: Bytes) -> bool:
    return start % WORD == 0 and len(piece) % WORD == 0


def _words_in(piece: Bytes) -> npt.NDArray[np.uint32]:
    import numpy as np

    return piece.view(np.uint32)


def _write_words(words: npt.NDArray[np.uint32], start: int, common: int, step: int) -> None:
    """Write at most a block of the pattern from byte `start` on, in one pass: what is filled is larger than any cache."""
    import numpy as np

    if step:
        np.add(_steps(_BLOCK_WORDS)[: len(words)], np.uint32(first_word(start, common)), out=words)
    else:
        words.fill(common)


def _bytes_of(start: int, size: int, common: int, step: int) -> Bytes:
    """Return `size` bytes of the pattern from byte `start` on; at most one block and its ragged ends."""
    import numpy as np

    skip = start % WORD
    words = (skip + size + WORD - 1) // WORD
    if not step:
        return np.full(words, common, dtype=np.uint32).view(np.uint8)[skip : skip + size]
    base = _steps(_BLOCK_WORDS)[:words] if words <= _BLOCK_WORDS else _steps(words)
    return (base + np.uint32(first_word(start, common))).view(np.uint8)[skip : skip + size]


@cache
def _steps(words: int) -> npt.NDArray[np.uint32]:
    """Return the multiples of STEP from 0 on; there are two lengths of them, a block and a block with ragged ends."""
    import numpy as np

    return np.arange(words, dtype=np.uint32) * np.uint32(STEP)
