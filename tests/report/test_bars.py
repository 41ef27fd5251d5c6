from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.report.bars import bars_figure
from runner.report.figures import PageFigure
from runner.report.reading import read_run
from runner.rows import Row
from tests.report.folders import MIB, grid_rows, pipeline, run_folder


def drawn(path: Path, rows: Sequence[Row], **more: Any) -> PageFigure:
    figure = bars_figure(read_run(run_folder(path, rows, **more)))
    assert figure is not None
    return figure


def test_bars_set_the_best_of_each_scenario_beside_twin_and_bounds(tmp_path: Path) -> None:
    figure = drawn(tmp_path, grid_rows())
    twin, measured, *bounds = figure.data
    assert measured["x"] == [200.0, 60.0]
    assert twin["x"] == [100.0, 100.0]
    assert [mark["x"] for mark in bounds] == [[90.0, 90.0], [50.0, 50.0], [40.0, 40.0]]
    assert figure.rows[0] == ("ring (chunk 4MiB, streams 3)", "100", "60", "90", "50", "40", "50 %")


def test_labels_stand_above_the_bars_and_have_only_what_varies_within_a_scenario(tmp_path: Path) -> None:
    rows = [row | {"buffer": "pageable"} if row["scenario"] == "serial" else row for row in grid_rows()]
    figure = drawn(tmp_path, rows)
    labels = figure.layout["annotations"]
    assert [label["text"] for label in labels] == ["serial", "ring (chunk 4MiB, streams 3)"]
    assert [label["y"] for label in labels] == figure.data[1]["y"] == [0, 1]
    assert all(label["yshift"] > 0 for label in labels)
    assert figure.layout["yaxis"]["showticklabels"] is False


def test_equal_bounds_do_not_stand_on_each_other(tmp_path: Path) -> None:
    figure = drawn(tmp_path, [pipeline(MIB, 2, 60.0, bound_one_way_ms=40.0)])
    places = {(mark["x"][0], mark["y"][0]) for mark in figure.data[2:]}
    assert len(places) == 3


def test_a_device_with_several_copy_engines_has_no_bound_of_one(tmp_path: Path) -> None:
    device = {"name": "NVIDIA X", "kind": "cuda", "copy_engines": 3}
    figure = drawn(tmp_path, grid_rows(), device=device)
    assert [trace["name"] for trace in figure.data[2:]] == ["bound: nothing overlaps", "bound: all overlaps"]
    assert "one engine copies both ways, ms" not in figure.headers
    assert "one engine" not in figure.note


def test_bounds_above_the_twin_are_told_and_not_drawn(tmp_path: Path) -> None:
    figure = drawn(
        tmp_path, [pipeline(MIB, 2, 92.0, twin_ms=79.0, bound_full_ms=86.0, bound_one_way_ms=86.0, bound_none_ms=96.0)]
    )
    assert len(figure.data) == 2
    assert "The bounds of ring lie above its twin" in figure.note
    assert figure.rows[0][-1] == "", "what was hidden cannot be told"


def test_time_that_is_in_no_bound_is_named(tmp_path: Path) -> None:
    figure = drawn(tmp_path, grid_rows())
    assert "serial takes 110 ms more than its parts together: what it allocates" in figure.note
    assert "ring (chunk 4MiB, streams 3) takes" not in figure.note
