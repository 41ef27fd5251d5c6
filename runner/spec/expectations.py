"""Checking `expect` against what the file measures: scenarios, fields, values, figures and axes exist, and selections meet cases.

What the grid alone can tell is refused here, with its place; what only the results can tell is left to `runner.verdicts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runner.errors import Problem
from runner.figures import factor_between, units
from runner.scenarios.base import Scenario
from runner.spec.clauses import FORMS, Clause, Selection, form_of, joined
from runner.spec.conditions import read_value
from runner.spec.experiment import Experiment
from runner.spec.fields import default_of, has_field, value_at
from runner.spec.grid import Grid
from runner.spec.places import Document, Path
from runner.spec.problems import guess, unknown_key
from runner.spec.scenario import Axis, ScenarioSpec
from runner.units import format_size

MOST_CASES: Final = 2_000
"""Cases of a scenario that are built to see which of them a selection meets; of a larger grid only the results tell."""
FEWEST_PLACES: Final = 3
_MODELS: Final = {model.__name__: model for model in FORMS.values()}
Found = tuple[Mapping[str, Any], Scenario]
"""A case of the grid before it has a name: the values of its axes, and its model."""


@dataclass(slots=True)
class Expectations:
    """Reads the clauses of a document.

    `problems` holds what is wrong with them, `unmet` what the grid lacks for them, by the index of the clause, and `selections`
    every selection as parsed.
    """

    document: Document
    scenarios: Mapping[str, ScenarioSpec]
    names: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    unmet: dict[int, list[Problem]] = field(default_factory=dict)
    selections: dict[Path, Selection] = field(default_factory=dict)
    _cases: dict[str, list[Found] | None] = field(default_factory=dict)

    def read(self) -> None:
        """Read and check every entry of `expect` that has a form."""
        entries = self.document.content.get("expect")
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            model = _MODELS.get(form_of(entry) or "")
            if model is not None:
                self._entry(("expect", index), entry, model)

    def applied(self, experiment: Experiment) -> Experiment:
        """Return the experiment with the parsed selections in its clauses; there must be no problem with them.

        A clause for which the grid lacks something is told why.
        """
        clauses = list(map(self._with_selections, range(len(experiment.expect)), experiment.expect))
        for index, lacking in self.unmet.items():
            clauses[index] = clauses[index].without_cases(f"--set changed its cases: {lacking[0].reason()}")
        return experiment.model_copy(update={"expect": tuple(clauses)})

    def _with_selections(self, index: int, clause: Clause) -> Clause:
        changes: dict[str, Any] = {}
        for key in clause.SELECTIONS:
            value, loc = getattr(clause, key), ("expect", index, key)
            if isinstance(value, tuple):
                changes[key] = tuple(self.selections[(*loc, place)] for place in range(len(value)))
            else:
                changes[key] = self.selections[loc]
        return clause.model_copy(update=changes)

    def _entry(self, loc: Path, entry: Mapping[str, Any], model: type[Clause]) -> None:
        before = len(self.problems)
        locs = list(_selection_places(loc, entry, model))
        for at, raw in locs:
            if isinstance(raw, dict) and isinstance(raw.get("scenario"), str):
                self.selections[at] = self._selection(at, raw)
        self._metrics(loc, entry)
        if len(self.problems) > before or any(at not in self.selections for at, _ in locs):
            return
        met = [self._met(at) for at, _ in locs]
        if "over" in model.model_fields:
            self._over(loc, entry, locs[0][0], met[0])
        for (at, _), (other, _), mine, others in zip(locs, locs[1:], met, met[1:], strict=False):
            if mine and others:
                self._partners(at, other, mine, others)

    def _selection(self, loc: Path, raw: Mapping[str, Any]) -> Selection:
        """Read one selection; values are as the scenario's model has them."""
        values: dict[str, Any] = {}
        if raw["scenario"] not in self.names:
            hint = guess(raw["scenario"], self.names)
            allowed = ", ".join(self.names)
            self.problems.append(
                self.document.problem((*loc, "scenario"), "there is no such scenario", allowed=allowed, hint=hint)
            )
        spec = self.scenarios.get(raw["scenario"])
        for name, value in raw.items() if spec else ():
            if name == "scenario" or spec is None:
                continue
            if has_field(spec.model, tuple(name.split("."))):
                values[name], faults = read_value(self.document, (*loc, name), spec.model, name, value)
                self.problems += faults
            else:
                self.problems.append(unknown_key(self.document, (*loc, name), tuple(spec.model.model_fields)))
        return Selection(scenario=raw["scenario"], **values)

    def _metrics(self, loc: Path, entry: Mapping[str, Any]) -> None:
        """Check that the figures exist and, where two are compared, that they can be."""
        known = tuple(units())
        named = {key: entry[key] for key in ("metric", "against_metric") if isinstance(entry.get(key), str)}
        for key, metric in named.items():
            if metric not in known:
                hint = guess(metric, known) or "columns.csv of a run lists them"
                self.problems.append(self.document.problem((*loc, key), "there is no such figure", hint=hint))
        if len(named) == 2 and all(metric in known for metric in named.values()):
            one, other = named["metric"], named["against_metric"]
            if factor_between(one, other) is None:
                message = f"{one} is in {units()[one] or 'no unit'}, {other} in {units()[other] or 'no unit'}: they have no ratio"
                self.problems.append(self.document.problem((*loc, "against_metric"), message))

    def _met(self, loc: Path) -> list[Found] | None:
        """Return the cases that a selection meets, None where the grid is too large or unsound to tell; none is a problem."""
        selection = self.selections[loc]
        spec = self.scenarios.get(selection.scenario)
        if spec is None:
            return None
        for name, value in selection.fields().items():
            values = _values_of(spec, name)
            if values is not None and value not in values:
                allowed = ", ".join(_shown(spec, name, each) for each in values)
                self._lacks(loc, self.document.problem((*loc, name), f"no case of {spec.name} has this {name}", allowed=allowed))
                return None
        if spec.name not in self._cases:
            self._cases[spec.name] = _cases_of(spec)
        cases = self._cases[spec.name]
        if cases is None:
            return None
        found = [case for case in cases if selection.selects(spec.name, case[1])]
        if not found:
            hint = "its values are excluded or move together otherwise"
            self._lacks(loc, self.document.problem(loc, f"no case of {spec.name} matches", told=False, hint=hint))
        return found

    def _over(self, loc: Path, entry: Mapping[str, Any], at: Path, met: Sequence[Found] | None) -> None:
        """Check that `over` is an axis of numbers, with places enough, and that each place has one case."""
        over, spec = entry.get("over"), self.scenarios.get(self.selections[at].scenario)
        if not isinstance(over, str) or spec is None:
            return
        axes = {axis.name: axis for axis in spec.axes}
        if over not in axes:
            hint = guess(over, tuple(axes))
            message, allowed = f"{spec.name} has no such axis", ", ".join(axes) or "none, it has no axis"
            self._lacks(loc, self.document.problem((*loc, "over"), message, allowed=allowed, hint=hint))
        elif not all(isinstance(value, int | float) and not isinstance(value, bool) for value in axes[over].values):
            self._lacks(loc, self.document.problem((*loc, "over"), "an axis of numbers or sizes is expected"))
        elif beside := [axis.name for group in spec.groups if axes[over] in group for axis in group if axis.name != over]:
            message = f"{over} moves together with {', '.join(beside)}, so that no trend is of {over} alone"
            self._lacks(loc, self.document.problem((*loc, "over"), message))
        elif met and len({value_at(model, over) for _, model in met}) < FEWEST_PLACES:
            message = f"the selection has fewer than {FEWEST_PLACES} values of {over}, which show no trend"
            self._lacks(loc, self.document.problem((*loc, "over"), message))

    def _partners(self, loc: Path, other_loc: Path, mine: Sequence[Found], others: Sequence[Found]) -> None:
        """Check that each case of one selection has at most one partner in the other, and that some has one."""
        fixed = {**self.selections[loc].fields(), **self.selections[other_loc].fields()}
        counts = [sum(joined(axes, their_axes, fixed) for their_axes, _ in others) for axes, _ in mine]
        if not any(counts):
            message = "no case of the one selection has a partner in the other with the same values on the axes that both have"
            self._lacks(loc, self.document.problem(other_loc, message, told=False))
        elif max(counts) > 1:
            spec = self.scenarios[self.selections[other_loc].scenario]
            alone = [axis.name for axis in spec.axes if axis.name not in self.selections[other_loc].fields()]
            message = f"{max(counts)} cases of {spec.name} stand against one case"
            hint = f"fix one value of {' or '.join(alone)}" if alone else ""
            self._lacks(loc, self.document.problem(other_loc, message, told=False, hint=hint))

    def _lacks(self, loc: Path, problem: Problem) -> None:
        """Note what the grid lacks for the clause in which `loc` lies."""
        self.unmet.setdefault(int(loc[1]), []).append(problem)


def _selection_places(loc: Path, entry: Mapping[str, Any], model: type[Clause]) -> Iterator[tuple[Path, Any]]:
    """Yield the place and the raw value of each selection that a clause of this form has."""
    for key in model.SELECTIONS:
        raw = entry.get(key)
        if key == "order":
            yield from (((*loc, key, place), each) for place, each in enumerate(raw if isinstance(raw, list) else ()))
        else:
            yield (*loc, key), raw


def _values_of(spec: ScenarioSpec, name: str) -> tuple[Any, ...] | None:
    """Return the values that a field takes in a scenario; None where it lies beside an axis inside the same field."""
    axis: Axis | None = next((each for each in spec.axes if each.name == name), None)
    if axis is not None:
        return axis.values
    outer, _, inner = name.partition(".")
    if outer in spec.templates or any(each.path[0] == outer for each in spec.axes):
        return None
    whole = spec.fixed[outer] if outer in spec.fixed else default_of(spec.model, outer)
    return (value_at(whole, inner) if inner else whole,)


def _shown(spec: ScenarioSpec, name: str, value: Any) -> str:
    extra = spec.model.model_fields[name].json_schema_extra if name in spec.model.model_fields else None
    is_size = isinstance(extra, dict) and extra.get("unit") == "bytes"
    return format_size(value) if is_size and isinstance(value, int) else str(value)


def _cases_of(spec: ScenarioSpec) -> list[Found] | None:
    """Return the cases that run, None where they are many or some are refused."""
    if spec.count() > MOST_CASES:
        return None
    found: list[Found] = []
    for point in Grid(spec):
        if point.model is None:
            return None
        if not point.excluded:
            found.append((point.axes, point.model))
    return found
