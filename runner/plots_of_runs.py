"""Pictures of several runs: what changed from one to another, and the history of a machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from runner.compare import Comparison
from runner.drawing import axes_or_new, titled
from runner.errors import UsageError
from runner.history import History, when
from runner.units import digits

COLOURS: Final = {"slower": "#c03a2b", "faster": "#2e7d4f"}
OTHER_COLOUR: Final = "#5a6b7b"
MOST_CASES: Final = 60
"""Cases in one picture; more could not be read. That some are left out is said in the picture."""


def plot_comparison(comparison: Comparison, *, axes: Any = None) -> Any:
    """Draw the ratio of each case of two runs with its interval, the threshold as a band; raises UsageError for no such case."""
    known = [(each.ratio, each) for each in comparison.differences if each.ratio is not None]
    if not known:
        raise UsageError("no case has a number in both runs, so there is nothing to draw")
    known.sort(key=lambda each: -abs(math.log(each[0].value)))
    shown = sorted(known[:MOST_CASES], key=lambda each: each[0].value)
    drawn = axes_or_new(axes, height=1.2 + 0.25 * len(shown))
    factor = 1 + comparison.threshold
    drawn.axvspan(1 / factor, factor, color="#e4e9ee", label=f"within {digits(100 * comparison.threshold)} %")
    drawn.axvline(1, color="black", linewidth=1)
    for place, (ratio, each) in enumerate(shown):
        low, high = ratio.ends()
        colour = COLOURS.get(each.word, OTHER_COLOUR)
        errors = [[ratio.value - low], [high - ratio.value]]
        drawn.errorbar([ratio.value], [place], xerr=errors, fmt="o", color=colour, capsize=3)
    drawn.set_yticks(range(len(shown)), [f"{each.label}: {each.word}" for _, each in shown])
    drawn.set_xscale("log")
    _plain_ticks(drawn, [value for ratio, _ in shown for value in ratio.ends()] + [1 / factor, factor])
    drawn.set_xlabel("time in B / time in A (left: B is faster)")
    kinds = {comparison.a.device_kind, comparison.b.device_kind}
    left_out = len(known) - len(shown)
    title = f"B: {comparison.b.run_id}\nagainst A: {comparison.a.run_id}" + (f" ({left_out} cases not shown)" if left_out else "")
    return titled(drawn, title, simulated="simulated" in kinds)


def plot_history(history: History, *, axes: Any = None) -> Any:
    """Draw each case's median over the runs, as a multiple of its first one, changes marked; raises UsageError without any."""
    series = [each for each in history.series if any(each.medians)]
    if not series:
        raise UsageError("no case has a number in any of the runs, so there is nothing to draw")
    drawn = axes_or_new(axes)
    for each in sorted(series, key=lambda one: -len(one.changes))[:MOST_CASES]:
        first = next(value for value in each.medians if value)
        points = [math.nan if value is None else value / first for value in each.medians]
        changed = bool(each.changes)
        drawn.plot(points, marker=".", color=None if changed else "#b9c4cf", label=each.label if changed else None)
        for change in each.changes:
            drawn.plot(
                [change.place], [points[change.place]], marker="o", color=COLOURS[change.word], markersize=9, fillstyle="none"
            )
    drawn.set_xticks(range(len(history.runs)), [when(run) for run in history.runs], rotation=45)
    drawn.set_ylabel("median time / that of the first run")
    title = f"{history.runs[0].experiment} on {history.runs[0].device}"
    return titled(drawn, title, simulated=history.runs[0].device_kind == "simulated")


def _plain_ticks(drawn: Any, values: Sequence[float]) -> None:
    """Put a few ratios at a logarithmic axis in plain digits."""
    low, high = math.log(min(values)), math.log(max(values))
    ticks = [math.exp(low + (high - low) * place / 4) for place in range(5)]
    drawn.set_xticks(ticks, [digits(tick, 3) for tick in ticks])
    drawn.minorticks_off()
