"""A device that plays several cases side by side and takes exactly as long as a test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runner.device.contract import DeviceFacts, Mismatch, Trace
from runner.errors import CaseFailed, CaseUnsupported
from runner.expand import Case
from runner.measure.companions import Prepared
from runner.plan import Plan
from runner.scenarios.base import Known, Scenario
from runner.scenarios.transfer import Transfer

FACTS = DeviceFacts("NVIDIA Test", "cuda", 2**34, 2**34, 2, {}, link_gb_per_s=1e6, host_bytes=2**34)
MIB = 2**20


@dataclass
class TimedDevice:
    """Takes `time_ms(number, play)` for a play of the session opened as number so and so; logs `number.play` and the ends.

    `break_at` is a (number, play) that fails, which costs the device where `fatal`.
    """

    time_ms: Callable[[int, int], float] = lambda number, play: 2.0
    break_at: tuple[int, int] | None = None
    fatal: bool = False
    deterministic: bool = False
    lost: bool = False
    recording: str = "nothing is recorded here"
    log: list[str] = field(default_factory=list)
    opened: int = 0

    def facts(self) -> DeviceFacts:
        return FACTS

    def open(self, plan: Plan) -> TimedSession:
        if not plan.marks:
            raise CaseUnsupported("only cases have a time here")
        self.opened += 1
        self.log.append(f"open {self.opened - 1}")
        return TimedSession(self, self.opened - 1)

    def close(self) -> None:
        self.log.append("closed")


@dataclass
class TimedSession:
    """One opened Plan of a transfer."""

    device: TimedDevice
    number: int
    plays: int = 0

    def play(self, sample: int, *, record: bool = False) -> Trace:
        self.device.log.append(f"{self.number}.{sample}")
        if self.device.break_at == (self.number, sample):
            self.device.lost = self.device.fatal
            raise CaseFailed("the driver broke")
        ns = round(self.device.time_ms(self.number, sample) * 1e6)
        return Trace((0, 100, 2100, ns), (0, ns), ("pinned", "device"))

    def verify(self) -> tuple[Mismatch, ...]:
        return ()

    def close(self) -> None:
        self.device.log.append(f"close {self.number}")


def copy(mib: int = 16, **fields: object) -> Transfer:
    return Transfer.model_validate({"kind": "transfer", "direction": "h2d", "size": mib * MIB} | fields)


def case(model: Scenario, case_id: str, index: int = 0, scenario: str = "copy", **axes: object) -> Case:
    return Case(case_id, scenario, index, model, "", axes)


def prepared(count: int) -> list[Prepared]:
    return [Prepared(case(copy(), f"c_{number}"), Known(0), ()) for number in range(count)]
