"""Measuring a case against a device that does exactly what the test says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import pytest

from runner.device.contract import DeviceFacts, Mismatch, Trace
from runner.errors import CaseFailed, CaseUnsupported, PlanError
from runner.execution.local import play_cases, with_all_cases
from runner.expand import Case
from runner.measure.case import measure_case
from runner.measure.companions import Prepared
from runner.measure.result import CaseResult
from runner.plan import Plan
from runner.scenarios.base import Known, Scenario
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure

FACTS = DeviceFacts("NVIDIA Test", "cuda", 2**30, 2**30, 2, {}, link_gb_per_s=10.0)
MEASURE = Measure(warmup=2, samples=3)
MIB = 2**20


@dataclass
class ScriptedDevice:
    """Plays nothing; each play returns the next of `traces` (the last one again and again) and verification `wrong`."""

    traces: list[Trace]
    deterministic: bool = False
    lost: bool = False
    recording: str = "a scripted device records nothing"
    wrong_from: int = 10**9
    refuse: Exception | None = None
    break_at: int = 10**9
    log: list[str] = field(default_factory=list)

    def facts(self) -> DeviceFacts:
        return FACTS

    def open(self, plan: Plan) -> ScriptedDevice:
        self.log.append("open")
        if self.refuse:
            raise self.refuse
        return self

    def play(self, sample: int, *, record: bool = False) -> Trace:
        self.log.append(f"play {sample}")
        if sample >= self.break_at:
            self.lost = True
            raise CaseFailed("the driver broke")
        return self.traces[min(sample, len(self.traces) - 1)]

    def verify(self) -> tuple[Mismatch, ...]:
        self.log.append("verify")
        played = sum(line.startswith("play") for line in self.log)
        return (Mismatch("h2d device", 17, 3, "0x01", "0x02"), Mismatch("other", 0, 4)) if played > self.wrong_from else ()

    def close(self) -> None:
        self.log.append("close")


def trace(wall_ms: float = 2.0, event_ms: float = 1.95, call_us: float = 2.0, **more: object) -> Trace:
    held = round(call_us * 1000)
    return Trace((0, 100, 100 + held, round(wall_ms * 1e6)), (0, round(event_ms * 1e6)), ("pinned", "device"), **more)  # type: ignore[arg-type]


def case(model: Scenario | None = None, case_id: str = "c_1", excluded: str = "") -> Case:
    model = model or Transfer(kind="transfer", direction="h2d", size=16 * MIB)
    return Case(case_id, "copy", 0, model, excluded, {})


def copy(mib: int, direction: Literal["h2d", "d2h"] = "h2d") -> Transfer:
    return Transfer(kind="transfer", direction=direction, size=mib * MIB)


def measured(device: ScriptedDevice, model: Scenario | None = None, measure: Measure = MEASURE) -> CaseResult:
    one = case(model)
    return measure_case(device, FACTS, Prepared(one, Known(0), ()), measure)


def test_every_play_has_its_own_data_is_verified_and_is_kept_with_its_role() -> None:
    device = ScriptedDevice([trace(wall) for wall in (9.0, 3.0, 2.0, 2.5, 2.25)])
    result = measured(device)
    assert device.log == ["open", *(step for play in range(5) for step in (f"play {play}", "verify")), "close"]
    assert [(sample.role, sample.index, sample.figures["wall_ms"]) for sample in result.samples] == [
        ("warmup", 0, 9.0),
        ("warmup", 1, 3.0),
        ("sample", 0, 2.0),
        ("sample", 1, 2.5),
        ("sample", 2, 2.25),
    ]
    assert (result.status, result.reason, result.memory_actual) == ("ok", "", "h2d_host=pinned")


def test_a_deterministic_device_is_played_once_and_its_samples_are_the_same() -> None:
    device = ScriptedDevice([trace()], deterministic=True)
    result = measured(device)
    assert device.log == ["open", "play 0", "verify", "close"]
    assert result.deterministic
    assert len({tuple(sample.figures.items()) for sample in result.samples}) == 1
    assert len(result.samples) == 5


def test_a_wrong_byte_ends_the_case_without_figures() -> None:
    device = ScriptedDevice([trace()], wrong_from=3)
    result = measured(device)
    assert result.status == "corrupt"
    assert result.reason == "7 wrong bytes after play 3, the first at byte 17 of h2d device, expected 0x01 and found 0x02"
    assert (result.samples, result.corrupt_bytes) == ((), 7)
    assert device.log[-1] == "close"


@pytest.mark.parametrize(
    ("error", "status"), [(CaseFailed("no memory"), "failed"), (CaseUnsupported("no such engine"), "unsupported")]
)
def test_a_refused_case_becomes_a_row_with_its_reason(error: Exception, status: str) -> None:
    result = measured(ScriptedDevice([trace()], refuse=error))
    assert (result.status, result.reason, result.samples) == (status, str(error), ())


def test_a_plan_that_races_is_our_own_fault_and_never_played() -> None:
    class Unfinished(Transfer):
        def plan(self) -> Plan:
            whole = super().plan()
            return replace(whole, lanes=(whole.lanes[0][:-2],))

    device = ScriptedDevice([trace()])
    with pytest.raises(PlanError, match="the clock stops before the work is done"):
        measured(device, Unfinished(kind="transfer", direction="h2d", size=MIB))
    assert device.log == []


RATE = 16 * MIB / 1e6
"""Milliseconds that 16 MiB take at 1 GB/s."""


@pytest.mark.parametrize(
    ("shown", "flag"),
    [
        (trace(event_ms=RATE / 10.3, wall_ms=RATE / 10.3), "implausible"),
        (trace(event_ms=RATE / 10.1, wall_ms=RATE / 10.1), ""),
        (trace(wall_ms=2.3, event_ms=2.0), "clock_disagree"),
        (trace(wall_ms=2.1, event_ms=2.0), ""),
        (trace(wall_ms=2.0, event_ms=1.95, call_us=1100), "async_ineffective"),
        (trace(wall_ms=2.0, event_ms=1.95, call_us=900), ""),
        (trace(gate_timeout=True), "gate_timeout"),
    ],
)
def test_a_doubtful_number_says_so(shown: Trace, flag: str) -> None:
    assert measured(ScriptedDevice([shown])).flags == ((flag,) if flag else ())


def test_a_call_that_is_meant_to_wait_is_no_surprise() -> None:
    sync = Transfer(kind="transfer", direction="h2d", size=16 * MIB, call="sync")
    assert measured(ScriptedDevice([trace(call_us=1900)]), sync).flags == ()


def test_a_wide_interval_is_noisy_unless_the_device_has_no_noise() -> None:
    wide = [trace(event_ms=1.9 + 0.02 * step, wall_ms=2.0) for step in (0, 11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6)]
    assert measured(ScriptedDevice(wide), measure=Measure(warmup=0, samples=12)).flags == ("noisy",)
    assert measured(ScriptedDevice(wide, deterministic=True), measure=Measure(warmup=0, samples=12)).flags == ()


def test_a_sweep_goes_on_after_a_bad_case_and_stops_measuring_on_a_lost_device() -> None:
    huge = Pipeline(kind="pipeline", schedule="overlapped", total=2**40, chunk=2**30)
    cases = [
        case(case_id="c_1", excluded="not today"),
        case(huge, "c_2"),
        case(copy(16), "c_3"),
        case(copy(17), "c_4"),
        case(copy(18), "c_5"),
    ]
    device = ScriptedDevice([trace()])
    results = []
    for result in play_cases(device, FACTS, cases, MEASURE):
        results.append(result)
        if result.case.case_id == "c_3":
            device.break_at = 0
    assert [(result.case.case_id, result.status) for result in results] == [
        ("c_1", "excluded"),
        ("c_2", "skipped"),
        ("c_3", "ok"),
        ("c_4", "failed"),
        ("c_5", "not_run"),
    ]
    assert results[0].reason == "not today"
    assert results[1].reason.startswith("needs 2TiB of host memory")
    assert results[4].reason == "the device was lost in case c_4"


def test_a_sweep_that_stops_early_still_has_a_row_for_every_case() -> None:
    cases = [case(case_id=f"c_{index}") for index in range(3)]
    results = with_all_cases(cases, [CaseResult(cases[2], "failed", "broke"), CaseResult(cases[0], "ok")], "interrupted")
    assert [(result.case.case_id, result.status, result.reason) for result in results] == [
        ("c_0", "ok", ""),
        ("c_1", "not_run", "interrupted"),
        ("c_2", "failed", "broke"),
    ]
