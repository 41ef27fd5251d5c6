"""What verbs tell scripts under `--json`: plain mappings with stable keys, sizes in bytes, times in UTC, numbers as numbers."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runner.device.simulated.profile_files import profile_names
from runner.errors import InputError, Problem, SpecError
from runner.grid_count import GridCount, count_grid
from runner.memory import KINDS
from runner.pricing import Price
from runner.run_files import unguarded
from runner.scenarios import SCENARIOS
from runner.spec.load import LoadedExperiment, list_experiments, load_experiment

Told = dict[str, Any]


def run_told(experiment: str, folder: Path | None, exit_code: int) -> Told:
    """Return what came of one run, by its folder: device, cases by status, verdicts; without a folder the exit code alone."""
    told: Told = {"experiment": experiment, "folder": None if folder is None else str(folder), "exit_code": exit_code}
    if folder is None:
        return told
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    device = manifest.get("device") or {}
    verdicts = [{key: row[key] for key in ("claim", "verdict", "reason")} for row in _rows(folder / "verdicts.csv")]
    return told | {
        "run_id": manifest["run_id"],
        "status": manifest["status"],
        "started_utc": manifest["started_utc"],
        "device": device.get("name"),
        "device_kind": device.get("kind"),
        "cases": dict(Counter(row["status"] for row in _rows(folder / "summary.csv"))),
        "verdicts": verdicts,
    }


def plan_told(loaded: LoadedExperiment, price: Price) -> Told:
    """Return what a run would do and cost; `seconds` is an estimate by the profile that is named."""
    return {
        "experiment": loaded.experiment.name,
        "question": loaded.experiment.question,
        "file": str(loaded.path),
        "cases": price.total,
        "excluded": price.excluded,
        "plays": price.plays,
        "payload_bytes": price.payload_bytes,
        "seconds": price.seconds,
        "profile": price.profile,
        "skipped": dict(price.skipped),
        "scenarios": [
            {"name": each.name, "cases": each.cases, "excluded": dict(each.excluded), "first": each.description}
            for each in price.scenarios
        ],
    }


def files_told(files: Sequence[str], overrides: Sequence[str], max_cases: int) -> Told:
    """Check files and return for each its cases and advice, or its problems with their places."""
    return {"files": [_file_told(file, overrides, max_cases) for file in files]}


def catalogue_told(topic: str | None) -> Told:
    """Return what there is to choose from, of one topic or of all: experiments, profiles of simulated devices, kinds."""
    topics: dict[str, Callable[[], Told]] = {
        "experiments": lambda: {"experiments": {name: str(path) for name, path in list_experiments().items()}},
        "profiles": lambda: {"profiles": list(profile_names())},
        "kinds": _kinds_told,
    }
    told: Told = {}
    for name, content in topics.items():
        if topic in (name, None):
            told |= content()
    return told


def _kinds_told() -> Told:
    kinds = {
        name: {
            "meaning": model.model_fields["kind"].description,
            "fields": {field: info.description for field, info in model.model_fields.items() if field != "kind"},
        }
        for name, model in SCENARIOS.items()
    }
    return {"kinds": kinds, "buffers": {name: kind.meaning for name, kind in KINDS.items()}}


def _file_told(file: str, overrides: Sequence[str], max_cases: int) -> Told:
    try:
        loaded = load_experiment(file, overrides)
        count = count_grid(loaded, max_cases)
    except SpecError as error:
        return {"file": file, "ok": False, "problems": [_problem_told(each) for each in error.problems]}
    except InputError as error:
        return {"file": file, "ok": False, "problems": [{"file": file, "message": str(error)}]}
    return {"file": str(loaded.path), "ok": True, **_count_told(count)}


def _count_told(count: GridCount) -> Told:
    advice = [{"scenario": name, "cases": cases, "advice": text} for (name, text), cases in count.advice.items()]
    return {"cases": count.cases, "excluded": count.excluded, "advice": advice}


def _problem_told(problem: Problem) -> Told:
    names = ("file", "line", "column", "path", "message", "value", "allowed", "hint")
    return {name: getattr(problem, name) for name in names}


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: unguarded(cell) for name, cell in row.items()} for row in csv.DictReader(file)]
