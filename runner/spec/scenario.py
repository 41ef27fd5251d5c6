"""One scenario of a file: the model of its kind, its fixed values and its axes, each value read once by the field it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from runner.errors import Problem
from runner.scenarios.base import Scenario
from runner.spec.conditions import Exclusion, read_exclude
from runner.spec.fields import adapter_of, has_field, tuples_of
from runner.spec.places import Document, Path
from runner.spec.problems import guess, translate, unknown_key

GRID_KEYS: Final = ("zip", "exclude")
"""Keys of every scenario that shape its grid and are no fields of its kind."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: the field (dotted where it lies inside another), its path there, the values as read and as the model has them."""

    name: str
    path: tuple[str, ...]
    raw: tuple[Any, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ScenarioSpec:
    """A scenario as the file has it.

    `fixed` and `axes` are in file order. `fixed` maps a field to its value as the model reads it; a field with an axis inside it
    (`compute: {passes: [1, 2]}`) stands in `templates` as read instead. `groups` are the axes in the order of the grid, those
    that `zip` ties together in one group; the last group varies fastest.
    """

    name: str
    model: type[Scenario]
    fixed: Mapping[str, Any]
    templates: Mapping[str, Any]
    axes: tuple[Axis, ...]
    groups: tuple[tuple[Axis, ...], ...]
    excludes: tuple[Exclusion, ...]

    def count(self) -> int:
        """Return the number of its cases, excluded ones too, from lengths alone."""
        count = 1
        for group in self.groups:
            count *= len(group[0].values)
        return count


def read_scenario(
    document: Document, name: str, raw: Mapping[str, Any], kinds: Mapping[str, type[Scenario]]
) -> tuple[ScenarioSpec | None, list[Problem]]:
    """Read the scenario called `name`; return it, or None, with all that is wrong with it."""
    base: Path = ("scenarios", name)
    model = kinds.get(raw["kind"]) if isinstance(raw.get("kind"), str) else None
    if model is None:
        return None, [_kind_problem(document, base, raw, kinds)]
    return _Reader(document, name, raw, model).read()


def _kind_problem(document: Document, base: Path, raw: Mapping[str, Any], kinds: Mapping[str, type[Scenario]]) -> Problem:
    allowed = ", ".join(kinds)
    if "kind" not in raw:
        return document.problem(base, "kind is missing", at_key=True, allowed=allowed)
    hint = "two kinds are two scenarios" if isinstance(raw["kind"], list) else guess(str(raw["kind"]), tuple(kinds))
    return document.problem((*base, "kind"), "not a kind of scenario", allowed=allowed, hint=hint)


@dataclass(slots=True)
class _Reader:
    """Reads one scenario, field by field, and gathers what is wrong."""

    document: Document
    name: str
    raw: Mapping[str, Any]
    model: type[Scenario]
    problems: list[Problem] = field(default_factory=list)
    fixed: dict[str, Any] = field(default_factory=dict)
    templates: dict[str, Any] = field(default_factory=dict)
    axes: list[Axis] = field(default_factory=list)

    def read(self) -> tuple[ScenarioSpec | None, list[Problem]]:
        known = (*self.model.model_fields, *GRID_KEYS)
        for key, value in self.raw.items():
            if key in self.model.model_fields:
                self._field(key, value)
            elif key not in GRID_KEYS:
                self.problems.append(unknown_key(self.document, (*self._base, key), known))
        for key, info in self.model.model_fields.items():
            if info.is_required() and key not in self.raw:
                self.problems.append(self.document.problem(self._base, f"{key} is missing", at_key=True))
        groups = self._zip(self.raw.get("zip", []))
        excludes = self._excludes(self.raw.get("exclude", []))
        if self.problems:
            return None, self.problems
        axes = tuple(self.axes)
        return ScenarioSpec(self.name, self.model, self.fixed, self.templates, axes, groups, excludes), []

    @property
    def _base(self) -> Path:
        return ("scenarios", self.name)

    def _field(self, key: str, value: Any) -> None:
        is_list = key in self.model.LISTS
        if isinstance(value, list) and not (is_list and not (value and all(isinstance(each, list) for each in value))):
            self._axis((key,), value)
        elif isinstance(value, dict) and (inner := _lists_in(value, (key,))):
            for path, values in inner:
                if has_field(self.model, path):
                    self._axis(path, values)
            self.templates[key] = value
            self._check_template(key, value, [path for path, _ in inner])
        else:
            parsed, ok = self._parse((key,), value, (*self._base, key))
            if ok:
                self.fixed[key] = parsed

    def _axis(self, path: tuple[str, ...], raw: list[Any]) -> None:
        loc: Path = (*self._base, *path)
        name = ".".join(path)
        if not raw:
            self.problems.append(
                self.document.problem(loc, f"the axis {name} is empty", at_key=True, hint="give it at least one value")
            )
            return
        values: list[Any] = []
        first_at: dict[tuple[type, Any], int] = {}
        for index, element in enumerate(raw):
            parsed, ok = self._parse(path, element, (*loc, index))
            if not ok:
                continue
            first = first_at.setdefault((type(parsed), parsed), index)
            if first != index:
                earlier = self.document.values[(*loc, first)].text
                message = f"the axis {name} has one value twice, first as {earlier}"
                self.problems.append(self.document.problem((*loc, index), message, hint="keep one of them"))
            values.append(parsed)
        self.axes.append(Axis(name, path, tuple(raw), tuple(values)))

    def _check_template(self, key: str, value: dict[str, Any], paths: list[tuple[str, ...]]) -> None:
        """Check a field that has axes inside it, with the first value of each, for all that is not in an axis."""
        first = value
        for path in paths:
            first = replaced(first, path[1:], next(iter(_get(value, path[1:])), None))
        try:
            adapter_of(self.model, (key,)).validate_python(first)
        except ValidationError as error:
            found = translate(error, self.document, (*self._base, key), self.model, (key,))
            axes = {(*self._base, *path) for path in paths}
            values = self.document.values
            places = [values[path] for path in values if any(path[: len(axis)] == axis for axis in axes)]
            spots = {(place.file, place.line, place.column) for place in places}
            self.problems.extend(each for each in found if (each.file, each.line, each.column) not in spots)

    def _parse(self, path: tuple[str, ...], value: Any, loc: Path) -> tuple[Any, bool]:
        try:
            return adapter_of(self.model, path).validate_python(tuples_of(value)), True
        except ValidationError as error:
            self.problems.extend(translate(error, self.document, loc, self.model, path))
            return None, False

    def _zip(self, raw: Any) -> tuple[tuple[Axis, ...], ...]:
        """Return the groups of axes in the order of the grid; a group stands where the first of its axes stands."""
        loc: Path = (*self._base, "zip")
        by_name = {axis.name: axis for axis in self.axes}
        group_of: dict[str, tuple[Axis, ...]] = {}
        if not isinstance(raw, list) or not all(isinstance(names, list) for names in raw):
            hint = "write [[chunk, streams]]"
            self.problems.append(self.document.problem(loc, "a list of lists of axes is expected", hint=hint))
            raw = []
        for index, names in enumerate(raw):
            axes: list[Axis] = []
            for place, name in enumerate(names):
                at: Path = (*loc, index, place)
                if not isinstance(name, str) or name not in by_name:
                    hint = guess(str(name), tuple(by_name)) if by_name else "a list of values makes a field an axis"
                    self.problems.append(self.document.problem(at, "not an axis", allowed=", ".join(by_name), hint=hint))
                elif name in group_of or by_name[name] in axes:
                    self.problems.append(self.document.problem(at, f"the axis {name} is zipped twice", hint="keep one of them"))
                else:
                    axes.append(by_name[name])
            if len({len(axis.raw) for axis in axes}) > 1:
                lengths = ", ".join(f"{axis.name} has {len(axis.raw)}" for axis in axes)
                message = f"axes that move together have the same number of values: {lengths}"
                self.problems.append(self.document.problem((*loc, index), message, told=False))
            group_of |= {axis.name: tuple(axes) for axis in axes}
        groups = [group_of.get(axis.name, (axis,)) for axis in self.axes]
        return tuple({group[0].name: group for group in groups}.values())

    def _excludes(self, raw: Any) -> tuple[Exclusion, ...]:
        loc: Path = (*self._base, "exclude")
        if not isinstance(raw, list):
            hint = "write - {because: …, where: {chunk: 1MiB}}"
            self.problems.append(self.document.problem(loc, "a list of exclusions is expected", hint=hint))
            return ()
        found: list[Exclusion] = []
        for index, entry in enumerate(raw):
            exclusion, problems = read_exclude(self.document, (*loc, index), entry, self.model)
            self.problems.extend(problems)
            if exclusion is not None:
                found.append(exclusion)
        return tuple(found)


def replaced(value: Any, path: Sequence[str], new: Any) -> Any:
    """Return a copy of nested mappings with `new` at `path`."""
    return new if not path else value | {path[0]: replaced(value[path[0]], path[1:], new)}


def _lists_in(value: dict[str, Any], path: tuple[str, ...]) -> list[tuple[tuple[str, ...], list[Any]]]:
    found: list[tuple[tuple[str, ...], list[Any]]] = []
    for key, inner in value.items():
        if isinstance(inner, list):
            found.append(((*path, key), inner))
        elif isinstance(inner, dict):
            found.extend(_lists_in(inner, (*path, key)))
    return found


def _get(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        value = value[step]
    return value
