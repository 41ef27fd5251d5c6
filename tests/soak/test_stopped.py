"""Runs that are killed, interrupted, starved of disk, or started side by side: what is left is whole, and goes on."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.execution.journal import NAME, of_type, read_journal
from runner.results import read_results
from tests.soak.commands import FILE, ROOT, cells, ended, equal, folders, manifest, noted, run, start, until
from tests.soak.counts import SHARE, count

SLOW = json.dumps([{"fault": "unsteady"}, {"fault": "slow_case", "seconds": 0.05}])
RECORDS = 44
"""Lines of a whole journal of FILE."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "many.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "many.yaml"
    path.write_text(FILE)
    assert run(path)[0] == 0
    (folder,) = folders(path)
    assert len(read_journal(folder / NAME).records) == RECORDS
    return folder


@pytest.mark.parametrize("seed", range(count(2, 200)))
def test_a_run_that_is_killed_goes_on_and_has_the_tables_of_one_that_was_not(seed: int, file: Path, whole: Path) -> None:
    chance = random.Random(seed)
    where = {"DMALAB_WORKER": "process"} if seed % 2 else {}
    for _ in range(chance.randint(1, 2)):
        at_record = noted(file) + chance.randint(0, RECORDS // 2)
        process = start(file, "--resume", **where)
        until(lambda: noted(file) >= at_record, process)  # noqa: B023  # it is waited for within the loop
        process.kill()
        ended(process)
    code, _, error = run(file, "--resume", **where)
    assert code == 0, error
    folder = folders(file)[-1]
    assert equal(cells(folder), cells(whole))
    cases = [record["case"] for record in of_type(read_journal(folder / NAME).records, "case")]
    assert len(cases) == len(set(cases)), "each case once"
    assert manifest(folder)["status"] == "complete"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM][: count(1, 2)])
def test_one_signal_lets_the_play_end_and_writes_everything(number: signal.Signals, file: Path) -> None:
    process = start(file, DMALAB_FAULTS=SLOW)
    assert until(lambda: noted(file) >= 30, process)
    process.send_signal(number)
    code, out, error = ended(process)
    assert (code, error) == (130, "")
    assert "Stopping after the play under way" in out
    (folder,) = folders(file)
    assert manifest(folder)["status"] == "incomplete"
    results = read_results(folder)
    assert "not_run" in results.summary["status"].tolist()
    plays = list(of_type(read_journal(folder / NAME).records, "play"))
    own = results.samples["role"].isin(["sample", "warmup", "engine"]) & (results.samples["case_id"] != "c_sentinel")
    assert own.sum() == len(plays) > 15, "the plays of cases that had not ended are in the table, too"
    assert run(file, "--resume", DMALAB_FAULTS='[{"fault": "unsteady"}]')[0] in (0, 5)
    assert manifest(folder)["status"] == "complete"
    assert set(read_results(folder).summary["status"]) == {"ok"}


def test_two_signals_end_it_at_once_and_the_journal_is_whole(file: Path) -> None:
    process = start(file, DMALAB_FAULTS=json.dumps([{"fault": "unsteady"}, {"fault": "hang", "size": 2**20, "play": 3}]))
    assert until(lambda: noted(file) >= 4, process)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    while "Stopping" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, _, error = ended(process)
    assert code == 130
    assert error == "stopped at once, without tables; the same command with --resume goes on from the journal\n"
    (folder,) = folders(file)
    assert manifest(folder)["status"] == "running"
    past = read_journal(folder / NAME)
    assert (past.torn_bytes, past.spoiled) == (0, 0)
    assert run(file, "--resume")[0] == 0
    assert manifest(folder)["status"] == "complete"


@pytest.mark.parametrize("limit", [60_000, 30_000, 3_000][: count(1, 3)])
def test_a_file_system_that_takes_no_more_is_said_in_a_sentence_and_nothing_is_half_written(
    limit: int, file: Path, whole: Path
) -> None:
    code = f"""
import resource, runner.__main__, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
sys.argv = ["dmalab", "run", {str(file)!r}, "--out", {str(file.parent / "out")!r}, "--no-report"]
runner.__main__.main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be written: File too large" in done.stderr
    folder = folders(file)[-1]
    names = {path.name for path in folder.iterdir()}
    assert not [name for name in names if name.startswith(".")], "no temporary file is left"
    content = cells(folder)
    assert all(table.equals(cells(whole)[name]) for name, table in content.items()), "a table is there whole or not at all"
    assert run(file, "--resume")[0] == 0
    assert equal(cells(folders(file)[-1]), cells(whole))


def test_a_results_folder_that_nothing_may_be_written_to_is_said_plainly(file: Path) -> None:
    (file.parent / "out").write_text("")
    code, _, error = run(file)
    assert code == 2
    assert "can be no folder of results" in error


@pytest.mark.skipif(not SHARE, reason="the same as a file system that takes no more, with a real one: make soak")
def test_a_full_disk_is_said_and_the_run_goes_on_when_there_is_room(file: Path, whole: Path) -> None:
    out = file.parent / "out"
    out.mkdir()
    command = f"{sys.executable} -m runner run {file} --out {out} --no-report"
    script = (
        f"mount -t tmpfs -o size=64k none {out} && {command}; code=$?; mount -o remount,size=8m {out}; {command} --resume; "
        f"cp -r {out} {file.parent / 'kept'}; exit $code"
    )
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this system lets nobody mount a small file system")
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stderr
    (folder,) = file.parent.glob("kept/*/2*")
    assert manifest(folder)["status"] == "complete"
    assert equal(cells(folder), cells(whole))


def test_runs_that_start_at_once_have_a_folder_each(file: Path, whole: Path) -> None:
    runs = count(2, 20)
    processes = [start(file) for _ in range(runs)]
    assert [ended(process)[0] for process in processes] == [0] * runs
    assert len(folders(file)) == runs
    assert len({manifest(folder)["run_id"] for folder in folders(file)}) == runs
    assert all(equal(cells(folder), cells(whole)) for folder in folders(file))
