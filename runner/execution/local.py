"""Playing the cases of a grid on one device in this process, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.device.contract import Device, DeviceFacts
from runner.errors import CaseError
from runner.expand import Case
from runner.measure.case import measure_case
from runner.measure.companions import CompanionBook
from runner.measure.preflight import available_host_bytes, refusal_of
from runner.measure.result import CaseResult
from runner.spec.experiment import Measure


def play_cases(device: Device, facts: DeviceFacts, cases: Sequence[Case], measure: Measure) -> Iterator[CaseResult]:
    """Yield one result for each case, in order.

    Excluded cases and those that do not fit the machine are not tried. After a case that made the device useless the rest is
    `not_run`: no number of a lost device is worth anything.
    """
    lost_in = ""
    host = available_host_bytes() if facts.host_bytes is None else facts.host_bytes
    book = CompanionBook(device, host, measure)
    for case in cases:
        if case.excluded:
            yield CaseResult(case, "excluded", case.excluded)
        elif lost_in:
            yield CaseResult(case, "not_run", f"the device was lost in case {lost_in}")
        else:
            yield _play(device, facts, case, book, host)
            lost_in = case.case_id if device.lost else ""


def _play(device: Device, facts: DeviceFacts, case: Case, book: CompanionBook, host: int) -> CaseResult:
    """Measure one case, or say that it does not fit the machine."""
    try:
        refusal = refusal_of(case.model.demand(), facts, host)
        if refusal:
            return CaseResult(case, "skipped", refusal)
        return measure_case(device, facts, book.prepare(case), book.measure)
    except CaseError as error:
        return CaseResult(case, "unsupported" if error.status == "unsupported" else "failed", str(error))


def with_all_cases(cases: Sequence[Case], results: Sequence[CaseResult], why: str) -> list[CaseResult]:
    """Return the results with a `not_run` one for every case that has none, so that no case is missing from the table."""
    return [*results, *(CaseResult(case, "not_run", why) for case in cases[len(results) :])]
