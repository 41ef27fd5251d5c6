"""The goals of benchmarks/gpu.py: what both programs measured, judged, and written as tables.

A figure is a function of works, so it is known of all samples together and of each round alone; its spread over the rounds stands
beside it. Pure: nothing here measures or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Literal

Side = Literal["native", "runner"]
Cells = Mapping[str, str | int | float]
MARK: Final = {True: "met", False: "MISSED"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured time, in the unit of its work, and the round it was taken in."""

    round: int
    value: float


@dataclass(slots=True)
class Work:
    """One thing to do: the twin's request and the runner's case, by YAML keys (either may be empty), and what both took.

    `metric` is the figure of the case that is compared, in `unit` (ms or us), `samples` how many a round. `trouble` says why
    there is nothing to compare.
    """

    name: str
    group: str
    request: str
    case: Mapping[str, object]
    metric: str
    unit: str
    samples: int
    native: list[Sample] = field(default_factory=list)
    runner: list[Sample] = field(default_factory=list)
    trouble: str = ""

    def in_round(self, number: int) -> Work:
        """Return this work with the samples of one round alone."""
        native, runner = ([each for each in own if each.round == number] for own in (self.native, self.runner))
        return replace(self, native=native, runner=runner)

    def middle(self, side: Side) -> float | None:
        """Return the median of one side's samples, None where it has none."""
        samples = self.native if side == "native" else self.runner
        return median(each.value for each in samples) if samples else None

    def ratio(self) -> float | None:
        """Return the runner's median over the twin's, None where one is missing."""
        native, runner = self.middle("native"), self.middle("runner")
        return None if native is None or runner is None else runner / native


@dataclass(frozen=True, slots=True)
class Seen:
    """A figure and where it was seen, in words."""

    value: float
    told: str


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure shall be: `of` makes it of the works of a group; exactly one of the limits is there."""

    text: str
    group: str
    of: Callable[[Sequence[Work]], Seen | None]
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    def judged(self, works: Sequence[Work]) -> Verdict:
        """Return the verdict on the works of the goal's group; one without a figure is missed and says why."""
        own = [work for work in works if work.group == self.group]
        rounds = sorted({sample.round for work in own for sample in work.runner})
        by_round = [seen.value for number in rounds if (seen := self.of([work.in_round(number) for work in own]))]
        troubles = [work.trouble for work in own if work.trouble]
        return self.verdict(self.of(own), by_round, f"{len(troubles)} of {len(own)} failed: {troubles[0]}" if troubles else "")

    def verdict(self, seen: Seen | None, by_round: Sequence[float] = (), trouble: str = "") -> Verdict:
        """Return the verdict on a figure that is there, or on its absence."""
        if seen is None:
            return Verdict(self.text, None, self.unit, self.limit(), False, trouble or "not measured", ())
        told = f"{seen.told}; {trouble}" if trouble else seen.told
        return Verdict(self.text, seen.value, self.unit, self.limit(), self._kept(seen.value), told, tuple(by_round))

    def limit(self) -> str:
        """Return the limit in words."""
        word, value = ("at most", self.at_most) if self.at_most is not None else ("at least", self.at_least)
        return f"{word} {value:g}{f' {self.unit}' if self.unit else ''}"

    def _kept(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table: a goal, its figure (None: none), the figure of each round, and whether the goal is met."""

    goal: str
    value: float | None
    unit: str
    limit: str
    met: bool
    told: str
    by_round: tuple[float, ...]

    def cells(self, device: str, device_kind: str) -> Cells:
        """Return the row of goals.csv."""
        return {
            "goal": self.goal,
            "figure": "" if self.value is None else f"{self.value:.6g}",
            "lowest_round": f"{min(self.by_round):.6g}" if self.by_round else "",
            "highest_round": f"{max(self.by_round):.6g}" if self.by_round else "",
            "unit": self.unit,
            "limit": self.limit,
            "verdict": MARK[self.met],
            "told": self.told,
            "device": device,
            "device_kind": device_kind,
        }


def slowest_rate(works: Sequence[Work]) -> Seen | None:
    """Return the lowest of the runner's rates over the twin's, which is the twin's time over the runner's."""
    rates = [(1 / ratio, work) for work in works if (ratio := work.ratio())]
    if not rates:
        return None
    value, work = min(rates, key=lambda each: each[0])
    return Seen(value, f"the lowest of {len(rates)}, {work.name}")


def best_time(works: Sequence[Work]) -> Seen | None:
    """Return the runner's lowest median."""
    found = _best(works, "runner")
    return None if found is None else Seen(found[0], found[1].name)


def best_ratio(works: Sequence[Work]) -> Seen | None:
    """Return the runner's lowest median over the twin's lowest, each with what serves it best."""
    runner, native = _best(works, "runner"), _best(works, "native")
    if runner is None or native is None:
        return None
    unit = runner[1].unit
    told = f"{runner[1].name}: {runner[0]:.4g} {unit}; native {native[1].name}: {native[0]:.4g} {unit}"
    return Seen(runner[0] / native[0], told)


def table_of(works: Sequence[Work], verdicts: Sequence[Verdict], device: str) -> str:
    """Return goals and medians as Markdown."""
    lines = [f"{device}: medians over all rounds, native code and the runner by turns in one run.", ""]
    lines += ["| goal | figure | rounds | limit | | where |", "| --- | ---: | ---: | ---: | --- | --- |"]
    lines += [_goal_line(verdict) for verdict in verdicts]
    lines += ["", "| work | unit | native | runner | ratio | |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for work in works:
        cells = (_shown(work.middle("native")), _shown(work.middle("runner")), _shown(work.ratio()))
        lines.append(f"| {work.name} | {work.unit} | {' | '.join(cells)} | {work.trouble} |")
    return "\n".join(lines) + "\n"


def sample_rows(works: Sequence[Work]) -> Iterator[Cells]:
    """Yield one row a sample, as samples.csv keeps them."""
    for work in works:
        for side, samples in (("native", work.native), ("runner", work.runner)):
            for sample in samples:
                yield {
                    "work": work.name,
                    "group": work.group,
                    "side": side,
                    "round": sample.round,
                    "value": sample.value,
                    "unit": work.unit,
                }


def _best(works: Sequence[Work], side: Side) -> tuple[float, Work] | None:
    found = [(value, work) for work in works if (value := work.middle(side)) is not None]
    return min(found, key=lambda each: each[0]) if found else None


def _goal_line(verdict: Verdict) -> str:
    rounds = f"{min(verdict.by_round):.4g} … {max(verdict.by_round):.4g}" if verdict.by_round else ""
    cells = (verdict.goal, _shown(verdict.value), rounds, verdict.limit, MARK[verdict.met], verdict.told)
    return f"| {' | '.join(cells)} |"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
