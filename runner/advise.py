"""Advice for a job: the best settings by the profile of a device, found better on the device itself, confirmed by a run.

A profile errs, so what it finds is where the search on the device begins (`runner.advise_trials`). A simulated device is its
profile, and is not asked again.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runner.advise_job import Job, Setting
from runner.advise_search import Search
from runner.advise_trials import measured_on, tried
from runner.calibration.calibrate import name_for
from runner.device.contract import DeviceFacts
from runner.device.select import DEFAULT_PROFILE
from runner.device.simulated import Profile, SimulatedDevice, load_profile
from runner.device.simulated.profile_files import profile_names
from runner.errors import EnvironmentProblem, SpecError
from runner.execution.bench import Bench, begin_bench
from runner.expand import MOST_CASES
from runner.flow import RunOutcome, Watcher, run_experiment, run_info
from runner.placement import allowed_cpus
from runner.rows import Row, summary_rows
from runner.spec.load import LoadedExperiment, load_experiment
from runner.units import format_size

NAIVE: Final = "naive"
WORTH_IT: Final = 1.03
"""What is no more than so many times as long as the best is as good, if it is simpler."""
CLOSE: Final = 2.0
"""A method is tried where the profile gives it at most so many times the best. Profiles that were fitted to a machine erred by up
to 1.8 times there, and the best rings of two methods differ by less."""
NEARLY: Final = 1.1
"""What took at most so many times the best when it was tried may be as good: times of two plays spread as much."""
MOST_CONFIRMED: Final = 4
MOST_TRIED_CONFIRMED: Final = 2
"""Of those that were tried on the device, beside the simplest that may be as good."""
_SIZES: Final = ("total", "chunk")
_ORDER: Final = (
    "schedule",
    "direction",
    "buffer",
    "staging",
    "total",
    "chunk",
    "output_ratio",
    "streams",
    "staging_lanes",
    "staging_threads",
    "submit",
    "allocate",
    "compute",
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting, or the naive loop (None): the fields of its scenario, what the profile expects (ms), and the row of its run."""

    name: str
    setting: Setting | None
    fields: Mapping[str, Any]
    expected_ms: float
    row: Row

    def figure(self, column: str) -> float | None:
        """Return a figure of its row, None where the run did not give it."""
        value = self.row.get(column)
        return float(value) if isinstance(value, (int, float)) and self.row.get("status") == "ok" else None

    @property
    def median_ms(self) -> float:
        """Return the median of its wall times in ms, inf where there is none."""
        found = self.figure("median_wall_ms")
        return math.inf if found is None else found


@dataclass(frozen=True, slots=True)
class Advice:
    """What was found: `choices` in the order of their measured times, and the naive loop beside them.

    `tried_ms` are the times of the settings that were tried on the device, in ms; empty of a simulated one.
    """

    search: Search
    profile: str
    outcome: RunOutcome
    naive: Choice
    choices: tuple[Choice, ...]
    tried_ms: Mapping[Setting, float] = field(default_factory=dict)

    @property
    def best(self) -> Choice:
        """Return the fastest choice."""
        return self.choices[0]

    @property
    def simplest(self) -> Choice:
        """Return the simplest choice of those that are as good as the best, or nearly so."""
        good = [choice for choice in self.choices if choice.median_ms <= WORTH_IT * self.best.median_ms]
        return min(good, key=self._simplicity)

    def _simplicity(self, choice: Choice) -> tuple[int, ...]:
        assert choice.setting is not None, "the naive loop is no choice"
        return choice.setting.simplicity(self.search.methods)

    def yaml(self) -> str:
        """Return an experiment that runs the naive loop, the best choice and the simplest good one."""
        kept = [self.naive, self.best, *([self.simplest] if self.simplest is not self.best else [])]
        return experiment_text(self.search.job, {choice.name: choice.fields for choice in kept})


def advise(job: Job, *, device: str, out: Path, watcher: Watcher) -> Advice:
    """Search the settings for a job on the profile of `device` and on from there on it, run the best, and return what came of it.

    The run is an ordinary one with its folder in `out`. Raises UsageError where no pipeline can do the job, and as
    `run_experiment` does; EnvironmentProblem where none of the settings could be run.
    """
    with closing(begin_bench(device, "spin")) as bench:
        opened = bench.open()
        profile = profile_of(opened.facts)
        search = Search(SimulatedDevice(profile), job, most_threads(opened.facts, profile))
        tried_ms = {} if opened.deterministic else tried_on(bench, search)
        settings = quickest(search, tried_ms) or finalists(search)
        named = {NAIVE: search.all_fields(search.naive())} | _fields_of(search, settings)
        loaded = _loaded(experiment_text(job, named))
        outcome = run_experiment(loaded, device=device, out=out, max_cases=MOST_CASES, watcher=watcher, bench=bench)
    rows = summary_rows(run_info(outcome.run_id, loaded, outcome.facts), outcome.results)
    of_name = {str(row["scenario"]): row for row in rows}
    naive = Choice(NAIVE, None, named[NAIVE], search.play_ms(search.naive()), of_name[NAIVE])
    choices = [Choice(name, each, named[name], search.time_ms(each), of_name[name]) for name, each in settings.items()]
    if not any(choice.median_ms < math.inf for choice in choices):
        raise EnvironmentProblem(f"none of the settings could be run: {of_name[choices[0].name]['reason']}; see {outcome.folder}")
    return Advice(search, profile.name, outcome, naive, tuple(sorted(choices, key=lambda choice: choice.median_ms)), tried_ms)


def tried_on(bench: Bench, search: Search) -> dict[Setting, float]:
    """Return the times in ms of the settings that were tried on an open device, from the best by the profile on."""

    def loaded(settings: Mapping[str, Setting]) -> LoadedExperiment:
        return _loaded(experiment_text(search.job, _fields_of(search, settings)))

    close = _close(search)
    return tried(search, [*close, *search.further(close[0])], measured_on(bench, loaded))


def quickest(search: Search, tried_ms: Mapping[Setting, float]) -> dict[str, Setting]:
    """Return the settings to run of those that were tried, by name: the quickest, and the simplest that may be as good."""
    order = sorted((each for each in tried_ms if tried_ms[each] < math.inf), key=tried_ms.__getitem__)
    good = [each for each in order if tried_ms[each] <= NEARLY * tried_ms[order[0]]]
    simplest = sorted(good, key=lambda each: each.simplicity(search.methods))[:1]
    return _by_name(list(dict.fromkeys([*order[:MOST_TRIED_CONFIRMED], *simplest])))


def finalists(search: Search) -> dict[str, Setting]:
    """Return the settings to run, by name: the best of each method close to the best of all, and the simplest good one."""
    close = _close(search)
    best_ms = search.time_ms(close[0])
    good = [setting for setting, time_ms in search.times_ms.items() if time_ms <= WORTH_IT * best_ms]
    simplest = min(good, key=lambda setting: (setting.simplicity(search.methods), search.time_ms(setting)))
    named = {setting.method.name: setting for setting in close}
    return named if simplest in close else named | {f"simple_{simplest.method.name}": simplest}


def _close(search: Search) -> list[Setting]:
    """Return the best setting of each method that the profile gives no more than CLOSE times the best of all."""
    found = search.run()
    return [each for each in found if search.time_ms(each) <= CLOSE * search.time_ms(found[0])][:MOST_CONFIRMED]


def _by_name(settings: Sequence[Setting]) -> dict[str, Setting]:
    """Return settings by the names of their methods, later ones of the same with a number."""
    named: dict[str, Setting] = {}
    for each in settings:
        number = 1 + sum(other.method is each.method for other in named.values())
        named[each.method.name + (f"_{number}" if number > 1 else "")] = each
    return named


def _fields_of(search: Search, settings: Mapping[str, Setting]) -> dict[str, dict[str, Any]]:
    return {name: search.all_fields(each.fields()) for name, each in settings.items()}


def profile_of(facts: DeviceFacts) -> Profile:
    """Return the profile that stands for a device: its own, the one that was calibrated on such a device, or the usual one."""
    if facts.kind == "simulated":
        return load_profile(str(facts.environment["profile"]))
    calibrated = name_for(facts.name)
    return load_profile(calibrated if calibrated in profile_names() else DEFAULT_PROFILE)


def most_threads(facts: DeviceFacts, profile: Profile) -> int:
    """Return how many threads of the host there are to copy: this machine's processors, or as many as a profile tells of."""
    return max(profile.host.copy_gb_per_s.by_threads) if facts.kind == "simulated" else len(allowed_cpus())


def experiment_text(job: Job, scenarios: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the YAML of an experiment of these scenarios, the first of which is the baseline."""
    first = next(iter(scenarios))
    lines = [
        "name: advised",
        f"question: What does the best way gain over the naive loop ({job.describe()})?",
        "device: auto",
        "measure: {warmup: 1, samples: 5}",
        f"baseline: {first}",
        "scenarios:",
    ]
    for name, fields in scenarios.items():
        lines += [f"  {name}:", "    kind: pipeline"]
        lines += [f"    {each}: {_cell(each, fields[each])}" for each in _ORDER if each in fields]
    return "\n".join(lines) + "\n"


def _cell(field: str, value: Any) -> str:
    if field in _SIZES:
        return format_size(int(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {each}" for name, each in value.items()) + "}"
    return str(value)


def _loaded(text: str) -> LoadedExperiment:
    """Load an experiment that was written here; that it cannot be loaded is no mistake of the user's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "advised.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            return load_experiment(path)
        except SpecError as error:
            raise RuntimeError(f"the experiment of the settings is refused: {error}") from error
