"""Pictures of a run for notebooks and papers: rate against size, a heat map of a grid, bars of pipelines with their bounds.

Each helper takes what `runner.read_results` gives, draws into `axes` or, without one, into a new figure, and returns the axes.
They need matplotlib (the extra `plot`), which is imported when one is called. A picture of a simulated run says so in its title.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from runner.column_words import title_of, words_of
from runner.drawing import axes_or_new, matplotlib_module, titled
from runner.errors import UsageError
from runner.report.cases import AXIS_NAMES, main_time
from runner.rows import Row
from runner.scenarios import SCENARIOS
from runner.units import digits, format_size

if TYPE_CHECKING:
    import pandas as pd

    from runner.results import Results

BOUNDS: Final = (
    ("bound_full_ms", "all hidden", ":"),
    ("bound_one_way_ms", "one way hidden", "-."),
    ("bound_none_ms", "nothing hidden", "--"),
)
"""Columns of what a pipeline is held against, how they are called in a picture, and the style of their lines."""
MOST_NAMED: Final = 8
"""Values that a refusal lists."""
MOST_BARS: Final = 60
"""Cases in one picture; more could not be read. What is left out is said in the picture."""


def plot_rate(results: Results, *, x: str = "size_bytes", y: str = "gb_per_s", axes: Any = None) -> Any:
    """Draw a rate against a size, a line for each scenario, buffer and direction that the run has, with 95 % intervals.

    `x` is a column in bytes (`size_bytes`, `chunk_bytes`, `total_bytes`), on a logarithmic axis; `y` a column of rates in GB/s.
    Of several cases of a line at one size the best is drawn, and the legend says of how many. The link's limit is a line. Raises
    UsageError where no case has both, and for what is no run.
    """
    table = _good(results, x, y)
    drawn = axes_or_new(axes)
    groups = [name for name in ("scenario", "buffer", "direction") if table[name].nunique() > 1] or ["scenario"]
    for name, group in table.groupby(groups, sort=False):
        best = group.sort_values(y).groupby(x, sort=True).tail(1).sort_values(x)
        rates = best[y].astype(float).tolist()
        low, high = _rate_errors(best, rates)
        most = int(group.groupby(x).size().max())
        label = " ".join(map(str, name)) + (f" (best of {most})" if most > 1 else "")
        drawn.errorbar(best[x].astype(float).tolist(), rates, yerr=[low, high], marker="o", capsize=3, label=label)
    limit = table["link_gb_per_s"].dropna()
    if len(limit):
        drawn.axhline(float(limit.iloc[0]), color="black", linewidth=1, linestyle="--", label="the link's limit, one way")
    drawn.set_xscale("log", base=2)
    sizes = sorted({int(size) for size in table[x]})
    drawn.set_xticks(sizes, [format_size(size) for size in sizes], rotation=45)
    drawn.minorticks_off()
    drawn.set_ylim(bottom=0)
    drawn.set_xlabel(words_of(x))
    drawn.set_ylabel(title_of(y))
    return _finished(drawn, results, "rate against size")


def plot_grid(
    results: Results,
    *,
    rows: str = "chunk_bytes",
    columns: str = "streams",
    values: str | None = None,
    scenario: str | None = None,
    where: Mapping[str, str | int | float] | None = None,
    axes: Any = None,
) -> Any:
    """Draw a heat map of `values` over two axes of a scenario's grid, each cell with its number, the best one framed.

    `scenario` is the one with most such cases where omitted, `values` the median of the time that gives their rate. `where` takes
    the cases that have these values in these columns, such as `{"buffer": "pinned"}`. The best is the smallest of a time, the
    largest of anything else. Raises UsageError where no case has all three, where several cases fall into one cell, naming what
    tells them apart, and for what is no run.
    """
    table = _chosen(_good(results, rows, columns), scenario, where or {})
    name = str(table["scenario"].iloc[0])
    values = values or f"median_{main_time(_plain_rows(table))}"
    table = table[table.index.isin(_good(results, rows, columns, values).index)]
    if not len(table):
        raise UsageError(f"no case of {name!r} has a number in {values}, {rows} and {columns}")
    _one_case_a_cell(table, rows, columns)
    lowest = values.removeprefix("median_").endswith(("_ms", "_us"))
    pivot = table.pivot(index=rows, columns=columns, values=values).sort_index()
    cells = [[float(cell) if cell == cell else math.nan for cell in row] for row in pivot.astype(float).to_numpy().tolist()]
    drawn = axes_or_new(axes)
    image = drawn.imshow(cells, aspect="auto", cmap="viridis_r" if lowest else "viridis")
    drawn.figure.colorbar(image, ax=drawn, label=title_of(values))
    known = [(cell, place, column) for place, row in enumerate(cells) for column, cell in enumerate(row) if not math.isnan(cell)]
    for cell, place, column in known:
        dark = image.norm(cell) < 0.5 if not lowest else image.norm(cell) > 0.5
        drawn.text(column, place, digits(cell), ha="center", va="center", color="white" if dark else "black")
    _, place, column = (min if lowest else max)(known)
    frame = matplotlib_module("patches").Rectangle
    drawn.add_patch(frame((column - 0.5, place - 0.5), 1, 1, fill=False, edgecolor="#d62728", linewidth=3))
    drawn.set_xticks(range(len(pivot.columns)), [_tick(columns, each) for each in pivot.columns])
    drawn.set_yticks(range(len(pivot.index)), [_tick(rows, each) for each in pivot.index])
    drawn.set_xlabel(_axis(columns))
    drawn.set_ylabel(_axis(rows))
    return _finished(drawn, results, f"{name}: {words_of(values)}, the best framed", legend=False)


def plot_overlap(results: Results, *, axes: Any = None) -> Any:
    """Draw the time of each pipeline as a bar with its 95 % interval, and what its legs allow as lines across it.

    The bounds are those of the summary: `bound_none_ms` with nothing hidden, `bound_one_way_ms`, and `bound_full_ms`, below which
    no overlap can come. Raises UsageError where the run has no pipeline with a number.
    """
    table = _good(results, "median_wall_ms", "total_bytes")
    shown = table.sort_values("median_wall_ms", ascending=False)
    if len(shown) > MOST_BARS:
        # The best and the worst are what is looked for.
        half = MOST_BARS // 2
        shown = shown.iloc[[*range(half), *range(len(shown) - half, len(shown))]]
    drawn = axes_or_new(axes, height=1.2 + 0.3 * len(shown))
    times = shown["median_wall_ms"].astype(float).tolist()
    low = [time - value if value == value else 0.0 for time, value in zip(times, _floats(shown, "ci_low_wall_ms"), strict=True)]
    high = [value - time if value == value else 0.0 for time, value in zip(times, _floats(shown, "ci_high_wall_ms"), strict=True)]
    places = range(len(shown))
    drawn.barh(places, times, xerr=[low, high], color="#8fb3d9", ecolor="black", capsize=2, label="measured wall time")
    for column, label, style in BOUNDS:
        bounds = _floats(shown, column)
        known = [(place, bound) for place, bound in zip(places, bounds, strict=True) if bound == bound]
        if known:
            at, ends = [bound for _, bound in known], [place for place, _ in known]
            drawn.vlines(at, [y - 0.4 for y in ends], [y + 0.4 for y in ends], linestyles=style, colors="#8a2d2d", label=label)
    drawn.set_yticks(places, _labels(shown))
    drawn.set_xlim(left=0)
    drawn.set_xlabel(title_of("median_wall_ms"))
    left_out = len(table) - len(shown)
    return _finished(
        drawn, results, "pipelines and what their legs allow" + (f" ({left_out} cases not shown)" if left_out else "")
    )


def _chosen(table: pd.DataFrame, scenario: str | None, where: Mapping[str, str | int | float]) -> pd.DataFrame:
    """Return the cases of one scenario, that with most of them where none is named, which have the wanted values."""
    for column, value in where.items():
        if column not in table:
            raise UsageError(f"where: the summary has no column {column!r}")
        known = table[column].dropna().unique().tolist()
        table = table[table[column] == value]
        if not len(table):
            raise UsageError(f"where: no case has {value!r} in {column}; allowed: {', '.join(map(str, known[:MOST_NAMED]))}")
    names = table["scenario"].unique().tolist()
    if scenario is not None and scenario not in names:
        raise UsageError(f"no such case is of a scenario {scenario!r}; allowed: {', '.join(names)}")
    return table[table["scenario"] == (scenario or table["scenario"].mode().iloc[0])]


def _one_case_a_cell(table: pd.DataFrame, rows: str, columns: str) -> None:
    """Raise UsageError where several cases fall into one cell: which of them is meant is not for a picture to choose."""
    _, group = max(table.groupby([rows, columns]), key=lambda each: len(each[1]))
    if len(group) < 2:
        return
    apart = {name: group[name].dropna().unique().tolist() for name in AXIS_NAMES if name in group and name not in (rows, columns)}
    told = [f"{name} ({', '.join(map(str, found[:MOST_NAMED]))})" for name, found in apart.items() if len(found) > 1]
    raise UsageError(
        f"{len(group)} cases fall into one cell of {rows} and {columns}; choose by where={{column: value}}: they differ in "
        f"{', '.join(told) or 'no axis'}"
    )


def _plain_rows(table: pd.DataFrame) -> list[Row]:
    """Return rows as the rest of the package has them: without the cells that are empty."""
    plain = table.astype(object).where(table.notna(), None)
    return [{str(name): cell for name, cell in row.items() if cell is not None} for row in plain.to_dict("records")]


def _good(results: Results, *columns: str) -> pd.DataFrame:
    """Return the cases that went well and have a number in all of these columns; raises UsageError where there are none."""
    from runner.results import Results  # which imports pandas

    if not isinstance(results, Results):
        raise UsageError(f"{results!r} is no run that was read; allowed: what runner.read_results(path) gives")
    summary = results.summary
    unknown = [name for name in columns if name not in summary]
    if unknown:
        raise UsageError(f"the summary has no column {', '.join(unknown)}")
    table = summary[summary["status"] == "ok"].dropna(subset=list(columns))
    if not len(table):
        raise UsageError(f"no case of {results.folder.name} that went well has a number in {' and '.join(columns)}")
    return table


def _rate_errors(table: pd.DataFrame, rates: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return how far each rate's interval reaches below and above it, by that of the time that gives it; 0 where it has none."""
    below, above = [], []
    for rate, (_, row) in zip(rates, table.iterrows(), strict=True):
        model = SCENARIOS.get(str(row["kind"]))
        clock = "wall" if model is None else model.CLOCK
        middle, low, high = (row[f"{statistic}_{clock}_ms"] for statistic in ("median", "ci_low", "ci_high"))
        known = all(isinstance(each, float) and each > 0 for each in (middle, low, high))
        below.append(rate - rate * middle / high if known else 0.0)
        above.append(rate * middle / low - rate if known else 0.0)
    return below, above


def _floats(table: pd.DataFrame, column: str) -> list[float]:
    return [float(each) for each in table[column].astype("Float64").to_numpy(dtype=float, na_value=math.nan)]


def _labels(table: pd.DataFrame) -> list[str]:
    """Name each case by its scenario and by the axes of pipelines in which the cases differ."""
    axes = [name for name in ("buffer", "staging", "direction", "chunk_bytes", "streams", "slots") if table[name].nunique() > 1]
    if "streams" in axes and "slots" in axes and (table["streams"] == table["slots"]).all():
        axes.remove("slots")
    return [
        " ".join([str(row["scenario"]), *(_tick(name, row[name], named=True) for name in axes if row[name] == row[name])])
        for _, row in table.iterrows()
    ]


def _axis(column: str) -> str:
    """Name an axis whose ticks are written by `_tick`: sizes have their unit there."""
    return words_of(column) if column.endswith("_bytes") else title_of(column)


def _tick(column: str, value: Any, *, named: bool = False) -> str:
    if column.endswith("_bytes"):
        return format_size(int(value))
    text = str(int(value)) if isinstance(value, float) and value == int(value) else str(value)
    return f"{words_of(column)} {text}" if named and not isinstance(value, str) else text


def _finished(drawn: Any, results: Results, what: str, *, legend: bool = True) -> Any:
    first = results.summary.iloc[0]
    simulated = first["device_kind"] == "simulated"
    return titled(drawn, f"{first['experiment']} on {first['device']}: {what}", simulated=simulated, legend=legend)
