"""The history of a machine: what each case of an experiment took from run to run, and where that changed.

A change is a step from one run to the next that had a number, found by the test of `runner.compare` with its correction over all
steps of all cases. It stays where the run after it, if there is one, lies nearer to the new level than to the old one; else it
was one run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from runner.columns import Column
from runner.compare import THRESHOLD, steps_of
from runner.compared_run import ComparedCase, ComparedRun, compared_run, label_of, varying_columns
from runner.errors import InputError
from runner.find_run import RESULTS
from runner.rows import Row
from runner.screen import Grid
from runner.stats import median
from runner.two_samples import Times
from runner.units import counted, digits, local_time

if TYPE_CHECKING:
    from runner.results import Results

MOST_RUNS_SHOWN: Final = 8
MOST_ROWS: Final = 40
_COLUMNS: Final = (
    ("run_id", "text", "", "The run."),
    ("experiment", "text", "", "The name in the experiment's file."),
    ("device", "text", "", "The device's name."),
    ("device_kind", "text", "", "cuda: measured. simulated: computed from a profile."),
    ("started_utc", "text", "", "When the run began."),
    ("case_id", "text", "", "The case."),
    ("case", "text", "", "The scenario and the axes that vary."),
    ("metric", "text", "", "The time that is followed."),
    ("unit", "text", "", "Its unit."),
    ("median", "number", "the row's unit", "Median over the samples; empty where the case has no number."),
    ("ratio", "number", "", "How many times as long it took as in the last run before that had a number."),
    ("change", "text", "", "slower or faster where a step is certain among all of them, else empty."),
    ("stays", "text", "", "true where the next run confirms the step or there is none, false where it was one run's."),
)
HISTORY_COLUMNS: Final = tuple(Column(name, kind, unit, meaning) for name, kind, unit, meaning in _COLUMNS)  # type: ignore[arg-type]
"""The columns of a history's CSV file, in order."""


@dataclass(frozen=True, slots=True)
class Change:
    """A step at the run number `place`, from 0: the word, how many times as long, and whether it stays."""

    place: int
    word: Literal["slower", "faster"]
    ratio: float
    stays: bool


@dataclass(frozen=True, slots=True)
class Series:
    """One case over the runs: `medians` and `ratios` (to the last run with a number) by run, None where there is none."""

    case: ComparedCase
    label: str
    medians: tuple[float | None, ...]
    ratios: tuple[float | None, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The runs of one experiment on one device in the order of time, and each of their cases."""

    runs: tuple[ComparedRun, ...]
    series: tuple[Series, ...]
    threshold: float


def run_folders(folder: Path) -> list[Path]:
    """Return the folders of runs in a folder, or in the folders of experiments in it, links such as `latest` left out."""
    found = {path.parent for pattern in ("*/summary.csv", "*/*/summary.csv") for path in folder.glob(pattern)}
    return sorted(each for each in found if not any(part.is_symlink() for part in (each, each.parent)))


def read_histories(folder: Path, metric: str | None = None, threshold: float = THRESHOLD) -> list[History]:
    """Return a history for each experiment and device of which there are runs in `folder`, in the order of their names.

    What is no folder here may be the name of an experiment that has run, as in `find_run`. Raises InputError where there is no
    run, or a table of one cannot be read.
    """
    from runner.results import read_results  # which imports pandas

    folders = run_folders(folder if folder.exists() else RESULTS / folder)
    if not folders:
        raise InputError(
            f"{folder} holds no runs; give the name of an experiment that has run, the folder of its runs such as "
            f"{RESULTS}/overlap, or two runs"
        )
    return histories([read_results(each) for each in folders], metric, threshold)


def histories(results: Sequence[Results], metric: str | None = None, threshold: float = THRESHOLD) -> list[History]:
    """Return a history for each experiment and device of these runs, whatever their order."""
    groups: dict[tuple[str, str, str], list[ComparedRun]] = {}
    for each in results:
        run = compared_run(each, metric)
        groups.setdefault((run.experiment, run.device, run.device_kind), []).append(run)
    return [_history(sorted(runs, key=_time), threshold) for _, runs in sorted(groups.items())]


def history_lines(history: History) -> list[str]:
    """Say what the history is of, and name each change, the largest first."""
    first, last = history.runs[0], history.runs[-1]
    lines = [f"SIMULATED: all times are computed from {first.device}."] if first.device_kind == "simulated" else []
    span = f" from {local_time(first.started)[:10]} to {local_time(last.started)[:10]}" if first.started else ""
    lines.append(f"{first.experiment} on {first.device}: {counted(len(history.runs), 'run')}{span}.")
    changes = [(max(each.ratio, 1 / each.ratio), series, each) for series in history.series for each in series.changes]
    for _, series, change in sorted(changes, key=lambda each: -each[0])[:MOST_ROWS]:
        run, kept = history.runs[change.place], "and stays so" if change.stays else "in that run only"
        lines.append(f"{change.word} from {run.run_id} ({when(run)}) on, {kept}: {series.label}, {digits(change.ratio)} times")
    return lines if changes else [*lines, f"No case changed by more than {digits(100 * history.threshold)} % for certain."]


def history_grid(history: History) -> Grid:
    """Return the table of the screen: the medians of the last runs, a change marked by + (slower) or - (faster)."""
    shown = range(max(0, len(history.runs) - MOST_RUNS_SHOWN), len(history.runs))
    headers = ("case", "", *(when(history.runs[place]) for place in shown))
    rows = []
    for series in history.series[:MOST_ROWS]:
        marks = {change.place: "+" if change.word == "slower" else "-" for change in series.changes}
        cells = (f"{digits(value)}{marks.get(place, '')}" if (value := series.medians[place]) else "" for place in shown)
        rows.append((series.label, series.case.unit, *cells))
    hidden = len(history.series) - len(rows)
    return Grid(headers, tuple(rows), f"... and {counted(hidden, 'more case')}; --csv writes them all" if hidden else "")


def when(run: ComparedRun) -> str:
    """Return month, day and minute at which a run began in this machine's own zone; its name where that is not known."""
    return local_time(run.started)[5:] if run.started else run.run_id


def history_rows(history: History) -> Iterator[Row]:
    """Yield one row a case and run, by HISTORY_COLUMNS."""
    for series in history.series:
        changes = {change.place: change for change in series.changes}
        for place, run in enumerate(history.runs):
            change = changes.get(place)
            yield {
                "run_id": run.run_id,
                "experiment": run.experiment,
                "device": run.device,
                "device_kind": run.device_kind,
                "started_utc": run.started,
                "case_id": series.case.case_id,
                "case": series.label,
                "metric": series.case.metric,
                "unit": series.case.unit,
                "median": series.medians[place],
                "ratio": series.ratios[place],
                "change": change.word if change else "",
                "stays": change.stays if change else "",
            }


def _history(runs: Sequence[ComparedRun], threshold: float) -> History:
    cases = {name: case for run in runs for name, case in run.cases.items() if case.status != "excluded"}
    labels = {name: label_of(case, varying) for name, case, varying in _with_columns(runs, cases)}
    times = {name: [_times_of(run, case) for run in runs] for name, case in cases.items()}
    steps = [
        (name, before, after)
        for name, found in times.items()
        for before, after in pairwise([place for place, each in enumerate(found) if each is not None])
    ]
    told = steps_of([(_known(times[name][before]), _known(times[name][after])) for name, before, after in steps], threshold)
    changes: dict[str, list[Change]] = {}
    ratios: dict[tuple[str, int], float] = {}
    for (name, before, after), step in zip(steps, told, strict=True):
        ratios[name, after] = step.ratio.value
        if step.word in ("slower", "faster"):
            stays = _stays(times[name], before, after)
            changes.setdefault(name, []).append(Change(after, step.word, step.ratio.value, stays))
    series = tuple(
        Series(
            case,
            labels[name],
            tuple(None if each is None else median(each.values) for each in times[name]),
            tuple(ratios.get((name, place)) for place in range(len(runs))),
            tuple(changes.get(name, ())),
        )
        for name, case in cases.items()
    )
    return History(tuple(runs), series, threshold)


def _with_columns(
    runs: Sequence[ComparedRun], cases: Mapping[str, ComparedCase]
) -> Iterator[tuple[str, ComparedCase, Sequence[str]]]:
    varying = [varying_columns(run) for run in runs]
    for name, case in cases.items():
        widest = max((each.get(case.scenario, ()) for each in varying), key=len)
        yield name, case, widest


def _times_of(run: ComparedRun, case: ComparedCase) -> Times | None:
    """Return the times of a case in a run; None too where another clock gave them, since they cannot be put in one line."""
    found = run.cases.get(case.case_id)
    return found.times if found is not None and found.metric == case.metric else None


def _known(times: Times | None) -> Times:
    assert times is not None, "steps are between runs that have a number"
    return times


def _stays(times: Sequence[Times | None], before: int, after: int) -> bool:
    following = next((each for each in times[after + 1 :] if each is not None), None)
    if following is None:
        return True
    old, new, later = (median(_known(each).values) for each in (times[before], times[after], following))
    return abs(later - new) <= abs(later - old)


def _time(run: ComparedRun) -> str:
    return run.started or run.run_id
