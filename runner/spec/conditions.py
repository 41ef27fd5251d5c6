"""Conditions on the fields of a case: what `where` may say, read into tests of parsed values, never evaluated as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from runner.errors import Problem
from runner.scenarios.base import Scenario
from runner.spec.clauses import ORDERS
from runner.spec.experiment import Exclude
from runner.spec.fields import adapter_of, has_field, tuples_of
from runner.spec.places import Document, Path
from runner.spec.problems import translate, unknown_key

_WORDS: Final = (*ORDERS, "not")

_LIMITS: Final = ("size", "greater_than", "greater_than_equal", "less_than", "less_than_equal")
"""Types of Pydantic's errors that say that a number is one, but out of range."""

Test = Callable[[Any], bool]
"""Tells whether the value of one field, as its model holds it, meets one condition."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Cases that stay in the table with a reason: those whose fields pass all `tests`, a field's name to its test."""

    because: str
    tests: Mapping[str, Test]


def read_exclude(document: Document, loc: Path, entry: Any, model: type[Scenario]) -> tuple[Exclusion | None, list[Problem]]:
    """Read one entry of `exclude`, which stands at `loc`; return it, or None, with what is wrong with it."""
    try:
        exclude = Exclude.model_validate(entry)
    except ValidationError as error:
        return None, translate(error, document, loc, Exclude)
    reader = _Reader(document, model)
    tests: dict[str, Test] = {}
    for name, condition in exclude.where.items():
        at = (*loc, "where", name)
        if has_field(model, tuple(name.split("."))):
            tests[name] = reader.condition(tuple(name.split(".")), condition, at)
        else:
            reader.problems.append(unknown_key(document, at, tuple(model.model_fields)))
    return (None if reader.problems else Exclusion(exclude.because, tests)), reader.problems


def read_value(document: Document, loc: Path, model: type[Scenario], name: str, raw: Any) -> tuple[Any, list[Problem]]:
    """Read one value for the field called `name`, as a selection has it; return it with what is wrong with it."""
    path = tuple(name.split("."))
    try:
        return adapter_of(model, path).validate_python(tuples_of(raw)), []
    except ValidationError as error:
        return None, translate(error, document, loc, model, path)


@dataclass(slots=True)
class _Reader:
    document: Document
    model: type[Scenario]
    problems: list[Problem] = field(default_factory=list)

    def condition(self, path: tuple[str, ...], raw: Any, loc: Path) -> Test:
        """Read a value, a list of values, or a mapping of words, all of which must hold."""
        if isinstance(raw, dict):
            tests = [self._word(path, word, bound, (*loc, word)) for word, bound in raw.items()]
            if not raw:
                self.problems.append(self.document.problem(loc, "the condition is empty", allowed=", ".join(_WORDS)))
            return lambda value: all(test(value) for test in tests)
        if isinstance(raw, list) and path[0] not in self.model.LISTS:
            if not raw:
                self.problems.append(self.document.problem(loc, "the list of values is empty"))
            values = [self._value(path, each, (*loc, index)) for index, each in enumerate(raw)]
            return lambda value: value in values
        only = self._value(path, raw, loc)
        return lambda value: bool(value == only)

    def _word(self, path: tuple[str, ...], word: str, raw: Any, loc: Path) -> Test:
        if word == "not":
            inner = self.condition(path, raw, loc)
            return lambda value: not inner(value)
        if word not in ORDERS:
            self.problems.append(unknown_key(self.document, loc, _WORDS))
            return bool
        bound, compare = self._bound(path, raw, loc), ORDERS[word]
        return lambda value: _is_number(value) and compare(value, bound)

    def _value(self, path: tuple[str, ...], raw: Any, loc: Path) -> Any:
        value, problems = read_value(self.document, loc, self.model, ".".join(path), raw)
        self.problems.extend(problems)
        return value

    def _bound(self, path: tuple[str, ...], raw: Any, loc: Path) -> Any:
        """Read the value of an order. It may lie outside the field's own limits: `above: 0` is sound where those begin at 1."""
        try:
            bound = adapter_of(self.model, path).validate_python(raw)
        except ValidationError as error:
            beyond = all(each["type"] in _LIMITS for each in error.errors())
            if _is_number(raw) and beyond:
                return raw
            self.problems.extend(translate(error, self.document, loc, self.model, path))
            return 0
        if not _is_number(bound):
            self.problems.append(self.document.problem(loc, "a number or a size is expected, only they have an order"))
            return 0
        return bound


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
