"""How near the runner comes to native code on a real GPU: python benchmarks/gpu.py [--out FOLDER]; `make bench-gpu` calls it.

Builds the native twin with nvcc and lets both do the same work by turns, several rounds, each first in every other round, so that
a change of the machine meets both alike. Then it runs whole experiments and reads from their manifests where the time went. What
is compared is told in native/native.cu and in speed_works.py. Writes speed.json, speed.md, goals.csv and samples.csv into FOLDER.
Whatever fails is told in its row, and the rest goes on. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

from speed_goals import Cells, Sample, Verdict, Work, sample_rows, table_of
from speed_runs import Run, as_json, judged_runs
from speed_works import GOALS, all_works
from twin import Native, build

from runner.device.contract import Device, DeviceFacts
from runner.device.select import open_device
from runner.plan_check import check_plan
from runner.scenarios import SCENARIOS

ROUNDS: Final = 3
WARMUPS: Final = 2
PUBLISHED: Final = "results/reference/nvidia-h200/speed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help=f"write the tables and every sample here; the published ones are in {PUBLISHED}")
    parser.add_argument("--native", type=Path, help="use this program instead of building the twin")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--keep", type=Path, help="keep the folders of the runs of experiments here")
    parser.add_argument("--only", default="", help="only works whose name or group holds this, and no runs of experiments")
    options = parser.parse_args()
    works = [work for work in all_works() if options.only in f"{work.group}: {work.name}"]
    with tempfile.TemporaryDirectory() as scratch:
        program = options.native or build(Path(scratch))
        with closing(Native(program)) as native, closing(open_device(options.device).device) as device:
            facts = device.facts()
            measure(native, device, works, options.rounds)
        verdicts = [goal.judged(works) for goal in GOALS if any(work.group == goal.group for work in works)]
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
        runs, judged = ([], []) if options.only else judged_runs(options.keep or Path(scratch), options.device)
        verdicts += judged
    print(table_of(works, verdicts, facts.name))
    if options.out:
        write(options.out, facts, works, runs, verdicts)
    return 0 if all(verdict.met for verdict in verdicts) else 1


def measure(native: Native, device: Device, works: Sequence[Work], rounds: int) -> None:
    """Let both do every work, round after round."""
    begun = time.monotonic()
    for turn in range(rounds):
        for work in works:
            for mine in (turn % 2 == 1, turn % 2 == 0):
                if mine:
                    measure_runner(device, work, turn)
                else:
                    measure_native(native, work, turn)
        print(f"round {turn + 1} of {rounds} done after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)


def measure_native(native: Native, work: Work, turn: int) -> None:
    """Ask the twin for the samples of one round; what goes wrong stands in the work's row."""
    if not work.request:
        return
    try:
        work.native.extend(Sample(turn, value) for value in native.ask(work.request))
    except (RuntimeError, ValueError, OSError) as error:
        work.trouble = f"native: {error}"


def measure_runner(device: Device, work: Work, turn: int) -> None:
    """Play the runner's case for the samples of one round and verify each; what goes wrong stands in the work's row."""
    if work.trouble or not work.case:
        return
    try:
        work.runner.extend(Sample(turn, value) for value in played(device, work))
    except Exception as error:  # whatever it is, the other works can still be compared
        work.trouble = f"runner: {' '.join(str(error).split())[:160] or type(error).__name__}"


def played(device: Device, work: Work) -> list[float]:
    """Return the figure of each sample; raises RuntimeError where data are wrong."""
    case = SCENARIOS[str(work.case["kind"])].model_validate(work.case)
    plan = case.plan()
    check_plan(plan)
    values: list[float] = []
    with closing(device.open(plan)) as session:
        for play in range(WARMUPS + work.samples):
            trace = session.play(play)
            if wrong := session.verify():
                raise RuntimeError(f"wrong data, {wrong[0]}")
            if play >= WARMUPS:
                values.append(case.figures(plan, trace)[work.metric])
    return values


def write(out: Path, facts: DeviceFacts, works: Sequence[Work], runs: Sequence[Run], verdicts: Sequence[Verdict]) -> None:
    """Write everything that was seen."""
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "device": facts.name,
        "command": f"make bench-gpu ARGS='--out {PUBLISHED}'",
        "environment": dict(facts.environment),
        "goals": [asdict(verdict) for verdict in verdicts],
        "works": [asdict(work) | {"ratio": work.ratio()} for work in works],
        "runs": as_json(runs),
    }
    (out / "speed.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (out / "speed.md").write_text(table_of(works, verdicts, facts.name), encoding="utf-8")
    write_csv(out / "goals.csv", [verdict.cells(facts.name, facts.kind) for verdict in verdicts])
    write_csv(out / "samples.csv", list(sample_rows(works)))


def write_csv(path: Path, rows: Sequence[Cells]) -> None:
    """Write rows of equal columns; none makes no file."""
    if not rows:
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
