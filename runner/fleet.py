"""A file on every GPU of a fleet (`spread: machines`): each makes a run of its own, and the fleet's folder puts them together.

results/<name>/<time>-<hash>/        the fleet: fleet.csv, the rows of all GPUs, the manifest
    gpus/<host>-<uuid>/<name>/<…>/   one GPU: an ordinary run, with its own journal
"""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from runner.errors import EnvironmentProblem
from runner.execution.seats import Hall, Seat, SeatLost
from runner.execution.stopping import Stop, StoppedAtOnce, stoppable
from runner.fleet_tables import write_fleet_tables
from runner.fleet_view import FleetView
from runner.flow import RunOutcome, Watcher, run_experiment
from runner.resume import newest_run
from runner.run_folder import RunFolder, begin_run, describe_host, utc_now
from runner.spec.load import LoadedExperiment

WAITED_S: Final = 0.05
"""How often it is looked whether a GPU has come where none is there yet."""
LOOKED_S: Final = 0.2
MOST_AT_ONCE: Final = 200
"""GPUs that are under way at once; each keeps a journal open, and systems lend a process about a thousand files."""
MOST_ATTEMPTS: Final = 3
"""How often a GPU that was lost may come back and go on."""
WORST_FIRST: Final = (130, 70, 3, 2, 4, 5, 0)
_FLEET: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


class FleetWatcher(Protocol):
    """What wants to know how a fleet's run goes; called by the threads of all GPUs, so it locks what it needs."""

    def gpu(self, seat: Seat) -> Watcher:
        """Return what follows the run of one GPU."""
        ...

    def lost(self, seat: Seat, why: str) -> None:
        """Tell that a GPU was lost, or took no part."""
        ...

    def stopping(self) -> None:
        """Tell that somebody wants the run to end."""
        ...


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """What a fleet's run left behind: its folder, the runs of its GPUs by their names, who took no part, the view, the code."""

    folder: Path
    runs: Mapping[str, RunOutcome | None]
    refused: Mapping[str, str]
    view: FleetView
    exit_code: int


def run_fleet(
    loaded: LoadedExperiment,
    hall: Hall,
    *,
    out: Path,
    max_cases: int,
    watcher: FleetWatcher,
    most_pinned: int | None = None,
    earlier: RunFolder | None = None,
    fail_on_outlier: bool = False,
) -> FleetOutcome:
    """Run every case on every GPU of the hall and write the fleet's tables; an `earlier` run of the fleet is gone on with.

    Raises EnvironmentProblem where no GPU takes part, and what `run_experiment` raises where that is not one GPU's trouble.
    """
    with closing(hall), stoppable(watcher.stopping) as stop:
        come = hall.arrivals()
        while not come and hall.expects_more():
            stop.check()
            time.sleep(WAITED_S)
            come = hall.arrivals()
        if not come:
            told = "".join(f"; {name}: {why}" for name, why in hall.refused.items())
            raise EnvironmentProblem(f"no GPU could take part{told}")
        folder = earlier or _start(out, loaded)
        fleet = _Fleet(loaded, hall, folder, watcher, stop, max_cases, most_pinned)
        fleet.run(come)
        return fleet.finished(fail_on_outlier=fail_on_outlier)


def newest_fleet(out: Path, loaded: LoadedExperiment) -> RunFolder | None:
    """Return the newest run of a fleet of this very file in `out` that did not come to its end, None where there is none."""
    found = []
    for folder in sorted((out / loaded.experiment.name).glob("*")):
        if _FLEET.fullmatch(folder.name):
            try:
                manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if "gpus" in manifest and manifest.get("spec_sha256") == loaded.spec_sha256:
                found.append(RunFolder(folder, str(manifest.get("run_id")), manifest))
    newest = max(found, key=lambda each: str(each.manifest.get("started_utc")), default=None)
    return None if newest is None or newest.manifest.get("status") == "complete" else newest


@dataclass(slots=True)
class _Fleet:
    """A fleet's run that is on its way; threads of the GPUs put their ends into `ends`."""

    loaded: LoadedExperiment
    hall: Hall
    folder: RunFolder
    watcher: FleetWatcher
    stop: Stop
    max_cases: int
    most_pinned: int | None
    runs: dict[str, RunOutcome | None] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    ends: queue.Queue[tuple[Seat, RunOutcome | BaseException]] = field(default_factory=queue.Queue)
    under_way: dict[str, Seat] = field(default_factory=dict)

    def run(self, come: list[Seat]) -> None:
        """Run on every seat that has come or comes, until none is under way."""
        waiting = list(come)
        try:
            while True:
                while waiting and len(self.under_way) < MOST_AT_ONCE and not self.stop.asked:
                    self._begin(waiting.pop(0))
                if not self.under_way and (self.stop.asked or not (waiting or self._comes_back())):
                    return
                self._hear()
                waiting += [] if self.stop.asked else self.hall.arrivals()
        except BaseException:
            self.stop.asked = True
            for seat in self.under_way.values():
                seat.abandon()
            raise

    def finished(self, *, fail_on_outlier: bool) -> FleetOutcome:
        """Write the fleet's tables and its final manifest."""
        folders = {name: self._newest(name) for name in self.runs}
        view = write_fleet_tables(self.loaded, self.folder, [each for each in folders.values() if each is not None])
        codes = [4 if outcome is None else outcome.exit_code for outcome in self.runs.values()]
        codes += [130] if self.stop.asked else []
        codes += [4] if self.hall.refused else []
        codes += [5] if fail_on_outlier and view.outliers else []
        code = min(codes, key=WORST_FIRST.index)
        whole = not self.stop.asked and all(outcome is not None for outcome in self.runs.values())
        self.folder.write_manifest(
            status="complete" if whole else "incomplete",
            finished_utc=utc_now(),
            gpus=[self._described(name, folder) for name, folder in folders.items()],
            refused=dict(self.hall.refused),
            outliers=[" ".join(gpu.where) for gpu in view.outliers],
            exit_code=code,
        )
        self.folder.point_latest()
        return FleetOutcome(self.folder.path, self.runs, dict(self.hall.refused), view, code)

    def _begin(self, seat: Seat) -> None:
        if self.attempts.get(seat.name, 0) >= MOST_ATTEMPTS or self.runs.get(seat.name) is not None:
            seat.close()
            return
        self.attempts[seat.name] = self.attempts.get(seat.name, 0) + 1
        self.runs[seat.name] = None
        self.under_way[seat.name] = seat
        self.hall.refused.pop(seat.name, None)
        threading.Thread(target=self._on, args=(seat,), name=f"dmalab {seat.name}", daemon=True).start()

    def _on(self, seat: Seat) -> None:
        """Make the run of one GPU, in a thread of its own."""
        out = self.folder.path / "gpus" / _slug(seat.name)
        try:
            out.mkdir(parents=True, exist_ok=True)
            earlier = newest_run(out, self.loaded)
            outcome = run_experiment(
                self.loaded,
                device=None,
                out=out,
                max_cases=self.max_cases,
                watcher=self.watcher.gpu(seat),
                earlier=earlier,
                most_pinned=self.most_pinned,
                bench=seat,
                stop=self.stop,
                host=seat.machine,
            )
            self.ends.put((seat, outcome))
        except BaseException as error:
            self.ends.put((seat, error))

    def _hear(self) -> None:
        """Take in how the run of a GPU ended; raises what is not the trouble of one GPU alone."""
        try:
            seat, end = self.ends.get(timeout=LOOKED_S)
        except queue.Empty:
            return
        self.under_way.pop(seat.name)
        if isinstance(end, RunOutcome):
            self.runs[seat.name] = end
        elif isinstance(end, SeatLost | EnvironmentProblem):
            self.hall.refused[seat.name] = str(end)
            self.watcher.lost(seat, str(end))
        elif not isinstance(end, StoppedAtOnce):
            raise end

    def _comes_back(self) -> bool:
        """Whether a GPU that was lost may still come back, or others come that are waited for."""
        return self.hall.short() or (self.hall.expects_more() and None in self.runs.values())

    def _newest(self, name: str) -> Path | None:
        """Return the folder of a GPU's run, None where it left none that has tables."""
        found = sorted((self.folder.path / "gpus" / _slug(name)).glob(f"{self.loaded.experiment.name}/2*/summary.csv"))
        return found[-1].parent if found else None

    def _described(self, name: str, folder: Path | None) -> dict[str, Any]:
        outcome = self.runs[name]
        return {
            "name": name,
            "folder": None if folder is None else folder.relative_to(self.folder.path).as_posix(),
            "exit_code": None if outcome is None else outcome.exit_code,
            "attempts": self.attempts[name],
        }


def _start(out: Path, loaded: LoadedExperiment) -> RunFolder:
    experiment = loaded.experiment
    return begin_run(out, loaded, spread=experiment.spread, alone=experiment.alone, gpus=[], host=describe_host())


def _slug(name: str) -> str:
    """Return the name of a GPU as one of a folder."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name)
