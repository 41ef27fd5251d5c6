"""What a run has come to so far: every round of plays and every case goes into the journal before the next begins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from runner.execution.journal import Journal, Part
from runner.execution.records import Ended, Restored, case_record, flags_record, play_record, sentinel_record
from runner.execution.stopping import Stop
from runner.expand import Case
from runner.measure.environment import flagged
from runner.measure.result import CaseResult, Sample
from runner.measure.sentinel import Sentinel


@dataclass(slots=True)
class Logbook:
    """Results by case_id, readings of the sentinel, and the plays of cases that have not ended; a `Listener` of the measuring.

    What it `restored` was in the journal before, with the doubts of that time. `flags` are those that the device gives to all
    that is measured from now on. `stop` ends the run between two plays by KeyboardInterrupt. Raises NotKept where the journal
    cannot be written.
    """

    journal: Journal | Part
    cases: Sequence[Case]
    stop: Stop
    restored: Restored = field(default_factory=Restored)
    flags: Sequence[str] = ()
    results: dict[str, CaseResult] = field(init=False)
    sentinel: Sentinel = field(init=False)
    _plays: dict[str, list[Sample]] = field(init=False)
    _read: int = field(init=False)

    def __post_init__(self) -> None:
        self.results = dict(self.restored.results)
        self.sentinel = Sentinel(list(self.restored.readings))
        self._read = len(self.sentinel.readings)
        self._plays = {case_id: list(plays) for case_id, plays in self.restored.plays.items()}

    def to_do(self) -> list[Case]:
        """Return the cases that have no result yet, in their order."""
        return [case for case in self.cases if case.case_id not in self.results]

    def begins(self, case: Case) -> None:
        """Let the run end here if somebody wants that."""
        self.stop.check()

    def played(self, case: Case, sample: Sample) -> None:
        """Note a play of a case that has not ended."""
        self.journal.append(play_record(case, sample))
        self._plays.setdefault(case.case_id, []).append(sample)
        self.stop.check()

    def ended(self, ended: Ended) -> None:
        """Note a case that has ended, and the sentinel's readings before it; one that was not run can still be."""
        self.read()
        (result,) = flagged([ended.result], self.flags)
        case = self.cases[result.case.index]
        if result.status not in ("not_run", "excluded"):
            self.journal.append(case_record(replace(ended, result=result), case))
        self.results[case.case_id] = result
        if result.samples:
            self._plays.pop(case.case_id, None)

    def flag(self, flags: Collection[str]) -> None:
        """Let all that this part of the run has measured carry flags that only its end could tell, and note that."""
        flagging = {result.case.case_id: result for result in self.own_results() if result.samples}
        if set(flags) - set(self.flags) and flagging:
            self.journal.append(flags_record(flags, list(flagging)))
            self.results |= dict(zip(flagging, flagged(flagging.values(), flags), strict=True))

    def read(self) -> None:
        """Note what the sentinel was read since the last time."""
        for reading in self.sentinel.readings[self._read :]:
            self.journal.append(sentinel_record(reading))
        self._read = len(self.sentinel.readings)

    def all_results(self, why: str = "the run stopped early") -> list[CaseResult]:
        """Return one result for every case, in the order of the cases.

        A case that has none is `not_run`, and `why`. The plays of cases that never came to samples of their own go into the
        table of plays beside those of companions: nothing is lost, and nothing is made of them.
        """
        return [self._with_plays(self.results.get(case.case_id) or CaseResult(case, "not_run", why)) for case in self.cases]

    def own_results(self) -> list[CaseResult]:
        """Return the results that this part of the run has measured."""
        return [result for case_id, result in self.results.items() if case_id not in self.restored.results]

    def own_readings(self) -> list[CaseResult]:
        """Return the readings of the sentinel of this part of the run."""
        return self.sentinel.readings[len(self.restored.readings) :]

    def _with_plays(self, result: CaseResult) -> CaseResult:
        plays = self._plays.get(result.case.case_id, [])
        if not plays or result.samples or result.status not in ("not_run", "failed", "timeout"):
            return result
        told = f"{result.reason}; it had been played {len(plays)} times, see samples.csv"
        return replace(result, reason=told, companions=(*result.companions, *plays))
