"""What a job of continuous integration fails on: a comparison's regressions, by the limits of `--fail-on`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner.compare import THRESHOLD, Comparison, Difference, Word, compare_runs
from runner.compare_page import labels_of
from runner.compared_run import ComparedRun
from runner.errors import UsageError
from runner.units import counted, digits

_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?) ?%", re.ASCII)
LARGEST_SHARE: Final = 10.0
ALLOWED_SHARE: Final = "a percentage above 0, such as 5% or 0.5%"
ALLOWED_GATES: Final = "slower, slower:P%, undecided or missing"
_JUDGED: Final[tuple[Word, ...]] = ("slower", "faster", "same", "undecided", "broken")
"""The words of cases that A has a number of, so that B can be worse."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What must not happen: a case slower by more than the share `slower` (None: any), one `undecided`, one that is `missing`.

    Undecided is what is neither slower nor faster nor the same by that share for certain.
    """

    slower: float | None = None
    missing: bool = False
    undecided: bool = False

    def judge(self, a: ComparedRun, b: ComparedRun, *, allow_simulated: bool) -> Judgement:
        """Judge B against A.

        A case that had a number and has none any more is a regression, too, wherever slower ones are. The words are found anew
        with the gate's own threshold, so that a case is slower by 5 % only if that much is certain. Raises UsageError where times
        are to be judged and no case has one in A and a partner in B: such a gate would always pass.
        """
        if self == Gate():
            return Judgement((), "")
        share = THRESHOLD if self.slower is None else self.slower
        comparison = compare_runs(a, b, threshold=share, allow_simulated=allow_simulated)
        failures = self._of_times(comparison, share) if self.slower is not None or self.undecided else []
        if self.missing and (lost := comparison.missing):
            failures.append(f"{counted(len(lost), 'case')} missing in B: {'; '.join(lost[:3])}")
        if not failures and (self.slower is not None or self.undecided) and not comparison.of(*_JUDGED):
            raise UsageError(_nothing_to_judge(comparison))
        open_cases = comparison.of("undecided") if self.slower is not None and not self.undecided else []
        return Judgement(tuple(failures), _open_line(open_cases, share))

    def _of_times(self, comparison: Comparison, share: float) -> list[str]:
        sentences = []
        slower, broken, undecided = (comparison.of(word) for word in ("slower", "broken", "undecided"))
        if slower:
            what = f"{counted(len(slower), 'case')} slower by more than {digits(100 * share)} % for certain"
            sentences.append(f"{what}: {labels_of(slower)}")
        if broken:
            sentences.append(f"{counted(len(broken), 'case')} without a number that A has: {labels_of(broken)}")
        if undecided and self.undecided:
            sentences.append(f"{counted(len(undecided), 'case')} undecided at {digits(100 * share)} %: {labels_of(undecided)}")
        return sentences


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a gate found: a sentence for each sort of regression, and one on what it could not decide, empty without."""

    failures: tuple[str, ...]
    left_open: str

    def lines(self) -> list[str]:
        """Return the lines of the screen: regressions begin with `regression:`, what was left open with `not judged:`."""
        return [f"regression: {each}" for each in self.failures] + ([f"not judged: {self.left_open}"] if self.left_open else [])


def parse_share(text: str) -> float:
    """Read a percentage as a share, `2%` as 0.02; raises UsageError for anything else, and for nothing and too much."""
    found = _PERCENT.fullmatch(text)
    share = float(found[1]) / 100 if found else 0.0
    if not 0 < share <= LARGEST_SHARE:
        raise UsageError(f"{text!r} is no threshold; allowed: {ALLOWED_SHARE}")
    return share


def parse_gate(texts: Sequence[str], threshold: float = THRESHOLD) -> Gate:
    """Read what `--fail-on` was given; `threshold` is for `slower` alone. Raises UsageError for anything else."""
    slower, missing, undecided = None, False, False
    for text in texts:
        word, colon, limit = text.partition(":")
        if word == "slower" and (limit or not colon):
            slower = parse_share(limit) if colon else threshold
        elif text == "missing":
            missing = True
        elif text == "undecided":
            undecided = True
        else:
            raise UsageError(f"{text!r} is nothing to fail on; allowed: {ALLOWED_GATES}")
    return Gate(slower, missing, undecided)


def _nothing_to_judge(comparison: Comparison) -> str:
    both = len(comparison.differences)
    why = f"none of the {counted(both, 'case')} in both has a number in A" if both else "the runs have no case in common"
    return f"--fail-on can judge nothing: {why} (A: {comparison.a.run_id}, B: {comparison.b.run_id}); give two runs of one file"


def _open_line(cases: Sequence[Difference], share: float) -> str:
    if not cases:
        return ""
    what = f"{counted(len(cases), 'case')} undecided at {digits(100 * share)} %, which do not fail: {labels_of(cases)}"
    return f"{what}; more samples decide, --fail-on undecided lets them fail"
