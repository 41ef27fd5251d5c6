"""Timelines in the terminal, as SVG and as plain rows, from one whose times are known."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from runner.timeline import Span
from runner.timeline_page import MOST_DRAWN, timeline_lines, timeline_rows, timeline_svg
from tests.timelines import MIB, known_timeline

SVG = "{http://www.w3.org/2000/svg}"


def test_lines_show_when_each_line_worked_and_how_much() -> None:
    lines = timeline_lines(known_timeline(), 70)
    assert lines[0] == ("ring chunk 1MiB (c_1), measured on NVIDIA Test: the last recorded play of the run, 6.0 ms")
    drawn = {line.split(" |")[0].strip(): line.split("|")[1] for line in lines[2:-1]}
    assert list(drawn) == ["engine compute", "engine h2d", "stream first", "stream second", "host lane 0"]
    cells = len(drawn["engine h2d"])
    sixth = cells / 6
    assert 3 * sixth <= drawn["engine h2d"].count(">") <= 3 * sixth + 4, "two stretches touch a cell more at either end"
    assert drawn["engine compute"].strip() == "#" * len(drawn["engine compute"].strip())
    assert drawn["engine compute"].index("#") == pytest.approx(2 * sixth, abs=1)
    assert drawn["host lane 0"].split() == ["=" * 5, "." * 19]
    assert lines[3].endswith("50 %, 2MiB, 0.699 GB/s")
    assert lines[-1] == "> copy to device   # kernel   = host copy   . wait   ' call of the host"
    assert max(map(len, lines[1:-1])) <= 70


def test_what_a_kernel_works_on_has_no_rate_that_reads_like_a_copys() -> None:
    of = known_timeline()
    sized = tuple(replace(span, size_bytes=MIB) if span.work == "kernel" else span for span in of.timeline.spans)
    lines = timeline_lines(replace(of, timeline=replace(of.timeline, spans=sized)), 70)
    (compute,) = [line for line in lines if line.startswith("engine compute")]
    assert compute.endswith(" %, 1MiB")


def test_a_call_shows_where_its_lane_did_nothing_else() -> None:
    of = known_timeline()
    working = tuple(span for span in of.timeline.spans if span.engine != "host")
    lines = timeline_lines(replace(of, timeline=replace(of.timeline, spans=working)), 70)
    assert lines[-2].startswith("host lane 0")
    assert lines[-2].split("|")[1].strip() == "'"


def test_what_is_simulated_coarse_or_cut_is_said() -> None:
    of = known_timeline(simulated=True, left_out=7)
    assert "SIMULATED on NVIDIA Test" in timeline_lines(of)[0]
    assert timeline_lines(of)[1] == "Only the first 5 spans were kept; 7 later ones are not shown."
    coarse = replace(of, timeline=replace(of.timeline, source="events"))
    assert timeline_lines(coarse)[1].startswith("Nothing was recorded here")
    assert "SIMULATED" in timeline_svg(of)


def test_plain_rows_hold_every_span_of_a_line_in_ms() -> None:
    rows = timeline_rows(known_timeline())
    assert [(row["group"], row["name"], len(row["bars"])) for row in rows] == [
        ("engine", "compute", 1),
        ("engine", "h2d", 2),
        ("stream", "first", 2),
        ("stream", "second", 1),
        ("host", "lane 0", 2),
    ]
    assert rows[1]["bars"][0] == {
        "work": "h2d",
        "label": "copy to device 1MiB",
        "begin_ms": 1.0,
        "end_ms": 2.0,
        "bytes": MIB,
        "gb_per_s": pytest.approx(1.048576),
        "memory": "pinned",
        "timed": True,
        "call_begin_ms": 1.0,
        "call_end_ms": 1.002,
    }


def test_the_drawing_is_svg_with_a_bar_for_each_span_and_call() -> None:
    picture = ElementTree.fromstring(timeline_svg(known_timeline(label="<ring> & co")))
    assert picture.tag == f"{SVG}svg"
    told = [each.findtext(f"{SVG}title") or "" for each in picture.iter(f"{SVG}rect")]
    assert sum(each.startswith("copy to device 1MiB: from") for each in told) == 4, "two on the engine, two on their streams"
    assert sum(each.startswith("call for") for each in told) == 3
    assert any(each == "copy to device 1MiB: from 1.0 ms on, 1.0 ms, 1.05 GB/s, pinned" for each in told)
    assert "call of the host" in [each.text for each in picture.iter(f"{SVG}text")], "the low bars are explained"
    assert "<ring> & co" in (picture.findtext(f"{SVG}title") or "")


def test_a_drawing_of_very_many_bars_says_what_it_leaves_out() -> None:
    spans = tuple(Span("h2d", "h2d", 2 * place, 2 * place + 1, 0, 0, place) for place in range(MOST_DRAWN))
    of = known_timeline()
    text = timeline_svg(replace(of, timeline=replace(of.timeline, spans=spans)))
    assert f"{MOST_DRAWN:,} more bars are not drawn" in text
    assert text.count("<title>copy to device") == MOST_DRAWN


def test_a_timeline_without_spans_is_drawn_empty() -> None:
    of = known_timeline()
    empty = replace(of, timeline=replace(of.timeline, spans=()))
    assert timeline_rows(empty) == []
    assert len(timeline_lines(empty)) == 3
    assert ElementTree.fromstring(timeline_svg(empty)).tag == f"{SVG}svg"
