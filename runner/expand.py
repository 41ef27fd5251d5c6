"""From axes to the ordered list of cases: the product of every scenario's axes, each case re-validated and named by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from pydantic import BaseModel

from runner.errors import Problem, SpecError
from runner.scenarios.base import Scenario
from runner.spec.fields import default_of
from runner.spec.grid import Grid, GridFaults, Template
from runner.spec.load import LoadedExperiment
from runner.spec.scenario import ScenarioSpec

MOST_CASES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the grid.

    `case_id` is `c_` and 12 hexadecimal digits of a hash of the scenario's name and of every field that is not at its default, so
    it stays when an experiment gets more cases. `scenario` is the name in the file, `index` the place in the whole grid from 0,
    `excluded` the reason why it shall not run, empty where it shall. `axes` maps each axis (`compute.passes` where it lies inside
    a field) to the value that `model` has. The model of an excluded case is not checked across its fields.
    """

    case_id: str
    scenario: str
    index: int
    model: Scenario
    excluded: str
    axes: Mapping[str, Any]


def expand(loaded: LoadedExperiment, max_cases: int = MOST_CASES) -> Iterator[Case]:
    """Return the cases one after another: scenarios and axes in the order of the file, the last axis fastest.

    Excluded cases are among them. Raises SpecError at once where there are more than `max_cases`, and at the end, after the last
    sound case, where cases were refused by their own model, a scenario had every case excluded, or two cases have one id: act on
    no case before the iterator is exhausted.
    """
    count = count_cases(loaded)
    if count > max_cases:
        raise SpecError([_too_many(loaded, count, max_cases)])
    return _expand(loaded)


def count_cases(loaded: LoadedExperiment) -> int:
    """Return the number of cases, excluded ones too, from the lengths of the axes alone."""
    return sum(spec.count() for spec in loaded.scenarios)


def _expand(loaded: LoadedExperiment) -> Iterator[Case]:
    problems: list[Problem] = []
    seen: set[str] = set()
    index = 0
    for spec in loaded.scenarios:
        grid = Grid(spec)
        faults = GridFaults(loaded.document, grid)
        identity = _identity_of(grid)
        to_run = False
        for point in grid:
            to_run = to_run or not point.excluded
            if point.model is None:
                assert point.refusal is not None, "a point has a model or a refusal"
                faults.add(point, point.refusal)
                if faults.full():
                    break
                continue
            case_id = identity(point.indices)
            if case_id in seen:
                problems.append(_double(loaded, spec, case_id))
            seen.add(case_id)
            yield Case(case_id, spec.name, index, point.model, point.excluded, point.axes)
            index += 1
        problems += faults.problems()
        if not to_run:
            loc = ("scenarios", spec.name, "exclude")
            problems.append(loaded.document.problem(loc, "every case of this scenario is excluded", at_key=True))
    if problems:
        raise SpecError(problems)


def _identity_of(grid: Grid) -> Callable[[tuple[int, ...]], str]:
    """Return what names a point by its indices; the text of every value is made once, not once a case.

    Fields stand in the order of the model, so that neither the order of the file nor a list of one value changes the name.
    """
    spec = grid.spec
    positions = {axis.path[0]: position for position, axis in enumerate(grid.axes) if len(axis.path) == 1}
    templates = {template.field: template for template in grid.templates}
    form = f"{spec.name}\n"
    varying: list[tuple[Callable[[tuple[int, ...]], Any], Mapping[Any, str]]] = []
    for field in spec.model.model_fields:
        if field in positions:
            values = grid.axes[positions[field]].values
            varying.append((itemgetter(positions[field]), {i: _text(spec, field, value) for i, value in enumerate(values)}))
        elif field in templates:
            varying.append((templates[field].key, _TemplateTexts(spec, templates[field])))
        elif field in spec.fixed:
            form += _text(spec, field, spec.fixed[field]).replace("%", "%%")
        form += "%s" if field in positions or field in templates else ""
    sha256 = hashlib.sha256

    def identity(indices: tuple[int, ...]) -> str:
        content = form % tuple([texts[key(indices)] for key, texts in varying])
        return f"c_{sha256(content.encode()).hexdigest()[:12]}"

    return identity


class _TemplateTexts(dict[Any, str]):
    """The texts of a field with axes inside it, by the key of its template, each made when it is first asked for."""

    def __init__(self, spec: ScenarioSpec, template: Template) -> None:
        super().__init__()
        self._spec, self._template = spec, template

    def __missing__(self, key: Any) -> str:
        self[key] = _text(self._spec, self._template.field, self._template[key])
        return self[key]


def _text(spec: ScenarioSpec, field: str, value: Any) -> str:
    """Return `field=value` in JSON; nothing for a field at its default, so that a field added later renames no case."""
    if not spec.model.model_fields[field].is_required() and value == default_of(spec.model, field):
        return ""
    plain = value.model_dump(mode="json", exclude_defaults=True) if isinstance(value, BaseModel) else value
    return f"{field}={json.dumps(plain, sort_keys=True)}\n"


def _too_many(loaded: LoadedExperiment, count: int, max_cases: int) -> Problem:
    largest = max(loaded.scenarios, key=ScenarioSpec.count)
    axes = " × ".join(str(len(group[0].values)) for group in largest.groups)
    message = f"the grid has {count:,} cases, {largest.count():,} of them in {largest.name} ({axes})"
    hint = "shorten an axis, zip axes that move together, or raise --max-cases"
    return loaded.document.problem(("scenarios", largest.name), message, at_key=True, allowed=f"at most {max_cases:,}", hint=hint)


def _double(loaded: LoadedExperiment, spec: ScenarioSpec, case_id: str) -> Problem:
    message = f"two cases have the one id {case_id}"
    return loaded.document.problem(("scenarios", spec.name), message, at_key=True, hint="rename a scenario")
