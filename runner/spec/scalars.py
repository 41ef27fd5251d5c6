"""What one YAML scalar means here: decided from its text as written, by rules narrower than YAML 1.1.

YAML 1.1 reads `010` as 8, `1:30` as 90, `1_000` as 1000, `on` as true and `1e6` as text. Here a plain scalar is a number only
in plain decimal digits, a boolean only as `true` or `false`, null only as `null`, `~` or nothing; anything else, and everything
in quotes, is text. `number_fix` and `boolean_fix` say how a text was probably meant.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

MOST_DIGITS: Final = 30
"""Digits of one number; the largest number that any field takes has 16."""

Scalar = str | int | float | bool | None

_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+", re.ASCII)
_EXPONENT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?[eE][+-]?[0-9]{1,2}", re.ASCII)
_BARE_POINT = re.compile(r"[+-]?(?:[0-9]+\.|\.[0-9]+)", re.ASCII)
_BASE_60 = re.compile(r"[+-]?[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?", re.ASCII)
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
_TRUE_WORDS: Final = frozenset({"on", "yes", "y", "true", "t", "1"})
_FALSE_WORDS: Final = frozenset({"off", "no", "n", "false", "f", "0"})


def read_plain(text: str) -> Scalar:
    """Give the value of an unquoted scalar; raises ValueError where it is a number of more than 30 digits."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(_short(text))
    if _DECIMAL.fullmatch(text):
        return float(_short(text))
    return text


def is_plain_number(text: str) -> bool:
    """Tell whether a text is a number as it stands."""
    return bool(_INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text))


def number_fix(text: str) -> str:
    """Say how to write as a number what looks like one, such as `write 1000000` for `1e6`; empty where it does not."""
    stripped = text.strip()
    if len(stripped) > MOST_DIGITS:
        return ""
    if is_plain_number(stripped):
        return f"write {stripped} without quotes"
    if _EXPONENT.fullmatch(stripped):
        return f"write {_plain(Decimal(stripped))}"
    if re.fullmatch(r"[+-]?[0-9]+(?:_[0-9]+)+", stripped):
        return f"write {int(stripped)}"
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|0[bB][01]+|0o[0-7]+", stripped):
        return f"numbers are decimal: write {int(stripped, 0)}"
    if re.fullmatch(r"[+-]?0+[0-9]+(?:\.[0-9]+)?|\+[0-9]+(?:\.[0-9]+)?", stripped):
        return f"write {_plain(Decimal(stripped))}, without a plus sign and leading zeros"
    if _BARE_POINT.fullmatch(stripped):
        return f"write {_plain(Decimal(stripped))}"
    if _BASE_60.fullmatch(stripped):
        return "a colon makes no number; write plain decimal digits"
    return "the decimal mark is a point" if re.fullmatch(r"[0-9]+,[0-9]+", stripped) else ""


def boolean_fix(text: str) -> str:
    """Say which of `true` and `false` a word such as `on` stands for; empty where it is no such word."""
    word = text.strip().lower()
    if word in _TRUE_WORDS:
        return "write true"
    return "write false" if word in _FALSE_WORDS else ""


def _short(text: str) -> str:
    if sum(map(str.isdigit, text)) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} characters; the most is {MOST_DIGITS} digits")
    return text


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"
