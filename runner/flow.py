"""The whole flow of a run: YAML text → Experiment → Cases → Plans → Traces → Samples → tables → verdicts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from runner.answers import answers
from runner.device.contract import DeviceFacts
from runner.errors import NotKept
from runner.execution.bench import Bench, begin_bench
from runner.execution.journal import NAME, Journal
from runner.execution.logbook import Logbook
from runner.execution.messages import Opened
from runner.execution.records import Restored
from runner.execution.stopping import Stop, StoppedAtOnce, stoppable
from runner.execution.work import Work
from runner.expand import Case, expand
from runner.forecast import Forecast, foresee
from runner.measure.across import judged
from runner.measure.engine import describe_engines
from runner.measure.environment import device_flags, state_of
from runner.measure.preflight import Limits, available_host_bytes
from runner.measure.result import CaseResult, Status
from runner.measure.sentinel import describe_sentinel
from runner.measure.spent import Spent, measuring_share, spent_of_run
from runner.remaining import Remaining
from runner.resume import Earlier, header_of, take_up
from runner.rows import RunInfo
from runner.run_folder import RunFolder, begin_run, describe_device, describe_host, utc_now
from runner.spec.load import LoadedExperiment
from runner.tables import write_tables
from runner.timeline_store import TimelineFile
from runner.verdicts import Verdict, judge

TROUBLE: Final[tuple[Status, ...]] = ("failed", "timeout", "corrupt", "not_run", "skipped")
"""Statuses of cases that were asked for and gave no number; they make the run exit with 4."""
SMALLEST_EFFORT: Final = 2**20
"""What a case costs beside its bytes, in bytes, when the time left is guessed from the cases that are done."""


class Watcher(Protocol):
    """What wants to know how a run goes; it is called between cases, never in a timed region."""

    def opened(self, loaded: LoadedExperiment, facts: DeviceFacts, note: str, total: int) -> None:
        """Tell that the device is open and how many cases there are; `note` says why `auto` chose a simulated device."""

    def foreseen(self, forecast: Forecast) -> None:
        """Tell what the run will likely hold and last, before anything is allocated."""

    def case_done(self, result: CaseResult, done: int, seconds_left: float) -> None:
        """Tell that a case is done, and the seconds that the others will likely take."""

    def stopping(self) -> None:
        """Tell that somebody wants the run to end, and that it will after the play under way."""

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


def run_experiment(
    loaded: LoadedExperiment,
    *,
    device: str | None,
    out: Path,
    max_cases: int,
    watcher: Watcher,
    earlier: Earlier | None = None,
    most_pinned: int | None = None,
    workers: int | None = None,
    bench: Bench | None = None,
    stop: Stop | None = None,
    host: Mapping[str, Any] | None = None,
) -> RunOutcome:
    """Run every case of an experiment and write its tables; those that an `earlier` run of it has measured are done.

    `device` overrides the file's own, `most_pinned` is as in `runner.measure.preflight`, `workers` as in `runner.execution.work`.
    Where `bench` is given the cases are measured on it, and it is closed; a `stop` is asked by somebody else than this process.
    `host` is what the manifest says of the machine of the device, where that is not this one.
    A first Ctrl-C or SIGTERM ends the sweep after the play under way; what was measured is written all the same and the exit code
    is 130. A second one raises StoppedAtOnce; the journal is good then. Raises InputError, DeviceUnavailable or
    EnvironmentProblem before anything is measured, and NotKept where what was measured cannot be noted.
    """
    spent, measure = Spent(), loaded.experiment.measure
    with closing(bench or begin_bench(device or loaded.experiment.device, measure.wait)) as bench, ExitStack() as ends:
        with spent.on("expansion"):
            cases = list(expand(loaded, max_cases))
        with spent.on("start_up"):
            opened = bench.open()
            folder, journal, restored = _begin(out, loaded, opened, cases, earlier, host)
        ends.enter_context(closing(journal))
        stop = stop or ends.enter_context(stoppable(lambda: watcher.stopping()))
        logbook = Logbook(journal, cases, stop, restored)
        logbook.flags = device_flags(opened.facts)
        run = _Run(loaded, folder, logbook, spent, [opened.facts], bench)
        # What was learnt of companions holds for a device that plays the same every time; another one may have changed meanwhile.
        medians = dict(restored.medians) if opened.deterministic else {}
        work = Work(logbook.to_do(), measure, logbook.sentinel, logbook, medians, most_pinned, workers)
        try:
            watcher.opened(loaded, opened.facts, opened.note, len(cases))
            with spent.on("start_up"):
                forecast = _foreseen(folder, work, opened.facts)
                watcher.foreseen(forecast)
            _sweep(bench, work, logbook, watcher, TimelineFile(folder.path), forecast.seconds)
            with spent.on("start_up"):
                run.states += [facts for facts in [bench.facts_at_end()] if facts is not None]
        except (StoppedAtOnce, NotKept):
            raise
        except BaseException as error:
            outcome = run.finished(interrupted=True)
            if not isinstance(error, KeyboardInterrupt):
                raise
        else:
            outcome = run.finished(interrupted=False)
    if stop.asked:  # perhaps only when all was measured: what follows shall not begin
        outcome = replace(outcome, exit_code=130)
    watcher.finished(outcome)
    return outcome


def _begin(
    out: Path,
    loaded: LoadedExperiment,
    opened: Opened,
    cases: Sequence[Case],
    earlier: Earlier | None,
    host: Mapping[str, Any] | None,
) -> tuple[RunFolder, Journal, Restored]:
    """Make a new run's folder and journal, or take those of an earlier run up again."""
    if earlier is None:
        folder = begin_run(
            out,
            loaded,
            device=describe_device(opened.facts),
            note=opened.note,
            host=host or describe_host(),
            recording=opened.recording or "plays can be recorded",
        )
        journal = Journal(folder.path / NAME)
        journal.append(header_of(loaded, opened.facts, cases))
        return folder, journal, Restored()
    journal, restored, torn = take_up(earlier, loaded, opened.facts, cases)
    folder = earlier.folder
    times = [*folder.manifest.get("resumed", ()), {"utc": utc_now(), **torn}]
    folder.write_manifest(status="running", resumed=times)
    return folder, journal, restored


def _foreseen(folder: RunFolder, work: Work, facts: DeviceFacts) -> Forecast:
    """Say what the cases will likely hold and last, and keep it in the manifest."""
    host = available_host_bytes() if facts.host_bytes is None else facts.host_bytes
    forecast = foresee(work.cases, work.measure, Limits(facts, host, work.most_pinned))
    folder.write_manifest(forecast=forecast.described())
    return forecast


def _sweep(
    bench: Bench, work: Work, logbook: Logbook, watcher: Watcher, timelines: TimelineFile, foreseen_s: float | None
) -> None:
    """Play the cases into the logbook and their timelines into a file, telling the watcher how long the rest will likely take."""
    effort = [0 if case.excluded else case.model.payload_bytes() + SMALLEST_EFFORT for case in logbook.cases]
    begun, done = time.monotonic(), 0
    remaining = Remaining(sum(effort[case.index] for case in work.cases), foreseen_s)
    for measured in bench.sweep(work):
        ended = replace(measured, result=timelines.keep(measured.result))
        logbook.ended(ended)
        done += effort[ended.result.case.index]
        watcher.case_done(ended.result, len(logbook.results), remaining.seconds(done, time.monotonic() - begun))
    logbook.read()


@dataclass(slots=True)
class _Run:
    """A run that is on its way; `states` are the device at the begin and, if that came, the end."""

    loaded: LoadedExperiment
    folder: RunFolder
    logbook: Logbook
    spent: Spent
    states: list[DeviceFacts]
    bench: Bench

    def finished(self, *, interrupted: bool) -> RunOutcome:
        """Write the tables, the verdicts and the final manifest."""
        loaded, logbook, folder, states, spent = self.loaded, self.logbook, self.folder, self.states, self.spent
        experiment, readings, facts = loaded.experiment, logbook.sentinel.readings, states[0]
        logbook.flag(device_flags(*states))
        results = judged(logbook.all_results(), readings, experiment.measure.clock)
        run = run_info(folder.run_id, loaded, facts)
        with spent.on("tables"):
            verdicts = judge(experiment, results, run)
            answered = answers(experiment, results, run)
            write_tables(folder.path, run, results, verdicts, readings)
        seconds = spent_of_run(spent, logbook.own_results(), logbook.own_readings())
        statuses = Counter(result.status for result in results)
        code = 130 if interrupted or logbook.stop.asked else _exit_code(statuses, verdicts)
        folder.write_manifest(
            status="incomplete" if interrupted or statuses["not_run"] else "complete",
            finished_utc=utc_now(),
            cases={"total": len(results), **dict(sorted(statuses.items()))},
            sentinel=describe_sentinel(readings),
            engines=describe_engines(results),
            answers=answered,
            device_at_end=state_of(states[-1]) if len(states) > 1 else None,
            seconds={what: round(each, 6) for what, each in seconds.items()} | {"total": round(sum(seconds.values()), 6)},
            measuring_share=round(measuring_share(seconds), 4) if facts.kind == "cuda" else None,
            exit_code=code,
            **({"fleet": notes} if (notes := self.bench.notes()) else {}),
        )
        folder.point_latest()
        return RunOutcome(
            loaded, folder.path, folder.run_id, facts, tuple(results), tuple(verdicts), code, seconds, tuple(answered)
        )


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
