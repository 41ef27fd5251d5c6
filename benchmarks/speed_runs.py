"""The runs of benchmarks/gpu.py: whole experiments as a user starts them, and what their manifests say of their time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from speed_goals import Goal, Seen, Verdict

from runner.execution.ready import WORKER
from runner.measure.spent import MEASURING

ROOT: Final = Path(__file__).resolve().parents[1]
EXPERIMENTS: Final = ("bandwidth", "overlap")
CASES: Final = 200
FEW: Final = 2
PATIENCE_S: Final = 240.0
GRID: Final = """\
name: small
question: What does a case cost beside what it measures?
measure: {{warmup: 3, samples: 10}}
scenarios:
  copy: {{kind: transfer, buffer: pinned, direction: [h2d, d2h], size: {sizes}}}
"""

SECONDS: Final = Goal("bandwidth.yaml and overlap.yaml together", "", lambda works: None, "s", at_most=60)
SHARE: Final = Goal("share of that, verification apart, that is measuring", "", lambda works: None, at_least=0.6)
ISOLATION: Final = Goal("the two in a process of their own, beside in that of the command", "", lambda works: None, at_most=1.05)
OVERHEAD: Final = Goal("what one of 200 cases of 1 MiB costs beside its plays", "", lambda works: None, "ms", at_most=5)
TURNS: Final = (("here", ""), ("", "here"))
"""Where the device is in the runs that are compared, in order: each place comes first once."""
TROUBLE: Final = (OSError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError)
"""What a run that fails may raise, in its process or as its manifest is read."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run: seconds of the whole process, and those of its manifest by what they went to."""

    name: str
    wall_s: float
    seconds: dict[str, float]

    @property
    def measuring_s(self) -> float:
        """The timed parts of all plays."""
        return sum(self.seconds[what] for what in MEASURING)

    @property
    def beside_s(self) -> float:
        """What the run's own clock counted besides."""
        return sum(self.seconds.values()) - self.measuring_s


def judged_runs(folder: Path, device: str) -> tuple[list[Run], list[Verdict]]:
    """Make all runs and judge them; a run that fails is a goal missed, with the reason."""
    runs: list[Run] = []
    verdicts: list[Verdict] = []
    try:
        both = [run(name, folder / name, device) for name in EXPERIMENTS]
        runs += both
        verdicts += [SECONDS.verdict(seconds_of(both)), SHARE.verdict(share_of(both))]
    except TROUBLE as error:
        verdicts += [goal.verdict(None, trouble=str(error)) for goal in (SECONDS, SHARE)]
    try:
        verdicts.append(ISOLATION.verdict(isolation_of(folder, device)))
    except TROUBLE as error:
        verdicts.append(ISOLATION.verdict(None, trouble=str(error)))
    try:
        few, many = (run(grid(folder, cases), folder / str(cases), device) for cases in (FEW, CASES))
        runs += [few, many]
        verdicts.append(OVERHEAD.verdict(overhead_of(few, many)))
    except TROUBLE as error:
        verdicts.append(OVERHEAD.verdict(None, trouble=str(error)))
    return runs, verdicts


def seconds_of(runs: Sequence[Run]) -> Seen:
    """Return the seconds of whole processes, from start to end."""
    return Seen(sum(each.wall_s for each in runs), ", ".join(f"{each.name} {each.wall_s:.1f} s" for each in runs))


def share_of(runs: Sequence[Run]) -> Seen:
    """Return the share of the processes' time, without that of verification, in which plays were timed."""
    wall = sum(each.wall_s - each.seconds["verification"] for each in runs)
    parts: dict[str, float] = {}
    for each in runs:
        for what, seconds in each.seconds.items():
            parts[what] = parts.get(what, 0.0) + seconds
    most = sorted(parts.items(), key=lambda part: -part[1])[:6]
    told = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in most)
    return Seen(sum(each.measuring_s for each in runs) / wall, told)


def isolation_of(folder: Path, device: str) -> Seen:
    """Return how much longer whole processes take whose device is in a process of its own, by the faster of two runs each."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn, places in enumerate(TURNS):
        for place in places:
            for name in EXPERIMENTS:
                made = run(name, folder / f"{name}-{place or 'apart'}-{turn}", device, {WORKER: place})
                seconds.setdefault((name, place), []).append(made.wall_s)
    apart, here = (sum(min(seconds[name, place]) for name in EXPERIMENTS) for place in ("", "here"))
    told = ", ".join(f"{name} {min(seconds[name, '']):.2f} for {min(seconds[name, 'here']):.2f} s" for name in EXPERIMENTS)
    return Seen(apart / here, told)


def overhead_of(few: Run, many: Run) -> Seen:
    """Return the milliseconds that one more case takes beside its plays, from two runs that differ in their number of cases."""
    value = (many.beside_s - few.beside_s) / (CASES - FEW) * 1e3
    return Seen(
        value, f"{CASES} cases took {many.wall_s:.1f} s, of which {many.measuring_s:.2f} s were plays; {FEW}: {few.wall_s:.1f} s"
    )


def run(experiment: str, out: Path, device: str, variables: Mapping[str, str] | None = None) -> Run:
    """Run an experiment as a command, with more variables; raises RuntimeError where it gives no numbers."""
    command = [sys.executable, "-m", "runner", "run", experiment, "--device", device, "--out", str(out)]
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | dict(variables or {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    wall = time.perf_counter() - begun
    if done.returncode not in (0, 5):  # 5: an expectation was missed, which is no business of a clock
        raise RuntimeError(f"the run of {experiment} gave {done.returncode}: {(done.stderr or done.stdout).strip()[:300]}")
    (manifest,) = out.glob("*/2*/manifest.json")
    content = json.loads(manifest.read_text(encoding="utf-8"))
    seconds = {what: float(value) for what, value in content["seconds"].items() if what != "total"}
    return Run(content["experiment"], wall, seconds)


def grid(folder: Path, cases: int) -> str:
    """Write a grid of so many copies of 1 MiB, each a little shorter than the one before, and return its path."""
    path = folder / f"small{cases}.yaml"
    path.write_text(GRID.format(sizes=[(1 << 20) - 64 * index for index in range(cases // 2)]), encoding="utf-8")
    return str(path)


def as_json(runs: Sequence[Run]) -> list[dict[str, object]]:
    """Return the runs as they stand in speed.json."""
    return [asdict(each) for each in runs]
