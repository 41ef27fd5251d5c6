"""Loading an experiment: a file and overrides in, a checked experiment out, or everything that is wrong with it at once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from runner.errors import Problem, SpecError
from runner.scenarios import SCENARIOS
from runner.spec.expectations import Expectations
from runner.spec.experiment import Experiment
from runner.spec.grid import faults_of
from runner.spec.jobs import problems_of
from runner.spec.nodes import read_document
from runner.spec.overrides import override
from runner.spec.places import Document, nearest
from runner.spec.problems import guess, translate
from runner.spec.scenario import ScenarioSpec, read_scenario
from runner.spec.text import SourceText, read_source

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_MOST_PROBLEMS: Final = 100
_CHECKED_BESIDE: Final = 10_000
"""Cases of the sound scenarios that are checked when something else is wrong already, so that all shows at once."""


@dataclass(frozen=True, slots=True)
class LoadedExperiment:
    """A checked experiment and where it came from.

    `original` are the bytes of the file, `overrides` what `--set` changed, `spec_sha256` a hash of the content after that,
    without comments and layout. `scenarios` and the expectations hold parsed values. `document` has the places for later
    problems; the cases are not built yet, see `runner.expand`.
    """

    path: Path
    original: bytes
    overrides: tuple[str, ...]
    spec_sha256: str
    experiment: Experiment
    scenarios: tuple[ScenarioSpec, ...]
    document: Document


def load_experiment(path: str | Path, overrides: Sequence[str] = ()) -> LoadedExperiment:
    """Read, change by `overrides` (each `KEY=VALUE`) and check the experiment at `path`, a path or a name in `experiments/`.

    Raises SpecError with all that is wrong with it, each problem with its place.
    """
    found = find_experiment(path)
    source = read_source(found)
    document, problems = read_document(source.text, source.file)
    problems += override(document, overrides)
    experiment, faults = _read_top(document)
    problems += faults
    scenarios, faults = _read_scenarios(document)
    problems += faults
    expectations = Expectations(document, {spec.name: spec for spec in scenarios}, tuple(_mappings(document)))
    expectations.read()
    problems += _check_baseline(document) + expectations.problems + _unmeetable(source, expectations, overrides)
    problems += problems_of(document, tuple(_mappings(document)), scenarios)
    if problems or experiment is None:
        for spec in scenarios:
            problems += faults_of(document, spec, _CHECKED_BESIDE)
        raise SpecError(_first(sorted(problems, key=_by_place)))
    digest = hashlib.sha256(json.dumps(document.content).encode()).hexdigest()
    experiment = expectations.applied(experiment)
    return LoadedExperiment(found, source.original, tuple(overrides), digest, experiment, tuple(scenarios), document)


def _unmeetable(source: SourceText, expectations: Expectations, overrides: Sequence[str]) -> list[Problem]:
    """Return what the grid lacks for expectations, apart from those whose cases `--set` took away: they stay undecided.

    These are as the file has them, and the file's own grid has what they need.
    """
    unmet = dict(expectations.unmet)
    if overrides and unmet:
        document, _ = read_document(source.text, source.file)
        of_file = Expectations(document, {spec.name: spec for spec in _read_scenarios(document)[0]}, tuple(_mappings(document)))
        of_file.read()
        before, now = document.content.get("expect"), expectations.document.content["expect"]
        kept = [index for index in unmet if isinstance(before, list) and now[index] in before[index : index + 1]]
        unmet = {index: lacking for index, lacking in unmet.items() if index not in kept or index in of_file.unmet}
    return [problem for lacking in unmet.values() for problem in lacking]


def find_experiment(text: str | Path) -> Path:
    """Return the path of an experiment given by path or by its name in `experiments/`, with or without `.yaml`.

    Raises SpecError with the nearest known names where there is none.
    """
    name = str(text)
    if os.path.isfile(name):
        return Path(name)
    known = list_experiments()
    bare = name.removesuffix(".yaml")
    if bare in known:
        return known[bare]
    if os.path.exists(name):
        return Path(name)
    beside = next((each for each in (f"{name}.yaml", f"{name}.yml") if os.path.isfile(each)), "")
    hint = f"did you mean {beside}?" if beside else nearest(Path(bare).name, known)
    hint = hint or "dmalab list experiments names them all"
    raise SpecError([Problem(name, "there is no such file and no such experiment", hint=hint)])


def list_experiments() -> dict[str, Path]:
    """Return the experiments known by name, such as `overlap` and `claims/engines`, in alphabetical order.

    They lie in `experiments/` of the current folder, then of the checkout, or in the installed package.
    """
    found: dict[str, Path] = {}
    for folder in _folders():
        for path in sorted(folder.rglob("*.yaml")):
            found.setdefault(path.relative_to(folder).with_suffix("").as_posix(), path)
    return dict(sorted(found.items()))


def _folders() -> Iterator[Path]:
    checkout = _PACKAGE.parent
    yield Path("experiments")
    if (checkout / "pyproject.toml").is_file():
        yield checkout / "experiments"
    yield _PACKAGE / "experiments"


def _read_top(document: Document) -> tuple[Experiment | None, list[Problem]]:
    try:
        return Experiment.model_validate(document.content), []
    except ValidationError as error:
        return None, translate(error, document, (), Experiment)


def _read_scenarios(document: Document) -> tuple[list[ScenarioSpec], list[Problem]]:
    """Read every scenario that is a mapping; that the others are none is told by the model of the whole file."""
    specs: list[ScenarioSpec] = []
    problems: list[Problem] = []
    for name, raw in _mappings(document).items():
        spec, faults = read_scenario(document, name, raw, SCENARIOS)
        problems += faults
        if spec is not None:
            specs.append(spec)
    return specs, problems


def _mappings(document: Document) -> dict[str, dict[str, Any]]:
    scenarios = document.content.get("scenarios")
    return {name: raw for name, raw in scenarios.items() if isinstance(raw, dict)} if isinstance(scenarios, dict) else {}


def _check_baseline(document: Document) -> list[Problem]:
    baseline, names = document.content.get("baseline"), tuple(_mappings(document))
    if not isinstance(baseline, str) or not names or baseline in names:
        return []
    message, allowed = "there is no such scenario", ", ".join(names)
    return [document.problem(("baseline",), message, allowed=allowed, hint=guess(baseline, names))]


def _first(problems: list[Problem]) -> list[Problem]:
    """Return the problems, of very many the first, and a count of the others."""
    if len(problems) <= _MOST_PROBLEMS:
        return problems
    more = Problem(problems[0].file, f"{len(problems) - _MOST_PROBLEMS:,} more problems are not shown")
    return [*problems[:_MOST_PROBLEMS], more]


def _by_place(problem: Problem) -> tuple[bool, int, int]:
    return not problem.line, problem.line, problem.column
