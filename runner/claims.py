"""Testing the claims of the source documents: many small experiments on one opened device, and one table of verdicts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from runner.claims_page import page_lines
from runner.claims_session import ClaimFile, ClaimResult, Session
from runner.columns import case_columns, sample_columns, summary_columns, verdict_columns
from runner.device.contract import DeviceFacts
from runner.errors import InputError
from runner.execution.bench import begin_bench
from runner.execution.journal import NAME, Journal
from runner.execution.messages import Opened
from runner.execution.stopping import stoppable
from runner.expand import expand
from runner.resume import Earlier, header, newest_testing, reopened, torn_in
from runner.rows import Row, case_rows, each_summary_row, sample_rows, verdict_rows
from runner.run_folder import RunFolder, describe_device, describe_host, utc_now
from runner.spec.load import find_experiment, list_experiments, load_experiment
from runner.tables import write_columns, write_csv, write_whole

FOLDER: Final = "claims"
"""Name of the folder of claims, in `experiments/` and in the results."""


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

    def stopping(self) -> None:
        """Tell that somebody wants the testing to end, and that it will after the play under way."""

    def finished(self, outcome: ClaimsOutcome) -> None:
        """Tell that everything is written."""


def claim_files(names: Sequence[str]) -> list[Path]:
    """Return the files called `names`, or every file of claims where there are no names; raises SpecError for an unknown one."""
    known = list_experiments()
    return [
        known.get(f"{FOLDER}/{name.removesuffix('.yaml')}") or find_experiment(name)
        for name in names or [name for name in known if name.startswith(f"{FOLDER}/")]
    ]


def earlier_testing(files: Sequence[Path], out: Path) -> Earlier | None:
    """Return the newest testing of exactly these files in `out`, None where there is none; raises SpecError for a wrong file."""
    return newest_testing(out / FOLDER, _digest(load_experiment(path).original for path in files))


def run_claims(
    files: Sequence[Path], *, device: str | None, out: Path, watcher: ClaimsWatcher, earlier: Earlier | None = None
) -> ClaimsOutcome:
    """Test the claims of all files on one device and write their tables and their page into `out`/claims/<run>/.

    `device` is `auto` where omitted; those of the files are passed over, so that all stand on one. It stands in a process of its
    own as in a run: what breaks there costs one case. A claim that cannot be tested is undecided with the reason. What an
    `earlier` testing of the same files has measured is done. A first Ctrl-C or SIGTERM ends the testing after the play under way,
    and what was measured is written. Raises InputError where files are wrong, with every problem of all of them, and that,
    DeviceUnavailable or EnvironmentProblem where there is no device; then nothing was run or written. Raises NotKept where what
    was measured cannot be noted, StoppedAtOnce after a second signal.
    """
    read = _read(files)
    digest = _digest(file.loaded.original for file in read)
    with ExitStack() as ends:
        bench = ends.enter_context(closing(begin_bench(device or "auto", "spin")))
        opened = bench.open()
        folder, journal = _begin(out, read, digest, opened, earlier)
        ends.enter_context(closing(journal))
        stop = ends.enter_context(stoppable(lambda: watcher.stopping()))
        session = ends.enter_context(closing(Session(device or "auto", bench, folder.run_id, opened.facts, journal, stop)))
        watcher.opened(opened.facts, opened.note, len(read))
        claims: list[ClaimResult] = []
        for place, each in enumerate(read, 1):
            watcher.claim_begins(each.path.stem, place)
            claims.append(session.test(each))
            watcher.claim_done(claims[-1], place)
        outcome = ClaimsOutcome(folder.path, opened.facts, tuple(claims), session.interrupted)
        _write(folder, outcome, [each.path.stem for each in read])
    watcher.finished(outcome)
    return outcome


def _read(paths: Sequence[Path]) -> list[ClaimFile]:
    """Read every file; raises one InputError with all that is wrong with all of them."""
    files: dict[str, ClaimFile] = {}
    problems: list[str] = []
    for path in paths:
        try:
            loaded = load_experiment(path)
            read = ClaimFile(path, loaded, list(expand(loaded)))
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


def _digest(originals: Iterable[bytes]) -> str:
    """Return what tells one set of files from another."""
    return hashlib.sha256(b"\n".join(originals)).hexdigest()


def _begin(
    out: Path, files: Sequence[ClaimFile], digest: str, opened: Opened, earlier: Earlier | None
) -> tuple[RunFolder, Journal]:
    """Make a new folder and journal, or take those of an earlier testing of the same files up again."""
    first = header(FOLDER, digest, opened.facts, (case for file in files for case in file.cases))
    if earlier is None:
        folder = _start(out, files, digest, opened)
        journal = Journal(folder.path / NAME)
        journal.append(first)
        return folder, journal
    journal = reopened(earlier, first)
    times = [*earlier.folder.manifest.get("resumed", ()), {"utc": utc_now(), **torn_in(journal)}]
    earlier.folder.write_manifest(status="running", resumed=times)
    return earlier.folder, journal


def _start(out: Path, files: Iterable[ClaimFile], digest: str, opened: Opened) -> RunFolder:
    """Make the folder, with the files as they are and a manifest of what is known before the first claim."""
    folder = RunFolder.create(out, FOLDER, digest)
    originals = folder.path / "experiments"
    originals.mkdir()
    for file in files:
        write_whole(originals / file.path.name, file.loaded.original)
    folder.write_manifest(
        run_id=folder.run_id,
        experiment=FOLDER,
        status="running",
        started_utc=utc_now(),
        spec_sha256=digest,
        device=describe_device(opened.facts),
        note=opened.note,
        host=describe_host(),
    )
    return folder


def _write(folder: RunFolder, outcome: ClaimsOutcome, names: Sequence[str]) -> None:
    """Write the tables of all claims under each other, the page, and the final manifest."""
    claims = outcome.claims
    summaries = (row for claim in claims for row in each_summary_row(claim.run, claim.results))
    samples = (row for claim in claims for row in sample_rows(claim.run, [*claim.results, *claim.readings]))
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
