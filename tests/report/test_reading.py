from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import InputError
from runner.report.reading import find_run, read_run
from tests.report.folders import LEAD, MIB, run_folder, transfer


def test_cells_come_back_by_their_types_and_empty_ones_are_absent(tmp_path: Path) -> None:
    run = read_run(
        run_folder(tmp_path, [transfer(MIB, 0.1, reason="None")], samples=[LEAD | {"case_id": "c_1", "role": "sample"}])
    )
    (row,) = run.rows
    assert (row["size_bytes"], row["gb_per_s"], row["reason"]) == (MIB, 0.1, "None")
    assert "total_bytes" not in row
    assert [sample.get("role") for sample in run.samples()] == ["sample"]
    assert not run.simulated
    assert run.verdicts == run.predicted == ()


def test_rows_of_other_runs_are_counted_and_left_out(tmp_path: Path) -> None:
    run = read_run(run_folder(tmp_path, [transfer(MIB, 1.0), transfer(MIB, 2.0, run_id="r_other")]))
    assert [row["gb_per_s"] for row in run.rows] == [1.0]
    assert run.foreign == 1


def test_a_run_is_found_by_folder_link_and_name(tmp_path: Path) -> None:
    older = run_folder(tmp_path / "demo" / "20260101T000000Z-aaaaaa", [])
    newer = run_folder(tmp_path / "demo" / "20260102T000000Z-bbbbbb", [])
    assert find_run(str(older)) == older.resolve()
    assert find_run("demo", tmp_path) == newer.resolve(), "without a link the newest by its time"
    (tmp_path / "demo" / "latest").symlink_to(older.name, target_is_directory=True)
    assert find_run("demo", tmp_path) == find_run(str(tmp_path / "demo" / "latest")) == older.resolve()


def test_where_there_is_no_run_a_sentence_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing is no run: there is no summary\.csv"):
        find_run("nothing", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("summary.csv", "run_id,samples\nr_1,many\n", r"summary\.csv cannot be read as a table"),
        ("summary.csv", "run_id,gb_per_s\nr_1,nan\n", "nan is no finite number"),
        ("summary.csv", "run_id,samples\nr_1\n", r"summary\.csv cannot be read as a table"),
        ("manifest.json", "[]", "it holds no JSON object"),
        ("manifest.json", "{", r"manifest\.json cannot be read"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: str, words: str) -> None:
    folder = run_folder(tmp_path, [])
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=words):
        read_run(folder)


def test_a_table_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.5)])
    path = folder / "summary.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_run(folder).rows[0]["gb_per_s"] == 1.5
