"""Playing the cases of a grid on one device, one after another: in this process, or apart where a case may break the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing

from runner.device.contract import Device, DeviceFacts
from runner.device.select import open_device
from runner.errors import CaseError
from runner.execution.isolated import address_of, play_apart
from runner.execution.worker import Job
from runner.expand import Case
from runner.measure.case import measure_case
from runner.measure.companions import CompanionBook
from runner.measure.preflight import available_host_bytes, refusal_of
from runner.measure.result import CaseResult
from runner.spec.experiment import Measure


def play_cases(device: Device, facts: DeviceFacts, cases: Sequence[Case], measure: Measure) -> Iterator[CaseResult]:
    """Yield one result for each case, in order.

    Excluded cases and those that do not fit the machine are not tried. A case that may break a real device, or lowers a limit of
    its process, is played in a process of its own, and so is every case after one that broke the device all the same; a simulated
    device is opened anew. Where neither can be done, the rest is `not_run`: no number of a lost device is worth anything.
    """
    lost_in = ""
    host = available_host_bytes() if facts.host_bytes is None else facts.host_bytes
    book = CompanionBook(device, host, measure)
    with ExitStack() as opened:
        for case in cases:
            if case.excluded:
                yield CaseResult(case, "excluded", case.excluded)
                continue
            if book.device.lost and facts.kind == "simulated":
                book.device = opened.enter_context(closing(open_device(facts.name).device))
            if book.device.lost and not address_of(facts):
                yield CaseResult(case, "not_run", f"the device was lost in case {lost_in}")
                continue
            yield _play(facts, case, book)
            lost_in = lost_in or (case.case_id if book.device.lost else "")


def _play(facts: DeviceFacts, case: Case, book: CompanionBook) -> CaseResult:
    """Measure one case, here or in a process of its own, or say that it does not fit the machine."""
    try:
        refusal = refusal_of(case.model.demand(), facts, book.host_bytes)
        if refusal:
            return CaseResult(case, "skipped", refusal)
        address = address_of(facts)
        alone = case.model.ISOLATED or case.model.memlock_bytes() is not None
        if address and (alone or book.device.lost):
            return play_apart(Job(address, case, book.host_bytes, book.measure))
        return measure_case(book.device, facts, book.prepare(case), book.measure)
    except CaseError as error:
        return CaseResult(case, "unsupported" if error.status == "unsupported" else "failed", str(error))


def with_all_cases(cases: Sequence[Case], results: Sequence[CaseResult], why: str) -> list[CaseResult]:
    """Return the results with a `not_run` one for every case that has none, so that no case is missing from the table."""
    return [*results, *(CaseResult(case, "not_run", why) for case in cases[len(results) :])]
