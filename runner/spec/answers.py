"""The model of what a file asks for at its end: which of several scenarios does a job in the least time."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from runner.scenarios.base import StrictModel
from runner.spec.clauses import Metric

ASKED_TIME: Final = "wall_ms"
"""The time that is compared where the file names no other."""


class Fastest(StrictModel):
    """A job, and the scenarios that do it; the run ends with a sentence on the fastest of all their cases."""

    job: str = Field(min_length=1, max_length=200, description="What all of the scenarios do, as in `For JOB the fastest is …`.")
    among: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = Field(
        description="The scenarios that do it, the simplest first: the same kind, bytes, direction and compute, with the data in "
        "the same sort of memory."
    )
    metric: Metric = Field(ASKED_TIME, description="The time that is compared.")
