"""What a run has come to, part by part: the doubts of each part, and the plays of cases that had only begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from runner.execution.journal import Journal, Part
from runner.execution.logbook import Logbook
from runner.execution.records import Ended, restore
from runner.execution.stopping import Stop
from runner.expand import Case
from runner.measure.result import CaseResult, Sample
from runner.scenarios.transfer import Transfer


def of_two(count: int = 2) -> list[Case]:
    models = [Transfer(kind="transfer", direction="h2d", size=64 << place) for place in range(count)]
    return [Case(f"c_{place}", "one", place, model, "", {}) for place, model in enumerate(models)]


def measured(case: Case) -> Ended:
    return Ended(CaseResult(case, "ok", samples=(Sample("sample", 0, {"wall_ms": 1.0}),)))


@contextmanager
def part_of_run(path: Path, cases: list[Case]) -> Iterator[Logbook]:
    """Begin a run, or go on with it, and end it."""
    with closing(Journal(path, again=path.exists())) as journal:
        yield Logbook(journal, cases, Stop(), restore(journal.past, cases))


def test_what_was_measured_on_a_slow_device_says_so_in_a_run_that_goes_on_when_it_is_fast(tmp_path: Path) -> None:
    cases = of_two()
    with part_of_run(tmp_path / "j", cases) as first:
        first.flags = ("low_clock",)
        first.ended(measured(cases[0]))
    with part_of_run(tmp_path / "j", cases) as second:
        second.ended(measured(cases[1]))
        second.flag(())
        assert [result.flags for result in second.all_results()] == [("low_clock",), ()]


def test_what_only_the_end_of_a_part_could_tell_stays_with_what_that_part_has_measured(tmp_path: Path) -> None:
    cases = of_two(3)
    with part_of_run(tmp_path / "j", cases) as first:
        first.ended(measured(cases[0]))
        first.flag(("gpu_shared",))
    with part_of_run(tmp_path / "j", cases) as second:
        second.ended(measured(cases[1]))
        second.flag(("low_clock",))
        assert [result.flags for result in second.all_results()] == [("gpu_shared",), ("low_clock",), ()]
    with part_of_run(tmp_path / "j", cases) as third:
        assert [result.flags for result in third.all_results()] == [("gpu_shared",), ("low_clock",), ()]


def test_plays_of_a_case_that_had_begun_stay_in_the_table_until_it_is_measured_anew(tmp_path: Path) -> None:
    cases = of_two()
    with part_of_run(tmp_path / "j", cases) as first:
        first.played(cases[0], Sample("sample", 0, {"wall_ms": 1.0}))
        first.played(cases[1], Sample("sample", 0, {"wall_ms": 2.0}))
        first.ended(Ended(CaseResult(cases[1], "failed", "it broke")))
    with part_of_run(tmp_path / "j", cases) as second:
        begun, broken = second.all_results()
        assert (begun.status, len(begun.companions)) == ("not_run", 1)
        assert broken.reason == "it broke; it had been played 1 times, see samples.csv"
        assert second.to_do() == cases[:1]
        second.ended(measured(cases[0]))
        assert second.all_results()[0].companions == (), "plays of two times are no samples of one case"
    with part_of_run(tmp_path / "j", cases) as third:
        assert third.all_results() == second.all_results()


def test_files_that_share_a_journal_each_have_their_own_records(tmp_path: Path) -> None:
    cases = of_two()
    journal = Journal(tmp_path / "j")
    for name, case in zip(("a", "b"), cases, strict=True):
        Logbook(Part(journal, name), cases, Stop()).ended(measured(case))
    journal.close()
    again = Journal(tmp_path / "j", again=True)
    found = [list(restore(Part(again, name).past(), cases).results) for name in ("a", "b", "c")]
    again.close()
    assert found == [["c_0"], ["c_1"], []]
