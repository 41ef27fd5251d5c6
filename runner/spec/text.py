"""From the bytes of a file to its text: UTF-8 with or without a byte order mark, or UTF-16 with one; anything else is refused."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.errors import Problem, SpecError

LARGEST_FILE: Final = 2**20
"""The most bytes of one file; a longer one is no hand-written experiment."""

_UTF16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file as read: the name to show, its bytes as they are, and its text without a byte order mark."""

    file: str
    original: bytes
    text: str


def read_source(path: Path) -> SourceText:
    """Read a YAML file of at most 1 MiB; raises SpecError with one plain sentence for anything that cannot be read so."""
    original = _read_bytes(path)
    return SourceText(str(path), original, decode(original, str(path)))


def decode(data: bytes, file: str) -> str:
    """Turn bytes into text; raises SpecError, naming `file`, the place and UTF-8, where they are in another encoding."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise _refusal(file, "the file is in UTF-32", hint="save it as UTF-8")
    encoding = _UTF16.get(data[:2])
    body = data[2:] if encoding else data.removeprefix(codecs.BOM_UTF8)
    try:
        return body.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        before = body[: error.start].decode(encoding or "utf-8")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        shown = " ".join(f"0x{byte:02x}" for byte in body[error.start : error.start + 1])
        message = f"byte {shown} is not {'UTF-16' if encoding else 'UTF-8'}"
        allowed, hint = "UTF-8, or UTF-16 with a byte order mark", "save the file as UTF-8"
        raise SpecError([Problem(file, message, line, column, allowed=allowed, hint=hint)]) from None


def _read_bytes(path: Path) -> bytes:
    file = str(path)
    if os.path.isdir(path):
        raise _refusal(file, "this is a directory, not a YAML file")
    if not os.path.exists(path):
        raise _refusal(file, "there is no such file")
    if not os.path.isfile(path):
        raise _refusal(file, "this is not a regular file")
    try:
        with open(path, "rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _refusal(file, f"the file cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST_FILE:
        raise _refusal(file, "the file is larger than 1 MiB", hint="an experiment is a short text; is this the right file?")
    return data


def _refusal(file: str, message: str, hint: str = "") -> SpecError:
    return SpecError([Problem(file, message, hint=hint)])
