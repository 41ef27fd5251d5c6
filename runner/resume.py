"""Going on with a run that did not come to its end: which one, and whether it is still the same run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runner import __version__
from runner.device.contract import DeviceFacts
from runner.errors import SpecError, UsageError
from runner.execution.journal import NAME, Journal, Record, first_record
from runner.execution.records import Restored, restore
from runner.expand import Case
from runner.run_folder import RunFolder
from runner.spec.load import LoadedExperiment, load_experiment

IDENTITY: Final = ("uuid", "pci_bus_id", "driver", "cuda_driver_api", "profile_sha256")
"""Facts that make two devices the same one in the same state of software, beside name and kind."""
MOST_SHOWN: Final = 5
"""Differences that a refusal names."""

_WHAT_NEXT: Final = "put that back, or start a new run without --resume"
_FOLDER: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run that was begun before: its folder, and the first record of its journal."""

    folder: RunFolder
    header: Record

    @property
    def finished(self) -> bool:
        """Whether every case of it was tried and its tables are written."""
        return self.folder.manifest.get("status") == "complete"


def newest_run(out: Path, loaded: LoadedExperiment) -> Earlier | None:
    """Return the newest run of an experiment in `out` that was journalled, None where there is none.

    A finished run of another state of the file is none of this one.
    """
    newest = _newest(found_in(out / loaded.experiment.name, "run"))
    if newest is not None and newest.finished and newest.header.get("spec_sha256") != loaded.spec_sha256:
        return None
    return newest


def newest_testing(runs: Path, spec_sha256: str) -> Earlier | None:
    """Return the newest testing of claims in `runs` that was journalled and is of exactly these files, None without one."""
    return _newest(each for each in found_in(runs, "claims") if each.header.get("spec_sha256") == spec_sha256)


def header_of(loaded: LoadedExperiment, facts: DeviceFacts, cases: Sequence[Case]) -> Record:
    """Return the first record of a run's journal: what must be the same wherever the run is gone on with."""
    return {"overrides": list(loaded.overrides)} | header("run", loaded.spec_sha256, facts, cases)


def header(kind: str, spec_sha256: str, facts: DeviceFacts, cases: Iterable[Case]) -> dict[str, Any]:
    """Return the first record of a journal of this kind, `run` or `claims`."""
    ids = [case.case_id for case in cases]
    return {
        "type": kind,
        "format": 1,
        "dmalab": __version__,
        "spec_sha256": spec_sha256,
        "cases": [len(ids), hashlib.sha256("".join(ids).encode()).hexdigest()],
        "device": {"name": facts.name, "kind": facts.kind}
        | {name: facts.environment[name] for name in IDENTITY if name in facts.environment},
    }


def take_up(
    earlier: Earlier, loaded: LoadedExperiment, facts: DeviceFacts, cases: Sequence[Case]
) -> tuple[Journal, Restored, Mapping[str, int]]:
    """Open the journal of a run again, without its torn end; return it, what it holds, and what of it was not whole.

    Raises UsageError where the file, the device, the version or the cases are not those of the run, with the difference, or where
    another process is at it; NotKept where it cannot be read or written.
    """
    now = header_of(loaded, facts, cases)
    if now["spec_sha256"] != earlier.header.get("spec_sha256"):
        raise UsageError(f"{_where(earlier)}: the file is another one now ({_changes(earlier, loaded)}); {_WHAT_NEXT}")
    journal = reopened(earlier, now)
    restored = restore(journal.past, cases)
    return journal, restored, {"cases_done": len(restored.results), **torn_in(journal)}


def reopened(earlier: Earlier, now: Record) -> Journal:
    """Open the journal of a run again whose header would be `now`, without its torn end; the caller closes it.

    Raises UsageError where device, version or cases are others, or where another process is at it, NotKept where it cannot be
    opened.
    """
    if now["device"] != earlier.header.get("device"):
        changes = "; ".join(_differences(earlier.header.get("device"), now["device"]))
        raise UsageError(f"{_where(earlier)}: the device is another one now ({changes}); {_WHAT_NEXT}")
    version = earlier.header.get("dmalab")
    if (version, earlier.header.get("format")) != (now["dmalab"], now["format"]):
        raise UsageError(
            f"{_where(earlier)}: dmalab {version} began it, and this is {now['dmalab']}, whose numbers may be others; "
            f"install that version again, or start a new run without --resume"
        )
    if now["cases"] != earlier.header.get("cases"):
        raise UsageError(f"{_where(earlier)}: other cases were made of the file then; start a new run without --resume")
    return Journal(earlier.folder.path / NAME, again=True)


def torn_in(journal: Journal) -> Mapping[str, int]:
    """Return what of a journal that was opened again was not whole, for the manifest."""
    return {"torn_bytes": journal.past.torn_bytes, "spoiled_lines": journal.past.spoiled}


def found_in(runs: Path, kind: str) -> Iterator[Earlier]:
    """Yield the runs in a folder whose journals are of this kind."""
    folders = runs.iterdir() if runs.is_dir() else ()
    found = (_read(folder, kind) for folder in folders if _FOLDER.fullmatch(folder.name))
    return (earlier for earlier in found if earlier is not None)


def _newest(found: Iterable[Earlier]) -> Earlier | None:
    return max(found, key=lambda each: str(each.folder.manifest.get("started_utc")), default=None)


def _where(earlier: Earlier) -> str:
    return f"the run in {earlier.folder.path} cannot be gone on with"


def _read(folder: Path, kind: str) -> Earlier | None:
    """Return the run in a folder, None for one that was ended before it had begun."""
    header = first_record(folder / NAME)
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if header is None or header.get("type") != kind or not isinstance(manifest, dict):
        return None
    if not isinstance(manifest.get("run_id"), str) or not isinstance(manifest.get("resumed", []), list):
        return None  # somebody else wrote it
    return Earlier(RunFolder(folder, manifest["run_id"], manifest), header)


def _changes(earlier: Earlier, loaded: LoadedExperiment) -> str:
    """Say what is different in the file, `--set` included."""
    try:
        before = load_experiment(earlier.folder.path / "experiment.yaml", earlier.header.get("overrides", ()))
    except SpecError:
        return "and the one of then is no experiment any more"
    found = list(_differences(before.document.content, loaded.document.content))
    more = f"; {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return "; ".join(found[:MOST_SHOWN]) + more if found else "in the order of its keys"


def _differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield `path: this then, that now` for everything that differs between two plain values."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in {**before, **now}:
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif before != now:
        yield f"{path}: {_shown(before)} then, {_shown(now)} now"


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
