"""How far the runner's numbers hold up on a real GPU: python benchmarks/peak.py [--out FOLDER].

Four comparisons, each of two sets of milliseconds taken in one run: batches behind a gate against a native twin of nvbandwidth's
method (native.cu, by turns); batches by events against the engine's own records; single copies by events against those records,
and with them what a pair of events adds; and two runs of experiments/bandwidth.yaml against each other. Writes peak.json, peak.md
and the two runs into FOLDER. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final, Literal

from peak_table import Comparison, Pair, table_of
from twin import Native, build

from runner.device.contract import Device, Trace
from runner.device.cuda.device import CudaDevice
from runner.expand import Case
from runner.measure.companions import CompanionBook
from runner.plan import Copy, Gate, HostWait, Plan
from runner.results import read_results
from runner.scenarios.builder import PlanWriter
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure
from runner.units import format_size

KIB, MIB = 1 << 10, 1 << 20
ROUNDS: Final = 3
SAMPLES: Final = 3
BESIDE_NATIVE: Final = 5
"""Samples a round of each method beside the other: with copies in both directions they spread by several percent."""
RECORDED: Final = 7
SIZES: Final = (4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 256 * MIB)
WAYS: Final[tuple[Literal["h2d", "d2h"], ...]] = ("h2d", "d2h")
ROOT: Final = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write peak.json, peak.md and the two runs into this folder")
    parser.add_argument("--native", type=Path, help="use this program instead of building the twin")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        comparisons, facts = measure(options.native or build(Path(scratch)), options.rounds)
        comparisons.append(two_runs(Path(scratch)))
        table = table_of(comparisons, str(facts["device"]))
        print(table)
        if options.out:
            write(options.out, Path(scratch), comparisons, facts, table)
    return 0 if all(comparison.met for comparison in comparisons) else 1


def measure(native: Path, rounds: int) -> tuple[list[Comparison], dict[str, object]]:
    """Return the comparisons that one opened device can give, and what identifies it."""
    twin = Native(native)
    with closing(twin), closing(CudaDevice()) as device:
        facts: dict[str, object] = {"device": device.facts().name, "environment": dict(device.facts().environment)}
        found = [against_native(device, twin, rounds)]
        if device.recording:
            print(f"no engine times: {device.recording}", file=sys.stderr)
            found.append(Comparison("engine", device.recording, "", "", (), broken=True))
        else:
            found += [batches_against_engine(device), singles_against_engine(device)]
        found.append(empty_pair(device))
    return found, facts


def against_native(device: Device, twin: Native, rounds: int) -> Comparison:
    """Let the runner and the twin measure the cases of experiments/peak.yaml by turns."""
    cases = [(way, size, company) for company in ("alone", "beside") for way in WAYS for size in (16 * MIB, 256 * MIB)]
    ours: dict[int, list[float]] = {}
    native: dict[int, list[float]] = {}
    for turn in range(rounds):
        for index, (way, size, company) in enumerate(cases):
            model = batch_of(way, size, 16, beside=company == "beside")
            plan = model.plan()
            # Each method goes first in every other round, so that neither has the machine always warmer.
            for method in ("runner", "native")[:: 1 if turn % 2 else -1]:
                if method == "runner":
                    ours.setdefault(index, []).extend(event_times(device, model, plan, BESIDE_NATIVE))
                else:
                    native.setdefault(index, []).extend(twin.ask(f"peak {way} {company} {size} {BESIDE_NATIVE}"))
        print(f"native: round {turn + 1} of {rounds} done", file=sys.stderr, flush=True)
    pairs = [
        Pair(f"{way} {format_size(size)} {company}", tuple(ours[index]), tuple(native[index]), limit=0.005)
        for index, (way, size, company) in enumerate(cases)
    ]
    return Comparison("native", "Batches of 16 behind a gate, one copy's share", "runner", "native twin", tuple(pairs))


def batches_against_engine(device: Device) -> Comparison:
    """Compare the events around a batch behind a gate with what the engine says of its copies, and name the gap between them."""
    pairs = []
    for way in WAYS:
        for size in SIZES:
            model = counted(device, Transfer(kind="transfer", direction=way, size=size, batch="auto", gated=True, lead_in=4))
            plan = model.plan()
            events = event_times(device, model, plan)
            engine, gaps = engine_times(device, plan)
            note = "1 copy"
            if gaps:
                gap, whole = median(gaps), median(events) / (median(engine) + median(gaps))
                note = f"{model.batch_n()} copies, {gap * 1e3:.2f} us from one to the next; with it the ratio is {whole:.4f}"
            limit = 0.01 if size >= MIB else None
            pairs.append(Pair(f"{way} {format_size(size)}", tuple(events), tuple(engine), limit, note))
    return Comparison("batch", "Gated batches of two milliseconds, one copy's share", "events", "engine", tuple(pairs))


def singles_against_engine(device: Device) -> Comparison:
    """Compare single copies between two events with the engine's time of them, and say what the events add."""
    pairs = []
    for way in WAYS:
        for size in SIZES:
            model = Transfer(kind="transfer", direction=way, size=size)
            plan = model.plan()
            events = event_times(device, model, plan, samples=11)
            engine, _ = engine_times(device, plan)
            note = f"events add {(median(events) - median(engine)) * 1e3:.2f} us"
            pairs.append(
                Pair(f"{way} {format_size(size)}", tuple(events), tuple(engine), 0.01 if size >= 32 * MIB else None, note)
            )
    return Comparison("single", "Single copies", "events", "engine", tuple(pairs))


def empty_pair(device: Device) -> Comparison:
    """Time two events with nothing between them."""
    writer = PlanWriter()
    stream = writer.stream("s")
    writer.mark("begin")
    writer.record(stream, "start", timed=True)
    writer.lane.append(HostWait(writer.record(stream, "stop", timed=True)))
    writer.mark("end")
    times = [time for time, _ in play(device, writer.plan(), 30)]
    note = f"{median(times) * 1e3:.2f} us"
    return Comparison(
        "empty", "Two events with nothing between them", "events", "", (Pair("empty", tuple(times), (), None, note),)
    )


def two_runs(scratch: Path) -> Comparison:
    """Run bandwidth.yaml twice and compare the medians of its pinned rows of 1 MiB and more; a flagged row may differ."""
    runs = []
    for number in (1, 2):
        out = scratch / f"run{number}"
        command = [sys.executable, "-m", "runner", "run", str(ROOT / "experiments" / "bandwidth.yaml"), "--device", "cuda"]
        subprocess.run([*command, "--out", str(out)], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        rows = read_results(out / "bandwidth").summary.to_dict("records")
        runs.append({str(row["case_id"]): row for row in rows if row["buffer"] == "pinned" and row["size_bytes"] >= MIB})
    pairs = []
    for case_id, row in runs[0].items():
        again = runs[1][case_id]
        flags = " ".join(sorted({*str(row["flags"]).split(), *str(again["flags"]).split()}))
        name = f"{row['direction']} {format_size(int(row['size_bytes']))}"
        first, second = float(row["median_event_ms"]), float(again["median_event_ms"])
        doubted = bool(flags) and abs(second / first - 1) > 0.02
        pairs.append(Pair(name, (second,), (first,), limit=None if doubted else 0.02, note=flags))
    return Comparison("runs", "bandwidth.yaml twice, pinned rows", "second run", "first run", tuple(pairs))


def batch_of(way: Literal["h2d", "d2h"], size: int, batch: int, *, beside: bool) -> Transfer:
    """Return the case of experiments/peak.yaml."""
    opposite: Literal["doubled"] | None = "doubled" if beside else None
    return Transfer(kind="transfer", direction=way, size=size, batch=batch, lead_in=4, gated=True, opposite=opposite)


def counted(device: Device, model: Transfer) -> Transfer:
    """Return a case whose batch is counted by its probe."""
    book = CompanionBook(device, 2**62, Measure(warmup=1, samples=3))
    found = book.prepare(Case("c_peak", "peak", 0, model, "", {})).case.model
    assert isinstance(found, Transfer)
    return found


def event_times(device: Device, model: Transfer, plan: Plan, samples: int = SAMPLES) -> list[float]:
    """Return the milliseconds of one copy by events, of each sample after a warm-up."""
    return [model.figures(plan, trace)["event_ms"] for _, trace in play(device, plan, samples)]


def engine_times(device: Device, plan: Plan) -> tuple[list[float], list[float]]:
    """Return the engine's milliseconds of each timed copy of recorded plays, and those between one copy and the next."""
    gate = next((index for index, operation in enumerate(plan.lanes[0]) if isinstance(operation, Gate)), -1)
    times: list[float] = []
    gaps: list[float] = []
    for _, trace in play(device, plan, RECORDED, record=True):
        timed = [
            activity
            for activity in trace.activities
            if activity.index > gate and isinstance(plan.lanes[activity.lane][activity.index], Copy)
        ]
        timed.sort(key=lambda activity: activity.begin_ns)
        times += [(activity.end_ns - activity.begin_ns) / 1e6 for activity in timed]
        gaps += [(after.begin_ns - before.end_ns) / 1e6 for before, after in pairwise(timed)]
    return times, gaps


def play(device: Device, plan: Plan, samples: int, *, record: bool = False) -> Iterator[tuple[float, Trace]]:
    """Play a Plan, once to warm up, and yield the milliseconds from its first event to its last and the Trace, all verified."""
    session = device.open(plan)
    try:
        for sample in range(1 + samples):
            trace = session.play(sample, record=record)
            wrong = session.verify()
            if wrong or trace.gate_timeout or trace.not_recorded:
                raise RuntimeError(f"a play cannot be trusted: {wrong or trace.not_recorded or 'a gate opened by itself'}")
            if sample:
                yield max(time for time in trace.event_ns if time is not None) / 1e6, trace
    finally:
        session.close()


def write(out: Path, scratch: Path, comparisons: Sequence[Comparison], facts: dict[str, object], table: str) -> None:
    """Write the samples, the table and the tables of the two runs."""
    out.mkdir(parents=True, exist_ok=True)
    content = facts | {"comparisons": [comparison.as_json() for comparison in comparisons]}
    (out / "peak.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (out / "peak.md").write_text(table, encoding="utf-8")
    for number in (1, 2):
        run = (scratch / f"run{number}" / "bandwidth" / "latest").resolve()
        shutil.copytree(run, out / f"bandwidth-{number}", dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
