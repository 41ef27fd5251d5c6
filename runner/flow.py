"""The whole flow of a run: YAML text → Experiment → Cases → Plans → Traces → Samples → tables → verdicts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from runner.answers import answers
from runner.device.contract import Device, DeviceFacts
from runner.device.select import open_device
from runner.execution.local import play_cases, with_all_cases
from runner.expand import Case, expand
from runner.measure.across import judged
from runner.measure.engine import describe_engines
from runner.measure.environment import device_flags, flagged, host_facts, state_of
from runner.measure.result import CaseResult, Status
from runner.measure.sentinel import Sentinel, describe_sentinel
from runner.measure.spent import Spent, measuring_share, spent_of_run
from runner.rows import RunInfo
from runner.run_folder import RunFolder, describe_device, describe_host, utc_now
from runner.spec.experiment import Measure
from runner.spec.load import LoadedExperiment
from runner.tables import write_tables
from runner.verdicts import Verdict, judge

TROUBLE: Final[tuple[Status, ...]] = ("failed", "timeout", "corrupt", "not_run", "skipped")
"""Statuses of cases that were asked for and gave no number; they make the run exit with 4."""
SMALLEST_EFFORT: Final = 2**20
"""What a case costs beside its bytes, in bytes, when the time left is guessed from the cases that are done."""


class Watcher(Protocol):
    """What wants to know how a run goes; it is called between cases, never in a timed region."""

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None:
        """Tell that the device is open and how many cases there are; `note` says why `auto` chose a simulated device."""

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        """Tell that a case is done, and the seconds that the others will likely take."""

    def finished(self, outcome: RunOutcome) -> None:
        """Tell that everything is written."""


@dataclass(frozen=True)
class RunOutcome:
    """What a run left behind: its folder, its results (one a case of the grid), its verdicts, and its exit code."""

    loaded: LoadedExperiment
    folder: Path
    run_id: str
    facts: DeviceFacts
    results: tuple[CaseResult, ...]
    verdicts: tuple[Verdict, ...]
    exit_code: int
    spent: Mapping[str, float]
    """Seconds by what they went to, as in `runner.measure.spent`."""
    answers: tuple[str, ...] = ()
    """What the file asked for at its end, a sentence each."""


def run_experiment(loaded: LoadedExperiment, *, device: str | None, out: Path, max_cases: int, watcher: Watcher) -> RunOutcome:
    """Run every case of an experiment and write its tables.

    `device` overrides the file's own. An interrupt (KeyboardInterrupt) ends the sweep; what was measured is written all the same
    and the exit code is 130. Raises InputError, DeviceUnavailable or EnvironmentProblem before anything is measured.
    """
    spent = Spent()
    with spent.on("expansion"):
        cases = list(expand(loaded, max_cases))
    with spent.on("start_up"):
        opened = open_device(device or loaded.experiment.device, loaded.experiment.measure.wait)
    with closing(opened.device):
        with spent.on("start_up"):
            facts = opened.device.facts()
            folder = _start(out, loaded, facts, opened.note, opened.device.recording)
        results: list[CaseResult] = []
        sentinel = Sentinel()
        states, interrupted = [facts], False
        try:
            watcher.opened(loaded, facts, opened.note, len(cases))
            _sweep(opened.device, facts, cases, loaded.experiment.measure, results, watcher, sentinel)
            if not opened.device.lost:
                with spent.on("start_up"):
                    states.append(opened.device.facts())
        except KeyboardInterrupt:
            interrupted = True
        finally:
            rows = judged(
                with_all_cases(cases, results, "the run stopped early"), sentinel.readings, loaded.experiment.measure.clock
            )
            outcome = _finish(folder, loaded, states, flagged(rows, device_flags(*states)), sentinel, spent, interrupted)
    watcher.finished(outcome)
    return outcome


def _start(out: Path, loaded: LoadedExperiment, facts: DeviceFacts, note: str, not_recording: str) -> RunFolder:
    """Make the run's folder and write what is known before the first case; `not_recording` is why no play can be recorded."""
    experiment = loaded.experiment
    folder = RunFolder.create(out, experiment.name, loaded.spec_sha256)
    folder.write_bytes("experiment.yaml", loaded.original)
    folder.write_manifest(
        run_id=folder.run_id,
        experiment=experiment.name,
        question=experiment.question,
        status="running",
        started_utc=utc_now(),
        spec_sha256=loaded.spec_sha256,
        overrides=list(loaded.overrides),
        device=describe_device(facts),
        note=note,
        host=describe_host() | host_facts(),
        recording=not_recording or "plays can be recorded",
    )
    return folder


def _sweep(
    device: Device,
    facts: DeviceFacts,
    cases: Sequence[Case],
    measure: Measure,
    results: list[CaseResult],
    watcher: Watcher,
    sentinel: Sentinel,
) -> None:
    """Play the cases into `results`, telling the watcher how long the rest will likely take."""
    effort = [0 if case.excluded else case.model.payload_bytes() + SMALLEST_EFFORT for case in cases]
    begun, done, total = time.monotonic(), 0, sum(effort)
    for result in play_cases(device, facts, cases, measure, sentinel):
        results.append(result)
        done += effort[result.case.index]
        left = (time.monotonic() - begun) * (total - done) / done if done else 0.0
        watcher.case_done(result, len(results), left)


def _finish(
    folder: RunFolder,
    loaded: LoadedExperiment,
    states: Sequence[DeviceFacts],
    results: Sequence[CaseResult],
    sentinel: Sentinel,
    spent: Spent,
    interrupted: bool,
) -> RunOutcome:
    """Write the tables, the verdicts and the final manifest; `states` are the device at the begin and, if that came, the end."""
    experiment, facts = loaded.experiment, states[0]
    run = run_info(folder.run_id, loaded, facts)
    with spent.on("tables"):
        verdicts = judge(experiment, results, run)
        answered = answers(experiment, results, run)
        write_tables(folder.path, run, results, verdicts, sentinel.readings)
    seconds = spent_of_run(spent, results, sentinel.readings)
    statuses = Counter(result.status for result in results)
    code = 130 if interrupted else _exit_code(statuses, verdicts)
    folder.write_manifest(
        status="incomplete" if interrupted or statuses["not_run"] else "complete",
        finished_utc=utc_now(),
        cases={"total": len(results), **dict(sorted(statuses.items()))},
        sentinel=describe_sentinel(sentinel.readings),
        engines=describe_engines(results),
        answers=answered,
        device_at_end=state_of(states[-1]) if len(states) > 1 else None,
        seconds={what: round(each, 6) for what, each in seconds.items()} | {"total": round(sum(seconds.values()), 6)},
        measuring_share=round(measuring_share(seconds), 4),
        exit_code=code,
    )
    folder.point_latest()
    return RunOutcome(loaded, folder.path, folder.run_id, facts, tuple(results), tuple(verdicts), code, seconds, tuple(answered))


def run_info(run_id: str, loaded: LoadedExperiment, facts: DeviceFacts) -> RunInfo:
    """Return what all rows of a run of an experiment on a device have in common."""
    experiment, measure = loaded.experiment, loaded.experiment.measure
    return RunInfo(
        run_id,
        experiment.name,
        facts.name,
        facts.kind,
        experiment.baseline,
        measure.clock,
        facts.link_gb_per_s,
        placement=measure.placement if facts.kind == "cuda" else "",
        wait=str(facts.environment.get("wait") or ""),
    )


def _exit_code(statuses: Counter[Status], verdicts: Sequence[Verdict]) -> int:
    """Return 3 where no case could run, 4 where some gave no number, 5 where an expectation was missed, else 0."""
    asked = sum(count for status, count in statuses.items() if status != "excluded")
    if asked and not statuses["ok"] and not statuses["corrupt"]:
        return 3
    if any(statuses[status] for status in TROUBLE):
        return 4
    return 5 if any(verdict.verdict == "refuted" for verdict in verdicts) else 0
