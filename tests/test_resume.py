"""Going on with a run: what is done stays, the rest is measured, and the tables are those of a run that was never stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from runner import __version__, cli
from runner.execution.journal import NAME, Journal, decode, read_journal
from runner.results import read_results
from runner.run_folder import RunFolder

FILE = """
name: again
question: Does it go on?
device: simulated:test
measure: {warmup: 1, samples: 2}
baseline: loop
scenarios:
  loop: {kind: pipeline, schedule: serialized, buffer: pageable, total: 1MiB, chunk: 256KiB}
  ring:
    kind: pipeline
    schedule: overlapped
    total: 1MiB
    chunk: [128KiB, 256KiB]
    streams: [1, 2]
    compute: [{passes: 1}, {ratio: 1.5}]
    exclude: [{because: not needed, where: {streams: 1, chunk: 128KiB}}]
  copy: {kind: transfer, direction: [h2d, d2h], size: [4KiB, 1MiB], batch: [1, auto]}
  large: {kind: transfer, direction: h2d, size: 1TiB}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "again.yaml"
    path.write_text(FILE)
    return path


def dmalab(file: Path, *arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["run", str(file), "--out", str(file.parent / "out"), *map(str, arguments)])


def folders(file: Path) -> list[Path]:
    return sorted(file.parent.glob("out/again/2*"))


def cut(folder: Path, records: int, torn: bytes = b"") -> None:
    """Let a run look as if it had been killed after so many records."""
    journal = folder / NAME
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:records]) + torn)
    for table in folder.glob("*.csv"):
        table.unlink()
    again = RunFolder(folder, "", json.loads((folder / "manifest.json").read_text()))
    again.write_manifest(status="running")


def cells(folder: Path) -> dict[str, pd.DataFrame]:
    return {path.name: pd.read_csv(path, dtype=str).drop(columns="run_id", errors="ignore") for path in folder.glob("*.csv")}


def test_the_tables_of_a_resumed_run_are_those_of_one_that_was_never_stopped(file: Path) -> None:
    assert dmalab(file).exit_code == 4, "one case is too large"
    (folder,) = folders(file)
    whole = cells(folder)
    lines = len((folder / NAME).read_bytes().splitlines())
    for records in range(1, lines + 1, 4):
        cut(folder, records, b'{"crc32": "01234567", "rec')
        assert dmalab(file, "--resume").exit_code == 4
        assert folders(file) == [folder]
        again = cells(folder)
        assert again.keys() == whole.keys()
        for name, table in whole.items():
            pd.testing.assert_frame_equal(again[name], table)
        assert len(read_journal(folder / NAME).records) == lines, "nothing was measured twice"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    assert manifest["resumed"][0]["cases_done"] == 0
    assert manifest["resumed"][1]["cases_done"] == 4
    assert manifest["resumed"][1]["torn_bytes"] == 26


def test_a_finished_run_is_left_alone_and_where_there_is_none_one_begins(file: Path) -> None:
    assert dmalab(file, "--resume").exit_code == 4
    (folder,) = folders(file)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    result = dmalab(file, "--resume")
    assert result.exit_code == 0
    assert result.stdout == f"again: the run in {folder} is complete, nothing is left to do\n"
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert folders(file) == [folder]


def test_another_file_is_refused_with_what_is_different(file: Path) -> None:
    dmalab(file)
    (folder,) = folders(file)
    cut(folder, 4)
    file.write_text(FILE.replace("samples: 2", "samples: 3"))
    result = dmalab(file, "--resume")
    assert result.exit_code == 2
    assert result.stderr == (
        f"the run in {folder} cannot be gone on with: the file is another one now (measure.samples: 2 then, 3 now); "
        "put that back, or start a new run without --resume\n"
    )
    result = dmalab(file, "--resume", "--set", "measure.samples=2", "--set", "baseline=ring")
    assert "(baseline: " in result.stderr
    file.write_text(f"# a comment\n{FILE}")
    assert dmalab(file, "--resume").exit_code == 4, "comments change nothing"


def test_another_device_is_refused_with_what_is_different(file: Path) -> None:
    dmalab(file)
    (folder,) = folders(file)
    cut(folder, 4)
    result = dmalab(file, "--resume", "--device", "simulated:rtx-4090")
    assert result.exit_code == 2
    assert (
        'the device is another one now (name: "simulated:test" then, "simulated:rtx-4090" now; profile_sha256: ' in result.stderr
    )


def test_another_version_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dmalab(file)
    (folder,) = folders(file)
    cut(folder, 4)
    monkeypatch.setattr("runner.resume.__version__", "99.1")
    result = dmalab(file, "--resume")
    assert result.exit_code == 2
    assert f"dmalab {__version__} began it, and this is 99.1" in result.stderr


def test_a_record_that_others_stood_on_may_be_spoiled(file: Path) -> None:
    assert dmalab(file).exit_code == 4
    (folder,) = folders(file)
    whole, lines = cells(folder), (folder / NAME).read_bytes().splitlines(keepends=True)
    taught = [place for place, line in enumerate(lines) if (decode(line) or {}).get("learnt")]
    assert len(taught) > 3
    for place in taught:
        cut(folder, 0, b"".join([*lines[:place], lines[place].replace(b"learnt", b"LEARNT"), *lines[place + 1 :]]))
        assert dmalab(file, "--resume").exit_code == 4
        again = cells(folder)
        assert all(table.equals(again[name]) for name, table in whole.items()), place
    assert json.loads((folder / "manifest.json").read_text())["resumed"][0]["spoiled_lines"] == 1


def test_a_run_that_goes_on_elsewhere_is_not_touched(file: Path) -> None:
    dmalab(file)
    (folder,) = folders(file)
    cut(folder, 4)
    held = Journal(folder / NAME, again=True)
    result = dmalab(file, "--resume")
    held.close()
    assert result.exit_code == 2
    assert result.stderr == f"the run in {folder} is still going on in another process; wait for it, or end it\n"


def test_a_run_that_was_killed_before_it_had_begun_is_passed_over(file: Path) -> None:
    dmalab(file)
    (folder,) = folders(file)
    cut(folder, 0)
    assert dmalab(file, "--resume").exit_code == 4
    assert len(folders(file)) == 2


@pytest.mark.parametrize("spoilt", ["", "[]", "{}", '{"run_id": null}', '{"run_id": "r_1", "resumed": 5}', "\xff\x00"])
def test_a_run_whose_manifest_is_none_is_passed_over(spoilt: str, file: Path) -> None:
    dmalab(file)
    (folder,) = folders(file)
    (folder / "manifest.json").write_text(spoilt, encoding="latin-1")
    assert dmalab(file, "--resume").exit_code == 4
    assert len(folders(file)) == 2


def test_a_finished_run_of_another_state_of_the_file_is_none_of_this_one(file: Path) -> None:
    dmalab(file)
    file.write_text(FILE.replace("samples: 2", "samples: 3"))
    assert dmalab(file, "--resume").exit_code == 4
    assert len(folders(file)) == 2


def test_what_is_read_back_says_which_cases_were_not_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from runner.watch import LineWatcher

    def stop(self: LineWatcher, result: object, done: int, seconds_left: float) -> None:
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(LineWatcher, "case_done", stop)
    result = dmalab(file)
    assert result.exit_code == 130
    assert result.stdout.endswith("Interrupted; the same command with --resume goes on from here.\n")
    (folder,) = folders(file)
    statuses = read_results(folder).summary["status"].tolist()
    assert statuses[:3] == ["ok", "ok", "ok"] or "excluded" in statuses[:3]
    assert statuses.count("not_run") == len(statuses) - 3
    monkeypatch.undo()
    assert dmalab(file, "--resume").exit_code == 4
    assert "not_run" not in read_results(folder).summary["status"].tolist()
