"""What the table says of each injected fault, and that nothing else is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runner.device.select import open_device
from runner.errors import DeviceUnavailable
from runner.execution.journal import NAME, of_type, read_journal
from runner.flow import RunOutcome
from runner.results import read_results
from tests.execution.faults import DEADLINE_S, FILE, INJECTED, PAGE, SOUND, by_size, run, table, with_table

ROUNDS = """
name: rounds
question: What do rounds show?
device: simulated:test
measure: {warmup: 1, samples: 4, deadline_s: 20}
scenarios:
  copy: {kind: transfer, direction: [h2d, d2h], call: [async, sync], size: 1MiB}
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    return run(tmp_path_factory.mktemp("faulty"), FILE, [each.json() for each in INJECTED])


def test_each_fault_has_the_status_that_is_its_own(faulty: RunOutcome) -> None:
    results = by_size(faulty)
    assert {each.fault: results[each.size].status for each in INJECTED} == {
        "failed_allocation": "failed",
        "failed_registration": "failed",
        "flipped_byte": "corrupt",
        "lost_context": "failed",
        "crash": "failed",
        "hang": "timeout",
        "slow_case": "ok",
    }
    assert f"it had not ended after {DEADLINE_S} s" in results[INJECTED[5].size].reason
    assert results[INJECTED[2].size].corrupt_bytes == 1
    assert faulty.exit_code == 4


def test_all_other_cases_are_what_they_are_without_faults(faulty: RunOutcome, tmp_path: Path) -> None:
    sound, results = by_size(run(tmp_path, FILE)), by_size(faulty)
    assert {size: results[size] for size in SOUND} == {size: sound[size] for size in SOUND}
    assert all(results[size].status == "ok" for size in SOUND)
    assert results[INJECTED[6].size] == sound[INJECTED[6].size]


def test_the_tables_have_one_row_a_case_and_no_figure_of_a_broken_one(faulty: RunOutcome) -> None:
    summary = read_results(faulty.folder).summary
    assert len(summary) == len(SOUND) + len(INJECTED)
    broken = summary[summary["status"] != "ok"]
    assert len(broken) == 6
    assert broken["median_wall_ms"].isna().all()
    assert broken["gb_per_s"].isna().all()
    assert (broken["reason"] != "").all()


def test_the_page_shows_what_the_run_gave(faulty: RunOutcome) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, table(faulty)) == page, "write it anew by: python -m tests.execution.faults"


def test_a_clock_that_drops_shows_as_drift_and_as_a_low_clock(tmp_path: Path) -> None:
    outcome = run(tmp_path, ROUNDS, [{"fault": "clock_drop", "play": 40, "factor": 3.0}])
    assert {result.status for result in outcome.results} == {"ok"}
    assert all({"drift", "low_clock"} <= set(result.flags) for result in outcome.results)
    steady = run(tmp_path, ROUNDS, [{"fault": "unsteady"}])
    assert not any({"drift", "low_clock"} & set(result.flags) for result in steady.results)


def test_every_round_is_noted_and_a_crash_between_two_costs_its_case_alone(tmp_path: Path) -> None:
    faults: list[dict[str, object]] = [{"fault": "unsteady"}, {"fault": "crash", "size": 2 * 2**20, "play": 4}]
    text = ROUNDS.replace("size: 1MiB}", "size: 1MiB}\n  more: {kind: transfer, direction: [h2d, d2h], size: 2MiB}")
    outcome = run(tmp_path, text, faults)
    assert [result.status for result in outcome.results] == ["ok"] * 4 + ["failed"] * 2
    for result in outcome.results[4:]:
        assert result.reason.startswith("its process was ended by SIGSEGV; it had been played ")
        assert result.companions, "the plays before the crash are kept"
    past = read_journal(outcome.folder / NAME)
    noted = {record["case"] for record in of_type(past.records, "play")}
    assert noted == {result.case.case_id for result in outcome.results}
    samples = read_results(outcome.folder).samples
    assert (samples.groupby("case_id").size() > 0).all()


def test_faults_can_be_read_from_a_file_and_wrong_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps([{"fault": "unsteady"}]))
    monkeypatch.setenv("DMALAB_FAULTS", str(path))
    assert not open_device("simulated:test").device.deterministic
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "bytes").write_bytes(b"\xff")
    none = ("rain", 'clock_drop", "factor": "2', 'slow_case", "seconds": 1e308, "member": "')
    for text in (
        "",
        "[",
        *(f'[{{"fault": "{each}"}}]' for each in none),
        *(str(tmp_path / each) for each in ("fifo", "none", "bytes")),
    ):
        monkeypatch.setenv("DMALAB_FAULTS", text or "{}")
        with pytest.raises(DeviceUnavailable, match="asks for no faults that there are: ") as refused:
            open_device("simulated:test")
        assert "\n" not in str(refused.value)
