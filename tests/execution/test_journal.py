"""The journal: what is appended comes back, a torn end is cut off, and nobody writes to it twice."""

from __future__ import annotations

import errno
import math
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from runner.device.simulated import SimulatedDevice, load_profile
from runner.errors import NotKept, UsageError
from runner.execution import journal as journal_module
from runner.execution.journal import Journal, decode, encode, read_journal
from runner.execution.local import Sweep
from runner.execution.records import Ended, case_record, restore, sentinel_record
from runner.expand import Case
from runner.measure.result import CaseResult, Sample
from runner.measure.sentinel import SENTINEL
from runner.scenarios.base import Scenario
from runner.scenarios.hazard import Hazard
from runner.scenarios.pipeline import Compute, Pipeline
from runner.scenarios.pressure import Pressure
from runner.scenarios.transfer import Transfer
from runner.spec.experiment import Measure

RECORDS = [{"type": "run", "µ": "a\nb"}, {"type": "case", "x": [0.1, 1e-300, 7, None, True]}, {"type": "play", "y": {"z": 2**60}}]


def written(path: Path) -> Path:
    journal = Journal(path)
    for record in RECORDS:
        journal.append(record)
    journal.close()
    return path


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    past = read_journal(written(tmp_path / "j"))
    assert list(past.records) == RECORDS
    assert (past.good_bytes, past.spoiled) == ((tmp_path / "j").stat().st_size, 0)
    number = decode(encode({"x": math.nan}))
    assert number is not None
    assert math.isnan(number["x"])


def test_every_cut_leaves_the_records_before_it(tmp_path: Path) -> None:
    whole = written(tmp_path / "j").read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:cut])
        past = read_journal(tmp_path / "cut")
        kept = sum(end <= cut for end in ends)
        assert list(past.records) == RECORDS[:kept]
        assert past.good_bytes == ([0, *ends][kept])


def test_a_journal_that_is_taken_up_goes_on_behind_its_last_whole_record(tmp_path: Path) -> None:
    path = written(tmp_path / "j")
    with path.open("ab") as file:
        file.write(b'{"crc32": "00000000", "record": {"torn')
    journal = Journal(path, again=True)
    journal.append({"type": "more"})
    journal.close()
    assert list(read_journal(path).records) == [*RECORDS, {"type": "more"}]


@pytest.mark.parametrize("place", range(0, 130, 7))
def test_a_changed_byte_costs_its_own_record_alone(tmp_path: Path, place: int) -> None:
    path = written(tmp_path / "j")
    content = bytearray(path.read_bytes())
    content[place] ^= 0x15
    path.write_bytes(content)
    past = read_journal(path)
    assert past.spoiled >= 1
    assert all(record in RECORDS for record in past.records)
    assert RECORDS[-1] in past.records


def test_two_processes_cannot_write_to_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    with pytest.raises(UsageError, match="still going on in another process"):
        Journal(path, again=True)
    with pytest.raises(NotKept, match="File exists"):
        Journal(path)
    journal.close()
    Journal(path, again=True).close()


def test_a_full_disk_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")

    class Full:
        closed = False

        def write(self, content: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    real, journal._file = journal._file, Full()  # type: ignore[assignment]
    with pytest.raises(NotKept, match=r"No space left on device; what stands in it is good: make room, .* go on with --resume"):
        journal.append({})
    real.close()


def test_a_folder_that_is_removed_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr(journal_module, "SYNC_S", 0)
    journal = Journal(folder / "j")
    journal.append({})
    shutil.rmtree(folder)
    with closing(journal._file), pytest.raises(NotKept, match="was removed while the run went on"):
        journal.append({})


@pytest.mark.parametrize(
    "model",
    [
        Transfer(kind="transfer", direction="bidirectional", size=2**20, buffer="pageable"),
        Transfer(kind="transfer", direction="h2d", size=2**16, batch="auto"),
        Transfer(kind="transfer", direction="h2d", size=2**50),
        Pipeline(kind="pipeline", schedule="overlapped", total=2**20, chunk=2**18, streams=2, compute=Compute(ratio=2.0)),
        Hazard(kind="hazard", fault="pageable_pointer", buffer="pageable"),
        Pressure(kind="pressure", fraction=0.1),
    ],
    ids=repr,
)
def test_every_result_comes_back_field_by_field(tmp_path: Path, model: Scenario) -> None:
    case = Case("c_1", "one", 0, model, "", {})
    device = SimulatedDevice(load_profile("test"))
    (ended,) = Sweep(device, device.facts(), [case], Measure(warmup=1, samples=3))
    journal = Journal(tmp_path / "j")
    journal.append(case_record(ended, case))
    journal.close()
    restored = restore(read_journal(tmp_path / "j"), [case])
    again = restored.results["c_1"]
    assert again == ended.result
    assert again.seconds == ended.result.seconds
    assert again.case.model.plan() == ended.result.case.model.plan()
    assert restored.medians == ended.learnt


def test_samples_that_differ_and_readings_of_the_sentinel_come_back_too(tmp_path: Path) -> None:
    case = Case("c_1", "one", 0, Transfer(kind="transfer", direction="h2d", size=64), "", {})
    samples = tuple(Sample("sample", place, {"wall_ms": 0.1 * place, "count": place}, place, 1) for place in range(3))
    result = CaseResult(case, "ok", "µ", ("drift", "noisy"), samples, companions=samples[:1], derived={"x": 1 / 3}, block=4)
    reading = CaseResult(SENTINEL, "ok", samples=samples, block=0)
    journal = Journal(tmp_path / "j")
    journal.append(sentinel_record(reading))
    journal.append(case_record(Ended(result), case))
    journal.close()
    restored = restore(read_journal(tmp_path / "j"), [case])
    assert restored.results == {"c_1": result}
    assert restored.readings == [reading]
