from __future__ import annotations

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.errors import EnvironmentProblem, UsageError
from runner.run_folder import RunFolder, describe_host

NOON = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def test_a_folder_is_named_by_time_and_hash_and_its_id_is_no_number(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "overlap", "ab" * 32, NOON)
    assert folder.path.parent == tmp_path / "overlap"
    assert folder.path.name.startswith("20261129T120000Z-")
    assert folder.run_id == "r_" + folder.path.name.replace("-", "_")


def test_twenty_runs_that_start_in_one_second_have_twenty_folders(tmp_path: Path) -> None:
    with ThreadPoolExecutor(20) as pool:
        folders = list(pool.map(lambda _: RunFolder.create(tmp_path, "overlap", "ab" * 32, NOON), range(20)))
    assert len({folder.path for folder in folders}) == 20
    assert len({folder.run_id for folder in folders}) == 20


def test_the_manifest_is_rewritten_whole_and_keeps_what_was_said_before(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "overlap", "ab" * 32, NOON)
    folder.write_manifest(status="running", note="µ")
    folder.write_manifest(status="complete")
    assert json.loads((folder.path / "manifest.json").read_text(encoding="utf-8")) == {"status": "complete", "note": "µ"}
    assert [path.name for path in folder.path.iterdir()] == ["manifest.json"]


def test_latest_points_at_the_newest(tmp_path: Path) -> None:
    for _ in range(2):
        folder = RunFolder.create(tmp_path, "overlap", "ab" * 32, NOON)
        folder.point_latest()
        assert (tmp_path / "overlap" / "latest").resolve() == folder.path.resolve()


def test_a_place_where_no_folder_can_be_made_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(EnvironmentProblem, match="cannot be made: Permission denied; choose another with --out"):
        RunFolder.create(tmp_path, "overlap", "ab" * 32, NOON)


def test_only_variables_that_change_measurements_are_recorded() -> None:
    host = describe_host({"CUDA_VISIBLE_DEVICES": "0", "SECRET_TOKEN": "x", "GLIBC_TUNABLES": "a"})
    assert host["variables"] == {"CUDA_VISIBLE_DEVICES": "0", "GLIBC_TUNABLES": "a"}


def test_a_file_in_the_way_of_the_folder_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="a part of it is a file"):
        RunFolder.create(tmp_path / "file", "overlap", "ab" * 32, NOON)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "overlap").write_text("")
    with pytest.raises(UsageError, match="a part of it is a file"):
        RunFolder.create(tmp_path / "out", "overlap", "ab" * 32, NOON)
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="a link or a file is in its way"):
        RunFolder.create(tmp_path / "link", "overlap", "ab" * 32, NOON)
