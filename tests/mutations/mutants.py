"""Cases whose Plans are turned wrong on purpose, and rows of the runner that say what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

from runner.device.contract import Device, Mismatch, Session
from runner.device.select import open_device
from runner.execution.local import play_cases
from runner.expand import Case
from runner.measure.result import CaseResult
from runner.plan import Plan, Stream
from runner.scenarios import SCENARIOS
from runner.scenarios.base import Scenario
from runner.spec.experiment import Measure

Change = Callable[[Plan], Plan]


def case_of(**fields: object) -> Scenario:
    """Return the case of these fields."""
    return SCENARIOS[str(fields["kind"])].model_validate(fields)


def mutant(model: Scenario, change: Change) -> Scenario:
    """Return the same case with its Plan changed."""

    class Mutant(type(model)):  # type: ignore[misc]
        def plan(self) -> Plan:
            return change(super().plan())  # type: ignore[no-any-return]

    changed: Scenario = Mutant.model_validate(model.model_dump())
    return changed


def with_operation(plan: Plan, index: int, **fields: object) -> Plan:
    """Return the Plan with other fields in one operation of its lane."""
    lane = list(plan.lanes[0])
    lane[index] = replace(lane[index], **fields)
    return replace(plan, lanes=(tuple(lane),))


def with_null_stream(plan: Plan) -> tuple[Plan, int]:
    """Return the Plan with the null stream among its streams, and that stream's number."""
    return replace(plan, streams=(*plan.streams, Stream("null", "null"))), len(plan.streams)


def row_of(model: Scenario, wrap: Callable[[Device], Device] = lambda device: device) -> CaseResult:
    """Measure one case on the frozen simulated device, or on what `wrap` makes of it."""
    with closing(open_device("simulated:test").device) as device:
        case = Case("c_1", "mutant", 0, model, "", {})
        (result,) = play_cases(wrap(device), device.facts(), [case], Measure(warmup=1, samples=2))
        return result


class Lying:
    """A device that plays something else than one Plan when it is given that, or does not look whether the data are right."""

    def __init__(self, device: Device, plan: Plan, change: Change, *, looks: bool = True) -> None:
        self._device, self._plan, self._change, self._looks = device, plan, change, looks

    def __getattr__(self, name: str) -> object:
        return getattr(self._device, name)

    def open(self, plan: Plan) -> Session:
        """Open the Plan, changed where it is the one to lie about."""
        session = self._device.open(self._change(plan) if plan == self._plan else plan)
        return session if self._looks else Blind(session)


class Blind:
    """A session whose verification was taken out."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.play, self.close = session.play, session.close

    def verify(self) -> tuple[Mismatch, ...]:
        """Find everything right."""
        return ()


def places(plan: Plan, *kinds: type) -> Iterator[int]:
    """Yield where operations of these types stand in the lane."""
    yield from (index for index, operation in enumerate(plan.lanes[0]) if isinstance(operation, kinds))
