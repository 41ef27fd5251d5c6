from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.errors import InputError
from runner.find_run import find_run
from tests.report.folders import run_folder

OLD, NEW = "20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"


def test_a_run_is_found_by_folder_file_link_pointer_and_name(tmp_path: Path) -> None:
    older = run_folder(tmp_path / "demo" / OLD, []).resolve()
    newer = run_folder(tmp_path / "demo" / NEW, []).resolve()
    assert find_run(str(older)) == find_run(older / "summary.csv") == find_run(older / "manifest.json") == older
    assert find_run("demo", tmp_path) == newer, "without a link the newest by its time"
    (tmp_path / "demo" / "latest").write_text(f"{OLD}\n")
    assert find_run("demo", tmp_path) == older, "a file system without links has a file"
    (tmp_path / "demo" / "latest").unlink()
    (tmp_path / "demo" / "latest").symlink_to(OLD, target_is_directory=True)
    assert find_run("demo", tmp_path) == find_run(tmp_path / "demo" / "latest") == older


def test_among_runs_that_nothing_orders_somebody_must_choose(tmp_path: Path) -> None:
    for name in ("fast", "slow"):
        run_folder(tmp_path / name, [])
    with pytest.raises(InputError, match=r"holds 2 runs, and nothing says which is meant; give one of \S+/fast, \S+/slow$"):
        find_run(tmp_path)


def test_runs_of_two_experiments_are_not_ordered_by_their_time(tmp_path: Path) -> None:
    run_folder(tmp_path / OLD, [], experiment="overlap")
    run_folder(tmp_path / NEW, [], experiment="bandwidth")
    with pytest.raises(InputError, match="holds 2 runs"):
        find_run(tmp_path)


def test_many_runs_are_not_all_named(tmp_path: Path) -> None:
    for place in range(10):
        run_folder(tmp_path / f"run{place}", [])
    with pytest.raises(InputError, match=r"/run7 and 2 more$"):
        find_run(tmp_path)


def test_the_only_run_in_a_folder_is_the_one(tmp_path: Path) -> None:
    only = run_folder(tmp_path / "copied", []).resolve()
    assert find_run(tmp_path) == only


def test_where_there_is_no_run_a_sentence_says_what_is_there(tmp_path: Path) -> None:
    empty, note = tmp_path / "empty", tmp_path / "note.txt"
    empty.mkdir()
    note.write_text("hello")
    told = {
        str(empty): f"{empty} is no run: there is no summary.csv in it, nor in a folder in it; give a run's folder, or the name",
        str(note): f"{note} is no run: it is a file, and none of a run's folder; give",
        str(tmp_path / "none"): f"{tmp_path / 'none'} is no run: there is no such folder; give",
        "nothing-here": f"nothing-here is no run: there is no such folder, and no runs in {tmp_path / 'nothing-here'}; give",
    }
    for given, words in told.items():
        with pytest.raises(InputError, match=f"^{re.escape(words)}"):
            find_run(given, tmp_path)


@pytest.mark.parametrize("given", [".", "20260101T000000Z-abcdef", "20260101T000000Z-abcdef/journal.jsonl"])
def test_a_run_that_was_stopped_is_told_with_what_ends_it(tmp_path: Path, given: str) -> None:
    folder = tmp_path / "20260101T000000Z-abcdef"
    folder.mkdir()
    (folder / "journal.jsonl").write_text("{}\n")
    told = f"is no finished run: {folder} has a journal and no summary.csv, so it was stopped, or still goes on; run its"
    with pytest.raises(InputError, match=f"{re.escape(told)} experiment once more with --resume to end it"):
        find_run(tmp_path / given)


def test_beside_a_finished_run_a_stopped_one_does_not_count(tmp_path: Path) -> None:
    stopped = tmp_path / "20260102T000000Z-abcdef"
    stopped.mkdir()
    (stopped / "journal.jsonl").write_text("{}\n")
    finished = run_folder(tmp_path / "20260101T000000Z-abcdef", [])
    assert find_run(tmp_path) == finished.resolve()
