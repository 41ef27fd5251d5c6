from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from runner.scenarios import SCENARIOS
from runner.scenarios.legs import Leg
from runner.spec.experiment import Experiment

MODELS: list[type[BaseModel]] = [*SCENARIOS.values(), Leg, Experiment]
DEFAULTS = [(model, name, info) for model in MODELS for name, info in model.model_fields.items() if not info.is_required()]


@pytest.mark.parametrize(("model", "name", "info"), DEFAULTS, ids=[f"{model.__name__}.{name}" for model, name, _ in DEFAULTS])
def test_every_default_is_valid(model: type[BaseModel], name: str, info: FieldInfo) -> None:
    """Defaults are not validated with each case, which would be a third of the cost of a large grid."""
    default: Any = info.get_default(call_default_factory=True, validated_data={})
    annotation: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    assert TypeAdapter(annotation).validate_python(default, strict=not isinstance(default, tuple)) == default


@pytest.mark.parametrize("model", MODELS, ids=[model.__name__ for model in MODELS])
def test_every_field_says_what_it_is(model: type[BaseModel]) -> None:
    assert all(info.description for info in model.model_fields.values())
