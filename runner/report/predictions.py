"""What the predictions that lie with a run say of the profile that made them."""

from __future__ import annotations

from typing import Final

from runner.report.cases import case_label, number_of, varying_axes
from runner.report.reading import RunTables
from runner.stats import median
from runner.units import counted

OF_MODELS: Final = "validate"
"""The packaged experiment whose question is of a profile and not of the machine."""


def asks_of_a_model(run: RunTables) -> bool:
    """Whether a run was made to hold a profile against it, so that its rates are no answer."""
    return run.manifest.get("experiment") == OF_MODELS


def prediction_sentence(run: RunTables) -> str:
    """Say how far predictions lie from what was measured: the median error and the largest, in percent without signs.

    Empty where a run has no predictions; one that was made for them then tells how to get them.
    """
    errors = {
        str(row.get("case_id")): abs(error) for row in run.predicted if (error := number_of(row, "error_percent")) is not None
    }
    if not errors:
        way = f"How well a profile predicts this run is told by: dmalab compare {run.folder} --predicted"
        return f"{way} (or dmalab validate-model, by sorts of cases)." if asks_of_a_model(run) else ""
    worst = max(errors, key=lambda case_id: errors[case_id])
    row = next((row for row in run.rows if row.get("case_id") == worst), {"scenario": worst})
    profile = next((str(row["profile"]) for row in run.predicted if "profile" in row), "")
    name = f"Profile {profile}" if profile else "The profile"
    half = f"{name} predicts half of {counted(len(errors), 'case')} within {median(list(errors.values())):.1f} %"
    alike = [each for each in run.rows if each.get("scenario") == row.get("scenario")]
    return f"{half}; its largest error is {errors[worst]:.1f} %, of {case_label(row, varying_axes(alike))}."
