"""Where a run lies: the one way from what somebody typed to the folder of a run, for every verb and for `read_results`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from runner.errors import InputError
from runner.execution.journal import NAME as JOURNAL

SUMMARY: Final = "summary.csv"
MOST_NAMED: Final = 8
"""Runs that a question lists."""
_FILES: Final = frozenset(
    ("summary.csv", "samples.csv", "cases.csv", "columns.csv", "verdicts.csv", "manifest.json", "report.html", JOURNAL)
)
"""Files that stand for the run in whose folder they lie."""
RESULTS: Final = Path("results")
"""Where `run` writes, unless it is told another folder."""
_BY_TIME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]+", re.ASCII)


def find_run(given: str | Path, results: Path = RESULTS) -> Path:
    """Return the folder of a run.

    `given` is the folder itself, one of its files, a `latest` link, the folder of an experiment's runs, or the name of an
    experiment whose runs lie in `results`; of several runs of one experiment the newest counts. Raises InputError where there is
    none, and where there are several among which nothing chooses.
    """
    path = Path(given)
    named = results / path if not path.is_absolute() and not path.exists() else None
    for place in (path, *([named] if named else [])):
        if place.is_file() and place.name in _FILES and (place.parent / SUMMARY).is_file():
            return place.parent.resolve()
        if (place / SUMMARY).is_file():
            return place.resolve()
        if place.is_dir() and (found := _newest(place)):
            return found.resolve()
    if stopped := _stopped(path, named):
        raise InputError(
            f"{given} is no finished run: {stopped} has a journal and no {SUMMARY}, so it was stopped, or still goes on; run its "
            "experiment once more with --resume to end it, or give another run"
        )
    raise InputError(f"{given} is no run: {_why(path, named)}; give a run's folder, or the name of an experiment that has run")


def names_of_runs(results: Path = RESULTS) -> list[str]:
    """Return the names of the experiments that have run, in alphabetical order; none where there is no folder `results`."""
    return sorted({table.parents[1].name for table in results.glob(f"*/*/{SUMMARY}")})


def _newest(place: Path) -> Path | None:
    """Return the run that `latest` names, a link or a file, else the only run, else the last one of an experiment by its time."""
    latest = place / "latest"
    if (latest / SUMMARY).is_file():
        return latest
    if latest.is_file():
        pointed = place / latest.read_text(encoding="utf-8", errors="replace").strip()
        if (pointed / SUMMARY).is_file():
            return pointed
    runs = sorted((table.parent for table in place.glob(f"*/{SUMMARY}")), key=lambda folder: folder.name)
    if len(runs) > 1 and not _of_one_experiment(runs):
        listed = ", ".join(str(run) for run in runs[:MOST_NAMED])
        more = f" and {len(runs) - MOST_NAMED:,} more" if len(runs) > MOST_NAMED else ""
        raise InputError(f"{place} holds {len(runs):,} runs, and nothing says which is meant; give one of {listed}{more}")
    return runs[-1] if runs else None


def _stopped(path: Path, named: Path | None) -> Path | None:
    """Return the newest folder, of those that could be meant, of a run that did not come to its tables."""
    places = [place for place in (path.parent if path.is_file() else path, named) if place is not None and place.is_dir()]
    journals = [journal for place in places for form in ("*/", "") for journal in sorted(place.glob(f"{form}{JOURNAL}"))]
    return journals[-1].parent if journals else None


def _of_one_experiment(runs: Sequence[Path]) -> bool:
    """Whether runs are those of one experiment as `run` names them: by their time, so that the last by name is the newest."""
    return all(_BY_TIME.fullmatch(run.name) for run in runs) and len({_experiment(run) for run in runs}) == 1


def _experiment(run: Path) -> str:
    try:
        manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return ""
    return str(manifest.get("experiment", "")) if isinstance(manifest, dict) else ""


def _why(path: Path, named: Path | None) -> str:
    if path.is_file():
        return "it is a file, and none of a run's folder"
    if path.is_dir():
        return f"there is no {SUMMARY} in it, nor in a folder in it"
    return f"there is no such folder{f', and no runs in {named}' if named and named != path else ''}"
