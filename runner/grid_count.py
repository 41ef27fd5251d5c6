"""What `validate` tells of a grid: how many cases it has, and which of them cannot show what their fields suggest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from runner.expand import expand
from runner.spec.load import LoadedExperiment
from runner.units import counted


@dataclass(slots=True)
class GridCount:
    """Cases of one file, excluded ones among them; `advice` counts the others by scenario and sentence."""

    cases: int = 0
    excluded: int = 0
    advice: Counter[tuple[str, str]] = field(default_factory=Counter)

    def advice_lines(self) -> list[str]:
        """Return a line for each sentence of advice, in the order of the file."""
        return [f"  {scenario}, {counted(count, 'case')}: {advice}" for (scenario, advice), count in self.advice.items()]


def count_grid(loaded: LoadedExperiment, max_cases: int) -> GridCount:
    """Expand the whole grid of a file and count it; raises SpecError as `expand` does."""
    count = GridCount()
    for case in expand(loaded, max_cases):
        count.cases += 1
        if case.excluded:
            count.excluded += 1
        elif advice := case.model.advice():
            count.advice[case.scenario, advice] += 1
    return count
