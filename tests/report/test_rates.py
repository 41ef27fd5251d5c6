from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.report.axes import log_axis
from runner.report.figures import MOST_SERIES, PageFigure
from runner.report.rates import size_figures
from runner.report.reading import read_run
from runner.rows import Row
from tests.report.folders import LEAD, MIB, pipeline, run_folder, transfer


def drawn(path: Path, rows: Sequence[Row]) -> list[PageFigure]:
    return size_figures(read_run(run_folder(path, rows)))


def test_rate_against_size_has_a_series_a_buffer_and_the_limit(tmp_path: Path) -> None:
    rows = [
        transfer(size, rate, buffer=buffer)
        for buffer, rate in (("pageable", 5.0), ("pinned", 50.0))
        for size in (16 * MIB, MIB, 2 * MIB, 128 * MIB)
    ]
    (figure,) = drawn(tmp_path, rows)
    assert figure.title == "Rate against size, to the device (h2d)"
    assert [trace["name"] for trace in figure.data] == ["pageable", "pinned"]
    assert figure.data[0]["x"] == [MIB, 2 * MIB, 16 * MIB, 128 * MIB], "by bytes, not by letters"
    assert figure.layout["xaxis"]["ticktext"] == ["1MiB", "2MiB", "16MiB", "128MiB"]
    assert figure.data[1]["error_y"]["array"][0] == pytest.approx(50 / 0.9 - 50)
    assert figure.layout["shapes"][0]["y0"] == 63.0
    assert figure.rows[0] == ("pageable", "1MiB", "5", "4.545 … 5.556")


def test_each_direction_has_its_own_picture_with_its_own_limit(tmp_path: Path) -> None:
    rows = [
        transfer(size, rate, direction=direction, share_of_link=rate / 63 / ways)
        for direction, rate, ways in (("h2d", 50.0, 1), ("bidirectional", 90.0, 2))
        for size in (MIB, 2 * MIB)
    ]
    one, both = drawn(tmp_path, rows)
    assert (one.name, both.name) == ("size", "size1")
    assert (one.headers[2], both.headers[2]) == ("rate, GB/s", "rate both ways together, GB/s")
    assert both.title == "Rate against size, both ways at once"
    assert [figure.layout["annotations"][0]["text"] for figure in (one, both)] == [
        "limit of the link, one way: 63 GB/s",
        "limit of the link, both ways: 126 GB/s",
    ]
    assert [trace["y"] for figure in (one, both) for trace in figure.data] == [[50.0, 50.0], [90.0, 90.0]]


def test_round_trips_say_how_they_count(tmp_path: Path) -> None:
    (figure,) = drawn(tmp_path, [pipeline(chunk * MIB, 2, 60.0, direction="round_trip") for chunk in (1, 2)])
    assert figure.layout["yaxis"]["title"]["text"] == "rate there and back, each byte once, GB/s"


def test_a_limit_far_above_is_told_and_not_drawn(tmp_path: Path) -> None:
    (figure,) = drawn(tmp_path, [transfer(MIB, 1.0), transfer(2 * MIB, 1.5)])
    assert "shapes" not in figure.layout
    assert "The limit of the link, one way, 63 GB/s, lies far above" in figure.note


def test_too_many_series_become_the_best_of_each(tmp_path: Path) -> None:
    rows = [
        transfer(size, float(streams), streams=streams, chunk_bytes=MIB // 4)
        for size in (MIB, 2 * MIB)
        for streams in range(1, 30)
    ]
    (figure,) = drawn(tmp_path, rows)
    assert len(figure.data) <= MOST_SERIES
    assert figure.data[0]["y"] == [29.0, 29.0]
    assert figure.note.startswith("Of the cases that differ in streams only the best is drawn.")


def test_no_two_series_look_alike(tmp_path: Path) -> None:
    rows = [
        transfer(size, float(streams), streams=streams, chunk_bytes=MIB // 4)
        for size in (MIB, 2 * MIB)
        for streams in range(1, MOST_SERIES + 1)
    ]
    (figure,) = drawn(tmp_path, rows)
    looks = {(trace["line"]["color"], trace["line"]["dash"], trace["marker"]["symbol"]) for trace in figure.data}
    assert len(looks) == len(figure.data) == MOST_SERIES


def test_lines_that_hide_each_other_are_named(tmp_path: Path) -> None:
    rates = {"pinned": 50.0, "registered": 50.1, "pageable": 5.0}
    rows = [transfer(size, rate, buffer=buffer) for buffer, rate in rates.items() for size in (MIB, 2 * MIB)]
    (figure,) = drawn(tmp_path, rows)
    assert figure.note.startswith("pinned and registered lie on each other.")


def test_kinds_without_a_rate_are_drawn_by_their_time(tmp_path: Path) -> None:
    rows = [
        LEAD | {"case_id": f"c_{size}", "kind": "allocation", "size_bytes": size * MIB, "median_wall_ms": float(size)}
        for size in (1, 4)
    ]
    (figure,) = drawn(tmp_path, rows)
    assert figure.title == "Wall time against size"
    assert figure.data[0]["y"] == [1.0, 4.0]
    assert figure.layout["yaxis"]["type"] == "log"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((0.3, 40.0), ["0.1", "1", "10", "100"]),
        ((2.0, 40.0), ["1", "2", "5", "10", "20", "50", "100", "200", "500"]),
    ],
)
def test_ticks_of_decades_are_written_in_full(values: tuple[float, float], texts: list[str]) -> None:
    axis: dict[str, Any] = log_axis("ms", values)
    assert axis["ticktext"] == texts
    assert axis["tickvals"] == pytest.approx([float(text) for text in texts])
