"""Testing all claims on the simulated device: every file gets its verdicts, and nothing that breaks stops the others."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from runner import claims, claims_session, cli
from runner.claims import ClaimsOutcome, claim_files, earlier_testing, run_claims
from runner.claims_page import figure_text, interval_text, page_lines, screen_grid
from runner.claims_session import ClaimResult
from runner.device.contract import DeviceFacts
from runner.device.select import FAULTS
from runner.errors import DeviceUnavailable, InputError, PlanError, SpecError, UsageError
from runner.execution import bench
from runner.execution.bench import Bench, Here
from runner.execution.journal import NAME
from runner.execution.records import Ended
from runner.execution.work import Work
from runner.placement import Wait
from runner.results import read_results
from runner.spec.clauses import TextClause
from runner.spec.load import load_experiment
from runner.verdicts import limit_text

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "experiments" / "claims").glob("*.yaml"))
SOURCELESS = {"write-combined-is-slow-to-read"}
"""Claims that no sentence of the documents makes; docs/claims.md says so."""


class Watch:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def opened(self, facts: DeviceFacts, note: str, total: int) -> None:
        self.told.append(f"{total} on {facts.name}")

    def claim_begins(self, name: str, place: int) -> None:
        self.told.append(f"{place} {name}")

    def claim_done(self, claim: ClaimResult, place: int) -> None:
        self.told.append(" ".join([str(place), *(verdict.verdict for verdict in claim.verdicts)]))

    def stopping(self) -> None:
        self.told.append("stopping")

    def finished(self, outcome: ClaimsOutcome) -> None:
        self.told.append(f"finished {outcome.interrupted}")


def small(folder: Path, name: str, bound: str = "{below: 1}") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\nquestion: Is pinned faster?\nmeasure: {{warmup: 0, samples: 1}}\nscenarios:\n"
        "  copy: {kind: transfer, direction: h2d, size: 1MiB, buffer: [pageable, pinned]}\nexpect:\n"
        f"  - {{claim: {name} is so, source: It is so., of: {{scenario: copy, buffer: pinned}},"
        f" against: {{scenario: copy, buffer: pageable}}, metric: event_ms, ratio: {bound}}}\n"
    )
    return path


def tried(files: Sequence[Path], out: Path, watch: Watch | None = None) -> ClaimsOutcome:
    return run_claims(files, device="simulated:test", out=out, watcher=watch or Watch())


def verdicts_in(folder: Path) -> list[dict[str, str]]:
    with (folder / "verdicts.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_claim_is_decided_on_the_simulated_device(tmp_path: Path) -> None:
    outcome = run_claims(FILES, device="simulated", out=tmp_path, watcher=Watch())
    rows = verdicts_in(outcome.folder)
    expected = [clause.claim for path in FILES for clause in load_experiment(path).experiment.expect]
    assert [row["claim"] for row in rows] == expected
    assert [(row["claim"], row["reason"]) for row in rows if row["verdict"] == "undecided"] == []
    assert {row["device_kind"] for row in rows} == {"simulated"}
    assert all(row["low"] == row["high"] == "" for row in rows), "a simulated figure has no interval"
    assert all(row["figure"] or row["form"] == "text" for row in rows)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_claim_quotes_its_sentence(path: Path) -> None:
    experiment = load_experiment(path).experiment
    assert experiment.expect
    assert all(clause.source or path.stem in SOURCELESS for clause in experiment.expect)
    assert experiment.question.endswith("?")


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_no_claim_takes_any_failure_for_the_one_that_it_means(path: Path) -> None:
    texts = [clause for clause in load_experiment(path).experiment.expect if isinstance(clause, TextClause)]
    assert all(clause.cell != "status" or clause.says == "ok" for clause in texts)


def test_the_page_of_statements_names_every_file_and_no_other() -> None:
    named = re.findall(r"\| `([a-z0-9-]+)` \|$", (ROOT / "docs" / "claims.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == [path.stem for path in FILES]


def test_all_claims_lie_in_one_table_that_can_be_read_back(tmp_path: Path) -> None:
    watch = Watch()
    files = [small(tmp_path, "holds"), small(tmp_path, "fails", "{above: 1}")]
    outcome = tried(files, tmp_path / "out", watch)
    assert watch.told == ["2 on simulated:test", "1 holds", "1 confirmed", "2 fails", "2 refuted", "finished False"]
    results = read_results(tmp_path / "out" / "claims")
    assert results.folder == outcome.folder.resolve()
    assert results.summary["experiment"].tolist() == ["holds"] * 2 + ["fails"] * 2
    assert results.verdicts is not None
    assert results.verdicts[["experiment", "verdict", "form"]].values.tolist() == [
        ["holds", "confirmed", "ratio"],
        ["fails", "refuted", "ratio"],
    ]
    assert set(results.verdicts["run_id"]) == {results.manifest["run_id"]}
    assert results.manifest["verdicts"] == {"confirmed": 1, "refuted": 1}
    assert sorted(path.name for path in outcome.folder.iterdir()) == [
        "cases.csv",
        "claims.md",
        "columns.csv",
        "experiments",
        "journal.jsonl",
        "manifest.json",
        "samples.csv",
        "summary.csv",
        "verdicts.csv",
    ]
    assert (outcome.folder / "experiments" / "holds.yaml").read_bytes() == files[0].read_bytes()


def test_a_file_that_expects_nothing_is_undecided_and_the_rest_goes_on(tmp_path: Path) -> None:
    silent = tmp_path / "silent.yaml"
    silent.write_text(small(tmp_path, "silent").read_text().split("expect:")[0])
    outcome = tried([silent, small(tmp_path, "holds")], tmp_path / "out")
    rows = verdicts_in(outcome.folder)
    assert [(row["experiment"], row["verdict"]) for row in rows] == [("silent", "undecided"), ("holds", "confirmed")]
    assert rows[0]["reason"] == "the file expects nothing"


def test_wrong_files_are_told_all_at_once_and_nothing_is_run_or_written(tmp_path: Path) -> None:
    broken, crowded = tmp_path / "broken.yaml", tmp_path / "crowded.yaml"
    broken.write_text("name: broken\nquestion: q\nscenarios: {a: {kind: transfr}}\n")
    crowded.write_text(small(tmp_path, "crowded").read_text().replace("event_ms", "evnt_ms"))
    watch, good = Watch(), small(tmp_path, "good")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError) as refusal:
        tried([good, broken, crowded, small(tmp_path / "other", "good"), good], tmp_path / "out", watch)
    said = str(refusal.value).splitlines()
    assert any(line.startswith(f"{broken}:3:") and "did you mean transfer?" in line for line in said)
    assert any(line.startswith(f"{crowded}:7:") and "did you mean event_ms?" in line for line in said)
    assert sum(f"{good} has the same name; give each file once" in line for line in said) == 2
    assert watch.told == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "reason"), [(PlanError("it contradicts itself"), "it contradicts itself"), (KeyError("x"), "KeyError: 'x'")]
)
def test_a_claim_that_breaks_the_runner_is_undecided_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    real = Here.sweep

    def breaking(self: Here, work: Work) -> Iterator[Ended]:
        for place, ended in enumerate(real(self, work)):
            if place == 1 and not broken:
                broken.append(place)
                raise error
            yield ended

    broken: list[int] = []
    monkeypatch.setattr(Here, "sweep", breaking)
    outcome = tried([small(tmp_path, "first"), small(tmp_path, "second")], tmp_path / "out")
    assert [claim.verdicts[0].verdict for claim in outcome.claims] == ["undecided", "confirmed"]
    assert outcome.claims[0].verdicts[0].reason.endswith(f"is not_run: {reason}")
    assert [result.status for result in outcome.claims[0].results] == ["ok", "not_run"]


def interrupting(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Interrupt the sweep over the file at this place, after its first case."""
    real = Here.sweep

    def interrupted(self: Here, work: Work) -> Iterator[Ended]:
        sweeps.append(work)
        for ended in real(self, work):
            yield ended
            if len(sweeps) == place:
                raise KeyboardInterrupt

    sweeps: list[Work] = []
    monkeypatch.setattr(Here, "sweep", interrupted)


def test_an_interrupt_keeps_what_was_decided_and_names_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 2)
    outcome = tried([small(tmp_path, name) for name in ("one", "two", "three")], tmp_path / "out")
    assert [claim.verdicts[0].verdict for claim in outcome.claims] == ["confirmed", "undecided", "undecided"]
    assert [[result.status for result in claim.results] for claim in outcome.claims] == [
        ["ok", "ok"],
        ["ok", "not_run"],
        ["not_run", "not_run"],
    ]
    assert outcome.interrupted
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    assert (manifest["status"], manifest["exit_code"]) == ("incomplete", 130)


def test_testing_that_was_interrupted_goes_on_and_has_the_tables_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [small(tmp_path, name) for name in ("one", "two", "three")]
    whole = tried(files, tmp_path / "whole")
    with monkeypatch.context() as patched:
        interrupting(patched, 2)
        parted = tried(files, tmp_path / "out")
    measured: list[int] = []
    real = Here.sweep

    def counted(self: Here, work: Work) -> Iterator[Ended]:
        measured.append(len(work.cases))
        return real(self, work)

    monkeypatch.setattr(Here, "sweep", counted)
    earlier = earlier_testing(files, tmp_path / "out")
    assert earlier is not None
    assert not earlier.finished
    again = run_claims(files, device="simulated:test", out=tmp_path / "out", watcher=Watch(), earlier=earlier)
    assert measured == [1, 2], "what was measured is not measured again"
    assert again.folder == parted.folder
    for name in ("summary.csv", "samples.csv", "cases.csv", "verdicts.csv"):
        mine, other = (pd.read_csv(each.folder / name, dtype=str).drop(columns="run_id") for each in (again, whole))
        pd.testing.assert_frame_equal(mine, other)
    manifest = json.loads((again.folder / "manifest.json").read_text())
    assert (manifest["status"], len(manifest["resumed"])) == ("complete", 1)


def test_only_testing_of_the_same_files_on_the_same_device_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [small(tmp_path, name) for name in ("one", "two")]
    assert earlier_testing(files, tmp_path / "out") is None
    with monkeypatch.context() as patched:
        interrupting(patched, 1)
        tried(files, tmp_path / "out")
    assert earlier_testing(files[:1], tmp_path / "out") is None
    earlier = earlier_testing(files, tmp_path / "out")
    with pytest.raises(UsageError, match="the device is another one now"):
        run_claims(files, device="simulated:h200", out=tmp_path / "out", watcher=Watch(), earlier=earlier)
    tried(files, tmp_path / "out")
    call = ["claims", *map(str, files), "--device", "simulated:test", "--out", str(tmp_path / "out"), "--resume"]
    done = CliRunner().invoke(cli.app, call)
    assert (done.exit_code, "is complete, nothing is left to do" in done.stdout) == (0, True)


def test_a_claim_that_crashes_its_process_costs_one_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [small(tmp_path, name) for name in ("first", "second")]
    files[0].write_text(files[0].read_text().replace("size: 1MiB", "size: 2MiB"))
    monkeypatch.setenv(FAULTS, json.dumps([{"fault": "crash", "size": 2**21}]))
    outcome = tried(files, tmp_path / "out")
    assert [[result.status for result in claim.results] for claim in outcome.claims] == [["failed", "failed"], ["ok", "ok"]]
    assert outcome.claims[0].results[0].reason == "its process was ended by SIGSEGV"
    assert [claim.verdicts[0].verdict for claim in outcome.claims] == ["undecided", "confirmed"]
    assert (outcome.folder / NAME).exists()


def test_a_claim_whose_host_waits_otherwise_gets_a_device_that_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    real = bench.begin_bench

    def noting(device: str, wait: Wait) -> Bench:
        waits.append(wait)
        return real(device, wait)

    monkeypatch.setattr(claims, "begin_bench", noting)
    monkeypatch.setattr(claims_session, "begin_bench", noting)
    files = [small(tmp_path, name) for name in ("first", "asleep", "too", "last")]
    for path in files[1:3]:
        path.write_text(path.read_text().replace("warmup: 0,", "warmup: 0, wait: block,"))
    outcome = tried(files, tmp_path / "out")
    assert waits == ["spin", "block", "spin"]
    assert [claim.verdicts[0].verdict for claim in outcome.claims] == ["confirmed"] * 4


def test_the_verb_takes_names_and_exits_with_0_whatever_the_verdicts(tmp_path: Path) -> None:
    call = ["claims", "--device", "simulated:test", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app, [*call, "kernel-is-cheap", str(small(tmp_path, "fails", "{above: 1}"))])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("SIMULATED")
    assert "[1/2] kernel-is-cheap ..." in done.stdout
    assert re.search(r"^refuted +fails is so +0\.\d+ +above 1$", done.stdout, re.MULTILINE)
    unknown = CliRunner().invoke(cli.app, [*call, "kernel-is-chaep"])
    assert unknown.exit_code == 2
    assert "did you mean" in unknown.stderr


@pytest.mark.gpu
def test_a_real_device_keeps_order_tells_its_pointers_and_shows_what_an_early_refill_spoils(tmp_path: Path) -> None:
    names = ("order-within-a-stream", "no-order-between-streams", "what-a-pointer-tells", "slot-refilled-too-early")
    try:
        outcome = run_claims(claim_files(names), device="cuda", out=tmp_path, watcher=Watch())
    except DeviceUnavailable as error:
        pytest.skip(str(error))
    assert {row["device_kind"] for row in verdicts_in(outcome.folder)} == {"cuda"}
    assert [(row["claim"], row["reason"]) for row in verdicts_in(outcome.folder) if row["verdict"] != "confirmed"] == []


def test_without_names_every_claim_is_meant() -> None:
    assert sorted(path.resolve() for path in claim_files([])) == FILES
    with pytest.raises(SpecError):
        claim_files(["no-such-claim"])


ROW: dict[str, Any] = {
    "run_id": "r_1",
    "experiment": "chunks",
    "claim": "a | b",
    "source": "It is so.",
    "verdict": "confirmed",
    "figure": 2.0**21,
    "low": 2.0**20,
    "high": 2.0**22,
    "unit": "bytes",
    "limit": "at most 4MiB",
    "reason": "wall_ms by chunk",
    "device": "NVIDIA H200",
    "device_kind": "cuda",
}


def test_the_page_tells_claim_sentence_verdict_figure_and_device() -> None:
    lines = page_lines(
        [ROW, ROW | {"verdict": "undecided", "figure": None, "low": None, "high": None, "source": "", "limit": ""}]
    )
    assert lines[0] == "# Claims of the source documents, tested on NVIDIA H200"
    assert "2 claims: 1 confirmed, 0 refuted, 1 undecided. Run r_1." in lines
    assert "| a \\| b | confirmed | 2MiB | 1MiB … 4MiB | at most 4MiB |" in lines
    assert "> It is so." in lines
    assert "**confirmed**: 2MiB, 1MiB … 4MiB (expected: at most 4MiB). From `chunks.yaml`: wall_ms by chunk" in lines
    assert "**undecided**. From `chunks.yaml`: wall_ms by chunk" in lines
    assert not any("SIMULATED" in line for line in lines)
    assert any("SIMULATED" in line for line in page_lines([ROW | {"device_kind": "simulated"}]))


def test_figures_are_written_with_their_unit() -> None:
    ms = ROW | {"figure": 1.23456, "low": 1.0, "high": 1.5, "unit": "ms"}
    assert (figure_text(ms), interval_text(ms)) == ("1.235 ms", "1 … 1.5 ms")
    assert figure_text(ROW | {"figure": 0.5, "unit": ""}) == "0.5"
    assert screen_grid([ms]).rows == (("confirmed", "a | b", "1.235 ms", "1 … 1.5 ms", "at most 4MiB"),)


@pytest.mark.parametrize(
    ("limit", "unit", "told"),
    [
        ("at most 10", "ms", "at most 10 ms"),
        ("at least 512 and at most 1048576", "bytes", "at least 512B and at most 1MiB"),
        ("above 0", "", "above 0"),
        ("at most 4MiB", "bytes", "at most 4MiB"),
        ("at most 16MiB, where wait_share is at least 0.9", "bytes", "at most 16MiB, where wait_share is at least 0.9"),
        ("reason says was refused", "", "reason says was refused"),
    ],
)
def test_a_limit_has_the_unit_of_its_figure(limit: str, unit: str, told: str) -> None:
    assert limit_text(limit, unit) == told


def test_refuted_claims_come_first() -> None:
    rows = [ROW | {"claim": word, "verdict": word} for word in ("confirmed", "undecided", "refuted")]
    headings = [line for line in page_lines(rows) if line.startswith("## ")]
    assert headings == ["## refuted", "## undecided", "## confirmed"]
