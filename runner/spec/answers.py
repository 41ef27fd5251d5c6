"""The model of what a file asks for at its end: which of several scenarios does a job in the least time."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from runner.errors import Problem
from runner.figures import unit_of_time
from runner.scenarios.base import StrictModel
from runner.spec.clauses import Metric
from runner.spec.places import Document
from runner.spec.problems import guess

_TIME: Final = "wall_ms"


class Fastest(StrictModel):
    """A job, and the scenarios that do it; the run ends with a sentence on the fastest of all their cases."""

    job: str = Field(min_length=1, max_length=200, description="What all of the scenarios do, as in `For JOB the fastest is …`.")
    among: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = Field(
        description="The scenarios that do it, the simplest first."
    )
    metric: Metric = Field(_TIME, description="The time that is compared.")


def problems_of(document: Document, scenarios: tuple[str, ...]) -> list[Problem]:
    """Return what is wrong with the answers of a file beside their form: scenarios or times that are not there, or twice."""
    entries = document.content.get("fastest")
    problems: list[Problem] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            continue
        among, metric = entry.get("among"), entry.get("metric", _TIME)
        names = among if isinstance(among, list) else []
        for place, name in enumerate(names):
            loc = ("fastest", index, "among", place)
            if isinstance(name, str) and name not in scenarios:
                problems.append(
                    document.problem(loc, "there is no such scenario", allowed=", ".join(scenarios), hint=guess(name, scenarios))
                )
            elif name in names[:place]:
                problems.append(document.problem(loc, "the scenario stands here twice"))
        if isinstance(metric, str) and not unit_of_time(metric):
            problems.append(document.problem(("fastest", index, "metric"), "this is no time", hint="wall_ms, for instance"))
    return problems
