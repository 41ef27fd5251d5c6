"""Whether a profiler shall see our names: a variable, since a device may live in another process than the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NVTX: Final = "DMALAB_NVTX"
"""Set to 1 by `--nvtx`: a real device puts NVTX ranges around each play and each operation."""


def ranges_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the variable asks for ranges; empty and 0 do not."""
    return environment.get(NVTX, "") not in ("", "0")
