"""What a job of continuous integration fails on: a comparison's regressions, by the limits of `--fail-on`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner.compare import THRESHOLD, Comparison, compare_runs, regressions
from runner.compare_page import labels_of
from runner.compared_run import ComparedRun
from runner.errors import UsageError
from runner.units import counted

_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?) ?%", re.ASCII)
LARGEST_SHARE: Final = 10.0
ALLOWED_SHARE: Final = "a percentage above 0, such as 5% or 0.5%"
ALLOWED_GATES: Final = "slower, slower:P% or missing"


@dataclass(frozen=True, slots=True)
class Gate:
    """What must not happen: a case slower by more than the share `slower` (None: any), a case that is `missing`."""

    slower: float | None = None
    missing: bool = False

    def failures(self, a: ComparedRun, b: ComparedRun, *, allow_simulated: bool) -> list[str]:
        """Return a sentence for each sort of regression of B against A, empty where there is none.

        A case that had a number and has none any more is one, too, wherever slower ones are. The words are found anew with the
        gate's own threshold, so that a case is slower by 5 % only if that much is certain.
        """
        sentences: list[str] = []
        if self.slower is not None:
            found = regressions(compare_runs(a, b, threshold=self.slower, allow_simulated=allow_simulated))
            slower = [each for each in found if each.word == "slower"]
            broken = [each for each in found if each.word == "broken"]
            if slower:
                what = f"{counted(len(slower), 'case')} slower by more than {100 * self.slower:.4g} % for certain"
                sentences.append(f"{what}: {labels_of(slower)}")
            if broken:
                sentences.append(f"{counted(len(broken), 'case')} without a number that A has: {labels_of(broken)}")
        if self.missing:
            lost = compare_runs(a, b, allow_simulated=allow_simulated).missing
            if lost:
                sentences.append(f"{counted(len(lost), 'case')} missing in B: {'; '.join(lost[:3])}")
        return sentences


def parse_share(text: str) -> float:
    """Read a percentage as a share, `2%` as 0.02; raises UsageError for anything else, and for nothing and too much."""
    found = _PERCENT.fullmatch(text)
    share = float(found[1]) / 100 if found else 0.0
    if not 0 < share <= LARGEST_SHARE:
        raise UsageError(f"{text!r} is no threshold; allowed: {ALLOWED_SHARE}")
    return share


def parse_gate(texts: Sequence[str], threshold: float = THRESHOLD) -> Gate:
    """Read what `--fail-on` was given; `threshold` is for `slower` alone. Raises UsageError for anything else."""
    slower, missing = None, False
    for text in texts:
        word, colon, limit = text.partition(":")
        if word == "slower" and (limit or not colon):
            slower = parse_share(limit) if colon else threshold
        elif text == "missing":
            missing = True
        else:
            raise UsageError(f"{text!r} is nothing to fail on; allowed: {ALLOWED_GATES}")
    return Gate(slower, missing)


def gate_lines(comparison: Comparison, gate: Gate, *, allow_simulated: bool) -> list[str]:
    """Return the regressions that a gate finds, each as a line that begins with `regression:`."""
    return [f"regression: {each}" for each in gate.failures(comparison.a, comparison.b, allow_simulated=allow_simulated)]
