"""A comparison of two runs for people and for programs: lines for the screen, a table, and the rows of a CSV file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from runner.columns import Column
from runner.compare import CERTAIN, WORDS, Comparison, Difference
from runner.rows import Row
from runner.scenarios.base import Cell
from runner.screen import Grid
from runner.stats import median
from runner.units import counted, digits

MOST_ROWS: Final = 40
"""Rows of the table on the screen; `--csv` writes them all."""
_COLUMNS: Final = (
    ("run_a", "text", "", "The run that is compared against."),
    ("run_b", "text", "", "The run that is compared."),
    ("scenario", "text", "", "The name of the scenario in the file."),
    ("case", "text", "", "The scenario and the axes that vary."),
    ("case_id_a", "text", "", "The case in A; empty where only B has it."),
    ("case_id_b", "text", "", "The case in B; empty where only A has it."),
    ("metric", "text", "", "The time that is compared."),
    ("unit", "text", "", "Its unit."),
    ("median_a", "number", "the row's unit", "Median over the samples of A."),
    ("median_b", "number", "the row's unit", "Median over the samples of B."),
    ("samples_a", "integer", "samples", "Samples of A, of very many those that stand for them; 1 where it has no noise."),
    ("samples_b", "integer", "samples", "The same of B."),
    ("ratio", "number", "", "How many times as long B takes: median of the ratios of each sample of B to each of A."),
    ("ci_low_ratio", "number", "", "Lower end of its 95 % interval, by Mann and Whitney's test."),
    ("ci_high_ratio", "number", "", "Upper end of it."),
    ("chance", "number", "", "p of slower or faster beyond the threshold, two-sided, by Holm's correction for all cases."),
    ("threshold", "number", "", "The share by which a time may differ and count as the same."),
    ("word", "text", "", "slower, faster, same, undecided; broken, mended, no_number; added, missing."),
    ("reason", "text", "", "Why nothing is decided, or why there is no number."),
    ("flags", "text", "", "Doubts that either row carries."),
)
COMPARISON_COLUMNS: Final = tuple(Column(name, kind, unit, meaning) for name, kind, unit, meaning in _COLUMNS)  # type: ignore[arg-type]
"""The columns of a comparison's CSV file, in order."""


def comparison_lines(comparison: Comparison) -> list[str]:
    """Say which runs are compared, what is doubtful, and how many cases became what, worst first."""
    a, b = comparison.a, comparison.b
    simulated = [name for name, run in (("A", a), ("B", b)) if run.device_kind == "simulated"]
    lines = [f"SIMULATED: the times of {' and '.join(simulated)} are computed from a profile."] if simulated else []
    lines += [f"A is {a.run_id} of {a.experiment} on {a.device}.", f"B is {b.run_id} of {b.experiment} on {b.device}."]
    lines += [f"doubt: {doubt}" for doubt in comparison.doubts]
    counts = Counter(each.word for each in comparison.differences)
    told = ", ".join(f"{counts[word]:,} {word.replace('_', ' ')}" for word in WORDS if counts[word])
    lines.append(f"{counted(len(comparison.differences), 'case')} in both{f': {told}' if told else ''}.")
    for what, names in (("only in B", comparison.added), ("only in A", comparison.missing)):
        if names:
            more = f", and {len(names) - 3:,} more" if len(names) > 3 else ""
            lines.append(f"{counted(len(names), 'case')} {what}: {'; '.join(names[:3])}{more}.")
    if not comparison.differences:
        lines.append("The runs have no case in common, so nothing is compared; give two runs of one file.")
    return lines


def method_line(comparison: Comparison) -> str:
    """Say by which test and threshold the words were found."""
    threshold = digits(100 * comparison.threshold)
    return (
        f"B against A by raw samples (Mann-Whitney). slower, faster: by more than {threshold} %, p at most "
        f"{CERTAIN} over all cases together (Holm). same: the 95 % interval of B / A lies within that."
    )


def comparison_grid(comparison: Comparison) -> Grid:
    """Return the table of the screen: the cases that changed first, and of each word the largest change first."""
    ordered = sorted(comparison.differences, key=_rank)
    drawn = tuple(_drawn(each) for each in ordered[:MOST_ROWS])
    hidden = len(ordered) - len(drawn)
    headers = ("case", "", "B / A", "95 % interval", "A", "B", "", "doubts")
    return Grid(headers, drawn, f"... and {hidden:,} more; --csv writes them all" if hidden else "")


def comparison_rows(comparison: Comparison) -> list[Row]:
    """Return one row a case, those of both runs first, by COMPARISON_COLUMNS."""
    lead: dict[str, Cell] = {"run_a": comparison.a.run_id, "run_b": comparison.b.run_id, "threshold": comparison.threshold}
    rows: list[Row] = [lead | _row(each) for each in comparison.differences]
    rows += [lead | {"case": label, "word": "added"} for label in comparison.added]
    return rows + [lead | {"case": label, "word": "missing"} for label in comparison.missing]


def ratio_text(difference: Difference) -> tuple[str, str]:
    """Write a ratio and its interval; each is empty where there is none."""
    ratio = difference.ratio
    if ratio is None:
        return "", ""
    low, high = ratio.low, ratio.high
    return digits(ratio.value), "" if low is None or high is None else f"{digits(low)} … {digits(high)}"


def _row(difference: Difference) -> dict[str, Cell]:
    a, b, ratio = difference.a, difference.b, difference.ratio
    return {
        "scenario": a.scenario,
        "case": difference.label,
        "case_id_a": a.case_id,
        "case_id_b": b.case_id,
        "metric": a.metric,
        "unit": a.unit,
        "median_a": None if a.times is None else median(a.times.values),
        "median_b": None if b.times is None else median(b.times.values),
        "samples_a": None if a.times is None else len(a.times.values),
        "samples_b": None if b.times is None else len(b.times.values),
        "ratio": None if ratio is None else ratio.value,
        "ci_low_ratio": None if ratio is None else ratio.low,
        "ci_high_ratio": None if ratio is None else ratio.high,
        "chance": difference.chance,
        "word": difference.word,
        "reason": difference.reason,
        "flags": difference.flags,
    }


def _rank(difference: Difference) -> tuple[int, float]:
    change = 0.0 if difference.ratio is None else max(difference.ratio.value, 1 / difference.ratio.value)
    return WORDS.index(difference.word), -change


def _drawn(difference: Difference) -> tuple[str, ...]:
    medians = [
        "" if each.times is None else f"{digits(median(each.times.values))} {each.unit}" for each in (difference.a, difference.b)
    ]
    word = difference.word.replace("_", " ")
    return (difference.label, word, *ratio_text(difference), *medians, _bar(difference), difference.flags or difference.reason)


def _bar(difference: Difference) -> str:
    """Draw the change by signs: one for each 2 %, + for slower, - for faster, ten at most."""
    if difference.ratio is None:
        return ""
    value = difference.ratio.value
    count = min(10, round((max(value, 1 / value) - 1) / 0.02))
    return ("+" if value > 1 else "-") * count or "="


def labels_of(differences: Sequence[Difference]) -> str:
    """Name some cases in one line, the worst first."""
    ordered = sorted(differences, key=_rank)
    named = "; ".join(
        f"{each.label} ({f'{digits(each.ratio.value)} times as long' if each.ratio else each.reason})" for each in ordered[:3]
    )
    return named + (f"; and {len(ordered) - 3:,} more" if len(ordered) > 3 else "")
