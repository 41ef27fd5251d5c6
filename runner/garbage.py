"""How often Python looks for garbage in a process that makes grids and Plans."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 20, 100)
"""Grids, Plans and plays make many objects and no cycles: looking for those at Python's own thresholds costs a tenth of a run."""


def collect_seldom() -> None:
    """Look seldom, and never through what is there already: modules are here to stay."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
