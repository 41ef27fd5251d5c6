"""How often tests of chance are done: few in `make test`, a tenth of all in `.ci/run`, all in `make soak`."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("DMALAB_SOAK") or 0)
"""Which share of the full counts is done, 0 for as few as `make test` does."""


def count(quick: int, full: int) -> int:
    """Return the share of `full` that was asked for, `quick` at least."""
    return max(quick, round(full * SHARE))
