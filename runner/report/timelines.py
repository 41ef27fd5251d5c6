"""The timelines on the page: for the best case of each scenario, what engines, streams and host lanes did when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose
from typing import Final

from markupsafe import Markup

from runner.errors import DmalabError
from runner.report.cases import case_label, main_time, measured_rows, number_of, varying_axes
from runner.report.reading import RunTables
from runner.rows import Row
from runner.timeline_case import SAME_TIME, CaseTimeline, played_again
from runner.timeline_page import timeline_svg
from runner.timeline_store import NAME, NO_FILE, KeptTimeline, kept_timeline

MOST_TIMELINES: Final = 3
MOST_SPANS: Final = 600
"""Spans of one drawing: each is a bar of some 200 bytes."""
MOST_CHUNKS: Final = 64
"""Chunks of a simulated case, which is played again for its timeline: a chunk is up to a dozen spans."""

_NOT_THE_BEST: Final = "The fastest of its scenario, {}, has too many chunks to be drawn; this is the fastest that has not."


@dataclass(frozen=True, slots=True)
class PageTimeline:
    """One drawing: whose it is, an SVG whose text is escaped, and what a reader must know of it."""

    name: str
    title: str
    svg: Markup
    note: str = ""


def page_timelines(run: RunTables) -> list[PageTimeline]:
    """Return a timeline for the best case of each scenario whose timeline is there and not too long, MOST_TIMELINES at most.

    A measured case has one where the run has kept its recorded play; a simulated one is played again. None of several experiments
    together.
    """
    axes = varying_axes(run.rows)
    found: list[PageTimeline] = []
    for row, best in () if run.of_several else _best_rows(run):
        if len(found) < MOST_TIMELINES and (kept := _timeline(run, row)) is not None and len(kept.spans) <= MOST_SPANS:
            label = case_label(row, axes)
            origin = "played again" if run.simulated else "the last recorded play of the run"
            device = str(row.get("device", ""))
            of = CaseTimeline(str(row.get("run_id", "")), str(row.get("case_id", "")), label, device, run.simulated, origin, kept)
            name, note = f"timeline{len(found)}", "" if row is best else _NOT_THE_BEST.format(case_label(best, axes))
            found.append(PageTimeline(name, f"Who worked when: {label}", Markup(timeline_svg(of)), note))
    return found


def why_none(run: RunTables) -> str:
    """Say why a run with numbers has no timeline on its page; empty where it has no numbers or is of several experiments."""
    if run.of_several or not measured_rows(run.rows):
        return ""
    if not run.simulated and not (run.folder / NAME).exists():
        return f"There is no timeline: {NO_FILE}."
    return (
        f"There is no timeline here: what was kept of the best cases has more than {MOST_CHUNKS} chunks or {MOST_SPANS} bars, or "
        "cannot be played again as it was. dmalab timeline says more of any case."
    )


def _best_rows(run: RunTables) -> Iterator[tuple[Row, Row]]:
    """Yield of each scenario the fastest case that is short enough, whose timeline tells most, and the fastest of all."""
    rows = measured_rows(run.rows)
    time = f"median_{main_time(rows)}"
    scenarios = dict.fromkeys(row.get("scenario") for row in rows)
    for scenario in scenarios:
        timed = [row for row in rows if row.get("scenario") == scenario and time in row]
        ranked = sorted(timed, key=lambda row: number_of(row, time) or 0.0)
        if short := next((row for row in ranked if _short(row)), None):
            yield short, ranked[0]


def _short(row: Row) -> bool:
    total, chunk = number_of(row, "total_bytes") or number_of(row, "size_bytes"), number_of(row, "chunk_bytes")
    return not total or not chunk or total / chunk <= MOST_CHUNKS


def _timeline(run: RunTables, row: Row) -> KeptTimeline | None:
    """Return the timeline of a case; None where the run kept none, or its file gives another time by this version, or no play."""
    case_id = str(row.get("case_id", ""))
    try:
        if not run.simulated:
            return kept_timeline(run.folder, case_id)
        played, _, _ = played_again(run, case_id, str(row.get("device", "")))
    except DmalabError:
        return None
    time = main_time([row])
    now, then = played.figures.get(time), number_of(row, f"median_{time}")
    return played.timeline if now is not None and then is not None and isclose(now, then, rel_tol=SAME_TIME) else None
