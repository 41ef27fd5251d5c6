"""Exact reading and writing of byte sizes, by integers and `Decimal` alone, and short writing of figures, durations and times."""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final

UNITS: Final = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
LARGEST_SIZE: Final = 2**50
ALLOWED_SIZE: Final = "whole bytes as an integer, or a decimal number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 32MiB"

_WRITTEN: Final = ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB", "B")
_LETTERS: Final = "BKMGTik"
_LONGEST_SIZE: Final = 60
"""Characters of a text that may be a size; a longer one is none, and is not shown either."""
_SIZE = re.compile(r"(0|[1-9][0-9]{0,18})(?:\.([0-9]{1,18}))? ?([A-Za-z]+)", re.ASCII)
_DIGITS = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_BY_LOWER_CASE: Final = {unit.lower(): unit for unit in UNITS}


def parse_size_text(text: str) -> int:
    """Return the bytes of a size on a command line, where digits alone are whole bytes as in a file; raises ValueError."""
    return parse_size(int(text) if _DIGITS.fullmatch(text) else text)


def parse_size(value: object) -> int:
    """Read a size as a whole number of bytes, from 1 B to 1 PiB.

    `value` is an integer (bytes) or text such as `32MiB` or `1.5 GB`; kB, MB, GB, TB are powers of 10, KiB … TiB powers of 2.
    Raises ValueError with a sentence that names the value and the fix.
    """
    if type(value) is int and 1 <= value <= LARGEST_SIZE:
        return value  # what a large grid asks of every case, a hundred thousand times
    if isinstance(value, int) and not isinstance(value, bool):
        return _in_range(value, str(value))
    if not isinstance(value, str):
        raise ValueError(f"{value} is not a size" if isinstance(value, float) else "a size is expected")
    if len(value) > _LONGEST_SIZE:
        raise ValueError(f"a text of {len(value):,} characters is not a size")
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is not a size{_fix_of_form(value)}")
    whole, fraction, unit = match.groups()
    if unit not in UNITS:
        raise ValueError(f"{value!r} has the unknown unit {unit!r}{_fix_of_unit(unit)}")
    exact = Decimal(f"{whole}.{fraction or 0}") * UNITS[unit]
    if exact != exact.to_integral_value():
        raise ValueError(f"{value!r} is {exact.normalize():f} bytes, not a whole number of bytes")
    return _in_range(int(exact), value)


@lru_cache(maxsize=4096)
def format_size(size: int) -> str:
    """Write bytes as people do, exactly: `32MiB`, `1.5GiB`, `100MB`, `4097B`; the text parses back to the same number.

    Of all units the one that needs the fewest signs is taken, of two that need as many the binary one, and the larger one.
    """
    written = [(_decimal(size, UNITS[unit]), unit) for unit in _WRITTEN if size >= UNITS[unit]]
    return min(("".join(each) for each in written), key=_signs, default=f"{size}B")


def told_size(size: int) -> str:
    """Write a size for a sentence that must be exact, too: `32MiB (33,554,432 bytes)`, `4,097 bytes`."""
    short, exact = format_size(size), counted(size, "byte")
    return exact if short == f"{size}B" else f"{short} ({exact})"


def about_size(size: int) -> str:
    """Write an amount of memory that nobody asked for to the byte with 4 digits: `139.3GiB`, `512MiB`, `17B`."""
    unit = next((each for each in ("TiB", "GiB", "MiB", "KiB") if size >= UNITS[each]), "B")
    return f"{float(f'{size / UNITS[unit]:.4g}'):g}{unit}"


def sizes_apart(one: int, other: int) -> tuple[str, str]:
    """Write two amounts of memory that are compared: with 4 digits, or to the byte where these would look alike."""
    short = about_size(one), about_size(other)
    return short if one == other or short[0] != short[1] else (f"{one:,}B", f"{other:,}B")


def digits(value: float, most: int = 4) -> str:
    """Write a figure for people: `97.87`, `10`, `1,234,567`, `0.0001235`; the tables have all its digits.

    The one rule of screen, pages and pictures: `most` significant digits, four for a figure and three for a ratio in a
    sentence; no zeros behind them, nothing behind the point from 1,000 on, no exponent.
    """
    if not value or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    exponent = int(f"{value:.{most - 1}e}".partition("e")[2])
    written = f"{value:,.{max(0, most - 1 - exponent)}f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


def counted(count: int, noun: str) -> str:
    """Write a number of things: `1 slot`, `1,024 slots`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """Write a duration to be read at a glance: `4.2 µs`, `97.1 ms`, `12.3 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def local_time(utc: str) -> str:
    """Write a time of a file, which is UTC, for a person: the minute in this machine's own zone, `2026-11-29 18:09`."""
    return datetime.fromisoformat(utc.replace("Z", "+00:00")).astimezone().strftime("%Y-%m-%d %H:%M")


def _signs(text: str) -> int:
    return len(text.rstrip(_LETTERS))


def _in_range(size: int, text: str) -> int:
    if size < 1:
        raise ValueError(f"{text} is below the smallest size, 1 byte")
    if size > LARGEST_SIZE:
        raise ValueError(f"{text} is above the largest size, 1 PiB")
    return size


def _decimal(size: int, unit: int) -> str:
    return f"{(Decimal(size) / unit).normalize():f}"


def _fix_of_form(text: str) -> str:
    if "," in text:
        return "; the decimal mark is a point, and several sizes are a list: [32MiB, 64MiB]"
    if re.fullmatch(r"[0-9]+", text):
        return "; write it without quotes and leading zeros"
    if re.fullmatch(r"[0-9.]+[eE][+-]?[0-9]+", text):
        return "; write all its digits"
    if "-" in text.strip("-"):
        return "; several sizes are a list: [32MiB, 64MiB]"
    return ""


def _fix_of_unit(unit: str) -> str:
    if unit.endswith("b") or "bit" in unit.lower():
        return "; sizes are in bytes, write a capital B: MB or MiB"
    if unit.lower() in _BY_LOWER_CASE:
        return f"; write {_BY_LOWER_CASE[unit.lower()]}"
    stem = unit[:1].upper()
    if stem in "KMGT":
        decimal = "kB" if stem == "K" else f"{stem}B"
        return f"; write {stem}iB (a power of 2) or {decimal} (a power of 10)"
    return ""
