"""The grid of one scenario: its combinations of axis values in order, which of them are excluded, and the model of each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from runner.errors import Problem
from runner.scenarios.base import Scenario
from runner.spec.conditions import Exclusion
from runner.spec.fields import adapter_of, default_of, value_at
from runner.spec.places import Document, Path, dotted
from runner.spec.problems import translate
from runner.spec.scenario import Axis, ScenarioSpec, replaced

SHOWN_CASES: Final = 3
"""How many refused cases are shown at one field; the others are counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the model of a point could not be built: Pydantic's error, and the field that it is about where it is one's own."""

    error: ValidationError
    field: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of a grid: the index and the value of each axis, its model or the refusal, and why it is excluded.

    An excluded point is not checked across its fields: its model may hold together what the kind would refuse.
    """

    indices: tuple[int, ...]
    values: tuple[Any, ...]
    model: Scenario | None
    refusal: Refusal | None
    excluded: str


class Grid:
    """Builds the points of one scenario; the last axis varies fastest, axes of one `zip` group move together."""

    def __init__(self, spec: ScenarioSpec) -> None:
        self.spec = spec
        self.axes = tuple(axis for group in spec.groups for axis in group)
        self.templates = tuple(Template(spec, field, self.axes) for field in spec.templates)
        self._build = spec.model.__pydantic_validator__.validate_python
        self._flat = tuple((position, axis.path[0]) for position, axis in enumerate(self.axes) if len(axis.path) == 1)
        self._group_of = tuple(number for number, group in enumerate(spec.groups) for _ in group)
        self._excluders = tuple(each for each in map(self._excluder, spec.excludes) if each is not None)

    def __iter__(self) -> Iterator[Point]:
        """Yield every point, in order."""
        columns = [axis.values for axis in self.axes]
        apart = len(self._group_of) == len(self.spec.groups)
        for combination in itertools.product(*(range(len(group[0].values)) for group in self.spec.groups)):
            indices = combination if apart else tuple([combination[number] for number in self._group_of])
            yield self._point(indices, tuple([column[index] for column, index in zip(columns, indices, strict=True)]))

    def _point(self, indices: tuple[int, ...], values: tuple[Any, ...]) -> Point:
        raw = dict(self.spec.fixed)
        for position, name in self._flat:
            raw[name] = values[position]
        excluded = next((because for because, test in self._excluders if test(indices)), "")
        at = ""
        try:
            for template in self.templates:
                at = template.field
                raw[at] = template.value(indices)
            at = ""
            return Point(indices, values, self._build(raw), None, excluded)
        except ValidationError as error:
            if excluded:
                return Point(indices, values, self._unchecked(raw), None, excluded)
            return Point(indices, values, None, Refusal(error, at), "")

    def _unchecked(self, raw: Mapping[str, Any]) -> Scenario:
        model = self.spec.model
        values = {name: raw[name] if name in raw else default_of(model, name) for name in model.model_fields}
        return model.model_construct(_fields_set=set(raw), **values)

    def _excluder(self, exclusion: Exclusion) -> tuple[str, Callable[[tuple[int, ...]], bool]] | None:
        """Turn an exclusion into a look-up by indices: each test is made once a value, not once a case."""
        tables: list[tuple[int, tuple[bool, ...]]] = []
        positions = {axis.name: position for position, axis in enumerate(self.axes)}
        for name, test in exclusion.tests.items():
            if name in positions:
                tables.append((positions[name], tuple(test(value) for value in self.axes[positions[name]].values)))
            elif not test(self._fixed_value(name)):
                return None
        return exclusion.because, lambda indices: all(table[indices[position]] for position, table in tables)

    def _fixed_value(self, name: str) -> Any:
        field, _, inner = name.partition(".")
        if field in self.spec.templates:
            first = tuple(0 for _ in self.axes)
            whole = next(template for template in self.templates if template.field == field).value(first)
        else:
            whole = self.spec.fixed[field] if field in self.spec.fixed else default_of(self.spec.model, field)
        return value_at(whole, inner) if inner else whole


class Template:
    """A field with axes inside it: its value for given indices, read once for each combination."""

    def __init__(self, spec: ScenarioSpec, field: str, axes: tuple[Axis, ...]) -> None:
        self.field = field
        self._raw = spec.templates[field]
        self._adapter = adapter_of(spec.model, (field,))
        self._axes = tuple((position, axis) for position, axis in enumerate(axes) if axis.path[0] == field)
        self._read: dict[tuple[int, ...], Any] = {}

    def key(self, indices: tuple[int, ...]) -> tuple[int, ...]:
        """Return the indices that its own axes have."""
        return tuple([indices[position] for position, _ in self._axes])

    def value(self, indices: tuple[int, ...]) -> Any:
        """Return the field's value; raises ValidationError where the field's own checks refuse the combination."""
        key = self.key(indices)
        if key not in self._read:
            raw = self._raw
            for position, axis in self._axes:
                raw = replaced(raw, axis.path[1:], axis.raw[indices[position]])
            self._read[key] = self._adapter.validate_python(raw)
        return self._read[key]


class GridFaults:
    """Gathers the refused points of one scenario: the first few at each field as Problems, the others as a number."""

    def __init__(self, document: Document, grid: Grid) -> None:
        self._document, self._grid = document, grid
        self._base: Path = ("scenarios", grid.spec.name)
        self._seen: Counter[str] = Counter()
        self._problems: list[Problem] = []

    def add(self, point: Point, refusal: Refusal) -> None:
        """Note a refused point."""
        base = (*self._base, refusal.field) if refusal.field else self._base
        for problem in translate(refusal.error, self._document, base, self._grid.spec.model):
            self._seen[problem.path] += 1
            if self._seen[problem.path] <= SHOWN_CASES:
                self._problems.append(self._located(problem, point))

    def problems(self) -> list[Problem]:
        """Return the Problems so far, with a sentence that counts those not shown."""
        hidden = sum(self._seen.values()) - len(self._problems)
        if not hidden:
            return list(self._problems)
        message = f"{hidden:,} more cases are refused likewise"
        hint = "exclude them: - {because: …, where: {…}}"
        return [*self._problems, self._document.problem((*self._base,), message, at_key=True, hint=hint)]

    def _located(self, problem: Problem, point: Point) -> Problem:
        """Name the case, and move a problem of an axis to the value that the case has."""
        texts = {
            axis.name: self._document.values[(*self._base, *axis.path, index)].text
            for axis, index in zip(self._grid.axes, point.indices, strict=True)
        }
        case = ", ".join(f"{name} {text}" for name, text in texts.items())
        message = f"{problem.message} (case {case})" if case else problem.message
        for axis, index in zip(self._grid.axes, point.indices, strict=True):
            if problem.path == dotted((*self._base, *axis.path)):
                loc = (*self._base, *axis.path, index)
                return self._document.problem(loc, message, allowed=problem.allowed, hint=problem.hint)
        return replace(problem, message=message)


def faults_of(document: Document, spec: ScenarioSpec, most: int) -> list[Problem]:
    """Return what is wrong with the first `most` points of a scenario."""
    grid = Grid(spec)
    faults = GridFaults(document, grid)
    for point in itertools.islice(grid, most):
        if point.refusal is not None:
            faults.add(point, point.refusal)
    return faults.problems()
