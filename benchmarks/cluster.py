"""What a cluster costs beside the playing of the cases; `make bench-cluster` calls it.

For each pair of `--workers` and `--cases` it starts a scheduler, processes that have many workers each, and `dmalab run` as
the client, and says how much processor time and memory each took. Processor time tells more than the clock where others use the
machine, too. The same file in one process, on no cluster, is what the cells are held against and what the playing alone takes.
`--processes` starts a process a worker instead, to see by how much two are faster than one.

Workers that share a process take no profiles of themselves and look at their memory once a minute: with a thousand of them that
alone would take more than one processor, on machines of their own it takes nothing that counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
TABLES: Final = ("summary.csv", "samples.csv", "cases.csv")
COPIES: Final = """
name: grid
question: What does a cluster cost?
device: simulated:test
spread: cases
measure: {warmup: 0, samples: 1}
scenarios:
  copy: {kind: transfer, buffer: [pageable, pinned], direction: [h2d, d2h], streams: [1, 2], chunk: 64KiB, size: SIZES}
"""
RINGS: Final = """
name: grid
question: How much faster are two workers than one?
device: simulated:test
spread: cases
measure: {warmup: 0, samples: 1}
scenarios:
  ring: {kind: pipeline, schedule: overlapped, streams: [1, 2, 3, 4], slots: [8, 9], chunk: 16KiB, total: SIZES}
"""
IN_ONE: Final = 200
"""Workers that share a process at most: more of them take longer to come the more have."""
COME_S: Final = 1200.0
"""Seconds that the workers may take to come."""
QUIET: Final = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.tick.interval": "10s",
}
"""Settings of workers that share a process."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One run on a cluster: seconds by the clock and of processors, by who took them, and the most memory of each in MiB."""

    workers: int
    cases: int
    come_s: float
    run_s: float
    client_s: float
    scheduler_s: float
    workers_s: float
    alone_s: float
    client_mib: float
    scheduler_mib: float
    alone_mib: float

    @property
    def overhead_ms(self) -> float:
        """Processor time a case beside what one process without a cluster takes for it, in ms."""
        return 1000 * (self.client_s + self.scheduler_s + self.workers_s - self.alone_s) / self.cases


def main() -> None:
    """Measure what was asked for, and print a line a run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 50, 200, 1000])
    parser.add_argument("--cases", type=int, nargs="+", default=[1000, 10_000], help="multiples of 8")
    parser.add_argument("--processes", action="store_true", help="a process a worker, and a grid that is heavy to play")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--lend", nargs=2, metavar=("ADDRESS", "COUNT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.lend:
        asyncio.run(lend(asked.lend[0], int(asked.lend[1])))
        return
    costs = []
    print(HEAD)
    for cases in asked.cases:
        with tempfile.TemporaryDirectory() as folder:
            file = grid(Path(folder), RINGS if asked.processes else COPIES, cases)
            alone = ran(file, Path(folder) / "alone", "--workers", "1")
            for workers in asked.workers:
                costs.append(cost(file, workers, cases, alone, processes=asked.processes))
                print(line(costs[-1]), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(each) for each in costs], indent=2) + "\n", encoding="utf-8")


HEAD: Final = (
    "workers   cases | come s  run s | processor s: client scheduler workers  alone | ms a case more"
    " | MiB: client scheduler  alone"
)


def line(cost: Cost) -> str:
    """Return a run as a line below HEAD."""
    return (
        f"{cost.workers:7} {cost.cases:7,} | {cost.come_s:6.1f} {cost.run_s:6.1f} | {cost.client_s:19.1f} {cost.scheduler_s:9.1f}"
        f" {cost.workers_s:7.1f} {cost.alone_s:6.1f} | {cost.overhead_ms:14.2f}"
        f" | {cost.client_mib:11,.0f} {cost.scheduler_mib:9,.0f} {cost.alone_mib:6,.0f}"
    )


@dataclass(frozen=True, slots=True)
class Ran:
    """One `dmalab run`: seconds by the clock and of the processor, the most memory in MiB, and the folder of the run."""

    seconds: float
    processor_s: float
    mib: float
    folder: Path


def ran(file: Path, out: Path, *more: str) -> Ran:
    """Run a file to its end; raises SystemExit where that does not go well."""
    command = [sys.executable, "-m", "runner", "run", str(file), "--out", str(out), "--no-report", *more]
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    # Not process.wait(): only this tells what the process took.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    folder = (out / "grid" / "latest").resolve()
    return Ran(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, folder)


def cost(file: Path, workers: int, cases: int, alone: Ran, *, processes: bool) -> Cost:
    """Run a file on a cluster, and hold its cells against those of a run without one."""
    out = file.parent / f"{workers}"
    begun = time.perf_counter()
    with cluster(workers, processes=processes) as (address, scheduler, lenders):
        come = time.perf_counter() - begun
        before = [processor_s(pid) for pid in (scheduler, *lenders)]
        client = ran(file, out, "--cluster", address)
        after = [processor_s(pid) for pid in (scheduler, *lenders)]
        took = [end - begin for begin, end in zip(before, after, strict=True)]
        mib = most_mib(scheduler)
    for name in TABLES:
        if cells(client.folder / name) != cells(alone.folder / name):
            raise SystemExit(f"{name} of {workers} workers differs from that of one process")
    return Cost(
        workers,
        cases,
        come,
        client.seconds,
        client.processor_s,
        took[0],
        sum(took[1:]),
        alone.processor_s,
        client.mib,
        mib,
        alone.mib,
    )


@contextmanager
def cluster(workers: int, *, processes: bool) -> Iterator[tuple[str, int, list[int]]]:
    """Lend the address of a scheduler with so many workers, its process id, and those of what has the workers."""
    with ExitStack() as ends:
        address = f"tcp://127.0.0.1:{free_port()}"
        scheduler = started(ends, "distributed.cli.dask_scheduler", "--host", address, "--no-dashboard")
        if processes:
            one = [
                "distributed.cli.dask_worker",
                address,
                "--nthreads",
                "1",
                "--resources",
                "GPU=1",
                "--no-nanny",
                "--no-dashboard",
            ]
            lenders = [started(ends, *one, "--name", f"w{place}") for place in range(workers)]
        else:
            counts = [min(IN_ONE, workers - begun) for begun in range(0, workers, IN_ONE)]
            lenders = [started(ends, "benchmarks.cluster", "--lend", address, str(count)) for count in counts]
        asyncio.run(all_there(address, workers))
        yield address, scheduler, lenders


def started(ends: ExitStack, module: str, *arguments: str) -> int:
    """Start a module as a process that `ends` ends; return its id."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    ends.callback(process.wait)
    ends.callback(process.kill)
    return process.pid


async def lend(address: str, count: int) -> None:
    """Be so many workers in this process, until it is ended."""
    import dask
    from distributed import Worker

    dask.config.set(QUIET)
    options: dict[str, Any] = {"nthreads": 1, "memory_limit": 0, "resources": {"GPU": 1}, "dashboard": False}
    workers = [Worker(address, name=f"w{os.getpid()}-{place}", **options) for place in range(count)]
    for begin in range(0, count, 50):
        await asyncio.gather(*workers[begin : begin + 50])
    await asyncio.gather(*(worker.finished() for worker in workers))


async def all_there(address: str, count: int) -> None:
    """Wait until a scheduler is there and has so many workers."""
    from distributed import Client

    async with Client(address, asynchronous=True, timeout=60, set_as_default=False) as client:
        # Not wait_for_workers, which has the scheduler tell of every worker ten times a second.
        deadline = time.monotonic() + COME_S
        while await client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.workers)) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"not all of {count} workers had come after {COME_S:.0f} s")
            await asyncio.sleep(1)


def grid(folder: Path, text: str, cases: int) -> Path:
    """Write a file of so many cases, a multiple of 8."""
    step, least = (16384, 16384 * 64) if text is RINGS else (4, 65536)
    sizes = ", ".join(str(least + step * place) for place in range(cases // 8))
    path = folder / "grid.yaml"
    path.write_text(text.replace("SIZES", f"[{sizes}]"), encoding="utf-8")
    return path


def cells(path: Path) -> Sequence[str]:
    """Return the lines of a table without the name of the run, which comes first."""
    return [row.partition(",")[2] for row in path.read_text(encoding="utf-8").splitlines()]


def processor_s(pid: int) -> float:
    """Return the processor time that a process has taken, its threads' together."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def most_mib(pid: int) -> float:
    """Return the most memory that a process has held, as Linux tells it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()
