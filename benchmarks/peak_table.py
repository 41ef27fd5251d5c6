"""The table of benchmarks/peak.py: two sets of times side by side, their ratio, and whether it keeps the goal."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from runner.stats import median_interval

Word = Literal["within", "undecided", "NOT within"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Milliseconds of one thing by two methods; `limit` is how far the ratio of their medians may be from 1, None: any."""

    name: str
    left_ms: tuple[float, ...]
    right_ms: tuple[float, ...]
    limit: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Median of the left over that of the right; None where one of them is missing."""
        return median(self.left_ms) / median(self.right_ms) if self.left_ms and self.right_ms else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ratios between the ends of the 95 % intervals of both medians; None where one of them has too few samples."""
        left, right = median_interval(self.left_ms), median_interval(self.right_ms)
        return None if left is None or right is None else (left[0] / right[1], left[1] / right[0])

    @property
    def word(self) -> Word:
        """Whether the ratio keeps its limit; one that does not, but whose interval reaches within it, decides nothing."""
        if self.limit is None or (self.ratio is not None and abs(self.ratio - 1) <= self.limit):
            return "within"
        low, high = self.interval or (self.ratio, self.ratio)
        reaches = low is not None and high is not None and low <= 1 + self.limit and high >= 1 - self.limit
        return "undecided" if reaches else "NOT within"

    @property
    def met(self) -> bool:
        """Whether the ratio keeps its limit, as far as can be told; a pair with a limit and without a ratio does not."""
        return self.word != "NOT within"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pairs of one sort, with the names of their two methods; where it is `broken`, `title` says why there are none."""

    name: str
    title: str
    left: str
    right: str
    pairs: tuple[Pair, ...]
    broken: bool = False

    @property
    def met(self) -> bool:
        """Whether it could be made and every pair keeps its limit."""
        return not self.broken and all(pair.met for pair in self.pairs)

    def as_json(self) -> dict[str, Any]:
        """Return all samples and what they come to."""
        pairs = [
            {
                "name": pair.name,
                "left_ms": list(pair.left_ms),
                "right_ms": list(pair.right_ms),
                "ratio": pair.ratio,
                "interval": pair.interval,
                "limit": pair.limit,
                "word": pair.word,
                "note": pair.note,
            }
            for pair in self.pairs
        ]
        return {"name": self.name, "title": self.title, "left": self.left, "right": self.right, "met": self.met, "pairs": pairs}


def table_of(comparisons: list[Comparison], device: str) -> str:
    """Return all comparisons as Markdown, one table each."""
    lines = [f"{device}: medians in milliseconds; in brackets what their 95 % intervals allow the ratio to be.", ""]
    for comparison in comparisons:
        lines += [f"**{comparison.title}**", ""]
        if comparison.pairs:
            lines += [
                f"| copy | {comparison.left} | {comparison.right} | ratio | goal | |",
                "| --- | ---: | ---: | ---: | --- | --- |",
            ]
            lines += [_row(pair) for pair in comparison.pairs]
            lines.append("")
    return "\n".join(lines)


def _row(pair: Pair) -> str:
    goal = "" if pair.limit is None else f"{pair.word} {pair.limit:.1%}"
    ratio = "" if pair.ratio is None else f"{pair.ratio:.4f}"
    if pair.interval is not None:
        ratio += f" ({pair.interval[0]:.4f} to {pair.interval[1]:.4f})"
    return f"| {pair.name} | {_shown(pair.left_ms)} | {_shown(pair.right_ms)} | {ratio} | {goal} | {pair.note} |"


def _shown(values: tuple[float, ...]) -> str:
    return f"{median(values):.5f}" if values else ""
