"""The clauses of `expect`: what a file may expect of its results, one strict model a form, told apart by the key of the form.

A clause *selects* cases (`of`, `against`, `order`) by a scenario and values of its fields, and says what must hold of their
figures. `runner.spec.expectations` checks clauses against the grid, `runner.verdicts` judges them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PrivateAttr, Tag, model_validator
from pydantic_core import PydanticCustomError

from runner.scenarios.base import Scenario, StrictModel
from runner.spec.fields import value_at
from runner.units import ALLOWED_SIZE, format_size, parse_size

ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "at_least": operator.ge,
    "at_most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
}
_LOWER: Final = ("at_least", "above")


def _number_or_size(value: object) -> object:
    """Read `4MiB` as a number of bytes; leave everything else to Pydantic."""
    if not isinstance(value, str):
        return value
    try:
        return float(parse_size(value))
    except ValueError as error:
        raise PydanticCustomError("size", "{message}", {"message": str(error), "allowed": ALLOWED_SIZE}) from None


Limit = Annotated[float | None, Field(allow_inf_nan=False)]
AxisLimit = Annotated[float, BeforeValidator(_number_or_size), Field(ge=0, allow_inf_nan=False)] | None
Metric = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="The figure meant, such as wall_ms or gb_per_s.")]


class Bounds(StrictModel):
    """The bounds of a figure; several must all hold."""

    at_least: Limit = Field(None, description="The figure is this or more.")
    at_most: Limit = Field(None, description="The figure is this or less.")
    above: Limit = Field(None, description="The figure is more than this.")
    below: Limit = Field(None, description="The figure is less than this.")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        limits = self.limits()
        if not limits:
            raise PydanticCustomError("bounds", "no bound", {"message": "no bound is given", "allowed": ", ".join(ORDERS)})
        lower = [limit for word, limit in limits.items() if word in _LOWER]
        upper = [limit for word, limit in limits.items() if word not in _LOWER]
        if lower and upper and max(lower) > min(upper):
            raise PydanticCustomError("bounds", "no number", {"message": f"no number is {self.text()}"})
        return self

    def holds(self, figure: float) -> bool:
        """Tell whether a figure is within all the bounds."""
        return all(ORDERS[word](figure, limit) for word, limit in self.limits().items())

    def misses(self, low: float, high: float) -> bool:
        """Tell whether every figure from `low` to `high` is beyond one and the same of the bounds."""
        return any(not ORDERS[word](high if word in _LOWER else low, limit) for word, limit in self.limits().items())

    def text(self, unit: str = "") -> str:
        """Write the bounds as people say them: `at most 0.8`, `above 1MiB` where they are in `unit` bytes."""
        return " and ".join(f"{word.replace('_', ' ')} {place_text(limit, unit)}" for word, limit in self.limits().items())

    def limits(self) -> dict[str, float]:
        """Return the bounds that are given, by their word."""
        return {word: getattr(self, word) for word in ORDERS if getattr(self, word) is not None}


class Ratio(Bounds):
    """The bounds of a ratio, which is never negative."""

    at_least: Limit = Field(None, ge=0, description="The ratio is this or more.")
    at_most: Limit = Field(None, ge=0, description="The ratio is this or less.")
    above: Limit = Field(None, ge=0, description="The ratio is more than this.")
    below: Limit = Field(None, ge=0, description="The ratio is less than this.")


class AxisBounds(Bounds):
    """The bounds of a place on an axis; sizes may be written as such."""

    at_least: AxisLimit = Field(None, description="The place is this or more.")
    at_most: AxisLimit = Field(None, description="The place is this or less.")
    above: AxisLimit = Field(None, description="The place is more than this.")
    below: AxisLimit = Field(None, description="The place is less than this.")


class Selection(StrictModel):
    """The cases of one scenario whose fields have the values given beside `scenario`, a field to a value."""

    model_config = ConfigDict(extra="allow")

    scenario: str = Field(description="Name of the scenario.")

    def fields(self) -> Mapping[str, Any]:
        """Return the fields that are fixed, dotted where one lies inside another, with the value that the model has."""
        return self.model_extra or {}

    def selects(self, scenario: str, model: Scenario) -> bool:
        """Tell whether a case of `scenario` belongs here."""
        return scenario == self.scenario and all(_agrees(value_at(model, name), value) for name, value in self.fields().items())


class Clause(StrictModel):
    """What all forms have in common; `FORM` is the word in the tables."""

    FORM: ClassVar[str]
    SELECTIONS: ClassVar[tuple[str, ...]] = ("of",)
    """The keys that hold selections; one of them may be a list."""

    claim: str = Field(min_length=1, max_length=500, description="The expectation in words.")
    source: str = Field("", max_length=1000, description="The sentence that it tests, as its document has it.")
    _cases_gone: str = PrivateAttr("")

    @property
    def cases_gone(self) -> str:
        """Why the grid has not the cases that it needs any more, since `--set` changed them; empty where it has."""
        return self._cases_gone

    def without_cases(self, why: str) -> Self:
        """Return the same clause, which nothing can judge, for the reason given."""
        clause = self.model_copy()
        clause._cases_gone = why
        return clause

    def selections(self) -> Iterator[Selection]:
        """Yield every selection, in the order of the model."""
        for key in self.SELECTIONS:
            value = getattr(self, key)
            yield from value if isinstance(value, tuple) else (value,)


class RatioClause(Clause):
    """The metric of one case over that of another, joined on the axes that both have and neither selection fixes."""

    FORM: ClassVar[str] = "ratio"
    SELECTIONS: ClassVar[tuple[str, ...]] = ("of", "against")

    of: Selection = Field(description="The cases above the line: scenario, and values of its fields.")
    against: Selection = Field(description="The cases below the line: scenario, and values of its fields.")
    metric: Metric
    against_metric: str = Field("", description="The figure below the line where it is another one; as `metric` where omitted.")
    ratio: Ratio = Field(description="The bounds of of / against.")


class SameClause(Clause):
    """No difference beyond the noise: the ratio of two cases lies within 1 ± `same_within`."""

    FORM: ClassVar[str] = "same"
    SELECTIONS: ClassVar[tuple[str, ...]] = ("of", "against")

    of: Selection = Field(description="The cases above the line: scenario, and values of its fields.")
    against: Selection = Field(description="The cases below the line: scenario, and values of its fields.")
    metric: Metric
    same_within: float = Field(gt=0, lt=1, description="The difference that still counts as none, such as 0.05.")

    @property
    def ratio(self) -> Ratio:
        """The bounds of the ratio."""
        return Ratio(at_least=round(1 - self.same_within, 9), at_most=round(1 + self.same_within, 9))


class OrderClause(Clause):
    """Each selection's metric is below the next one's."""

    FORM: ClassVar[str] = "ordering"
    SELECTIONS: ClassVar[tuple[str, ...]] = ("order",)

    order: tuple[Selection, ...] = Field(min_length=2, strict=False, description="Selections, the one of the least metric first.")
    metric: Metric


class ValueClause(Clause):
    """The metric of every case selected lies within bounds."""

    FORM: ClassVar[str] = "value"

    of: Selection = Field(description="The cases: scenario, and values of its fields; all of them must hold.")
    metric: Metric
    value: Bounds = Field(description="The bounds of the metric, in its unit.")


class ExponentClause(Clause):
    """The metric grows as a power of an axis: the exponent is the slope of their logarithms."""

    FORM: ClassVar[str] = "exponent"

    of: Selection = Field(description="The cases: scenario, and values of its other fields.")
    metric: Metric
    over: str = Field(description="The axis of numbers over which the metric grows.")
    exponent: Bounds = Field(description="The bounds of the exponent; 1 is linear growth.")


class ThresholdClause(Clause):
    """From some place of an axis on, a condition on the metric holds; the place lies within bounds."""

    FORM: ClassVar[str] = "threshold"

    of: Selection = Field(description="The cases: scenario, and values of its other fields.")
    metric: Metric
    over: str = Field(description="The axis of numbers along which the condition begins to hold.")
    holds: Bounds = Field(description="The condition on the metric, in its unit.")
    threshold: AxisBounds = Field(description="The bounds of the smallest value from which on the condition holds to the end.")


class LowestClause(Clause):
    """The place on an axis where the metric is lowest lies within bounds."""

    FORM: ClassVar[str] = "lowest"

    of: Selection = Field(description="The cases: scenario, and values of its other fields.")
    metric: Metric
    over: str = Field(description="The axis of numbers along which the lowest place is sought.")
    lowest: AxisBounds = Field(description="The bounds of the value at which the metric is lowest.")


class TextClause(Clause):
    """A text cell of every case selected contains some words."""

    FORM: ClassVar[str] = "text"

    of: Selection = Field(description="The cases: scenario, and values of its fields; all of them must hold.")
    cell: Literal["status", "reason", "memory_actual"] = Field(description="The column meant.")
    says: str = Field(min_length=1, max_length=200, description="What the cell must contain.")


FORMS: Final[dict[str, type[Clause]]] = {
    "ratio": RatioClause,
    "same_within": SameClause,
    "order": OrderClause,
    "value": ValueClause,
    "exponent": ExponentClause,
    "threshold": ThresholdClause,
    "lowest": LowestClause,
    "says": TextClause,
}
"""The key that tells a form → its model."""


def form_of(entry: Any) -> str | None:
    """Return the tag of the form that an entry of `expect` has, by the first of the forms' keys in it; None for none."""
    if isinstance(entry, Clause):
        return type(entry).__name__
    keys = entry if isinstance(entry, dict) else {}
    return next((model.__name__ for key, model in FORMS.items() if key in keys), None)


# A form's tag is the name of its model, which no key of a file is likely to be: places of problems leave it out.
Expectation = Annotated[
    Annotated[RatioClause, Tag("RatioClause")]
    | Annotated[SameClause, Tag("SameClause")]
    | Annotated[OrderClause, Tag("OrderClause")]
    | Annotated[ValueClause, Tag("ValueClause")]
    | Annotated[ExponentClause, Tag("ExponentClause")]
    | Annotated[ThresholdClause, Tag("ThresholdClause")]
    | Annotated[LowestClause, Tag("LowestClause")]
    | Annotated[TextClause, Tag("TextClause")],
    Discriminator(
        form_of,
        custom_error_type="form",
        custom_error_message="no form",
        custom_error_context={"message": "no form of expectation is given", "allowed": f"one of the keys {', '.join(FORMS)}"},
    ),
]


def _agrees(found: Any, wanted: Any) -> bool:
    """Tell whether a field has a value; of a mapping only the keys that were written count, others may be calibrated since."""
    if isinstance(wanted, BaseModel):
        keys = wanted.model_fields_set
        return isinstance(found, type(wanted)) and all(getattr(found, key) == getattr(wanted, key) for key in keys)
    return bool(found == wanted)


def place_text(place: float, unit: str) -> str:
    """Write a limit or a place on an axis, as a size where its unit is bytes."""
    return format_size(int(place)) if unit == "bytes" and place >= 1 and place.is_integer() else f"{place:.12g}"


def joined(one: Mapping[str, Any], other: Mapping[str, Any], fixed: Mapping[str, Any]) -> bool:
    """Tell whether two cases, by their axes, agree on every axis that both have and that is not among the `fixed`."""
    return all(other[name] == value for name, value in one.items() if name in other and name not in fixed)
