"""The answer to a file's question in a sentence or two, and what should be known before any number of a run is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner.column_words import unit_of, words_of
from runner.measure.result import FLAGS
from runner.report.cases import (
    case_label,
    counted_ways,
    interval_text,
    main_time,
    measured_rows,
    median_figure,
    number_of,
    rate_figure,
    time_of_rate,
    varying_axes,
)
from runner.report.gain import gain_sentences
from runner.report.predictions import asks_of_a_model, prediction_sentence
from runner.report.reading import RunTables
from runner.rows import Row
from runner.units import counted, digits

NO_NUMBER: Final = ("failed", "timeout", "corrupt", "skipped", "unsupported", "not_run")
CLEARLY: Final = 1.05
"""The ratio of two rates from which on one is called less than the other."""
_MOST_REASONS: Final = 5


@dataclass(frozen=True, slots=True)
class Doubt:
    """What should be known before a number is believed: a sentence, and whether numbers are missing or wrong for it (`grave`)."""

    sentence: str
    grave: bool = False


def answer(run: RunTables) -> list[str]:
    """Return the answer in one sentence, of a run in several directions in one each; what the run gives decides its form.

    Of several experiments together it is the count of their verdicts. Where the file asked what is fastest the run has answered;
    with a baseline it is the best speedup. Else it is the count of the verdicts, if any, and the best rate of each direction or
    the range of what was timed; figures of different kinds of scenarios are not set against each other where there are verdicts.
    """
    rows = measured_rows(run.rows)
    axes = varying_axes(run.rows)
    if not rows:
        return ["No case gave a number, so there is no answer."]
    if run.of_several:
        return [_counts_sentence(run.verdicts)]
    if asks_of_a_model(run):
        return [prediction_sentence(run)]
    return [*_of_the_machine(run, rows, axes), *filter(None, [prediction_sentence(run)])]


def _of_the_machine(run: RunTables, rows: Sequence[Row], axes: Sequence[str]) -> list[str]:
    """Answer from what was measured alone."""
    if isinstance(asked := run.manifest.get("answers"), list) and asked:
        return [str(sentence) for sentence in asked]
    if baseline := baseline_of(rows):
        return [_speedup_sentence(rows, axes, baseline), *_of_what(rows, baseline)]
    told = [_counts_sentence(run.verdicts)] if run.verdicts else []
    kinds = {row.get("kind") for row in rows}
    return told if told and len(kinds) > 1 else [*told, *_figures_sentences(rows, axes, run)]


def _counts_sentence(verdicts: Sequence[Row]) -> str:
    words = Counter(str(row.get("verdict")) for row in verdicts)
    counts = ", ".join(f"{count} {word}" for word, count in words.most_common())
    return f"Of {counted(len(verdicts), 'claim')}: {counts}." if counts else "Nothing was claimed."


def _figures_sentences(rows: Sequence[Row], axes: Sequence[str], run: RunTables) -> list[str]:
    rated = [row for row in rows if rate_figure(row)]
    if rated:
        directions = dict.fromkeys(str(row.get("direction", "")) for row in rated)
        shares = [[row for row in rated if str(row.get("direction", "")) == direction] for direction in directions]
        return [_rate_sentence(share, axes) for share in shares]
    return [_range_sentence(rows, axes, run)]


def baseline_of(rows: Sequence[Row]) -> str:
    """Return the scenario to which speedups refer: the one whose own are all exactly 1; empty where there is none."""
    speedups: dict[str, list[float]] = {}
    for row in rows:
        if (speedup := number_of(row, "speedup")) is not None:
            speedups.setdefault(str(row.get("scenario")), []).append(speedup)
    others = len(speedups) > 1
    return next((scenario for scenario, values in speedups.items() if others and set(values) == {1.0}), "")


def warnings(run: RunTables) -> list[Doubt]:
    """Return what is doubtful about a run: how far it came, cases without a number, flags, and changes to its file."""
    counts = Counter(str(row.get("status", "")) for row in run.rows)
    found = [*_unfinished(run, counts), *_without_numbers(run.rows, grave=not run.of_several)]
    flags = Counter(flag for row in run.rows for flag in str(row.get("flags", "")).split())
    measured = len(measured_rows(run.rows))
    of_measured = f"of {counted(measured, 'simulated case' if run.simulated else 'measured case')}"
    found += [
        Doubt(f"{flag}, {count} {of_measured}: {FLAGS.get(flag, 'a doubt that this version does not know')}.")
        for flag, count in flags.most_common()
    ]
    short = sum((number_of(row, "samples") or 0) < 6 for row in measured_rows(run.rows))
    if short and not run.simulated:
        found.append(Doubt(f"{short} {of_measured} have fewer than 6 samples, and so no interval."))
    if run.foreign:
        found.append(Doubt(f"summary.csv has {counted(run.foreign, 'row')} of other runs, left out here.", grave=True))
    found += [Doubt(f"{each}.") for each in run.doubts]
    if overrides := run.manifest.get("overrides"):
        found.append(Doubt(f"The file was changed for this run: {', '.join(map(str, overrides))}."))
    return found


def _unfinished(run: RunTables, counts: Counter[str]) -> list[Doubt]:
    status = run.manifest.get("status")
    if status == "complete":
        return []
    done = len(run.rows) - counts["not_run"]
    return [Doubt(f"The run is {status}: {done} of {len(run.rows)} cases were reached before it stopped.", grave=True)]


def _without_numbers(rows: Sequence[Row], *, grave: bool) -> list[Doubt]:
    """Count cases without a number by their reasons; not `grave` among claims, many of which ask for a refusal."""
    reasons = Counter(
        (str(row.get("status")), str(row.get("reason", ""))) for row in rows if row.get("status") in NO_NUMBER
    ).most_common()
    found = [
        Doubt(
            f"{count} of {counted(len(rows), 'case')} {status}{f': {reason}' if reason else ''}",
            grave=grave and status != "unsupported",
        )
        for (status, reason), count in reasons[:_MOST_REASONS]
    ]
    more = len(reasons) - _MOST_REASONS
    return [*found, Doubt(f"… and {more} other reasons, in the table below.", grave=grave)] if more > 0 else found


def _best_other(rows: Sequence[Row], baseline: str) -> Row:
    """Return the case with the best speedup of those that are not the baseline's own."""
    return max((row for row in rows if row.get("scenario") != baseline), key=lambda row: number_of(row, "speedup") or 0)


def _of_what(rows: Sequence[Row], baseline: str) -> list[str]:
    """Say what the best speedup consists of, where it surely is one."""
    best, mine = _best_other(rows, baseline), [row for row in rows if row.get("scenario") == baseline]
    sure = number_of(best, "ci_low_speedup") or number_of(best, "speedup") or 0.0
    return gain_sentences(best, mine[0] if len(mine) == 1 else None) if sure > 1 else []


def _speedup_sentence(rows: Sequence[Row], axes: Sequence[str], baseline: str) -> str:
    best = _best_other(rows, baseline)
    speedup, mine = number_of(best, "speedup"), number_of(best, f"median_{time_of_rate(best) or 'wall_ms'}")
    if speedup is None or mine is None:
        return f"No case can be compared with the baseline {baseline}."
    low, high = number_of(best, "ci_low_speedup"), number_of(best, "ci_high_speedup")
    interval = (
        f" ({digits(low)} to {digits(high)} by the ends of both 95 % intervals)" if low is not None and high is not None else ""
    )
    name, gain = case_label(best, axes), digits(speedup, 3)
    if low is not None and high is not None and low <= 1 <= high:
        return f"No difference is seen between {baseline} and the best other case, {name}: {gain} times as fast{interval}."
    if gain == "1":
        return f"Nothing beats {baseline}; the best of the others, {name}, takes as long: {digits(mine)} ms{interval}."
    told = f"{digits(mine)} ms against {digits(mine * speedup)} ms, {gain} times as fast as {baseline}{interval}"
    if speedup <= 1:
        return f"Nothing beats {baseline}; the best of the others is {name}: {told}."
    return f"{name} is the best: {told}."


def _rate_sentence(rows: Sequence[Row], axes: Sequence[str]) -> str:
    """Say the fastest case of rows with rates, and by how much it beats the slowest that differs only in the kind of memory."""
    best = max(rows, key=lambda row: number_of(row, "gb_per_s") or 0)
    figure = rate_figure(best)
    assert figure is not None, "only rows with a rate are asked"
    share = number_of(best, "share_of_link")
    link = f", {share * 100:.0f} % of the link's limit" if share is not None else ""
    others = [
        row for row in rows if row is not best and all(row.get(axis) == best.get(axis) for axis in axes if axis != "buffer")
    ]
    slowest = min(others, key=lambda row: number_of(row, "gb_per_s") or 0, default=None)
    against = ""
    if slowest is not None and "buffer" in axes and (slower := number_of(slowest, "gb_per_s")):
        times = figure.value / slower
        worse = f", {digits(times, 3)} times less" if times >= CLEARLY else ", as good as the same"
        against = f"; {slowest.get('buffer')} memory reaches {digits(slower)} there{worse}"
    interval = f" ({interval_text(figure)})" if interval_text(figure) else ""
    direction = f"{best['direction']}: " if "direction" in axes and "direction" in best else ""
    rest = [axis for axis in axes if axis != "direction"]
    verb = "is the fastest," if len(rows) > 1 else "reaches"
    return f"{direction}{case_label(best, rest)} {verb} {digits(figure.value)} GB/s{counted_ways(best)}{interval}{link}{against}."


def _range_sentence(rows: Sequence[Row], axes: Sequence[str], run: RunTables) -> str:
    time = main_time(rows)
    timed = [row for row in rows if median_figure(row, time)]
    if not timed:
        return f"{counted(len(rows), 'case')} ended well and timed nothing: look at the verdicts and the table."
    least, most = (choose(timed, key=lambda row: number_of(row, f"median_{time}") or 0.0) for choose in (min, max))
    name, unit = words_of(time).capitalize(), unit_of(f"median_{time}")
    ends = [f"{digits(number_of(row, f'median_{time}') or 0.0)} {unit} ({case_label(row, axes)})" for row in (least, most)]
    return f"{name} is {ends[0]}." if least is most else f"{name} goes from {ends[0]} to {ends[1]}."
