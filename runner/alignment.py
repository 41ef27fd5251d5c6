"""Cells of a table in the terminal, padded so that its columns can be read down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NUMBER: Final = re.compile(r"-?[0-9][0-9,]*(\.[0-9]+)?")


def right_aligned(column: Sequence[str]) -> list[str]:
    """Pad a column, its header first, to the right; numbers alone point below point, since they end in no zeros.

    The cells are of one width, because a table of rich takes blanks behind a cell at the right away.
    """
    header, *cells = column
    if all(_NUMBER.fullmatch(cell) for cell in cells if cell):
        behind = [len(cell.partition(".")[1] + cell.partition(".")[2]) for cell in cells]
        cells = [cell + " " * (max(behind) - places) for cell, places in zip(cells, behind, strict=True)]
    width = max(map(len, (header, *cells)))
    return [cell.rjust(width) for cell in (header, *cells)]


def left_aligned(column: Sequence[str]) -> list[str]:
    """Pad a column to the left."""
    width = max(map(len, column))
    return [cell.ljust(width) for cell in column]
