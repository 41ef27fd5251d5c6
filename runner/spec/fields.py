"""The fields of a model by name, dotted where one lies inside another: what validates one of them alone, and its value."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo


@cache
def adapter_of(model: type[BaseModel], path: tuple[str, ...]) -> TypeAdapter[Any]:
    """Return what validates one value of the field at `path` by itself; raises KeyError where there is no such field.

    It knows the rules of the field's annotation, not those of the model's own validators, which may look at other fields.
    """
    info = _field_at(model, path)
    if info is None:
        raise KeyError(path)
    # Pydantic refuses a configuration beside a model, which brings its own.
    is_model = isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)
    annotation: Any = Annotated[info.annotation, info]
    return TypeAdapter(annotation, config=None if is_model else ConfigDict(strict=True))


def has_field(model: type[BaseModel], path: tuple[str, ...]) -> bool:
    """Tell whether a model has a field at `path`."""
    return _field_at(model, path) is not None


def value_at(model: BaseModel, name: str) -> Any:
    """Return the value of the field called `name`, such as `chunk` or `compute.passes`; None where the model has none."""
    value: Any = model
    for step in name.split("."):
        value = getattr(value, step, None)
    return value


@cache
def default_of(model: type[BaseModel], field: str) -> Any:
    """Return the default of a field as the model would hold it."""
    return adapter_of(model, (field,)).validate_python(model.model_fields[field].get_default(call_default_factory=True))


def keys_at(model: type[BaseModel], path: Iterable[str | int]) -> tuple[str, ...]:
    """Return the keys that the mapping at `path` of a model may have, in order; steps that name no field are passed over.

    In a union of models a step that is the name of one of them, as a union's tag is, leaves that one.
    """
    models: list[type[BaseModel]] = [model]
    for step in path:
        models = [each for each in models if each.__name__ == step] or models
        infos = [each.model_fields[step] for each in models if isinstance(step, str) and step in each.model_fields]
        if infos:
            models = [inner for info in infos for inner in _models_in(info.annotation)]
    return tuple(dict.fromkeys(key for each in models for key in each.model_fields))


def tuples_of(value: Any) -> Any:
    """Turn lists into tuples, which is what frozen models hold."""
    return tuple(tuples_of(each) for each in value) if isinstance(value, list) else value


def _field_at(model: type[BaseModel], path: tuple[str, ...]) -> FieldInfo | None:
    info = model.model_fields.get(path[0])
    if info is None or len(path) == 1:
        return info
    inner = (_field_at(each, path[1:]) for each in _models_in(info.annotation))
    return next((found for found in inner if found is not None), None)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
