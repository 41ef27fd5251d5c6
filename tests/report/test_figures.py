from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.report.cases import case_label, constants, rate_figure, time_of_rate, varying_axes
from runner.report.figures import plain
from runner.report.heat import heat_figures
from runner.report.page import page_figures
from runner.report.reading import RunTables, read_run
from runner.report.scatter import held_figure, predicted_figure
from runner.rows import Row
from tests.report.folders import LEAD, MIB, grid_rows, pipeline, run_folder, transfer


def made(path: Path, rows: Sequence[Row], **more: Any) -> RunTables:
    return read_run(run_folder(path, rows, **more))


def test_axes_are_those_that_tell_cases_of_a_scenario_apart() -> None:
    rows = grid_rows()
    assert varying_axes(rows) == ["chunk_bytes", "streams"], "slots repeat streams, and the scenario says the rest"
    assert case_label(rows[1], varying_axes(rows)) == "ring (chunk 1MiB, streams 1)"
    assert case_label(rows[1], []) == "ring"


def test_the_clock_of_a_rate_follows_from_the_bytes() -> None:
    assert time_of_rate(transfer(MIB, 10.0)) == "event_ms"
    assert time_of_rate(transfer(MIB, 10.0, median_wall_ms=5.0)) == "event_ms"
    assert time_of_rate(pipeline(MIB, 2, 60.0)) == "wall_ms"
    both_ways = transfer(MIB, 10.0, median_event_ms=2 * MIB / 10.0 / 1e6)
    assert time_of_rate(both_ways) == "event_ms"
    assert time_of_rate(transfer(MIB, 10.0, median_event_ms=123.0)) == ""
    assert rate_figure(LEAD) is None


def test_a_rates_interval_is_that_of_its_time_turned_round() -> None:
    figure = rate_figure(transfer(MIB, 9.9))
    assert figure is not None
    assert figure.ends() == pytest.approx((9.0, 11.0))


def test_the_heat_map_marks_the_best_cell_and_counts_those_alike(tmp_path: Path) -> None:
    (figure,) = heat_figures(made(tmp_path, grid_rows()))
    (heat,) = figure.data
    assert heat["x"] == ["1", "2", "3"]
    assert heat["y"] == ["1MiB", "4MiB"]
    assert heat["z"] == [[80.0, 70.0, 66.0], [75.0, 60.5, 60.0]]
    assert heat["text"][1][2] == "★ 60"
    assert [figure.layout["shapes"][0][side] for side in ("x0", "y0")] == [1.5, 0.5]
    assert "60 ms with chunks of 4MiB on 3 streams. The intervals of 1 other cell touch" in figure.note


def test_a_gap_in_the_grid_stays_a_gap(tmp_path: Path) -> None:
    rows = [dict(row) for row in grid_rows()]
    rows[2]["status"] = "failed"
    (figure,) = heat_figures(made(tmp_path, rows))
    assert figure.data[0]["z"][0] == [80.0, None, 66.0]
    assert figure.rows[0][2] == ""


def test_heat_maps_of_transfers_show_the_rate(tmp_path: Path) -> None:
    rows = [
        transfer(8 * MIB, float(chunk * streams), chunk_bytes=chunk * MIB, streams=streams)
        for chunk in (1, 2)
        for streams in (1, 2)
    ]
    (figure,) = heat_figures(made(tmp_path, rows))
    assert figure.data[0]["text"][1][1] == "★ 4"
    assert figure.data[0]["reversescale"] is False


def test_host_held_time_counts_every_call(tmp_path: Path) -> None:
    rows = [transfer(8 * MIB, 8.0, chunk_bytes=MIB), transfer(MIB, 8.0), transfer(MIB, 8.0, direction="bidirectional")]
    figure = held_figure(made(tmp_path, rows))
    assert figure is not None
    assert [trace["y"] for trace in figure.data] == [[0.08, 0.01]]


def test_predictions_stand_beside_what_was_measured(tmp_path: Path) -> None:
    rows = [transfer(MIB, 10.0), transfer(2 * MIB, 10.0)]
    predicted = [
        {"case_id": rows[0]["case_id"], "figure": "event_ms", "measured_ms": 1.0, "predicted_ms": 1.1, "error_percent": 10.0},
        {"case_id": rows[1]["case_id"], "figure": "event_ms", "measured_ms": 2.0, "predicted_ms": 1.0},
        {"case_id": "c_gone", "figure": "event_ms", "measured_ms": None, "predicted_ms": 1.0},
    ]
    figure = predicted_figure(made(tmp_path, rows, predicted=predicted))
    assert figure is not None
    assert figure.data[0]["x"] == [1.0, 2.0]
    assert figure.rows[0] == ("copy (size 1MiB)", "event_ms", "1", "1.1", "+10.0")
    assert figure.rows[1][-1] == "-50.0"
    assert "the worst within 50.0 %" in figure.note
    assert predicted_figure(made(tmp_path / "none", rows)) is None


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [LEAD | {"status": "failed", "reason": "x"}],
        [LEAD | {"case_id": "c"}],
        [LEAD | {"case_id": "c", "median_wall_ms": 0.0}],
    ],
)
def test_without_numbers_nothing_is_drawn(tmp_path: Path, rows: list[Row]) -> None:
    assert page_figures(made(tmp_path, rows)) == []


def test_names_reach_plotly_as_text() -> None:
    assert plain("<b>&amp;</b>") == "&lt;b&gt;&amp;amp;&lt;/b&gt;"


def test_what_is_alike_in_every_row_is_told_once() -> None:
    alike = constants([transfer(MIB, 1.0), transfer(2 * MIB, 1.0)])
    assert alike["buffer"] == "pinned"
    assert "size_bytes" not in alike
    assert "device" not in alike


def test_only_copies_are_held_against_their_calls(tmp_path: Path) -> None:
    counted = {name: cell for name, cell in transfer(MIB, 8.0, scenario="cost").items() if name != "direction"}
    figure = held_figure(made(tmp_path, [transfer(MIB, 8.0), counted]))
    assert figure is not None
    assert [trace["name"] for trace in figure.data] == ["pinned h2d"]
    assert figure.layout["xaxis"]["title"]["text"] == "time of the copies, ms"
    assert held_figure(made(tmp_path / "none", [counted])) is None


def test_behind_earlier_work_the_time_is_not_called_the_copies_own(tmp_path: Path) -> None:
    figure = held_figure(made(tmp_path, [transfer(MIB, 0.2, kind="blocking", busy_ms=5.0)]))
    assert figure is not None
    assert figure.layout["xaxis"]["title"]["text"] == "time of the copies and the work before them, ms"
    assert figure.headers[1] == "copies and the work before them, ms"
    assert "as long as the copies and the work before them take" in figure.note
