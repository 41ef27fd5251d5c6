"""Host copies by several threads in C: one function, compiled when a device is first opened, and kept in a private cache.

Python's lock is no limit to it, since ctypes lets go of the lock for each call, and it writes past the caches where nothing reads
the destination soon. Nothing else is done in C: every other operation of a Plan is bound as it is without it. Where there is no
compiler, or on another system than Linux, NumPy's copies serve (`runner.device.cuda.host_work`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from runner.device.cuda.toolchain import host_compiler, private_cache
from runner.errors import CaseFailed
from runner.pattern import Bytes
from runner.placement import allowed_cpus
from runner.plan import Plan

SPIN_US: Final = 200
"""How long a helper without work spins before it sleeps; shorter and longer times were no faster where that was measured."""
SOURCE: Final = Path(__file__).with_suffix(".c")
FLAGS: Final = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-pthread")
_TIME_LIMIT_S: Final = 120


@dataclass(frozen=True, slots=True)
class CopierLibrary:
    """The compiled function of a processor that has streaming stores, or not."""

    functions: ctypes.CDLL
    can_stream: bool

    @property
    def name(self) -> str:
        """What a row says of it."""
        return "c_streaming" if self.can_stream else "c"


class HostCopier:
    """The threads that the copies of one Plan share, up to `lanes` at a time; raises CaseFailed where the system refuses some."""

    def __init__(self, library: CopierLibrary, lanes: int, helpers: int) -> None:
        self._functions = library.functions
        # Lanes spin, too, while they wait for the device: more spinning threads than processors would hold up the work itself.
        spin_us = SPIN_US if lanes + helpers <= len(allowed_cpus()) else 0
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p(self._functions.dmalab_copier_open(lanes, helpers, spin_us))
        if not self._handle or self._functions.dmalab_copier_helpers(self._handle) < helpers:
            self.close()
            raise CaseFailed(f"the system refused {helpers} threads for the host's copies; ask for fewer staging_threads")

    def call(self, dst: Bytes, src: Bytes, threads: int, *, streaming: bool) -> Callable[[], object]:
        """Return the ready call that copies `src` to `dst` by `threads` threads; it keeps both alive."""
        to, source = ((ctypes.c_char * len(dst)).from_buffer(view.data) for view in (dst, src))
        size, sharing, past_caches = ctypes.c_size_t(len(dst)), ctypes.c_int(threads), ctypes.c_int(streaming)
        return partial(self._functions.dmalab_copy, self._handle, to, source, size, sharing, past_caches)

    def close(self) -> None:
        """Stop the threads; no copy may be under way. Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle:
            self._functions.dmalab_copier_close(handle)


def make_copier(library: CopierLibrary | None, plan: Plan) -> HostCopier | None:
    """Start the threads for the host's copies of a Plan; None where there is no library, or one thread does them all.

    One thread alone copies as a program would that knows nothing of this: by NumPy, which is memcpy; unless the Plan is held
    against one whose copies are shared.
    """
    threads = plan.copying_threads()
    if library is None or not threads or not plan.shared_copier():
        return None
    return HostCopier(library, len(threads), sum(threads) - len(threads))


def load_copier(environment: Mapping[str, str]) -> CopierLibrary | None:
    """Load the function, compiling it if no cache has it; None where that cannot be done here."""
    compiler = host_compiler(environment)
    if sys.platform != "linux" or compiler is None:
        return None
    try:
        folder = private_cache(environment, "host")
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="dmalab-") as passing:
                return _library(_compile(compiler, Path(passing) / "copier.so"))
        path = folder / f"copier-{_key(compiler)}.so"
        if path.exists():
            try:
                return _library(path)
            except OSError:
                # Half a file, or one of another system that shares this home: it is made again.
                path.unlink(missing_ok=True)
        return _library(_compile(compiler, path))
    except (OSError, AttributeError, subprocess.SubprocessError):
        return None


def _key(compiler: str) -> str:
    """Return what tells this library from others: its source, its flags, the compiler and its version, and the machine."""
    said = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=_TIME_LIMIT_S).stdout
    parts = (SOURCE.read_bytes(), " ".join(FLAGS).encode(), compiler.encode(), said, platform.machine().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _compile(compiler: str, path: Path) -> Path:
    """Compile into `path`, where no other process ever sees half a file; raises SubprocessError where that fails."""
    with tempfile.TemporaryDirectory(prefix=".copier-", dir=path.parent) as passing:
        made = Path(passing) / path.name
        command = [compiler, "-x", "c", *FLAGS, str(SOURCE), "-o", str(made)]
        subprocess.run(command, capture_output=True, check=True, timeout=_TIME_LIMIT_S)
        os.replace(made, path)
    return path


def _library(path: Path) -> CopierLibrary:
    functions: Any = ctypes.CDLL(str(path))
    functions.dmalab_copier_open.restype = ctypes.c_void_p
    functions.dmalab_copy.restype = None
    functions.dmalab_copier_close.restype = None
    return CopierLibrary(functions, bool(functions.dmalab_can_stream()))
