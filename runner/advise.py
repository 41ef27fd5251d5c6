"""Advice for a job: the best settings by the profile of a device, the best few of them confirmed by a run, and what they gain."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runner.advise_job import Job, Setting
from runner.advise_search import Search
from runner.calibration.calibrate import name_for
from runner.device.contract import DeviceFacts
from runner.device.select import DEFAULT_PROFILE
from runner.device.simulated import Profile, SimulatedDevice, load_profile
from runner.device.simulated.profile_files import profile_names
from runner.errors import EnvironmentProblem, SpecError
from runner.execution.bench import begin_bench
from runner.expand import MOST_CASES
from runner.flow import RunOutcome, Watcher, run_experiment, run_info
from runner.placement import allowed_cpus
from runner.rows import Row, summary_rows
from runner.spec.load import LoadedExperiment, load_experiment
from runner.units import counted, digits, format_size

NAIVE: Final = "naive"
WORTH_IT: Final = 1.03
"""What is no more than so many times as long as the best is as good, if it is simpler."""
CLOSE: Final = 1.3
"""A method is confirmed where the profile gives it at most so many times the best; profiles err by less."""
MOST_CONFIRMED: Final = 4
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
    """What was found: `choices` in the order of their measured times, and the naive loop beside them."""

    search: Search
    profile: str
    outcome: RunOutcome
    naive: Choice
    choices: tuple[Choice, ...]

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
    """Search the settings for a job on the profile of `device`, run the best of them there, and return what came of it.

    The run is an ordinary one with its folder in `out`. Raises UsageError where no pipeline can do the job, and as
    `run_experiment` does; EnvironmentProblem where none of the settings could be run.
    """
    facts = _facts_of(device)
    profile = profile_of(facts)
    search = Search(SimulatedDevice(profile), job, most_threads(facts, profile))
    settings = finalists(search)
    named = {NAIVE: search.all_fields(search.naive())} | {
        name: search.all_fields(each.fields()) for name, each in settings.items()
    }
    loaded = _loaded(experiment_text(job, named))
    outcome = run_experiment(loaded, device=device, out=out, max_cases=MOST_CASES, watcher=watcher)
    rows = summary_rows(run_info(outcome.run_id, loaded, outcome.facts), outcome.results)
    of_name = {str(row["scenario"]): row for row in rows}
    naive = Choice(NAIVE, None, named[NAIVE], search.play_ms(search.naive()), of_name[NAIVE])
    choices = [Choice(name, each, named[name], search.time_ms(each), of_name[name]) for name, each in settings.items()]
    if not any(choice.median_ms < math.inf for choice in choices):
        raise EnvironmentProblem(f"none of the settings could be run: {of_name[choices[0].name]['reason']}; see {outcome.folder}")
    return Advice(search, profile.name, outcome, naive, tuple(sorted(choices, key=lambda choice: choice.median_ms)))


def finalists(search: Search) -> dict[str, Setting]:
    """Return the settings to run, by name: the best of each method close to the best of all, and the simplest good one."""
    found = search.run()
    best_ms = search.time_ms(found[0])
    close = [setting for setting in found if search.time_ms(setting) <= CLOSE * best_ms][:MOST_CONFIRMED]
    good = [setting for setting, time_ms in search.times_ms.items() if time_ms <= WORTH_IT * best_ms]
    simplest = min(good, key=lambda setting: (setting.simplicity(search.methods), search.time_ms(setting)))
    named = {setting.method.name: setting for setting in close}
    return named if simplest in close else named | {f"simple_{simplest.method.name}": simplest}


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
        "measure: {warmup: 1, samples: 7}",
        f"baseline: {first}",
        "scenarios:",
    ]
    for name, fields in scenarios.items():
        lines += [f"  {name}:", "    kind: pipeline"]
        lines += [f"    {each}: {_cell(each, fields[each])}" for each in _ORDER if each in fields]
    return "\n".join(lines) + "\n"


def advice_lines(advice: Advice) -> list[str]:
    """Return what was found, for the screen."""
    search, best, simplest = advice.search, advice.best, advice.simplest
    tried = counted(len(search.times_ms), "setting")
    rest = [choice for choice in (*advice.choices, advice.naive) if choice is not best and choice is not simplest]
    return [
        f"{search.job.describe()}, {counted(search.passes, 'pass') if search.passes == 1 else f'{search.passes:,} passes'} of "
        f"the kernel, on {advice.outcome.facts.name}.",
        f"{tried} were tried on profile {advice.profile}, and the best were run.",
        "",
        *_told("Best", best, advice.naive),
        *(["It is the simplest within 3 %, too."] if simplest is best else _told("Simplest within 3 %", simplest, advice.naive)),
        "",
        *(f"{choice.name}: {_setup(choice)}; {_times(choice)}" for choice in rest),
        "",
        f"The run is in {advice.outcome.folder}.",
    ]


def _told(head: str, choice: Choice, naive: Choice) -> list[str]:
    bound = choice.figure("bound_full_ms")
    gain = (
        f"{digits(naive.median_ms / choice.median_ms, 3)} times as fast as the naive loop" if naive.median_ms < math.inf else ""
    )
    distance = f"{digits(choice.median_ms / bound, 3)} times its bound of {digits(bound)} ms" if bound else ""
    return [f"{head}: {choice.name}", f"  {_setup(choice)}", f"  {'; '.join(filter(None, (_times(choice), gain, distance)))}"]


def _setup(choice: Choice) -> str:
    """Say chunk, streams, staging, lanes, threads and submission in words."""
    fields = choice.fields
    words = "the loop that most people write first" if choice.setting is None else choice.setting.method.words
    several = [
        counted(int(fields[field]), noun)
        for field, noun in (("streams", "stream"), ("staging_lanes", "lane"), ("staging_threads", "thread"))
        if field in fields
    ]
    each = " each" if "staging_lanes" in fields and "staging_threads" in fields else ""
    return ", ".join([words, f"chunks of {format_size(int(fields['chunk']))}", *several]) + each


def _times(choice: Choice) -> str:
    expected = f"{digits(choice.expected_ms)} ms expected" if choice.expected_ms < math.inf else "not expected to run"
    if choice.median_ms == math.inf:
        return f"{expected}, {choice.row['status']}: {choice.row['reason']}"
    low, high = choice.figure("ci_low_wall_ms"), choice.figure("ci_high_wall_ms")
    interval = "" if low is None or high is None else f" ({digits(low)} … {digits(high)})"
    word = "simulated" if choice.row["device_kind"] == "simulated" else "measured"
    return f"{expected}, {digits(choice.median_ms)} ms{interval} {word}"


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


def _facts_of(device: str) -> DeviceFacts:
    with closing(begin_bench(device, "spin")) as bench:
        return bench.open().facts
