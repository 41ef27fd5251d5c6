"""The native twin of native/native.cu as a running program that answers requests."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Final

SOURCE: Final = Path(__file__).parent / "native" / "native.cu"
PATIENCE_S: Final = 60.0
"""Seconds after which a request that has not been answered ends the twin."""


class Native:
    """The running twin; one that has ended is started again by the next request."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._process = self._start()

    def ask(self, request: str) -> list[float]:
        """Return the figures of one request, a sample each; raises RuntimeError where the twin ends instead."""
        if self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        patience = Timer(PATIENCE_S, self._process.kill)
        patience.start()
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            answers: list[float] = []
            for line in self._process.stdout:
                if line.strip() == "end":
                    return answers
                answers.append(float(line.rsplit(",", 1)[1]))
        except BrokenPipeError:
            pass
        finally:
            patience.cancel()
        self.close()
        raise RuntimeError(f"the native twin ended with code {self._process.returncode} at {request!r}")

    def close(self) -> None:
        """Let the twin end."""
        with suppress(BrokenPipeError):  # of what the ended one has not read
            self._process.communicate()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen([str(self._program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def build(folder: Path) -> Path:
    """Compile the twin for the GPU that is here and return the program; raises CalledProcessError where nvcc refuses."""
    program = folder / "native"
    subprocess.run(["nvcc", "-O3", "-std=c++17", "-arch=native", "-o", str(program), str(SOURCE)], check=True)
    return program
