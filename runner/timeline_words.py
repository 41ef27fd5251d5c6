"""What a span of a timeline is called wherever it is shown."""

from __future__ import annotations

from typing import Final

from runner.timeline import Span, Work
from runner.units import digits, format_size

NAMES: Final[dict[Work, str]] = {
    "h2d": "copy to device",
    "d2h": "copy to host",
    "kernel": "kernel",
    "busy": "busy kernel",
    "host_copy": "host copy",
    "wait": "wait",
    "host": "host work",
}


def span_name(span: Span) -> str:
    """Return what was done and with how many bytes: `copy to device 4MiB`."""
    return NAMES[span.work] + (f" {format_size(span.size_bytes)}" if span.size_bytes else "")


def rate_text(span: Span) -> str:
    """Return the rate of a span, `55.1 GB/s`; empty where it has none."""
    return "" if span.gb_per_s is None else f"{digits(span.gb_per_s, 3)} GB/s"
