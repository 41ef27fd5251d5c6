"""Held-out validation of a profile: how near its predictions come to cases that it was not fitted to, by sort of case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from runner.columns import Column
from runner.device.simulated.profile import ALL, Profile
from runner.memory import kind_of
from runner.observed import ObservedRun
from runner.plan import Alloc, Copy, Free, HostAccess, HostCopy, Plan, Register, Unregister
from runner.predict import Prediction, worst_first
from runner.predict_page import predicted_rows
from runner.profile_of_run import why_it_had_to_fit
from runner.rows import Row
from runner.run_files import PREDICTED
from runner.scenarios.base import Known, Scenario
from runner.scenarios.pipeline import Pipeline
from runner.stats import median, quantile
from runner.tables import write_csv, write_whole
from runner.units import digits

EXPERIMENT: Final = "validate"
NEAR: Final = 0.15
"""An error that counts as near, as a share of the measured time."""
LEAST_TOLERANCE: Final = 0.10
"""What a case may be off in any case where its own samples spread: the larger of this and twice the spread."""
CLEAR: Final = 0.10
"""Two strategies that differ by more than this share must be ranked right."""
ENGINES: Final = "engines alone"
HOST: Final = "the host takes part"
SHOWN_WORST: Final = 12
SOME_HOST_BYTES: Final = 2**36
"""Memory of a host for Plans that are only looked at."""
VALIDATION_COLUMNS: Final = (
    Column("sort", "text", "", "The scenario, or all cases of a nature."),
    Column("cases", "integer", "cases", "Cases that were predicted."),
    Column("median_error_percent", "number", "%", "Median of the errors without their signs."),
    Column("p95_error_percent", "number", "%", "Their 95th percentile."),
    Column("worst_error_percent", "number", "%", "The largest of them."),
    Column("within_15_percent", "number", "%", "Share of the cases whose error is at most 15 %."),
    Column(
        "within_spread_percent", "number", "%", "Share of the cases off by at most the larger of 10 % and twice their spread."
    ),
    Column("pairs", "integer", "pairs", "Pairs of strategies for the same work whose measured times differ by more than 10 %."),
    Column("ranked_right_percent", "number", "%", "Share of these pairs of which the faster one was predicted to be faster."),
)


@dataclass(frozen=True, slots=True)
class Score:
    """One line of the table; shares are of 1, `ranked_right` is None where no two strategies differ enough."""

    sort: str
    errors: tuple[float, ...]
    near: float
    tolerated: float
    pairs: int = 0
    ranked_right: float | None = None

    def row(self) -> Row:
        """Return the line with the columns of VALIDATION_COLUMNS."""
        return {
            "sort": self.sort,
            "cases": len(self.errors),
            "median_error_percent": 100 * median(self.errors),
            "p95_error_percent": 100 * quantile(sorted(self.errors), 0.95),
            "worst_error_percent": 100 * max(self.errors),
            "within_15_percent": 100 * self.near,
            "within_spread_percent": 100 * self.tolerated,
            "pairs": self.pairs,
            "ranked_right_percent": None if self.ranked_right is None else 100 * self.ranked_right,
        }


def scores(predictions: Sequence[Prediction]) -> list[Score]:
    """Return the score of each scenario, of cases that engines alone decide and of the others, and of all, where there are any.

    Strategies are the pipelines that do the same work on the same bytes; they are ranked over all scenarios.
    """
    found: dict[str, list[Prediction]] = {}
    for each in predictions:
        if each.error is not None:
            found.setdefault(each.case.scenario, []).append(each)
    whole = [each for group in found.values() for each in group]
    natures = {True: ENGINES, False: HOST}
    for nature, name in natures.items():
        found[name] = [each for each in whole if engines_alone(_as_planned(each.case.model)) is nature]
    found[ALL] = whole
    return [_score(name, group, ranked=name == ALL) for name, group in found.items() if group]


def engines_alone(plan: Plan) -> bool:
    """Whether nothing in the lanes of a Plan is the host's own work: no copy or access of its own, no memory that comes or goes,
    and every copy between the device and memory that an engine reaches.
    """
    for lane in plan.lanes:
        for operation in lane:
            if isinstance(operation, HostCopy | HostAccess | Alloc | Free | Register | Unregister):
                return False
            if isinstance(operation, Copy):
                host = plan.buffers[operation.src if operation.direction == "h2d" else operation.dst]
                if not kind_of(host.memory).asynchronous:
                    return False
    return True


def write_validation(run: ObservedRun, profile: Profile, predictions: Sequence[Prediction], folder: Path) -> list[str]:
    """Write validation.md, validation.csv and predicted.csv into a folder; return the table for the screen."""
    folder.mkdir(parents=True, exist_ok=True)
    found = scores(predictions)
    table = list(_table(["sort", *_HEADERS], ([each.sort, *_cells(each)] for each in found)))
    worst = worst_first(predictions)[:SHOWN_WORST]
    known = [line for sentence in why_it_had_to_fit(run, profile) for line in (sentence, "")]
    held_out = "" if known else ", which the profile was not fitted to"
    page = [
        f"# How well profile {profile.name} predicts {run.device}",
        "",
        *known,
        f"Run {run.run_id} of {run.loaded.experiment.name}.yaml{held_out}; each case by the clock",
        "that gives its rate, by `dmalab validate-model`. Errors are without their signs, in percent of the measured median.",
        "*Tolerated* is an error of at most the larger of 10 % and twice the spread of the case's own samples;",
        "*ranked right* counts pairs of pipelines for the same work that differ by more than 10 %.",
        "",
        *table,
        "",
        "The cases that it gets most wrong:",
        "",
        *_table(["case", "measured ms", "predicted ms", "error %", "spread %"], map(_worst_cells, worst)),
    ]
    write_whole(folder / "validation.md", ("\n".join(page) + "\n").encode())
    write_csv(folder / "validation.csv", (each.row() for each in found), VALIDATION_COLUMNS)
    write_csv(folder / "predicted.csv", predicted_rows(predictions, profile.name), PREDICTED)
    return [*known, *table]


_HEADERS: Final = ("cases", "median error %", "95th %", "worst %", "within 15 %", "tolerated", "ranked right")


def _score(name: str, group: Sequence[Prediction], *, ranked: bool) -> Score:
    errors = tuple(abs(each.error) for each in group if each.error is not None)
    spreads = [max(LEAST_TOLERANCE, 2 * (each.spread or 0.0)) for each in group if each.error is not None]
    near = sum(error <= NEAR for error in errors) / len(errors)
    tolerated = sum(error <= spread for error, spread in zip(errors, spreads, strict=True)) / len(errors)
    pairs = list(_ranks(group)) if ranked else []
    return Score(name, errors, near, tolerated, len(pairs), sum(pairs) / len(pairs) if pairs else None)


def _ranks(group: Iterable[Prediction]) -> Iterator[bool]:
    """Yield of every two strategies that differ clearly whether the faster one was predicted to be faster."""
    works: dict[tuple[object, ...], list[Prediction]] = {}
    for each in group:
        model = each.case.model
        if isinstance(model, Pipeline):
            work = (model.total, model.direction, model.output_ratio, model.compute)
            works.setdefault(work, []).append(each)
    for strategies in works.values():
        for one, other in combinations(strategies, 2):
            fast, slow = sorted((one, other), key=lambda each: each.measured_ms)
            if slow.measured_ms > fast.measured_ms * (1 + CLEAR) and fast.predicted_ms and slow.predicted_ms:
                yield fast.predicted_ms < slow.predicted_ms


def _as_planned(model: Scenario) -> Plan:
    """Return a Plan of a case; where its work depends on the machine, that of one on which all companions take as long."""
    return model.resolved(Known(SOME_HOST_BYTES, dict.fromkeys(model.companions(), 1.0))).plan()


def _cells(score: Score) -> list[str]:
    row = score.row()
    numbers = [f"{row[name]:.1f}" for name in ("median_error_percent", "p95_error_percent", "worst_error_percent")]
    ranked = "" if score.ranked_right is None else f"{100 * score.ranked_right:.1f} % of {score.pairs:,}"
    return [str(len(score.errors)), *numbers, f"{100 * score.near:.0f} %", f"{100 * score.tolerated:.0f} %", ranked]


def _worst_cells(each: Prediction) -> list[str]:
    axes = " ".join(f"{name}={value}" for name, value in each.case.axes.items())
    predicted = each.reason if each.predicted_ms is None else digits(each.predicted_ms)
    error = "" if each.error is None else f"{100 * each.error:+.1f}"
    spread = "" if each.spread is None else f"{100 * each.spread:.1f}"
    return [f"{each.case.scenario} {axes}".strip(), digits(each.measured_ms), predicted, error, spread]


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, numbers at the right."""
    yield f"| {' | '.join(headers)} |"
    yield f"| --- |{' ---: |' * (len(headers) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
