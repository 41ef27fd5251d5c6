"""Pictures by what is in them: lines, cells, bars and titles, from runs with known figures and from the published ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.compare import compare_runs
from runner.compared_run import compared_run
from runner.drawing import save_picture
from runner.errors import EnvironmentProblem, UsageError
from runner.history import histories
from runner.plots_of_runs import plot_comparison, plot_history
from runner.results import Results
from tests.runs_for_tests import noisy, write_run

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

REFERENCE = Path(__file__).parents[1] / "results/reference/nvidia-h200"


@pytest.fixture
def axes() -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(6, 4), layout="constrained").subplots()


@pytest.fixture(scope="module")
def bandwidth() -> Results:
    return runner.read_results(REFERENCE / "bandwidth")


@pytest.fixture(scope="module")
def overlap() -> Results:
    return runner.read_results(REFERENCE / "overlap")


def simulated(results: Results) -> Results:
    return replace(results, summary=results.summary.assign(device="simulated:h200", device_kind="simulated"))


def test_rates_have_a_line_for_each_buffer_and_direction(bandwidth: Results, axes: Any) -> None:
    drawn = runner.plot_rate(bandwidth, axes=axes)
    assert drawn is axes
    labels = drawn.get_legend_handles_labels()[1]
    assert labels == ["the link's limit, one way", "pageable h2d", "pageable d2h", "pinned h2d", "pinned d2h"]
    assert [tick.get_text() for tick in drawn.get_xticklabels()] == ["1MiB", "4MiB", "16MiB", "64MiB", "256MiB"]
    pinned = drawn.containers[2].lines[0]
    summary = bandwidth.summary.query("buffer == 'pinned' and direction == 'h2d'").sort_values("size_bytes")
    assert list(pinned.get_ydata()) == pytest.approx(summary["gb_per_s"].tolist())
    assert drawn.get_ylim()[0] == 0
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("size", "rate, GB/s")
    assert "NVIDIA H200" in drawn.get_title()
    assert "SIMULATED" not in drawn.get_title()


def test_a_grid_shows_every_cell_and_frames_the_best(overlap: Results, axes: Any) -> None:
    drawn = runner.plot_grid(overlap, axes=axes)
    ring = overlap.summary.query("scenario == 'overlapped'")
    assert sorted(float(text.get_text()) for text in drawn.texts) == pytest.approx(sorted(ring["median_wall_ms"]), rel=1e-3)
    best = ring.loc[ring["median_wall_ms"].idxmin()]
    (frame,) = drawn.patches
    column, row = round(frame.get_x() + 0.5), round(frame.get_y() + 0.5)
    assert drawn.get_xticklabels()[column].get_text() == str(best["streams"])
    assert drawn.get_yticklabels()[row].get_text() == f"{best['chunk_bytes'] // 2**20}MiB"
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("streams", "chunk")
    assert drawn.figure.axes[-1].get_ylabel() == "median wall time, ms"
    assert drawn.get_title().endswith("overlapped: median wall time, the best framed")


def test_a_rate_in_a_grid_is_best_where_it_is_largest(overlap: Results, axes: Any) -> None:
    drawn = runner.plot_grid(overlap, values="gb_per_s", axes=axes)
    (frame,) = drawn.patches
    ring = overlap.summary.query("scenario == 'overlapped'")
    best = ring.loc[ring["gb_per_s"].astype(float).idxmax()]
    assert drawn.get_xticklabels()[round(frame.get_x() + 0.5)].get_text() == str(best["streams"])


def test_cases_that_fall_into_one_cell_are_refused_and_can_be_chosen(bandwidth: Results, axes: Any) -> None:
    told = r"4 cases fall into one cell .* they differ in buffer \(pageable, pinned\), direction \(h2d, d2h\)$"
    with pytest.raises(UsageError, match=told):
        runner.plot_grid(bandwidth, axes=axes)
    drawn = runner.plot_grid(bandwidth, where={"buffer": "pinned", "direction": "h2d"}, axes=axes)
    own = bandwidth.summary.query("buffer == 'pinned' and direction == 'h2d'")
    shown = sorted(float(text.get_text()) for text in drawn.texts)
    assert shown == pytest.approx(sorted(own["median_event_ms"]), rel=1e-3), "by the clock of a transfer, not by the host's"
    assert "median time by events" in drawn.get_title()
    for where, words in (({"buffer": "none"}, "allowed: pageable, pinned"), ({"colour": "red"}, "no column 'colour'")):
        with pytest.raises(UsageError, match=words):
            runner.plot_grid(bandwidth, where=where)
    with pytest.raises(UsageError, match=r"of a scenario 'none'; allowed: \S+$"):
        runner.plot_grid(bandwidth, scenario="none")


def test_a_line_of_the_best_cases_says_of_how_many(overlap: Results, axes: Any) -> None:
    labels = runner.plot_rate(overlap, x="chunk_bytes", axes=axes).get_legend_handles_labels()[1]
    assert labels == ["the link's limit, one way", "serialized pageable", "overlapped pinned (best of 4)"]


@pytest.mark.parametrize("draw", [runner.plot_rate, runner.plot_grid, runner.plot_overlap])
def test_what_is_no_run_is_refused_in_a_sentence(draw: Any) -> None:
    with pytest.raises(UsageError, match=r"'x' is no run that was read; allowed: what runner\.read_results\(path\) gives"):
        draw("x")


def test_pipelines_are_bars_beside_what_their_legs_allow(overlap: Results, axes: Any) -> None:
    drawn = runner.plot_overlap(overlap, axes=axes)
    assert len(drawn.patches) == len(overlap.summary)
    assert {patch.get_width() for patch in drawn.patches} == set(overlap.summary["median_wall_ms"])
    labels = drawn.get_legend_handles_labels()[1]
    assert set(labels) == {"all hidden", "one way hidden", "nothing hidden", "measured wall time"}


def test_simulated_runs_say_so_in_every_picture(bandwidth: Results, overlap: Results, axes: Any) -> None:
    first, second = axes.figure.subplots(1, 2)
    assert runner.plot_rate(simulated(bandwidth), axes=first).get_title().startswith("SIMULATED, not measured")
    assert runner.plot_overlap(simulated(overlap), axes=second).get_title().startswith("SIMULATED, not measured")


def test_what_cannot_be_drawn_is_said(bandwidth: Results) -> None:
    with pytest.raises(UsageError, match="no column nonsense"):
        runner.plot_rate(bandwidth, y="nonsense")
    with pytest.raises(UsageError, match="has a number in chunk_bytes and streams and bound_full_ms"):
        runner.plot_grid(bandwidth, values="bound_full_ms")
    with pytest.raises(UsageError, match="total_bytes"):
        runner.plot_overlap(bandwidth)
    empty = replace(bandwidth, summary=bandwidth.summary.assign(status="failed"))
    with pytest.raises(UsageError, match="no case of bandwidth that went well"):
        runner.plot_rate(empty)


def test_a_helper_makes_its_own_figure(overlap: Results) -> None:
    from matplotlib import pyplot

    drawn = runner.plot_grid(overlap)
    assert drawn.figure.number in pyplot.get_fignums()
    pyplot.close(drawn.figure)


def test_comparisons_and_histories_are_drawn_and_written(tmp_path: Path, axes: Any) -> None:
    folders = [write_run(tmp_path / f"{day}", [noisy(1, 1), noisy(2, level)]) for day, level in ((1, 1), (2, 1.2))]
    results = [runner.read_results(folder) for folder in folders]
    comparison = compare_runs(*map(compared_run, results))
    drawn = plot_comparison(comparison, axes=axes)
    assert [label.get_text() for label in drawn.get_yticklabels()] == ["copy size 1MiB: same", "copy size 2MiB: slower"]
    (history,) = histories(results)
    for name in ("history.svg", "history.png"):
        save_picture(lambda each: plot_history(history, axes=each), tmp_path / name)
    assert (tmp_path / "history.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match=r"allowed: \.svg, \.png, \.pdf"):
        save_picture(lambda each: None, tmp_path / "history.gif")
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        save_picture(lambda each: None, tmp_path / "nowhere" / "history.svg")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, bandwidth: Results) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install 'dmalab\[plot\]'"):
        runner.plot_rate(bandwidth)
