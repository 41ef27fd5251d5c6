"""What may stand under `fastest`: scenarios that do the same work, each once, and a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from runner.errors import Problem
from runner.figures import unit_of_time
from runner.scenarios.base import Cell
from runner.spec.answers import ASKED_TIME
from runner.spec.grid import Grid
from runner.spec.places import Document
from runner.spec.problems import guess
from runner.spec.scenario import ScenarioSpec

_CASES_COMPARED: Final = 10_000
"""Cases of a scenario that are looked at for whether they do the same work, where an axis could change it."""
_ELSEWHERE: Final = "a job of its own, or a scenario with the same work"


def problems_of(document: Document, names: tuple[str, ...], specs: Sequence[ScenarioSpec]) -> list[Problem]:
    """Return what is wrong with the answers of a file beside their form: scenarios or times that are not there, or twice.

    `names` are those of all scenarios, `specs` those that could be read: they must do the same work.
    """
    entries = document.content.get("fastest")
    problems: list[Problem] = []
    jobs: list[str] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            continue
        if isinstance(job := entry.get("job"), str):
            if job in jobs:
                problems.append(document.problem(("fastest", index, "job"), "the job stands here twice"))
            jobs.append(job)
        metric = entry.get("metric", ASKED_TIME)
        among = entry.get("among")
        problems += _problems_among(document, index, among if isinstance(among, list) else [], names, specs)
        if isinstance(metric, str) and not unit_of_time(metric):
            problems.append(document.problem(("fastest", index, "metric"), "this is no time", hint="wall_ms, for instance"))
    return problems


def _problems_among(
    document: Document, index: int, among: list[Any], names: tuple[str, ...], specs: Sequence[ScenarioSpec]
) -> Iterator[Problem]:
    known = {spec.name: spec for spec in specs}
    first: tuple[str, Mapping[str, Cell]] | None = None
    for place, name in enumerate(among):
        loc = ("fastest", index, "among", place)
        if not isinstance(name, str):
            continue  # the model refuses it
        if name not in names:
            yield document.problem(loc, "there is no such scenario", allowed=", ".join(names), hint=guess(name, names))
        elif name in among[:place]:
            yield document.problem(loc, "the scenario stands here twice")
        elif name in known:
            for job in _jobs(known[name]):
                first = first or (name, job)
                if job != first[1]:
                    other = (
                        f"this does other work than {first[0]}" if name != first[0] else "its cases do other work than each other"
                    )
                    message = f"{other}: {_difference(*first, name, job)}"
                    yield document.problem(loc, message, hint=f"give it {_ELSEWHERE}")
                    break


def _jobs(spec: ScenarioSpec) -> Iterator[Mapping[str, Cell]]:
    """Yield the work of the cases that will run: of one where no axis can change it."""
    points = (point.model for point in Grid(spec) if point.model is not None and not point.excluded)
    changing = any(axis.path[0] in spec.model.WORK for axis in spec.axes)
    yield from (model.job() for model in islice(points, _CASES_COMPARED if changing else 1))


def _difference(one: str, job: Mapping[str, Cell], other: str, other_job: Mapping[str, Cell]) -> str:
    """Say in what two jobs differ, in the words of the file; data are told by where they lie."""
    field = next(field for field in (*job, *other_job) if job.get(field) != other_job.get(field))
    here, there = job.get(field), other_job.get(field)
    if field == "buffer":
        return f"its data lie in {there}, not in {here}"
    return f"{field} is {there} in {other} and {here} in {one}" if one != other else f"{field} is {here} and {there}"
