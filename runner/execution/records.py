"""Results of cases as records of the journal, and back: what is read equals what was noted, field by field."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from runner.errors import CaseError
from runner.execution.journal import Past, Record
from runner.expand import Case
from runner.measure.companions import known_of
from runner.measure.environment import flagged
from runner.measure.result import CaseResult, Sample
from runner.measure.sentinel import SENTINEL

_SAMPLES: Final = ("samples", "companions")
_OTHERS: Final = tuple(each.name for each in fields(CaseResult) if each.name not in ("case", *_SAMPLES))


@dataclass(frozen=True, slots=True)
class Ended:
    """A case that has ended, and what was learnt for it: medians of companions in ms by their model, and the host's memory."""

    result: CaseResult
    learnt: Mapping[str, float | None] = field(default_factory=dict)
    host_bytes: int = 0


@dataclass(slots=True)
class Restored:
    """What an earlier part of a run has left: results by case_id, readings of the sentinel, medians of companions.

    `plays` are those of cases that came to no samples: kept, but no part of what the case is measured by when its turn comes.
    """

    results: dict[str, CaseResult] = field(default_factory=dict)
    readings: list[CaseResult] = field(default_factory=list)
    medians: dict[str, float | None] = field(default_factory=dict)
    plays: dict[str, list[Sample]] = field(default_factory=dict)


def case_record(ended: Ended, case: Case) -> Record:
    """Return the record of a case as it stood in the grid; its result holds the case with its work resolved."""
    return {
        "type": "case",
        "case": case.case_id,
        "resolved": ended.result.case.model is not case.model and ended.result.case.model != case.model,
        "host_bytes": ended.host_bytes,
        "learnt": dict(ended.learnt),
        "result": _plain(ended.result),
    }


def play_record(case: Case, sample: Sample) -> Record:
    """Return the record of one play of a case that has not ended yet."""
    return {"type": "play", "case": case.case_id, **_packed([sample])}


def sentinel_record(reading: CaseResult) -> Record:
    """Return the record of one reading of the sentinel."""
    return {"type": "sentinel", "result": _plain(reading)}


def flags_record(flags: Collection[str], cases: Sequence[str]) -> Record:
    """Return the record of flags that these cases carry, too, as was found after they had been noted."""
    return {"type": "flags", "flags": sorted(flags), "cases": list(cases)}


def restore(past: Past, cases: Sequence[Case]) -> Restored:
    """Return what the records of a run say of the cases of its grid; a case that was noted twice counts as the last time.

    A case whose work cannot be told any more, since the record that told it was spoiled, is none: it is measured anew.
    """
    known = {case.case_id: case for case in cases}
    restored = Restored()
    by_gpu: dict[str, dict[str, float | None]] = {}
    for record in past.records:
        if record["type"] == "sentinel":
            restored.readings.append(reading_of(record))
        elif record["type"] == "play" and record["case"] in known:
            restored.plays.setdefault(record["case"], []).extend(_unpacked(record))
        elif record["type"] == "flags":
            marked = {case_id: restored.results[case_id] for case_id in record["cases"] if case_id in restored.results}
            restored.results |= dict(zip(marked, flagged(marked.values(), record["flags"]), strict=True))
        elif record["type"] == "case" and record["case"] in known:
            gpu = record["result"].get("where", {}).get("gpu_uuid", "")
            try:
                result = ended_of(record, known[record["case"]], by_gpu.setdefault(gpu, {})).result
            except CaseError:
                continue
            restored.medians |= record["learnt"]
            restored.results[result.case.case_id] = result
            if result.samples:
                restored.plays.pop(result.case.case_id, None)
    return restored


def ended_of(record: Record, case: Case, medians: dict[str, float | None]) -> Ended:
    """Return what the record of a case says; `medians` are those of companions on its GPU, and get what was learnt for it."""
    medians |= record["learnt"]
    if record["resolved"]:
        case = replace(case, model=case.model.resolved(known_of(case.model.companions(), medians, record["host_bytes"])))
    return Ended(_result_of(record["result"], case), record["learnt"], record["host_bytes"])


def reading_of(record: Record) -> CaseResult:
    """Return what the record of a reading of the sentinel says."""
    return _result_of(record["result"], SENTINEL)


def _plain(result: CaseResult) -> dict[str, Any]:
    others = {name: getattr(result, name) for name in _OTHERS}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in others.items()} | {
        name: _packed(getattr(result, name)) for name in _SAMPLES
    }


def _result_of(plain: Mapping[str, Any], case: Case) -> CaseResult:
    told: dict[str, Any] = {name: plain[name] for name in _OTHERS if name in plain}
    told |= {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    told |= {name: _unpacked(plain[name]) for name in _SAMPLES}
    return CaseResult(case, **told)


def _packed(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return samples with figures that follow on their like written once, as a device without noise gives them."""
    figures: list[Mapping[str, float]] = []
    plays = []
    for sample in samples:
        if not figures or (sample.figures is not figures[-1] and sample.figures != figures[-1]):
            figures.append(sample.figures)
        plays.append([sample.role, sample.index, len(figures) - 1, sample.round, sample.order])
    return {"figures": [dict(each) for each in figures], "plays": plays}


def _unpacked(packed: Mapping[str, Any]) -> tuple[Sample, ...]:
    figures = packed["figures"]
    return tuple(Sample(role, index, figures[place], number, order) for role, index, place, number, order in packed["plays"])
