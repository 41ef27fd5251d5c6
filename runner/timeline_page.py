"""A timeline for people: lines of signs for the terminal, a drawing as SVG, and plain rows for whoever draws it otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

from runner.timeline import Row, Span, Work, busy_stretches, rows_by
from runner.timeline_case import CaseTimeline
from runner.timeline_words import NAMES, rate_text, span_name
from runner.units import about_size, digits, format_seconds

SIGNS: Final[dict[Work, str]] = {
    "h2d": ">",
    "d2h": "<",
    "kernel": "#",
    "busy": "~",
    "host_copy": "=",
    "wait": ".",
    "host": "+",
}
CALL: Final = "'"
COLOURS: Final[dict[Work, str]] = {
    "h2d": "#3b7dd8",
    "d2h": "#d98032",
    "kernel": "#3a9a5b",
    "busy": "#9aa5b1",
    "host_copy": "#8a5cc2",
    "wait": "#cdd4db",
    "host": "#b0577b",
}
COPIES: Final[tuple[Work, ...]] = ("h2d", "d2h")
NARROWEST: Final = 20
_SLIVER: Final = 1e-6
"""The part of a cell that is no more than rounding; what is shorter than a cell shows all the same."""
MOST_DRAWN: Final = 5_000
"""Bars of one drawing; what is left out is said in it."""
_LEFT, _RIGHT, _HEIGHT, _BAR, _WIDTH = 150, 190, 26, 18, 1100


def timeline_lines(of: CaseTimeline, width: int = 100) -> list[str]:
    """Draw a timeline in `width` columns: a line for each engine, stream and host lane, a sign for what ran longest in a cell.

    Behind each line stand its busy share of the whole time, its bytes, and the rate while it was busy.
    """
    rows, (begin, end) = rows_with_calls(of), extent(of)
    names = [_name(row) for row in rows]
    left = max((len(name) for name in names), default=0)
    told = [_told(row, end - begin) for row in rows]
    cells = max(NARROWEST, width - left - max((len(each) for each in told), default=0) - 5)
    lines = [*_heading(of, end - begin), f"{'':{left}} |{_scale(end - begin, cells)}|"]
    for row, name, words in zip(rows, names, told, strict=True):
        drawn = _signs(row, of.timeline.spans, begin, end, cells)
        lines.append(f"{name:{left}} |{drawn}| {words}".rstrip())
    used = {span.work for row in rows for span in row.spans}
    legend = [f"{sign} {NAMES[work]}" for work, sign in SIGNS.items() if work in used]
    calling = any(span.call_begin_ns is not None and span.engine != "host" for span in of.timeline.spans)
    return [*lines, "   ".join([*legend, *([f"{CALL} call of the host"] if calling else [])])]


def timeline_rows(of: CaseTimeline) -> list[dict[str, Any]]:
    """Return the timeline as plain data: for each line its group (engine, stream, host), its name, and its bars in order.

    A bar has `work` and `label` in words, `begin_ms` and `end_ms` from the first work or call on, `bytes` (0 for none),
    `gb_per_s` (None for none), `memory` (the driver's word on the host's side), `timed`, `call_begin_ms` and `call_end_ms` (None
    where not known). Calls are no bars of their own.
    """
    begin, _ = extent(of)
    return [
        {"group": row.group, "name": row.name, "bars": [_plain(span, begin) for span in row.spans]}
        for row in rows_by(of.timeline.streams, of.timeline.spans)
    ]


def timeline_svg(of: CaseTimeline) -> str:
    """Draw a timeline as an SVG picture that stands by itself: a bar for each span, told in full where the pointer rests on it.

    Its text takes the colour of the page that it is put into.
    """
    rows, (begin, end) = rows_with_calls(of), extent(of)
    heading = _heading(of, end - begin)
    top = 20 * len(heading) + 26
    height = top + _HEIGHT * len(rows) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" '
        f'font-size="13" fill="currentColor"><title>{escape(heading[0])}</title>'
    ]
    parts += [f'<text x="8" y="{20 * place}">{escape(line)}</text>' for place, line in enumerate(heading, 1)]
    parts += _axis(begin, end, top, height - 40)
    drawn = 0
    for place, row in enumerate(rows):
        y = top + _HEIGHT * place
        parts.append(f'<text x="8" y="{y + 14}">{escape(_name(row))}</text>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{y + 14}" font-size="11">{escape(_told(row, end - begin))}</text>')
        for bar in _rectangles(row, of.timeline.spans, begin, end, y):
            drawn += 1
            if drawn <= MOST_DRAWN:
                parts.append(bar)
    calling = any(span.call_begin_ns is not None and span.engine != "host" for span in of.timeline.spans)
    parts += _legend(rows, height - 18, drawn - MOST_DRAWN, calling=calling)
    return "\n".join([*parts, "</svg>"]) + "\n"


def extent(of: CaseTimeline) -> tuple[int, int]:
    """Return the first begin and the last end of all work and calls, in ns; one ns apart at least."""
    begins = [
        span.begin_ns if span.call_begin_ns is None else min(span.begin_ns, span.call_begin_ns) for span in of.timeline.spans
    ]
    ends = [span.end_ns if span.call_end_ns is None else max(span.end_ns, span.call_end_ns) for span in of.timeline.spans]
    begin = min(begins, default=0)
    return begin, max([begin + 1, *ends])


def rows_with_calls(of: CaseTimeline) -> list[Row]:
    """Return the lines of a timeline, with one for each lane of the host that did nothing but call."""
    rows = rows_by(of.timeline.streams, of.timeline.spans)
    lanes = {row.name for row in rows if row.group == "host"}
    calling = sorted({span.lane for span in of.timeline.spans if span.call_begin_ns is not None and span.engine != "host"})
    return rows + [Row("host", f"lane {lane}", ()) for lane in calling if f"lane {lane}" not in lanes]


def calls_of(spans: Sequence[Span], lane: int) -> Iterator[tuple[int, int, Span]]:
    """Yield begin and end of each call by which a lane handed work to the device, and that work."""
    for span in spans:
        if span.engine != "host" and span.lane == lane and span.call_begin_ns is not None and span.call_end_ns is not None:
            yield span.call_begin_ns, span.call_end_ns, span


def _heading(of: CaseTimeline, length_ns: int) -> list[str]:
    timeline = of.timeline
    measured = "SIMULATED on" if of.simulated else "measured on"
    lines = [f"{of.label} ({of.case_id}), {measured} {of.device}: {of.origin}, {format_seconds(length_ns / 1e9)}"]
    if timeline.source == "events":
        lines.append("Nothing was recorded here: a line reaches from the first to the last event of a direction.")
    if timeline.left_out:
        lines.append(f"Only the first {len(timeline.spans):,} spans were kept; {timeline.left_out:,} later ones are not shown.")
    return lines


def _name(row: Row) -> str:
    return row.name if row.name.startswith(row.group) else f"{row.group} {row.name}"


def _told(row: Row, length_ns: int) -> str:
    busy = sum(end - begin for begin, end in busy_stretches(row.spans))
    if not busy:
        return ""
    size = sum(span.size_bytes for span in row.spans)
    told = f", {about_size(size)}" if size and row.group == "engine" else ""
    # What a kernel works on crosses no link, and beside the copies its rate would be taken for theirs.
    moved = f"{told}, {digits(size / busy, 3)} GB/s" if told and any(span.work in COPIES for span in row.spans) else told
    return f"{100 * busy / length_ns:3.0f} %{moved}"


def _scale(length_ns: int, cells: int) -> str:
    start, end = "0", format_seconds(length_ns / 1e9)
    return start + "-" * max(1, cells - len(start) - len(end)) + end


def _signs(row: Row, spans: Sequence[Span], begin: int, end: int, cells: int) -> str:
    """Return a sign for each cell, that of the work which had most of it; a call shows where nothing else was."""
    shares: list[dict[str, float]] = [{} for _ in range(cells)]
    for span in row.spans:
        _spread(shares, SIGNS[span.work], (span.begin_ns - begin) / (end - begin), (span.end_ns - begin) / (end - begin))
    if row.group == "host":
        calls: list[dict[str, float]] = [{} for _ in range(cells)]
        for first, last, _ in calls_of(spans, int(row.name.removeprefix("lane "))):
            _spread(calls, CALL, (first - begin) / (end - begin), (last - begin) / (end - begin))
        shares = [own or called for own, called in zip(shares, calls, strict=True)]
    return "".join(max(each, key=each.__getitem__) if each else " " for each in shares)


def _spread(shares: list[dict[str, float]], sign: str, begin: float, end: float) -> None:
    """Add a stretch, in shares of the whole length, to the cells that it touches."""
    first, last = begin * len(shares), end * len(shares)
    for cell in range(int(first), min(len(shares), int(last) + 1)):
        covered = min(last, cell + 1) - max(first, cell)
        if covered > _SLIVER or last - first < 1:
            shares[cell][sign] = shares[cell].get(sign, 0.0) + covered


def _plain(span: Span, begin: int) -> dict[str, Any]:
    def ms(ns: int | None) -> float | None:
        return None if ns is None else (ns - begin) / 1e6

    return {
        "work": span.work,
        "label": span_name(span),
        "begin_ms": ms(span.begin_ns),
        "end_ms": ms(span.end_ns),
        "bytes": span.size_bytes,
        "gb_per_s": span.gb_per_s,
        "memory": span.memory,
        "timed": span.timed,
        "call_begin_ms": ms(span.call_begin_ns),
        "call_end_ms": ms(span.call_end_ns),
    }


def _rectangles(row: Row, spans: Sequence[Span], begin: int, end: int, y: int) -> Iterator[str]:
    scale = (_WIDTH - _LEFT - _RIGHT) / (end - begin)

    def rectangle(first: int, last: int, top: int, height: int, colour: str, told: str) -> str:
        x, width = _LEFT + (first - begin) * scale, max(0.4, (last - first) * scale)
        place = f'x="{x:.2f}" y="{top}" width="{width:.2f}" height="{height}"'
        return f'<rect {place} fill="{colour}"><title>{escape(told)}</title></rect>'

    for span in row.spans:
        yield rectangle(span.begin_ns, span.end_ns, y, _BAR, COLOURS[span.work], _in_full(span, begin))
    if row.group == "host":
        for first, last, span in calls_of(spans, int(row.name.removeprefix("lane "))):
            told = f"call for {span_name(span)}: {format_seconds((last - first) / 1e9)}"
            yield rectangle(first, last, y + _BAR, 4, COLOURS[span.work], told)


def _in_full(span: Span, begin: int) -> str:
    """Say of a span what it was, from when to when, at which rate, from or to which memory."""
    length = format_seconds((span.end_ns - span.begin_ns) / 1e9)
    when = f"from {format_seconds((span.begin_ns - begin) / 1e9)} on, {length}"
    words = [f"{span_name(span)}: {when}", rate_text(span), span.memory, "" if span.timed else "not timed"]
    return ", ".join(word for word in words if word)


def _axis(begin: int, end: int, top: int, bottom: int) -> Iterator[str]:
    width = _WIDTH - _LEFT - _RIGHT
    for quarter in range(5):
        x = _LEFT + width * quarter / 4
        told = format_seconds((end - begin) * quarter / 4 / 1e9) if quarter else "0"
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}" stroke="currentColor" stroke-opacity="0.25"/>'
        yield f'<text x="{x:.1f}" y="{top - 10}" text-anchor="middle" font-size="11">{escape(told)}</text>'


def _legend(rows: Sequence[Row], y: int, left_out: int, *, calling: bool) -> Iterator[str]:
    used = {span.work for row in rows for span in row.spans}
    x = _LEFT
    for work, colour in COLOURS.items():
        if work in used:
            yield f'<rect x="{x}" y="{y - 11}" width="12" height="12" fill="{colour}"/>'
            yield f'<text x="{x + 16}" y="{y}">{escape(NAMES[work])}</text>'
            x += 34 + 7 * len(NAMES[work])
    if calling:
        yield f'<rect x="{x}" y="{y - 5}" width="12" height="4" fill="currentColor"/>'
        yield f'<text x="{x + 16}" y="{y}">call of the host</text>'
        x += 34 + 7 * len("call of the host")
    if left_out > 0:
        yield f'<text x="{x}" y="{y}">{left_out:,} more bars are not drawn</text>'
