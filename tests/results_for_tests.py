"""Builders of results for the tests of tables and screen: cases with known times, so that figures can be worked out by hand."""

from __future__ import annotations

from typing import Any

from runner.expand import Case
from runner.measure.result import CaseResult, Sample
from runner.rows import RunInfo
from runner.scenarios.base import Scenario
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer

RUN = RunInfo("r_20260101T000000Z_abcdef", "demo", "simulated:test", "simulated", baseline="serialized")
MIB = 2**20


def transfer(**fields: Any) -> Transfer:
    return Transfer.model_validate({"kind": "transfer", "direction": "h2d", "size": MIB} | fields)


def pipeline(**fields: Any) -> Pipeline:
    return Pipeline.model_validate({"kind": "pipeline", "schedule": "overlapped", "total": 4 * MIB, "chunk": MIB} | fields)


def case(model: Scenario, scenario: str = "one", excluded: str = "", **axes: Any) -> Case:
    identity = abs(hash((scenario, repr(model)))) % 16**12
    return Case(f"c_{identity:012x}", scenario, 0, model, excluded, axes)


def ok(of: Case, *times: float, name: str = "wall_ms", **more: Any) -> CaseResult:
    """A case that went well; `times` are its samples, before which stands a warm-up 100 times as long."""
    samples = [Sample("warmup", 0, {name: times[0] * 100})]
    samples += [Sample("sample", index, {name: time}) for index, time in enumerate(times)]
    return CaseResult(of, "ok", samples=tuple(samples), **more)
