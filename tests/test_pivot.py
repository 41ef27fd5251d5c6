from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.errors import InputError
from runner.forms import GridForm
from runner.pivot import pivot
from runner.report.reading import RunTables, read_run
from runner.rows import Row
from tests.report.folders import LEAD, MIB, grid_rows, run_folder, transfer


def made(path: Path, rows: Sequence[Row]) -> RunTables:
    return read_run(run_folder(path, rows))


def test_a_grid_has_numbers_in_the_order_of_their_values(tmp_path: Path) -> None:
    grid = pivot(made(tmp_path, grid_rows()), "chunk", "streams", "median_wall_ms", ["scenario=ring"])
    assert grid.down == (MIB, 4 * MIB)
    assert grid.across == (1, 2, 3)
    assert grid.text(GridForm.tsv) == "chunk_bytes \\ streams\t1\t2\t3\n1048576\t80.0\t70.0\t66.0\n4194304\t75.0\t60.5\t60.0\n"
    assert grid.text(GridForm.csv_semicolon).splitlines()[2] == "4194304;75,0;60,5;60,0"
    assert grid.text(GridForm.markdown).splitlines() == [
        "| chunk_bytes \\ streams | 1 | 2 | 3 |",
        "| --- | ---: | ---: | ---: |",
        "| 1MiB | 80 | 70 | 66 |",
        "| 4MiB | 75 | 60.5 | 60 |",
    ]


def test_cases_without_a_number_are_empty_cells_and_excluded_ones_are_none(tmp_path: Path) -> None:
    rows = [transfer(MIB, 1.0), transfer(2 * MIB, 2.0, buffer="pageable"), transfer(4 * MIB, 4.0, status="excluded")]
    rows.append(LEAD | {"status": "failed", "buffer": "pinned", "size_bytes": 2 * MIB})
    grid = pivot(made(tmp_path, rows), "size", "buffer", "gb_per_s")
    assert grid.cells == ((None, 1.0), (2.0, None))
    assert grid.text(GridForm.csv) == "size_bytes \\ buffer,pageable,pinned\n1048576,,1.0\n2097152,2.0,\n"


def test_conditions_compare_by_the_type_of_the_column(tmp_path: Path) -> None:
    run = made(tmp_path, grid_rows())
    (speedups,) = pivot(run, "scenario", "streams", "speedup", ["chunk=4MiB"]).cells
    assert speedups == pytest.approx([200 / 75, 200 / 60.5, 200 / 60])
    assert pivot(run, "chunk", "scenario", "speedup", ["streams=1", "chunk_bytes=4194304"]).down == (4 * MIB,)
    assert pivot(run, "chunk", "streams", "speedup", ["median_wall_ms=60"]).across == (3,)


@pytest.mark.parametrize(
    ("rows", "columns", "values", "where", "words"),
    [
        ("chunks", "streams", "speedup", [], "--rows chunks: summary.csv has no such column; did you mean chunk_bytes?"),
        ("chunk", "streams", "speedup", ["streams"], "--where streams is no KEY=VALUE"),
        ("chunk", "streams", "speedup", ["streams=two"], "--where streams=two"),
        ("chunk", "streams", "speedup", ["scenario=none"], "--where scenario=none: no case has that; allowed: ring$"),
        ("chunk", "streams", "speedup", ["chunk=2MiB"], "--where chunk=2MiB: no case has that; allowed: 1MiB, 4MiB$"),
        ("chunk", "streams", "speedup", ["passes=3"], "no case has that; allowed: nothing is in it$"),
        ("size", "streams", "speedup", [], "no case has both size_bytes and streams$"),
        ("chunk", "chunk_bytes", "speedup", [], "--rows and --columns are both chunk_bytes; allowed: two axes"),
        ("chunk", "streams", "wall", [], "--values wall: summary.csv has no such column; did you mean median_wall_ms\\?$"),
        ("chunk", "streams", "gpu_ids", [], "--values gpu_ids: summary.csv has no such column; "),
        ("chunk", "streams", "median_event_ms", [], "2 cases has a number in median_event_ms; allowed: median_wall_ms$"),
        (
            "buffer",
            "scenario",
            "speedup",
            [],
            "fall into one cell; choose with --where KEY=VALUE: they differ in chunk_bytes \\(1MiB or 4MiB",
        ),
    ],
)
def test_what_gives_no_grid_is_told_with_the_fix(
    tmp_path: Path, rows: str, columns: str, values: str, where: list[str], words: str
) -> None:
    run = made(tmp_path, [row for row in grid_rows() if row["streams"] == 1 and row["scenario"] == "ring"])
    with pytest.raises(InputError, match=words):
        pivot(run, rows, columns, values, where)


def test_where_every_case_was_skipped_the_reason_is_told_instead_of_an_empty_grid(tmp_path: Path) -> None:
    lost = {"status": "skipped", "buffer": "pinned", "chunk_bytes": MIB}
    run = made(tmp_path, [LEAD | lost | {"case_id": f"c_{streams}", "streams": streams} for streams in (1, 2)])
    with pytest.raises(InputError, match=r"none of these 2 cases has a number in median_wall_ms \(2 skipped\)$"):
        pivot(run, "chunk", "streams")


def test_of_a_run_of_several_gpus_one_is_chosen(tmp_path: Path) -> None:
    gpus = [transfer(MIB, rate, host="here", gpu_uuid=f"GPU-{rate}") for rate in (1.0, 2.0)]
    run = made(tmp_path, gpus)
    with pytest.raises(InputError, match=r"they differ in gpu_uuid \(GPU-1.0 or GPU-2.0\)$"):
        pivot(run, "size", "buffer", "gb_per_s")
    assert pivot(run, "size", "buffer", "gb_per_s", ["gpu_uuid=GPU-2.0"]).cells == ((2.0,),)
    assert pivot(run, "size", "gpu_uuid", "gb_per_s").cells == ((1.0, 2.0),)


def test_the_figure_is_the_time_that_gives_the_rate_where_none_is_asked_for(tmp_path: Path) -> None:
    copies = pivot(made(tmp_path / "copies", [transfer(MIB, 1.0), transfer(2 * MIB, 1.0)]), "size", "buffer")
    assert (copies.values, copies.cells) == ("median_event_ms", ((MIB / 1e6,), (2 * MIB / 1e6,)))
    assert pivot(made(tmp_path / "ring", grid_rows()), "chunk", "streams", where=["scenario=ring"]).values == "median_wall_ms"


def test_a_text_in_a_grid_is_no_formula(tmp_path: Path) -> None:
    run = made(tmp_path, [transfer(MIB, 1.0, reason="=1+1")])
    assert pivot(run, "size", "buffer", "reason").text(GridForm.csv).endswith("1048576,'=1+1\n")


def test_a_baseline_that_falls_into_a_grid_is_left_out_and_told(tmp_path: Path) -> None:
    own, *ring = grid_rows()
    run = made(tmp_path, [own, own | {"case_id": "c_1", "chunk_bytes": MIB}, *ring])
    grid = pivot(run, "chunk", "streams", "median_wall_ms")
    chosen = pivot(run, "chunk", "streams", "median_wall_ms", ["scenario=ring"])
    assert grid.cells == chosen.cells
    assert chosen.note == ""
    assert grid.note == (
        "only ring varies over both chunk_bytes and streams: the cases of serial are left out; "
        "--where scenario=NAME chooses others"
    )


def test_a_time_stands_for_its_median(tmp_path: Path) -> None:
    assert pivot(made(tmp_path, grid_rows()), "chunk", "streams", "wall_ms").values == "median_wall_ms"
