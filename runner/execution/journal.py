"""The journal of a run: one line a record, appended and checked, so that a run that is killed loses nothing that it has noted.

A line is `{"crc32": "0123abcd", "record": {...}}`: JSON, with the CRC-32 of the bytes of the record as they stand. A line that
was cut, or whose bytes do not give its sum, is no record. The records of one run, in the order in which they were made:

    {"type": "run", ...}         once, first: what may be continued and where (`runner.resume`)
    {"type": "play", ...}        one round of one case, where plays of a device differ: the samples of a case that was not ended
    {"type": "case", ...}        one case with all its samples, and what was learnt of companions meanwhile
    {"type": "sentinel", ...}    one reading of the sentinel
    {"type": "flags", ...}       flags that cases noted before carry, too

Where several files share a journal, as claims do, each record but the first has the name of its file as `part`.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any, Final

from runner.errors import NotKept, UsageError

NAME: Final = "journal.jsonl"
SYNC_S: Final = 1.0
"""Seconds after which what was appended is on the disk at the latest when the next record comes. A killed process loses nothing
of what it has appended before; a machine that loses power loses that much."""

_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Kept, since making one takes as long as writing a play with it."""
_LINE: Final = re.compile(rb'\{"crc32": "([0-9a-f]{8})", "record": (\{.*\})\}\n', re.DOTALL)

Record = Mapping[str, Any]


class Journal:
    """The journal of a run that goes on now; nobody else writes to it meanwhile."""

    def __init__(self, path: Path, *, again: bool = False) -> None:
        """Open a new journal, or an old one `again`: its torn end is then cut off, and `past` is what it holds.

        Raises NotKept where it cannot be written, UsageError where another process writes to it.
        """
        self.path = path
        self.past = Past()
        try:
            # Not for appending: that would make one anew where the old one is gone.
            self._file: IO[bytes] = open(path, "r+b" if again else "xb", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._problem(error) from error
        try:
            _lock(self._file, path)
            if again:
                # Only now: until the lock was ours another process may have written.
                self.past = read_journal(path)
                self._file.truncate(self.past.good_bytes)
                self._file.seek(self.past.good_bytes)
        except OSError as error:
            self._file.close()
            raise self._problem(error) from error
        except BaseException:
            self._file.close()
            raise
        self._synced = monotonic()

    def append(self, record: Record) -> None:
        """Append a record; it outlives this process from here on. Raises NotKept where it cannot be written."""
        line = encode(record)
        try:
            written = self._file.write(line)
            if written != len(line):  # a disk that fills takes a part, and refuses the rest
                self._file.write(line[written:])
            if monotonic() - self._synced >= SYNC_S:
                self._sync()
        except OSError as error:
            raise self._problem(error) from error

    def close(self) -> None:
        """Let the disk have everything, and give the journal up; safe to call twice."""
        if self._file.closed:
            return
        try:
            self._sync()
        except OSError as error:
            raise self._problem(error) from error
        finally:
            self._file.close()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        if not os.fstat(self._file.fileno()).st_nlink:
            raise NotKept(f"{self.path} was removed while the run went on, so nothing more can be kept; start the run again")
        self._synced = monotonic()

    def _problem(self, error: OSError) -> NotKept:
        return NotKept(
            f"{self.path} cannot be written: {error.strerror or error}; what stands in it is good: "
            "make room, or make it writable, and go on with --resume"
        )


@dataclass(frozen=True, slots=True)
class Part:
    """The records of one file in a journal that several share; it is noted in as in a journal of its own."""

    journal: Journal
    name: str

    def past(self) -> Past:
        """Return what the journal held of this file when it was opened again."""
        return Past(tuple(record for record in self.journal.past.records if record.get("part") == self.name))

    def append(self, record: Record) -> None:
        """Append a record as `Journal` does."""
        self.journal.append({**record, "part": self.name})


@dataclass(frozen=True, slots=True)
class Past:
    """What a journal holds: its records in order, and how many of its bytes are good before a torn end of `torn_bytes`.

    `spoiled` counts lines before that whose bytes do not give their sum.
    """

    records: tuple[Record, ...] = ()
    good_bytes: int = 0
    torn_bytes: int = 0
    spoiled: int = 0


def read_journal(path: Path) -> Past:
    """Read the journal at `path`; raises NotKept where it cannot be read."""
    records: list[Record] = []
    good, offset, bad, spoiled = 0, 0, 0, 0
    try:
        with open(path, "rb") as file:
            for line in file:
                offset += len(line)
                record = decode(line)
                if record is None:
                    bad += 1
                    continue
                records.append(record)
                # Only bad lines that good ones follow stay in the file.
                good, spoiled, bad = offset, spoiled + bad, 0
    except OSError as error:
        raise NotKept(f"{path} cannot be read: {error.strerror or error}") from error
    return Past(tuple(records), good, offset - good, spoiled)


def first_record(path: Path) -> Record | None:
    """Return the first record of a journal, None where there is no journal or no good one."""
    try:
        with open(path, "rb") as file:
            return decode(file.readline())
    except OSError:
        return None


def encode(record: Record) -> bytes:
    """Return the line of a record; floats come back as they were, NaN too."""
    content = _JSON.encode(record).encode("utf-8", errors="replace")
    return b'{"crc32": "%08x", "record": %b}\n' % (zlib.crc32(content), content)


def decode(line: bytes) -> Record | None:
    """Return the record of a line, None where it is none or not whole."""
    found = _LINE.fullmatch(line)
    if found is None or zlib.crc32(found[2]) != int(found[1], 16):
        return None
    try:
        record = json.loads(found[2])
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def of_type(records: tuple[Record, ...], kind: str) -> Iterator[Record]:
    """Yield the records of one type."""
    return (record for record in records if record.get("type") == kind)


def _lock(file: IO[bytes], path: Path) -> None:
    """Keep other processes from the journal as long as it is open here; a lock ends with its process, however that ends."""
    try:
        import fcntl
    except ImportError:  # Windows refuses to share what is open for writing only by agreement; there resume is not guarded
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"the run in {path.parent} is still going on in another process; wait for it, or end it") from None
    except OSError:
        return  # some network file systems know no locks
