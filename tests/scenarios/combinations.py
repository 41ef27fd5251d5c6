"""Every combination of a kind's fields: each either refused at a field or a Plan that is proven safe."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from pydantic import ValidationError

from runner.memory import KINDS
from runner.plan_check import check_plan
from runner.scenarios import SCENARIOS

COPIED: Final = [kind for kind in KINDS.values() if not kind.migrates]
"""Kinds of memory that copies take: what counts of combinations follow from, so that a new kind changes no test."""


def proven_and_refused(fixed: Mapping[str, Any], axes: Mapping[Any, Sequence[Any]]) -> tuple[int, set[str]]:
    """Check each combination; return how many have Plans, and the fields at which the others were refused.

    A key of `axes` may be a tuple of fields that move together; None leaves a field out.
    """
    model, proven, refused = SCENARIOS[fixed["kind"]], 0, set[str]()
    for values in itertools.product(*axes.values()):
        fields = dict(fixed)
        for names, value in zip(axes, values, strict=True):
            fields |= dict(zip(names, value, strict=True)) if isinstance(names, tuple) else {names: value}
        fields = {name: value for name, value in fields.items() if value is not None}
        try:
            case = model.model_validate(fields)
        except ValidationError as error:
            refused |= {details["ctx"]["field"] for details in error.errors()}
            continue
        plan = case.plan()
        check_plan(plan)
        assert plan.marks, fields
        assert case.describe()
        proven += 1
    return proven, refused


def refusal(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the field at which the kind refuses these fields, and its words."""
    with pytest.raises(ValidationError) as caught:
        SCENARIOS[fields["kind"]].model_validate(fields)
    (error,) = caught.value.errors()
    return error["ctx"]["field"], error["ctx"]["message"]
