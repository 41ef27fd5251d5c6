"""The grid of one scenario: its combinations of axis values in order, which of them are excluded, and the model of each."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from runner.errors import Problem
from runner.scenarios.base import Scenario
from runner.spec.build import Builder
from runner.spec.conditions import Exclusion
from runner.spec.fields import adapter_of, default_of, value_at
from runner.spec.places import Document, Path, dotted
from runner.spec.problems import translate
from runner.spec.scenario import Axis, ScenarioSpec, replaced

_Excluder = tuple[str, tuple[tuple[int, tuple[bool, ...]], ...]]
"""A reason, and for each axis that it looks at, by position, whether each value meets the condition."""

ENOUGH_FAULTS: Final = 1000
"""After so many refused cases of a scenario the others are not looked at: each takes fifty times as long as a sound one."""
SHOWN_CASES: Final = 3
"""How many refused cases are shown at one field; the others are counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the model of a point could not be built: Pydantic's error, and the field that it is about where it is one's own."""

    error: ValidationError
    field: str = ""


class Point(NamedTuple):
    """One combination of a grid: the index of each axis, its value by the axis's name, the model or the refusal, why excluded.

    An excluded point is not checked across its fields: its model may hold together what the kind would refuse.
    """

    indices: tuple[int, ...]
    axes: Mapping[str, Any]
    model: Scenario | None
    refusal: Refusal | None
    excluded: str


class Grid:
    """Builds the points of one scenario; the last axis varies fastest, axes of one `zip` group move together."""

    def __init__(self, spec: ScenarioSpec) -> None:
        self.spec = spec
        self.axes = tuple(axis for group in spec.groups for axis in group)
        self.templates = tuple(Template(spec, field, self.axes) for field in spec.templates)
        self._build = Builder(spec.model)
        self._inner = tuple(axis.name for axis in self.axes if len(axis.path) > 1)
        self._group_of = tuple(number for number, group in enumerate(spec.groups) for _ in group)
        self._excluders = tuple(each for each in map(self._excluder, spec.excludes) if each is not None)

    def __iter__(self) -> Iterator[Point]:
        """Yield every point, in order."""
        names = tuple(axis.name for axis in self.axes)
        columns = [axis.values for axis in self.axes]
        apart = len(self._group_of) == len(self.spec.groups)
        for combination in itertools.product(*(range(len(group[0].values)) for group in self.spec.groups)):
            indices = combination if apart else tuple([combination[number] for number in self._group_of])
            yield self._point(indices, dict(zip(names, map(operator.getitem, columns, indices), strict=True)))

    def _point(self, indices: tuple[int, ...], axes: Mapping[str, Any]) -> Point:
        raw = {**self.spec.fixed, **axes}
        for name in self._inner:
            del raw[name]  # its value is in the field of a template
        excluded = self._excluded(indices) if self._excluders else ""
        at = ""
        try:
            for template in self.templates:
                at = template.field
                raw[at] = template[template.key(indices)]
            at = ""
            return Point(indices, axes, self._build(raw), None, excluded)
        except ValidationError as error:
            if excluded:
                return Point(indices, axes, self._unchecked(raw), None, excluded)
            return Point(indices, axes, None, Refusal(error, at), "")

    def _excluded(self, indices: tuple[int, ...]) -> str:
        for because, tables in self._excluders:
            for position, table in tables:
                if not table[indices[position]]:
                    break
            else:
                return because
        return ""

    def _unchecked(self, raw: Mapping[str, Any]) -> Scenario:
        model = self.spec.model
        values = {name: raw[name] if name in raw else default_of(model, name) for name in model.model_fields}
        return model.model_construct(_fields_set=set(raw), **values)

    def _excluder(self, exclusion: Exclusion) -> _Excluder | None:
        """Turn an exclusion into look-ups by index: each test is made once a value, not once a case."""
        tables: list[tuple[int, tuple[bool, ...]]] = []
        positions = {axis.name: position for position, axis in enumerate(self.axes)}
        for name, test in exclusion.tests.items():
            if name in positions:
                tables.append((positions[name], tuple(test(value) for value in self.axes[positions[name]].values)))
            elif not test(self._fixed_value(name)):
                return None
        return exclusion.because, tuple(tables)

    def _fixed_value(self, name: str) -> Any:
        field, _, inner = name.partition(".")
        if field in self.spec.templates:
            template = next(each for each in self.templates if each.field == field)
            whole = template[template.key((0,) * len(self.axes))]
        else:
            whole = self.spec.fixed[field] if field in self.spec.fixed else default_of(self.spec.model, field)
        return value_at(whole, inner) if inner else whole


class Template(dict[Any, Any]):
    """A field with axes inside it: `key` of a point's indices → the field's value, read when it is first asked for.

    Asking raises ValidationError where the field's own checks refuse the combination.
    """

    def __init__(self, spec: ScenarioSpec, field: str, axes: tuple[Axis, ...]) -> None:
        super().__init__()
        self.field = field
        positions = [position for position, axis in enumerate(axes) if axis.path[0] == field]
        self.key: Callable[[tuple[int, ...]], Any] = operator.itemgetter(*positions)
        self._axes = tuple(axes[position] for position in positions)
        self._raw = spec.templates[field]
        self._adapter = adapter_of(spec.model, (field,))

    def __missing__(self, key: Any) -> Any:
        raw = self._raw
        for axis, index in zip(self._axes, key if len(self._axes) > 1 else (key,), strict=True):
            raw = replaced(raw, axis.path[1:], axis.raw[index])
        self[key] = self._adapter.validate_python(raw)
        return self[key]


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

    def full(self) -> bool:
        """Tell whether so much is wrong that looking further tells nothing new."""
        return sum(self._seen.values()) >= ENOUGH_FAULTS

    def problems(self) -> list[Problem]:
        """Return the Problems so far, with a sentence that counts those not shown."""
        hidden = sum(self._seen.values()) - len(self._problems)
        if not hidden:
            return list(self._problems)
        least = "at least " if self.full() else ""
        message = f"{least}{hidden:,} more cases are refused likewise"
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
        if faults.full():
            break
    return faults.problems()
