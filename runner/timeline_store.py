"""Keeping the recorded play of each measured case in its run: `timelines.jsonl`, one line of JSON a case.

A line has the case's id, what the timeline was made of, the names of streams and of all words, and a row of whole numbers for
each span: work, engine, begin, end, stream, lane, index, bytes, memory, timed, begin and end of the call (-1 where not known);
words are places in the list of words, times are ns. The first MOST_SPANS spans of a case are kept, and no more cases once the
file has MOST_BYTES. A simulated case keeps none: to play it again gives the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from runner.errors import EnvironmentProblem
from runner.measure.result import CaseResult
from runner.plan import Plan
from runner.timeline import Source, Span, Timeline

NAME: Final = "timelines.jsonl"
NO_FILE: Final = f"{NAME} is not in the run's folder. A run on a GPU where CUPTI is installed (dmalab[profile]) writes it there"
"""Why a measured run has no timeline at all."""
MOST_SPANS: Final = 2_000
"""Spans of one case that are kept: the first in time; that is 120 kB. A ring of 100 chunks has 800."""
MOST_BYTES: Final = 64 * 2**20
"""Bytes of a run's file beyond which no further case is kept."""
_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class KeptTimeline:
    """The timeline of one recorded play: `spans` in the order of their begin, `streams` the names of the Plan's streams.

    `left_out` counts later spans that were not kept.
    """

    source: Source
    streams: tuple[str, ...]
    spans: tuple[Span, ...]
    left_out: int = 0


class TimelineFile:
    """The timelines of a run on their way into its folder; nothing is made as long as there is none."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def keep(self, result: CaseResult) -> CaseResult:
        """Append the timeline of a case, if it has one and there is room, and return the result without it.

        The last line of a case counts. Raises EnvironmentProblem where it cannot be written.
        """
        if not result.timeline:
            return result
        content = f'{{"case_id": {json.dumps(result.case.case_id)}, "timeline": {result.timeline}}}\n'.encode()
        try:
            with open(self._path, "ab") as file:
                if file.tell() + len(content) <= MOST_BYTES:
                    file.write(content)
        except OSError as error:
            raise EnvironmentProblem(f"{self._path} cannot be written: {error.strerror or error}") from error
        return replace(result, timeline="")


def encoded(plan: Plan, timeline: Timeline) -> str:
    """Return a timeline as one line of JSON; empty where it has no spans."""
    if not timeline.spans:
        return ""
    kept = timeline.spans[:MOST_SPANS]
    words: dict[str, int] = {}

    def place(word: str) -> int:
        return words.setdefault(word, len(words))

    rows = [
        [
            place(span.work),
            place(span.engine),
            span.begin_ns,
            span.end_ns,
            span.stream,
            span.lane,
            span.index,
            span.size_bytes,
            place(span.memory),
            int(span.timed),
            _UNKNOWN if span.call_begin_ns is None else span.call_begin_ns,
            _UNKNOWN if span.call_end_ns is None else span.call_end_ns,
        ]
        for span in kept
    ]
    content = {
        "source": timeline.source,
        "streams": [stream.name for stream in plan.streams],
        "left_out": len(timeline.spans) - len(kept),
        "words": list(words),
        "spans": rows,
    }
    return json.dumps(content, separators=(",", ":"))


def kept_timeline(folder: Path, case_id: str) -> KeptTimeline | None:
    """Return the timeline of a case that its run has kept, None where it has none; a line that was cut is passed over."""
    found: KeptTimeline | None = None
    for line in _lines(folder / NAME):
        # Only the line that is wanted is read as JSON: there may be thousands.
        if line.startswith(f'{{"case_id": {json.dumps(case_id)},'):
            found = _decoded(line) or found
    return found


def whole_timeline(plan: Plan, timeline: Timeline) -> KeptTimeline:
    """Return a timeline that was just played, with all of its spans."""
    return KeptTimeline(timeline.source, tuple(stream.name for stream in plan.streams), timeline.spans)


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file
    except FileNotFoundError:
        return
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be read: {error.strerror or error}") from error


def _decoded(line: str) -> KeptTimeline | None:
    try:
        content = json.loads(line)["timeline"]
    except (ValueError, KeyError):
        return None
    words = content["words"]
    spans = tuple(_span(words, row) for row in content["spans"])
    return KeptTimeline(content["source"], tuple(content["streams"]), spans, content["left_out"])


def _span(words: Sequence[Any], row: Sequence[int]) -> Span:
    work, engine, begin, end, stream, lane, index, size, memory, timed, call_begin, call_end = row
    return Span(
        words[work],
        words[engine],
        begin,
        end,
        stream,
        lane,
        index,
        size,
        words[memory],
        bool(timed),
        None if call_begin == _UNKNOWN else call_begin,
        None if call_end == _UNKNOWN else call_end,
    )
