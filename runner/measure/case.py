"""Measuring one case: open its Plan, warm up, take samples, verify every play, and judge the numbers.

Nothing of this stands in the timed region, which is inside `Session.play`. The data of every play, warm-ups included, are
compared with what the Plan expects; a wrong byte ends the case as `corrupt`, without figures, unless wrong bytes are what the
case looks for: then they are a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runner.device.contract import Device, DeviceFacts, Mismatch, Session, Trace
from runner.errors import CaseError
from runner.expand import Case
from runner.measure.companions import Prepared, derive
from runner.measure.flags import flags_of
from runner.measure.result import CaseResult, Role, Sample
from runner.plan import Plan
from runner.plan_check import check_plan
from runner.spec.experiment import Measure


def measure_case(device: Device, facts: DeviceFacts, prepared: Prepared, measure: Measure) -> CaseResult:
    """Measure one case on an opened device, beside the companions that were measured before it.

    A case that the device refuses or breaks becomes a result with `failed` or `unsupported` and the reason; errors that are not
    the case's own (PlanError) fly on.
    """
    case = prepared.case
    try:
        plan = case.model.plan()
        check_plan(plan)
        session = device.open(plan)
        try:
            result = _measure(session, device, facts, case, plan, measure)
        finally:
            session.close()
    except CaseError as error:
        result = _broken(case, error, lost=device.lost)
    derived = derive(prepared, result.samples, measure.clock or case.model.CLOCK)
    return replace(result, companions=prepared.samples, derived=derived)


def _measure(session: Session, device: Device, facts: DeviceFacts, case: Case, plan: Plan, measure: Measure) -> CaseResult:
    samples: list[Sample] = []
    trace: Trace | None = None
    figures: dict[str, float] = {}
    for play, (role, index) in enumerate(_plays(measure)):
        if trace is None or not device.deterministic:
            trace = session.play(play)
            wrong = session.verify()
            if wrong and not case.model.TOLERATES:
                return _corrupt(case, wrong, play, trace, plan)
            figures = case.model.figures(plan, trace)
            if case.model.TOLERATES:
                figures["corrupt_bytes"] = float(sum(mismatch.wrong_bytes for mismatch in wrong))
        samples.append(Sample(role, index, figures))
    assert trace is not None, "the YAML model asks for one sample at least"
    clock = measure.clock or case.model.CLOCK
    flags = flags_of(case.model, clock, samples, facts, gate_timeout=trace.gate_timeout, deterministic=device.deterministic)
    return CaseResult(
        case,
        "ok",
        flags=flags,
        samples=tuple(samples),
        memory_actual=_memory_actual(plan, trace),
        corrupt_bytes=max(int(sample.figures.get("corrupt_bytes", 0)) for sample in samples),
        deterministic=device.deterministic,
    )


def _plays(measure: Measure) -> list[tuple[Role, int]]:
    warmups: list[tuple[Role, int]] = [("warmup", index) for index in range(measure.warmup)]
    return warmups + [("sample", index) for index in range(measure.samples)]


def _broken(case: Case, error: CaseError, *, lost: bool) -> CaseResult:
    """Say why a case has no numbers; an error that cost the device is what a hazard looks for, and it names itself."""
    if lost and case.model.TOLERATES:
        return CaseResult(case, "ok", str(error), samples=(Sample("sample", 0, {"faulted": 1.0}),))
    return CaseResult(case, "unsupported" if error.status == "unsupported" else "failed", str(error))


def _corrupt(case: Case, wrong: Sequence[Mismatch], play: int, trace: Trace, plan: Plan) -> CaseResult:
    first = wrong[0]
    total = sum(mismatch.wrong_bytes for mismatch in wrong)
    values = f", expected {first.expected} and found {first.actual}" if first.expected else ""
    reason = f"{total:,} wrong bytes after play {play}, the first at byte {first.offset:,} of {first.buffer}{values}"
    return CaseResult(case, "corrupt", reason, memory_actual=_memory_actual(plan, trace), corrupt_bytes=total)


def _memory_actual(plan: Plan, trace: Trace) -> str:
    """Say what the driver saw, once for each sort of buffer: `input=pageable stager=pinned`; the device's own are left out."""
    seen = {
        buffer.name.rstrip("0123456789 "): fact
        for buffer, fact in zip(plan.buffers, trace.buffer_facts, strict=False)
        if not buffer.on_device
    }
    return " ".join(f"{name.replace(' ', '_')}={fact}" for name, fact in seen.items())
