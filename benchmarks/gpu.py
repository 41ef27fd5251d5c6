"""How near the runner comes to native code on a real GPU: python benchmarks/gpu.py [--out FILE.json].

Builds benchmarks/native/native.cu with nvcc and lets both measure the same work by turns, several rounds, so that a change of the
machine meets both alike. Ratios are of medians over all samples; what is compared is told in `native.cu` and in the scenarios.
Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

from runner.device.contract import Device, DeviceFacts
from runner.device.cuda.device import CudaDevice
from runner.scenarios.base import Scenario
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from runner.units import format_size

MIB = 1 << 20
TOTAL = 256 * MIB
ROUNDS = 4
WARMUPS = 2
SOURCE = Path(__file__).parent / "native" / "native.cu"


@dataclass
class Work:
    """One thing that both measure: the twin's request, the runner's case, and the milliseconds of each sample."""

    name: str
    group: str
    request: str
    case: Scenario
    metric: str
    samples: int
    native_ms: list[float] = field(default_factory=list)
    ours_ms: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Our median time over the twin's."""
        return median(self.ours_ms) / median(self.native_ms)


@dataclass(frozen=True)
class Goal:
    """A goal of the project: `met` judges the works of a group and says in numbers what it saw."""

    text: str
    group: str
    judge: Callable[[Sequence[Work]], tuple[float, bool]]


def works() -> list[Work]:
    listed = [copy_work(way, size) for way in ("h2d", "d2h") for size in (MIB, 16 * MIB, 64 * MIB, 256 * MIB)]
    chunk = 32 * MIB
    ring = Pipeline(kind="pipeline", schedule="overlapped", staging="copy", total=TOTAL, chunk=chunk, streams=3)
    listed.append(Work("ring of three slots", "ring", f"ring {TOTAL} {chunk} 3 4", ring, "wall_ms", 4))
    serial = Pipeline(kind="pipeline", schedule="serialized", buffer="pageable", total=TOTAL, chunk=chunk, allocate="per_chunk")
    listed.append(Work("serialized loop", "serial", f"serial {TOTAL} {chunk} 3", serial, "wall_ms", 3))
    listed.extend(direct_work(size) for size in (2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB))
    return listed


def copy_work(way: Literal["h2d", "d2h"], size: int) -> Work:
    case = Transfer(kind="transfer", buffer="pinned", direction=way, size=size)
    return Work(f"pinned {way} {format_size(size)}", "copy", f"copy {way} {size} 5", case, "event_ms", 5)


def direct_work(size: int) -> Work:
    case = Pipeline(kind="pipeline", schedule="overlapped", staging="direct", total=TOTAL, chunk=size, streams=3)
    return Work(f"direct, chunks of {format_size(size)}", "direct", f"direct {TOTAL} {size} 3 4", case, "wall_ms", 4)


def worst_copy_rate(group: Sequence[Work]) -> tuple[float, bool]:
    """The lowest of our rates over native's, over copies of 16 MiB and more."""
    worst = min(1 / work.ratio for work in group if work.case.payload_bytes() >= 16 * MIB)
    return worst, worst >= 0.99


def ring_time(group: Sequence[Work]) -> tuple[float, bool]:
    return group[0].ratio, group[0].ratio <= 1.05


def best_direct_time(group: Sequence[Work]) -> tuple[float, bool]:
    """Our time with our best chunk over native's with its own."""
    best = min(median(work.ours_ms) for work in group) / min(median(work.native_ms) for work in group)
    return best, best <= 1.03


GOALS = (
    Goal("rate of pinned copies of 16 MiB and more, at least 0.99 of native", "copy", worst_copy_rate),
    Goal("time of the ring of three slots, at most 1.05 of native", "ring", ring_time),
    Goal("time with data already pinned, best chunk of each, at most 1.03 of native", "direct", best_direct_time),
)


class Native:
    """The running twin."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: str) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        answers: list[float] = []
        for line in self._process.stdout:
            if line.strip() == "end":
                return answers
            answers.append(float(line.rsplit(",", 1)[1]))
        raise RuntimeError(f"the native twin ended with code {self._process.wait()} at {request!r}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure_ours(device: Device, work: Work) -> None:
    plan = work.case.plan()
    session = device.open(plan)
    try:
        for play in range(WARMUPS + work.samples):
            trace = session.play(play)
            if play in (0, WARMUPS + work.samples - 1):
                wrong = session.verify()
                if wrong:
                    raise RuntimeError(f"{work.name}: wrong data, {wrong[0]}")
            if play >= WARMUPS:
                work.ours_ms.append(work.case.figures(plan, trace)[work.metric])
    finally:
        session.close()


def measure(native: Native, rounds: int) -> tuple[DeviceFacts, list[Work]]:
    listed = works()
    device = CudaDevice()
    try:
        facts = device.facts()
        for turn in range(rounds):
            for work in listed:
                work.native_ms.extend(native.ask(work.request))
                measure_ours(device, work)
            print(f"round {turn + 1} of {rounds} done", file=sys.stderr, flush=True)
    finally:
        device.close()
    return facts, listed


def report(facts: DeviceFacts, listed: Sequence[Work]) -> dict[str, object]:
    print(f"{facts.name}; median milliseconds of native code and of the runner, by turns in one run\n")
    print(f"{'work':<32}{'native':>10}{'runner':>10}{'ratio':>8}")
    for work in listed:
        print(f"{work.name:<32}{median(work.native_ms):>10.3f}{median(work.ours_ms):>10.3f}{work.ratio:>8.3f}")
    print()
    judged = []
    for goal in GOALS:
        value, met = goal.judge([work for work in listed if work.group == goal.group])
        judged.append({"goal": goal.text, "value": round(value, 4), "met": met})
        print(f"{'met   ' if met else 'MISSED'} {value:.3f}  {goal.text}")
    rows = [
        {"work": work.name, "native_ms": work.native_ms, "runner_ms": work.ours_ms, "ratio": round(work.ratio, 4)}
        for work in listed
    ]
    return {"device": facts.name, "environment": dict(facts.environment), "goals": judged, "works": rows}


def build(folder: Path) -> Path:
    program = folder / "native"
    subprocess.run(["nvcc", "-O3", "-std=c++17", "-arch=native", "-o", str(program), str(SOURCE)], check=True)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the samples and ratios here as JSON")
    parser.add_argument("--native", type=Path, help="use this program instead of building the twin")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        native = Native(options.native or build(Path(folder)))
        try:
            facts, listed = measure(native, options.rounds)
        finally:
            native.close()
    results = report(facts, listed)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if all(goal["met"] for goal in results["goals"]) else 1  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
