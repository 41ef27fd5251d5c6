"""The timeline of one case of a finished run: what the run has kept of it, or what playing the case once more gives.

A simulated case is played again, which gives the same as long as its profile is the same: the time that comes out is held against
the run's own. A measured one is the last recorded play of its run. `device` asks for a play on another device instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from runner.compared_run import ComparedCase, ComparedRun, compared_run, label_of, varying_columns
from runner.device.select import open_device
from runner.errors import InputError, UsageError
from runner.expand import Case, expand
from runner.measure.companions import CompanionBook
from runner.measure.preflight import available_host_bytes
from runner.plan_check import check_plan
from runner.spec.load import load_experiment
from runner.stats import median
from runner.timeline import timeline_of
from runner.timeline_store import NAME, NO_FILE, KeptTimeline, kept_timeline, whole_timeline
from runner.units import digits, parse_size

if TYPE_CHECKING:
    from runner.results import Results

MOST_NAMED: Final = 8
"""Cases that an ambiguous name lists."""
SAME_TIME: Final = 1e-9
"""How far, as a share, the time of a case that was played again may lie from the run's own; tables keep 15 digits."""


@dataclass(frozen=True, slots=True)
class CaseTimeline:
    """One case's timeline, and all that says what it is of; `simulated` tells that its times are computed."""

    run_id: str
    case_id: str
    label: str
    device: str
    simulated: bool
    origin: str
    timeline: KeptTimeline


def case_timeline(results: Results, words: Sequence[str], device: str | None = None) -> CaseTimeline:
    """Return the timeline of the case of a run that `words` name: its id or the start of it, or a scenario and KEY=VALUE.

    Raises UsageError where they name none or several, InputError where the run has kept no timeline of it, or its file cannot be
    played again.
    """
    run = compared_run(results)
    case = find_case(run, words)
    label = label_of(case, varying_columns(run)[case.scenario])
    if case.status == "excluded":
        raise UsageError(f"{label} was excluded ({case.reason}), so it was never played")
    simulated = run.device_kind == "simulated"
    if device is None and not simulated:
        kept = kept_timeline(run.folder, case.case_id)
        if kept is None:
            raise InputError(f"{_why_none(run, case, label)}; --device D plays the case on a device, such as simulated")
        return CaseTimeline(run.run_id, case.case_id, label, run.device, False, "the last recorded play of the run", kept)
    played, name, kind = played_again(results, case.case_id, device or run.device)
    if device is None:
        _same_time(case, played, run)
    return CaseTimeline(run.run_id, case.case_id, label, name, kind == "simulated", "played again", played.timeline)


def find_case(run: ComparedRun, words: Sequence[str]) -> ComparedCase:
    """Return the one case that all `words` fit: an id or its start (`c_…`), a scenario, or a field and its value (`chunk=1MiB`).

    Raises UsageError, naming some, where that is none or several.
    """
    found = [case for case in run.cases.values() if all(_fits(case, word) for word in words)]
    if len(found) == 1:
        return found[0]
    varying = varying_columns(run)
    near = found or list(run.cases.values())
    named = "; ".join(f"{case.case_id} ({label_of(case, varying[case.scenario])})" for case in near[:MOST_NAMED])
    more = f"; and {len(near) - MOST_NAMED:,} more" if len(near) > MOST_NAMED else ""
    what = f"{len(found):,} cases are" if found else "no case is"
    raise UsageError(f"{what} {' '.join(words)!r} in {run.run_id}; there are {named}{more}")


class RunInFolder(Protocol):
    """A finished run: where it lies, and its manifest."""

    @property
    def folder(self) -> Path:
        """The run's folder."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What manifest.json says."""


@dataclass(frozen=True, slots=True)
class Played:
    """A case that was played once: its timeline, and the figures of that play."""

    timeline: KeptTimeline
    figures: dict[str, float]


def played_again(results: RunInFolder, case_id: str, device: str) -> tuple[Played, str, str]:
    """Play a case of a run once, recorded, on the device called `device`; return the play, the device's name and its kind.

    Its companions are measured first, where the case is resolved by them. Raises InputError where the run's file has no such case
    any more or nothing was recorded, CaseFailed or CaseUnsupported where the device refuses it.
    """
    path = results.folder / "experiment.yaml"
    loaded = load_experiment(str(path), list(results.manifest.get("overrides") or []))
    case = _case_of(list(expand(loaded)), case_id, str(path))
    measure = loaded.experiment.measure
    with closing(open_device(device, measure.wait).device) as opened:
        facts = opened.facts()
        host = available_host_bytes() if facts.host_bytes is None else facts.host_bytes
        model = CompanionBook(opened, host, measure).prepare(case).case.model
        plan = model.plan()
        check_plan(plan)
        with closing(opened.open(plan)) as session:
            if not opened.deterministic:
                session.play(0)
            trace = session.play(1, record=True)
        timeline = timeline_of(plan, trace)
        if not timeline.spans:
            raise InputError(f"{facts.name} has played {case_id} and recorded nothing: {trace.not_recorded or 'it did no work'}")
        return Played(whole_timeline(plan, timeline), model.figures(plan, trace)), facts.name, facts.kind


def _case_of(cases: Sequence[Case], case_id: str, path: str) -> Case:
    found = next((case for case in cases if case.case_id == case_id), None)
    if found is None:
        raise InputError(f"{path} has no case {case_id} by this version of dmalab; run the experiment again")
    return found


def _fits(case: ComparedCase, word: str) -> bool:
    key, equals, value = word.partition("=")
    if not equals:
        return case.scenario == word or (word.startswith("c_") and case.case_id.startswith(word))
    column = key.replace(".", "_")
    cell = case.cells.get(f"{column}_bytes", case.cells.get(column))
    if isinstance(cell, int) and not isinstance(cell, bool):
        return _whole(value) == cell
    return cell is not None and str(cell) == value


def _whole(text: str) -> int | None:
    try:
        return int(text) if text.isdecimal() else parse_size(text)
    except ValueError:
        return None


def _why_none(run: ComparedRun, case: ComparedCase, label: str) -> str:
    told = run.manifest.get("recording")
    if case.status != "ok":
        return f"{label} has no timeline: it is {case.status} ({case.reason})"
    why = f" ({told})" if told and told != "plays can be recorded" else ""
    if not why and not (run.folder / NAME).exists():
        return f"{run.run_id} has kept no timeline of any case: {NO_FILE}"
    return f"{run.run_id} has kept no timeline of {label}{why}"


def _same_time(case: ComparedCase, played: Played, run: ComparedRun) -> None:
    """Raise InputError where a simulated case takes another time now than in its run."""
    now = played.figures.get(case.metric)
    if case.times is None or now is None:
        return
    then = median(case.times.values)
    if abs(now - then) > SAME_TIME * then:
        raise InputError(
            f"played again, the case takes {digits(now, 6)} {case.unit} instead of {digits(then, 6)}: the profile {run.device} "
            "or dmalab has changed since; run the experiment again, or ask for a play on it by --device"
        )
