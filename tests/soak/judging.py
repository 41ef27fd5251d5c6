"""What any file of a stranger must come to: an experiment or sentences, soon, in little memory, and nothing written."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from runner.errors import SpecError
from runner.expand import expand
from runner.spec.load import load_experiment

MOST_SECONDS: Final = 1.0
"""Seconds of the processor that one file may take."""
MOST_BYTES: Final = 100 * 2**20
"""Bytes of memory that one file may take beyond what was taken before it."""
MOST_CASES: Final = 200
HOSTILE: Final = r"""
&a *a <<: [ ] { } , : - ? | > ! !!python/object/apply:os.system %YAML --- ... # " ' \x00 1e6 010 1:30 on yes ~ 0x10 .inf .nan -1
1_000 1MiB 1,5GiB 9999999TiB 99999999999999999999 ../../etc/passwd con aux name: scenarios: kind: zip: exclude:"""
"""What YAML, numbers and file systems make something else of than was meant, between blanks."""


class Judge:
    """Judges files in a folder of its own, and notes whatever is opened for writing elsewhere meanwhile."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "file.yaml"
        self._judging = False
        self.strays: list[str] = []
        self.slowest_s = 0.0
        self.largest_bytes = 0
        self.judge(b"name: first\nquestion: q\nscenarios: {a: {kind: transfer, direction: h2d, size: 1MiB}}\n")
        self.largest_bytes = 0  # what the first file has read of modules is the start's
        sys.addaudithook(self._hear)

    def judge(self, content: bytes) -> bool:
        """Return whether a file of this content is an experiment; raises AssertionError or whatever else is wrong with it."""
        self._path.write_bytes(content)
        before, peak = resident_bytes(), peak_bytes()
        begun, known = time.process_time(), False
        self._judging = True
        try:
            with contextlib.suppress(SpecError):
                loaded = load_experiment(self._path)
                assert sum(1 for _ in expand(loaded, MOST_CASES)) <= MOST_CASES
                known = True
        finally:
            self._judging = False
        self.slowest_s = max(self.slowest_s, time.process_time() - begun)
        if peak_bytes() > peak:  # otherwise it took less than another one before it
            self.largest_bytes = max(self.largest_bytes, peak_bytes() - before)
        assert not self.strays, f"written to elsewhere: {self.strays}"
        return known

    def check_limits(self) -> None:
        """Raise AssertionError where a file took too long or too much memory.

        Memory that whoever makes the files piles up between them is not theirs.
        """
        assert self.slowest_s <= MOST_SECONDS, f"a file took {self.slowest_s:.2f} s"
        assert self.largest_bytes <= MOST_BYTES, f"a file took {self.largest_bytes:,} bytes"

    def close(self) -> None:
        self._folder.cleanup()

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        """Note what is opened for writing while a file is judged, which needs no writing at all."""
        if not self._judging or event not in ("open", "os.mkdir", "os.rename", "os.remove", "subprocess.Popen", "os.system"):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            return
        self.strays.append(f"{event} {arguments[0]!r}")


def peak_bytes() -> int:
    """Return the most memory that this process has had in RAM so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_bytes() -> int:
    """Return the memory that this process has in RAM now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
