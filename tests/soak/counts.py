"""How often tests of chance are done: few in `make test`, all of them in `make soak`."""

from __future__ import annotations

import os

SOAKING = bool(os.environ.get("DMALAB_SOAK"))


def count(quick: int, full: int) -> int:
    """Return `full` in `make soak`, `quick` elsewhere."""
    return full if SOAKING else quick
