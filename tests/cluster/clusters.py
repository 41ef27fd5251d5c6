"""Schedulers and workers for tests: in this process, which is quick, or as processes, which can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def inside(count: int, gpus: int = 1) -> Iterator[str]:
    """Lend the address of a scheduler in this process with so many workers in this process."""
    from distributed import LocalCluster

    resources: dict[str, Any] = {"resources": {"GPU": gpus} if gpus else {}}
    with LocalCluster(
        n_workers=count, threads_per_worker=1, processes=False, dashboard_address=":0", protocol="tcp://", **resources
    ) as cluster:
        yield cluster.scheduler_address


class Processes:
    """A scheduler and workers as `dask scheduler` and `dask worker` start them; each can be killed and started anew."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None, tls: Path | None = None) -> None:
        self.folder = folder
        self.environment = os.environ | (environment or {})
        self.port = free_port()
        self.address = f"{'tls' if tls else 'tcp'}://127.0.0.1:{self.port}"
        files = {"ca-file": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
        self.tls = [word for option, name in files.items() for word in (f"--tls-{option}", str(tls / name))] if tls else []
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def scheduler(self) -> None:
        protocol = ["--protocol", "tls"] if self.tls else []
        self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", *protocol, *self.tls)

    def worker(self, name: str, root: Path = ROOT) -> None:
        """Start a worker without a nanny, with the dmalab of a checkout: what dies stays dead."""
        more = ["--nthreads", "1", "--resources", "GPU=1", "--no-nanny", "--no-dashboard", "--name", name]
        self._start("worker", self.address, *more, *self.tls, called=name, root=root)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def wait_for(self, count: int, seconds: float = 60) -> None:
        """Wait until the scheduler has so many workers."""
        from distributed import Client

        deadline = time.monotonic() + seconds
        while True:
            with suppress(OSError), Client(self.address, timeout=5, set_as_default=False) as client:
                client.wait_for_workers(count, timeout=max(1, deadline - time.monotonic()))
                return
            assert time.monotonic() < deadline, "the scheduler did not come"

    def close(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def _start(self, *arguments: str, called: str = "scheduler", root: Path = ROOT) -> None:
        with (self.folder / f"{called}.log").open("ab") as log:
            self.running[called] = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
                env=self.environment | {"PYTHONPATH": str(root)},
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
