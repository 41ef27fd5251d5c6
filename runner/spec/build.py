"""Building the models of a grid's points quickly: fields that are known to be right are not read again for every case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runner.scenarios.base import Scenario
from runner.spec.fields import default_of


class Builder:
    """Builds models of one kind from parsed values, of which each was read by the model's own field before.

    The first points are read by Pydantic in full, and what the quick way makes of them is compared. Where both are equal, later
    points only go through the model's own checks across fields, which is a third of the work; anything that these refuse is read
    in full again, for its error. A model with other validators than such checks, or with private attributes, is always read in
    full.
    """

    COMPARED = 3
    """Points that are built both ways."""

    def __init__(self, model: type[Scenario]) -> None:
        self._model = model
        self._read: Callable[[Mapping[str, Any]], Scenario] = model.__pydantic_validator__.validate_python
        # In the order of the model, as Pydantic has it; what stands for a required field is always replaced.
        self._fields = {
            name: None if info.is_required() else default_of(model, name) for name, info in model.model_fields.items()
        }
        decorators = model.__pydantic_decorators__
        self._checks = [each.func for each in decorators.model_validators.values() if each.info.mode == "after"]
        others = len(decorators.model_validators) - len(self._checks) + len(decorators.field_validators)
        plain = others == 0 and not model.__private_attributes__
        self._left_to_compare = self.COMPARED if plain else -1
        self._keys: set[str] = set()

    def __call__(self, raw: Mapping[str, Any]) -> Scenario:
        """Return the model of these values; raises ValidationError as Pydantic does."""
        if self._left_to_compare == 0 and raw.keys() == self._keys:
            try:
                return self._quickly(raw)
            except Exception:
                # Whatever a check raised, Pydantic turns it into the error that the caller knows.
                return self._read(raw)
        model = self._read(raw)
        if self._left_to_compare > 0:
            self._keys = set(raw)
            self._left_to_compare = self._left_to_compare - 1 if self._agrees(raw, model) else -1
        return model

    def _agrees(self, raw: Mapping[str, Any], model: Scenario) -> bool:
        """Whether the quick way makes the same of these values as Pydantic did, in the same order."""
        try:
            return list(self._quickly(raw).__dict__.items()) == list(model.__dict__.items())
        except Exception:
            # Values that were not parsed before may break a check in any way.
            return False

    def _quickly(self, raw: Mapping[str, Any]) -> Scenario:
        model = self._model.__new__(self._model)
        set_slot = object.__setattr__
        set_slot(model, "__dict__", {**self._fields, **raw})
        set_slot(model, "__pydantic_fields_set__", self._keys)
        set_slot(model, "__pydantic_extra__", None)
        set_slot(model, "__pydantic_private__", None)
        for check in self._checks:
            check(model)
        return model
