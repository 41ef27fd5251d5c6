"""The device on which claims are tested one file after another: whatever breaks in one of them costs no other."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from runner.device.contract import DeviceFacts
from runner.errors import DmalabError, NotKept
from runner.execution.bench import Bench, begin_bench
from runner.execution.journal import Journal, Part
from runner.execution.logbook import Logbook
from runner.execution.records import restore
from runner.execution.stopping import Stop, StoppedAtOnce
from runner.execution.work import Work
from runner.expand import Case
from runner.flow import run_info
from runner.measure.across import judged
from runner.measure.environment import device_flags
from runner.measure.result import CaseResult
from runner.placement import Wait
from runner.rows import RunInfo
from runner.spec.load import LoadedExperiment
from runner.verdicts import Verdict, judge

_STOPPED = "the run stopped early"


@dataclass(frozen=True)
class ClaimFile:
    """One file of claims, read: where it lies, its experiment and the cases of its grid."""

    path: Path
    loaded: LoadedExperiment
    cases: list[Case]


@dataclass(frozen=True)
class ClaimResult:
    """One file of claims: what its rows have in common, its verdicts, the results they stand on, and the seconds it took.

    `readings` are those of the sentinel, as in a run.
    """

    run: RunInfo
    verdicts: tuple[Verdict, ...]
    results: tuple[CaseResult, ...] = ()
    seconds: float = 0.0
    readings: tuple[CaseResult, ...] = ()


@dataclass
class Session:
    """The bench that all files share, begun anew for one whose host waits in another way, and the run that they belong to."""

    device: str
    bench: Bench
    run_id: str
    facts: DeviceFacts
    journal: Journal
    stop: Stop
    interrupted: bool = False
    wait: Wait = "spin"

    def test(self, file: ClaimFile) -> ClaimResult:
        """Test the claims of one file; raises NotKept where what was measured cannot be noted, StoppedAtOnce."""
        name, loaded = file.path.stem, file.loaded
        part = Part(self.journal, name)
        logbook = Logbook(part, file.cases, self.stop, restore(part.past(), file.cases))
        begun, why = time.monotonic(), _STOPPED
        try:
            self._sweep(loaded, logbook)
        except (NotKept, StoppedAtOnce):
            raise
        except KeyboardInterrupt:
            self.interrupted = self.stop.asked = True
        except Exception as error:  # one claim must not cost the others, whatever broke
            why = f"{'' if isinstance(error, DmalabError) else f'{type(error).__name__}: '}{error}"
        run, readings = run_info(self.run_id, loaded, self.facts), logbook.sentinel.readings
        results = judged(logbook.all_results(why), readings, loaded.experiment.measure.clock)
        verdicts = judge(loaded.experiment, results, run) or [undecided(name, "the file expects nothing")]
        return ClaimResult(run, tuple(verdicts), tuple(results), time.monotonic() - begun, tuple(readings))

    def close(self) -> None:
        """Give the device back."""
        self.bench.close()

    def _sweep(self, loaded: LoadedExperiment, logbook: Logbook) -> None:
        """Measure the cases of one file that have no result yet."""
        cases = logbook.to_do()
        if not cases:
            return
        self.stop.check()
        self._wait_as(loaded.experiment.measure.wait)
        # The process that has the device goes on with the next file, where there is one: `close` ends it.
        work = Work(cases, loaded.experiment.measure, logbook.sentinel, logbook, more=True)
        logbook.flags = device_flags(self.facts)
        for ended in self.bench.sweep(work):
            # Claims are tested by figures: no timeline is kept of them.
            logbook.ended(replace(ended, result=replace(ended.result, timeline="")))
        logbook.read()
        state = self.bench.facts_at_end()
        logbook.flag(() if state is None else device_flags(state))

    def _wait_as(self, wait: Wait) -> None:
        """Begin another bench where the host waits in another way than with this one."""
        if wait != self.wait:
            self.bench.close()
            self.bench, self.wait = begin_bench(self.device, wait), wait
            self.facts = self.bench.open().facts


def undecided(claim: str, reason: str) -> Verdict:
    """Return the verdict on a claim that nothing can be said of."""
    return Verdict(claim, "undecided", None, None, None, "", " ".join(reason.split()))
