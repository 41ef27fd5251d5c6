"""Comparing two runs case by case, from their raw samples: which cases are faster, slower, the same, and which cannot be told.

The test. For each case that both runs have, the times of both are compared by Mann and Whitney's test (`runner.two_samples`),
which assumes independent samples and nothing of their distribution. `slower`: that B takes more than 1 + threshold times as long
as A is certain at 5 %, over all cases together (two-sided, Holm's correction over every case with noise). `faster`: the same the
other way round. `same`: the 95 % interval of the ratio lies within the threshold on both sides. All else is `undecided`.
Simulated cases have no noise: their ratio alone decides.

What samples of one run cannot tell is what changes from run to run: where memory happens to lie, which core the thread got. Two
runs of one machine minutes apart differ by that, so a difference that matters is worth a third run (`runner.history`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from runner.compare_doubts import doubts_between
from runner.compared_run import ComparedCase, ComparedRun, label_of, varying_columns
from runner.errors import UsageError
from runner.two_samples import Ratio, Times, chance_of_more, holm, ratio_of
from runner.units import digits

Word = Literal["slower", "faster", "same", "undecided", "broken", "mended", "no_number"]
"""What becomes of a case: by its times; `broken` and `mended` where only A, or only B, has a number; `no_number` without any."""
WORDS: Final[tuple[Word, ...]] = ("broken", "slower", "faster", "mended", "undecided", "same", "no_number")
"""In the order in which they are told."""
THRESHOLD: Final = 0.02
"""The share by which a time may differ and still count as the same; less changes from run to run by itself."""
CERTAIN: Final = 0.05


@dataclass(frozen=True, slots=True)
class Difference:
    """One case of both runs: `ratio` is how many times as long B takes, `chance` the corrected p of its word.

    `reason` says in a sentence why nothing is decided, or why there is no number; `flags` are the doubts of both rows.
    """

    label: str
    a: ComparedCase
    b: ComparedCase
    word: Word
    ratio: Ratio | None = None
    chance: float | None = None
    reason: str = ""

    @property
    def flags(self) -> str:
        """Return the flags that either row carries, each once."""
        return " ".join(sorted({*self.a.flags.split(), *self.b.flags.split()}))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs: what became of each case that both have, in the order of A, and the cases that only one has.

    `added` are labels of cases that only B has, `missing` of those that only A has, `doubts` sentences on why the two should not
    be compared without a second look.
    """

    a: ComparedRun
    b: ComparedRun
    threshold: float
    differences: tuple[Difference, ...]
    added: tuple[str, ...]
    missing: tuple[str, ...]
    doubts: tuple[str, ...]

    def of(self, *words: Word) -> list[Difference]:
        """Return the cases of which one of these words is said."""
        return [each for each in self.differences if each.word in words]


@dataclass(frozen=True, slots=True)
class Step:
    """What one case did from one run to another: the word, the ratio, and the chance corrected for being one of many."""

    word: Literal["slower", "faster", "same", "undecided"]
    ratio: Ratio
    chance: float


def compare_runs(a: ComparedRun, b: ComparedRun, *, threshold: float = THRESHOLD, allow_simulated: bool = False) -> Comparison:
    """Compare two runs, B against A; `threshold` is a share, 0.02 for 2 %.

    Cases are joined by their id, and those that find no partner so by their scenario and every column that both tables have.
    Raises UsageError where one is measured and the other simulated, unless that is allowed, and where a case was timed by another
    clock in the one than in the other.
    """
    if a.device_kind != b.device_kind and not allow_simulated:
        raise UsageError(
            f"{a.run_id} is of {a.device} ({a.device_kind}), {b.run_id} of {b.device} ({b.device_kind}): measured and simulated "
            "times are not the same thing; --allow simulated compares them all the same"
        )
    pairs, missing, added = joined(a, b)
    _same_clock(pairs)
    varying, others = varying_columns(a), varying_columns(b)
    timed = [(one.times, two.times) for one, two in pairs if one.times is not None and two.times is not None]
    steps = iter(steps_of(timed, threshold))
    return Comparison(
        a,
        b,
        threshold,
        tuple(_difference(one, two, label_of(one, varying[one.scenario]), steps, threshold) for one, two in pairs),
        tuple(label_of(case, others[case.scenario]) for case in added),
        tuple(label_of(case, varying[case.scenario]) for case in missing),
        tuple(doubts_between(a, b, threshold)),
    )


def joined(
    a: ComparedRun, b: ComparedRun
) -> tuple[list[tuple[ComparedCase, ComparedCase]], list[ComparedCase], list[ComparedCase]]:
    """Return the cases of both runs as pairs in the order of A, then those that only A has, then those that only B has.

    Excluded cases were not asked for and are left out.
    """
    mine = {name: case for name, case in a.cases.items() if case.status != "excluded"}
    theirs = {name: case for name, case in b.cases.items() if case.status != "excluded"}
    columns = [name for name in a.columns if name in b.columns]
    by_identity: dict[tuple[str, ...], list[ComparedCase]] = {}
    for name, case in theirs.items():
        if name not in mine:
            by_identity.setdefault(case.identity(columns), []).append(case)
    pairs, missing, taken = [], [], set()
    for name, case in mine.items():
        found = [theirs[name]] if name in theirs else by_identity.get(case.identity(columns), [])
        # Two that look alike in the columns that both tables have are told apart by one that only one table has.
        if len(found) == 1 and found[0].case_id not in taken:
            taken.add(found[0].case_id)
            pairs.append((case, found[0]))
        else:
            missing.append(case)
    return pairs, missing, [case for name, case in theirs.items() if name not in taken]


def steps_of(pairs: Sequence[tuple[Times, Times]], threshold: float) -> list[Step]:
    """Return what each pair of times says, corrected for all of them together; `threshold` is a share."""
    factor = 1 + threshold
    chances = [(chance_of_more(one, two, factor), chance_of_more(two, one, factor)) for one, two in pairs]
    noisy = [place for place, (one, two) in enumerate(pairs) if not (one.exact and two.exact)]
    corrected = dict(zip(noisy, holm([min(1.0, 2 * min(chances[place])) for place in noisy]), strict=True))
    steps = []
    for place, (one, two) in enumerate(pairs):
        ratio, (slower, faster) = ratio_of(one, two), chances[place]
        chance = corrected.get(place, min(slower, faster))
        low, high = ratio.ends()
        told = ratio.low is not None or (one.exact and two.exact)
        if chance <= CERTAIN:
            steps.append(Step("slower" if slower < faster else "faster", ratio, chance))
        else:
            steps.append(Step("same" if told and 1 / factor <= low and high <= factor else "undecided", ratio, chance))
    return steps


def _difference(one: ComparedCase, two: ComparedCase, label: str, steps: Iterator[Step], threshold: float) -> Difference:
    if one.times is None or two.times is None:
        word, which = _without(one, two)
        reason = f"{which.status}: {which.reason}".rstrip(": ") if which.status != "ok" else f"no sample has {which.metric}"
        return Difference(label, one, two, word, reason=reason)
    step = next(steps)
    reason = _why_undecided(step, one.times, two.times, threshold) if step.word == "undecided" else ""
    return Difference(label, one, two, step.word, step.ratio, step.chance, reason)


def _without(one: ComparedCase, two: ComparedCase) -> tuple[Word, ComparedCase]:
    if one.times is not None:
        return "broken", two
    return ("mended", one) if two.times is not None else ("no_number", two)


def _why_undecided(step: Step, one: Times, two: Times, threshold: float) -> str:
    if step.ratio.low is None:
        return f"{len(one.values)} and {len(two.values)} samples are too few for an interval"
    low, high = step.ratio.ends()
    if low > 1 + threshold or high < 1 / (1 + threshold):
        return "different by itself, but not certain among so many cases; more samples would tell"
    return f"the interval reaches over the threshold of {digits(100 * threshold)} %"


def _same_clock(pairs: Sequence[tuple[ComparedCase, ComparedCase]]) -> None:
    for one, two in pairs:
        if one.metric != two.metric:
            raise UsageError(
                f"{one.case_id} ({one.scenario}) is timed by {one.metric} in the one run and by {two.metric} in the other; "
                "choose one with --metric"
            )
