"""What a picture calls a column: words with a unit where the tables have a name such as `median_wall_ms`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from runner.columns import summary_columns

_WORDS: Final = {
    "wall": "wall time",
    "event": "time by events",
    "engine": "time of the engines",
    "engine_busy": "busy time of the engines",
    "engine_gap": "gap between work of the engines",
    "event_excess": "excess of events over engines",
    "call": "time of one call",
    "h2d_event": "h2d time by events",
    "d2h_event": "d2h time by events",
    "cpu": "processor time",
    "host_free": "time in which the host is free",
    "solo": "time of the copies alone",
    "access": "time of access",
    "twin": "time of the serialized twin",
    "bound_none": "bound with nothing hidden",
    "bound_one_way": "bound with one way hidden",
    "bound_full": "bound with all hidden",
    "leg_host_in": "time of the host's copies in, alone",
    "leg_h2d": "time of the uploads, alone",
    "leg_kernel": "time of the kernels, alone",
    "leg_d2h": "time of the downloads, alone",
    "leg_host_out": "time of the host's copies out, alone",
    "link": "limit of the link",
    "register": "time to page-lock in place",
    "unregister": "time to undo page-locking",
    "instantiate": "time to make the graph",
    "node": "launch time of a graph",
    "allocate": "time to allocate",
    "touch": "time of the first touch",
    "free": "time to free",
    "pin": "time to pin the ballast",
    "copy_alone": "time of a host copy alone",
    "copy_pinned": "time of a host copy beside the ballast",
    "touch_alone": "time of a first touch alone",
    "touch_pinned": "time of a first touch beside the ballast",
    "resident": "resident memory",
    "locked": "locked memory",
    "pinned": "pinned memory",
    "corrupt": "wrong data",
    "busy": "earlier work",
    "pages_count": "pages",
    "batch_n": "copies in a batch",
}
"""Stems, without statistic and unit, that need more than a blank for each underscore."""
_STATISTICS: Final = {
    "median_": "median {}",
    "min_": "smallest {}",
    "p05_": "{}, 5th percentile",
    "p95_": "{}, 95th percentile",
    "ci_low_": "{}, lower end of the interval",
    "ci_high_": "{}, upper end of the interval",
}
_TIMES: Final = ("_ms", "_us")
_ENDINGS: Final = (*_TIMES, "_bytes", "_gb_per_s", "_gib_per_s")
_UNITS: Final = {"us": "µs", "10^9 bytes/s": "GB/s", "2^30 bytes/s": "GiB/s"}


def words_of(column: str) -> str:
    """Return a column in words without its unit: `median wall time` for `median_wall_ms`, `chunk` for `chunk_bytes`."""
    begin = next((begin for begin in _STATISTICS if column.startswith(begin)), "")
    stem = column.removeprefix(begin)
    ending = next((ending for ending in _ENDINGS if f"_{stem}".endswith(ending)), "")
    stem = f"_{stem}".removesuffix(ending).removeprefix("_")
    words = _WORDS.get(stem, stem.replace("_", " "))
    if ending.endswith("_per_s") and stem != "link":
        words = f"rate {words}".rstrip()
    return _STATISTICS.get(begin, "{}").format(words)


def unit_of(column: str) -> str:
    """Return the unit of a column of summary.csv as people write it, `µs` or `GB/s`; empty where it has none."""
    unit = _column_units().get(column) or next((ending[1:] for ending in _TIMES if column.endswith(ending)), "")
    return "" if unit in words_of(column).split() else _UNITS.get(unit, unit)


def title_of(column: str) -> str:
    """Return what stands at an axis: `median wall time, ms`, `streams`."""
    return ", ".join(filter(None, (words_of(column), unit_of(column))))


@cache
def _column_units() -> Mapping[str, str]:
    return {column.name: column.unit for column in summary_columns()}
