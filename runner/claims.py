"""Testing the claims of the source documents: many small experiments on one opened device, and one table of verdicts."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from runner.claims_page import page_lines
from runner.columns import case_columns, sample_columns, summary_columns, verdict_columns
from runner.device.contract import DeviceFacts
from runner.device.select import Opened, open_device
from runner.errors import DmalabError, InputError
from runner.execution.local import play_cases, with_all_cases
from runner.expand import Case, expand
from runner.flow import run_info
from runner.measure.result import CaseResult
from runner.placement import Wait
from runner.rows import Row, RunInfo, case_rows, sample_rows, summary_rows, verdict_rows
from runner.run_folder import RunFolder, describe_device, describe_host, utc_now
from runner.spec.load import LoadedExperiment, find_experiment, list_experiments, load_experiment
from runner.tables import write_columns, write_csv
from runner.verdicts import Verdict, judge

FOLDER: Final = "claims"
"""Name of the folder of claims, in `experiments/` and in the results."""
_STOPPED: Final = "the run stopped early"


@dataclass(frozen=True)
class ClaimResult:
    """One file of claims: what its rows have in common, its verdicts, the results they stand on, and the seconds it took."""

    run: RunInfo
    verdicts: tuple[Verdict, ...]
    results: tuple[CaseResult, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class ClaimsOutcome:
    """What testing left behind: its folder, the device, every claim in the order of the files, and whether it was interrupted."""

    folder: Path
    facts: DeviceFacts
    claims: tuple[ClaimResult, ...]
    interrupted: bool

    def verdict_rows(self) -> list[Row]:
        """Return the rows of verdicts.csv."""
        return [row for claim in self.claims for row in verdict_rows(claim.run, claim.verdicts)]


class ClaimsWatcher(Protocol):
    """What wants to know how the testing goes; it is called between files, never in a timed region."""

    def opened(self, facts: DeviceFacts, note: str, total: int) -> None:
        """Tell that the device is open and how many files there are; `note` says why `auto` chose a simulated device."""

    def claim_begins(self, name: str, place: int) -> None:
        """Tell which file is next; `place` counts from 1."""

    def claim_done(self, claim: ClaimResult, place: int) -> None:
        """Tell what came of a file."""

    def finished(self, outcome: ClaimsOutcome) -> None:
        """Tell that everything is written."""


def claim_files(names: Sequence[str]) -> list[Path]:
    """Return the files called `names`, or every file of claims where there are no names; raises SpecError for an unknown one."""
    known = list_experiments()
    return [
        known.get(f"{FOLDER}/{name.removesuffix('.yaml')}") or find_experiment(name)
        for name in names or [name for name in known if name.startswith(f"{FOLDER}/")]
    ]


def run_claims(files: Sequence[Path], *, device: str | None, out: Path, watcher: ClaimsWatcher) -> ClaimsOutcome:
    """Test the claims of all files on one device and write their tables and their page into `out`/claims/<run>/.

    `device` is `auto` where omitted; those of the files are passed over, so that all stand on one. A claim that breaks is
    undecided with the reason, and so is every one after an interrupt. Raises InputError where files are wrong, with every problem
    of all of them, and that or DeviceUnavailable where there is no device; then nothing was run or written.
    """
    read = _read(files)
    session = _Session(device or "auto", open_device(device or "auto"))
    try:
        facts = session.opened.device.facts()
        folder = _start(out, read, facts, session.opened.note)
        watcher.opened(facts, session.opened.note, len(read))
        claims: list[ClaimResult] = []
        for place, each in enumerate(read, 1):
            watcher.claim_begins(each.path.stem, place)
            claims.append(session.test(each, folder.run_id, facts))
            watcher.claim_done(claims[-1], place)
        outcome = ClaimsOutcome(folder.path, facts, tuple(claims), session.interrupted)
        _write(folder, outcome, [each.path.stem for each in read])
    finally:
        session.opened.device.close()
    watcher.finished(outcome)
    return outcome


@dataclass(frozen=True)
class _File:
    """One file of claims, read: where it lies, its experiment and the cases of its grid."""

    path: Path
    loaded: LoadedExperiment
    cases: list[Case]


@dataclass
class _Session:
    """The device that all claims share, opened anew after a claim that broke it, and for one whose host waits in another way."""

    name: str
    opened: Opened
    interrupted: bool = False
    _wait: Wait = "spin"

    def test(self, file: _File, run_id: str, facts: DeviceFacts) -> ClaimResult:
        """Test the claims of one file."""
        name, loaded, cases = file.path.stem, file.loaded, file.cases
        if self.interrupted:
            return ClaimResult(RunInfo(run_id, name, facts.name, facts.kind), (_undecided(name, _STOPPED),))
        begun = time.monotonic()
        results: list[CaseResult] = []
        run = run_info(run_id, loaded, facts)
        try:
            if self._open_for(loaded.experiment.measure.wait):
                facts = self.opened.device.facts()
                run = run_info(run_id, loaded, facts)
            # As they come, not all at the end: what was measured before an interrupt counts.
            results.extend(play_cases(self.opened.device, facts, cases, loaded.experiment.measure))
            why = _STOPPED
        except KeyboardInterrupt:
            self.interrupted, why = True, _STOPPED
        except Exception as error:  # one claim must not cost the others, whatever broke
            why = f"{'' if isinstance(error, DmalabError) else f'{type(error).__name__}: '}{error}"
        results = with_all_cases(cases, results, why)
        verdicts = judge(loaded.experiment, results, run) or [_undecided(name, "the file expects nothing")]
        return ClaimResult(run, tuple(verdicts), tuple(results), time.monotonic() - begun)

    def _open_for(self, wait: Wait) -> bool:
        """Replace the device where a claim before has broken it or let the host wait otherwise; return whether that was so."""
        if wait == self._wait and not self.opened.device.lost:
            return False
        self.opened.device.close()
        self.opened, self._wait = open_device(self.name, wait), wait
        return True


def _read(paths: Sequence[Path]) -> list[_File]:
    """Read every file; raises one InputError with all that is wrong with all of them."""
    files: dict[str, _File] = {}
    problems: list[str] = []
    for path in paths:
        try:
            loaded = load_experiment(path)
            read = _File(path, loaded, list(expand(loaded)))
        except InputError as error:
            problems.append(str(error))
            continue
        # By these names the rows and the copies of the files are told apart.
        other = files.setdefault(path.stem, read)
        if other is not read:
            problems.append(f"{path}: {other.path} has the same name; give each file once, by a name of its own")
    if problems:
        raise InputError("\n".join(problems))
    return list(files.values())


def _undecided(claim: str, reason: str) -> Verdict:
    return Verdict(claim, "undecided", None, None, None, "", " ".join(reason.split()))


def _start(out: Path, files: Iterable[_File], facts: DeviceFacts, note: str) -> RunFolder:
    """Make the folder, with the files as they are and a manifest of what is known before the first claim."""
    contents = {file.path: file.loaded.original for file in files}
    digest = hashlib.sha256(b"\n".join(contents.values())).hexdigest()
    folder = RunFolder.create(out, FOLDER, digest)
    originals = folder.path / "experiments"
    originals.mkdir()
    for path, content in contents.items():
        (originals / path.name).write_bytes(content)
    folder.write_manifest(
        run_id=folder.run_id,
        experiment=FOLDER,
        status="running",
        started_utc=utc_now(),
        spec_sha256=digest,
        device=describe_device(facts),
        note=note,
        host=describe_host(),
    )
    return folder


def _write(folder: RunFolder, outcome: ClaimsOutcome, names: Sequence[str]) -> None:
    """Write the tables of all claims under each other, the page, and the final manifest."""
    claims = outcome.claims
    summaries = (row for claim in claims for row in summary_rows(claim.run, claim.results))
    samples = (row for claim in claims for row in sample_rows(claim.run, claim.results))
    cases = (row for claim in claims for row in case_rows(claim.run, [result.case for result in claim.results]))
    write_csv(folder.path / "summary.csv", summaries, summary_columns())
    write_csv(folder.path / "samples.csv", samples, sample_columns())
    write_csv(folder.path / "cases.csv", cases, case_columns())
    write_csv(folder.path / "verdicts.csv", outcome.verdict_rows(), verdict_columns())
    write_columns(folder.path / "columns.csv")
    folder.write_bytes("claims.md", "\n".join([*page_lines(outcome.verdict_rows()), ""]).encode())
    statuses = Counter(result.status for claim in claims for result in claim.results)
    folder.write_manifest(
        status="incomplete" if outcome.interrupted else "complete",
        finished_utc=utc_now(),
        cases={"total": sum(statuses.values()), **dict(sorted(statuses.items()))},
        verdicts=dict(sorted(Counter(verdict.verdict for claim in claims for verdict in claim.verdicts).items())),
        seconds={name: round(claim.seconds, 3) for name, claim in zip(names, claims, strict=True)},
        exit_code=130 if outcome.interrupted else 0,
    )
    folder.point_latest()
