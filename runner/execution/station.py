"""What runs in a worker of a cluster: it opens its GPU once a run, measures batches of cases on it, and answers in JSON.

Dask sends the functions below by their names and their argument as text; what they return are bytes of JSON, the records that a
journal has. So the client unpickles no result of a worker, and a worker nothing but the name of a function and a text.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import runner
from runner.errors import DmalabError
from runner.execution.bench import Bench, begin_bench
from runner.execution.members import simulated_member
from runner.execution.messages import Opened
from runner.execution.records import case_record, sentinel_record
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.sentinel import Sentinel
from runner.run_folder import describe_host
from runner.scenarios import SCENARIOS
from runner.spec.experiment import Measure

DEVICE: Final = "DMALAB_WORKER_DEVICE"
"""A variable of a worker: the device that it lends, instead of the one that the file names. Its name is none that the Makefile
exports, or workers started below make would lend what the client asks for."""
_KEPT: Final = "dmalab_station"
_SIMULATED: Final = re.compile(r"simulated(?::([a-z0-9][a-z0-9_.-]*))?(?:\*\d+)?", re.ASCII)


@dataclass(slots=True)
class Station:
    """One open device of a worker, for one run; the sentinel and what was learnt of companions stay from batch to batch.

    `greeting` is the key under which Dask keeps the answer by which it was opened, for as long as the run's client wants it.
    """

    run: str
    bench: Bench
    opened: Opened
    greeting: str = ""
    sentinel: Sentinel = field(default_factory=Sentinel)
    medians: dict[str, float | None] = field(default_factory=dict)
    told: int = 0


def greet(asked: str) -> bytes:
    """Open the worker's device for a run, and tell what it is and by which software; what an earlier run left is closed.

    `asked` is JSON: the `run`, the `device` that the file names, how threads `wait`. The answer has the worker's `machine` as a
    manifest describes it, or `refused`, in a sentence, where the device cannot be opened, or `busy` where another run's client is
    there and has it.
    """
    job = json.loads(asked)
    if _is_taken(job["run"]):
        return _encoded({"busy": "it measures for another run; wait for that to end, or use other workers"})
    try:
        station: Station | None = getattr(_worker(), _KEPT, None)
        if station is not None:
            _give_back(station)
        bench = begin_bench(_own_device(job["device"], str(_worker().name)), job["wait"])
        try:
            opened = bench.open()
        except BaseException:
            bench.close()
            raise
    except DmalabError as error:
        return _encoded({"refused": str(error)})
    except Exception:
        return _encoded({"refused": traceback.format_exc(limit=-3)})
    _keep(Station(job["run"], bench, opened, _worker().get_current_task()))
    return _encoded(software() | {"opened": asdict(opened), "machine": describe_host()})


def measure(asked: str) -> bytes:
    """Measure a batch of cases; `asked` is JSON by `runner.execution.cluster`, and so is the answer.

    It has `records`, those of a journal, and `lost`, why the device cannot go on, with the last lines of what went wrong.
    """
    job = json.loads(asked)
    station: Station | None = getattr(_worker(), _KEPT, None)
    if station is None or station.run != job["run"]:
        return _encoded({"spec": job["spec"], "records": [], "lost": "the worker was started anew and has no device open"})
    records: list[Mapping[str, Any]] = []
    lost = ""
    try:
        if job["medians"] is not None:
            station.medians = job["medians"]
        cases = {case["id"]: _case(case) for case in job["cases"]}
        work = Work(
            list(cases.values()),
            Measure.model_validate_json(job["measure"]),
            station.sentinel,
            medians=station.medians,
            most_pinned=job["most_pinned"],
            workers=1,
            more=True,
        )
        for ended in station.bench.sweep(work):
            records += [sentinel_record(reading) for reading in station.sentinel.readings[station.told :]]
            station.told = len(station.sentinel.readings)
            if ended.result.status == "not_run":
                lost = ended.result.reason
                break
            station.medians.update(ended.learnt)
            records.append(case_record(ended, cases[ended.result.case.case_id]))
    except Exception:
        lost = traceback.format_exc(limit=-6)
    return _encoded({"spec": job["spec"], "records": records, "lost": lost})


def leave(asked: str) -> bytes:
    """Give the device back that a run has open; `asked` is JSON with the `run`, since by now another one may have it."""
    station: Station | None = getattr(_worker(), _KEPT, None)
    if station is not None and station.run == json.loads(asked)["run"]:
        _give_back(station)
    return b"{}"


def software() -> dict[str, str]:
    """Return what measures here: the version and a hash of the sources of dmalab, Python, and the name of the machine."""
    return {
        "dmalab": runner.__version__,
        "sources": sources_sha256(),
        "python": platform.python_version(),
        "host": platform.node() or "localhost",
    }


@cache
def sources_sha256() -> str:
    """Return a hash of all modules and profiles of the package: two that are equal measure alike."""
    folder = Path(runner.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(each for kind in ("*.py", "*.c", "*.yaml") for each in folder.rglob(kind)):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def plain_case(case: Case) -> dict[str, Any]:
    """Return a case as a batch has it; its model goes as JSON, from which `measure` makes an equal one."""
    model = case.model.model_dump(mode="json")
    return {"id": case.case_id, "scenario": case.scenario, "index": case.index, "model": model}


def _case(plain: Mapping[str, Any]) -> Case:
    model = SCENARIOS[plain["model"]["kind"]].model_validate_json(json.dumps(plain["model"]))
    return Case(plain["id"], plain["scenario"], plain["index"], model, "", {})


def _own_device(device: str, name: str) -> str:
    """Return the device that this worker opens: the first that it sees of real ones, of simulated ones a member of its own."""
    named = os.environ.get(DEVICE) or device
    simulated = _SIMULATED.fullmatch(named)
    if simulated is None:
        return "cuda" if named in ("auto", "all") else named
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[-64:] or "worker"
    return simulated_member(simulated[1] or "h200", slug).device


def _give_back(station: Station) -> None:
    _keep(None)
    with suppress(DmalabError):
        station.bench.close()


def _is_taken(run: str) -> bool:
    """Whether the client of another run is there and has the device: Dask lets go of an answer when its client is gone."""
    station: Station | None = getattr(_worker(), _KEPT, None)
    return station is not None and station.run != run and station.greeting in _worker().data


def _encoded(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode("utf-8", errors="replace")


def _keep(station: Station | None) -> None:
    setattr(_worker(), _KEPT, station)


def _worker() -> Any:
    # Only where there is a worker is there distributed.
    from distributed import get_worker

    return get_worker()
