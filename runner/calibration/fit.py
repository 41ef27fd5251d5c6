"""From a finished run to a profile: fit step by step, then say how well the profile gives the run back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from runner.calibration.cases import Cases
from runner.calibration.of_copies import early_return_bytes
from runner.calibration.of_host import blank_tables
from runner.calibration.parameters import Node, Path, node_at, with_source
from runner.calibration.simulator import Simulator
from runner.calibration.solve import Step, solve
from runner.calibration.witnesses import steps
from runner.device.simulated.profile import PER_MILLION
from runner.device.simulated.profile_files import as_profile, profile_data, shipped_names
from runner.errors import InputError
from runner.memory import KINDS
from runner.observed import ObservedRun
from runner.predict import accuracy_of, predict

FIRST_GUESS: Final = "h200"
"""The profile with which a fit begins, and whose values stay where the run says nothing."""
_MAY_BE_NOTHING: Final[dict[Path, Node]] = {
    ("calls", "cold_copy"): {"points": [[0, 0]]},
    ("calls", "change_ns"): {"value": 0},
    ("calls", "handover_ns"): {"value": 0},
    ("engines", "kernel_gap_ns"): {"value": 0},
    ("engines", "switch_ns"): {"value": 0},
    ("engines", "row_h2d_ns"): {"value": 0},
    ("staging", "first_h2d"): {"points": [[0, 0]]},
    ("staging", "first_d2h"): {"points": [[0, 0]]},
    ("host", "start_ns"): {"ns_by_threads": {1: 0}},
}
"""What a profile may leave out, and how it is there without costing anything."""
_PART_OF: Final[dict[Path, Path]] = {
    ("staging", "first_h2d"): ("kinds", "pageable", "h2d"),
    ("staging", "first_d2h"): ("kinds", "pageable", "d2h"),
    ("host", "start_ns"): ("host", "copy_gb_per_s"),
    ("engines", "kernel_gap_ns"): ("engines", "kernel"),
}
"""What is in the time of another parameter's witnesses: where that one is fitted and no case tells them apart, it has it all."""
_LEADING: Final = ("name", "description", "source", "fit")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted profile as its file has it, and the paths of what was fitted."""

    data: Node
    fitted: tuple[Path, ...]


def fit_profile(run: ObservedRun, name: str, base: str = FIRST_GUESS, tell: Callable[[Step], None] = lambda step: None) -> Fitted:
    """Fit a profile called `name` to a run, beginning with the profile `base`; `tell` is called before each step.

    Raises InputError where the name is that of a shipped profile or no name, or where the run tells of no parameter.
    """
    data = _named(run, name, base)
    simulator = Simulator()
    fitted: list[tuple[Path, str]] = []
    told: set[Path] = set()
    source = _source(run)
    cases, before = Cases.that_can_be_played(run.observations), _blanked(data)
    blank_tables(cases, data)
    early = early_return_bytes(cases)
    if early is not None:
        data["staging"]["early_return_bytes"]["value"] = early
        fitted.append((("staging", "early_return_bytes"), "measured"))
    for step in steps(cases, data):
        tell(step)
        data, parameters = solve(data, step, simulator)
        fitted += [(parameter.path, step.how) for parameter in parameters]
        # Rates of one thread tell nothing of what several take to begin.
        told |= {parameter.path for parameter in parameters if parameter.at != 1}
    if not fitted:
        raise InputError(f"{run.folder} has no case that tells of any parameter of a profile; run calibrate.yaml")
    for path in before.keys() - dict(fitted).keys():
        if _PART_OF.get(path) not in told:
            node_at(data, path[:-1])[path[-1]] = before[path]
    for path, how in dict(fitted).items():
        data = with_source(data, [path], how, source)
    profile = as_profile(data, name)
    data["fit"] = accuracy_of(run, predict(run, profile)).model_dump()
    return Fitted({key: data[key] for key in (*_LEADING, *(key for key in data if key not in _LEADING))}, tuple(dict(fitted)))


def _named(run: ObservedRun, name: str, base: str) -> Node:
    """Return the data to begin with: everything of the base as an assumption, and the run's own facts."""
    if name in shipped_names():
        raise InputError(f"{name} is the name of a profile that comes with dmalab; choose another by --name")
    data = _assumed(profile_data(base), f"as in profile {base}")
    device, driver = run.device, run.environment("driver")
    data |= {
        "name": name,
        "description": f"{device}{f', driver {driver}' if driver else ''}, as calibrated on {_date(run)}.",
        "source": f"Fitted to run {run.run_id} of {run.loaded.experiment.name}.yaml; the rest as in profile {base}.",
    }
    data.pop("fit", None)
    memory, link = run.environment("memory_bytes"), run.environment("link_gb_per_s")
    if memory:
        data["memory_bytes"] = {"value": int(memory), "how": "measured", "source": _source(run)}
    if link:
        data["link_gb_per_s"] = float(link)
    engines = run.environment("copy_engines")
    if engines:
        data["copy_engines"] = min(2, int(engines))
    _complete(data)
    return data


def _complete(data: Node) -> None:
    """Give a profile all that may be left out, so that it can be fitted."""
    for path, empty in _MAY_BE_NOTHING.items():
        node_at(data, path[:-1]).setdefault(path[-1], _nothing(empty))
    data["host"].setdefault("stager_ppm", _nothing({"by_bytes": {1: PER_MILLION}}))
    data["host"].setdefault("shared_stager_ppm", deepcopy(data["host"]["stager_ppm"]))
    data["host"].setdefault("plain_gb_per_s", deepcopy(data["host"]["copy_gb_per_s"]))
    data["staging"].setdefault("fresh_page_ns", dict(data["host"]["first_touch_ns"]))
    for costs in data["kinds"].values():
        costs.setdefault("free_huge", costs["free"])
    for kind in data["kinds"].keys() & {row.name for row in KINDS.values() if row.slow_cpu_read}:
        data["kinds"][kind].setdefault("cpu_read", {"points": [[0, 0]], "how": "assumed", "source": "as ordinary memory"})


def _blanked(data: Node) -> dict[Path, Node]:
    """Let costs that other steps would mistake for theirs begin with nothing; return what they were."""
    before: dict[Path, Node] = {}
    for path, empty in _MAY_BE_NOTHING.items():
        before[path] = node_at(data, path)
        node_at(data, path[:-1])[path[-1]] = _nothing(empty)
    return before


def _nothing(empty: Node) -> Node:
    return {"how": "assumed", "source": "nothing, as long as nothing is measured"} | deepcopy(empty)


def _assumed(node: Node, source: str) -> Node:
    """Return data in which every parameter is assumed."""
    changed: Node = {key: _assumed(value, source) if isinstance(value, dict) else value for key, value in node.items()}
    return changed | {"how": "assumed", "source": source} if "how" in node else changed


def _source(run: ObservedRun) -> str:
    return f"{run.loaded.experiment.name}.yaml on {run.device}, {_date(run)}, run {run.run_id}"


def _date(run: ObservedRun) -> str:
    return str(run.manifest.get("started_utc", ""))[:10]
