"""GPUs of a Dask cluster as the seats of a fleet: the scheduler knows who is there and carries what is asked and answered.

Every task names its worker, since this process decides who measures what: it keeps the journal, it counts attempts, it knows
which GPUs share a host. Workers are taken in as they come, and what one that goes away has not answered is asked of another one.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import runner
from runner.device.contract import DeviceFacts
from runner.device.select import DEFAULT_PROFILE, instead
from runner.errors import DeviceUnavailable, UsageError
from runner.execution import station
from runner.execution.cluster_bench import WorkerBench
from runner.execution.cluster_line import Asked, Line, distributed_or_refusal, scheduler_address, security_of
from runner.execution.messages import Opened
from runner.execution.seats import Seat, Turns
from runner.spec.load import LoadedExperiment

PATIENCE_S: Final = 60.0
"""Seconds for which workers are waited for where none is there."""
LOOKED_S: Final = 0.1
"""How often it is looked who has come: that takes time for each worker."""
BUSY_S: Final = 2.0
"""After how many seconds a worker is asked again that measures for another run."""
MOST_LOSSES: Final = 5
"""How often a worker that was lost is greeted anew."""


@dataclass(slots=True)
class ClusterHall:
    """A hall whose seats are the workers of a Dask cluster; `address` is the scheduler's, `local:N` starts one here.

    `gpus` is how many are waited for, as long as the last one came less than PATIENCE_S ago.
    `note` says why `auto` means simulated devices here; empty where it does not. Raises UsageError for an address that is none,
    EnvironmentProblem where distributed is missing or no scheduler answers.
    """

    loaded: LoadedExperiment
    device: str
    address: str
    tls: str = ""
    gpus: int = 1
    note: str = field(init=False, default="")
    refused: dict[str, str] = field(default_factory=dict)
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    _line: Line = field(init=False)
    _cluster: Any = None
    _known: set[str] = field(default_factory=set)
    _greeted: dict[str, Asked] = field(default_factory=dict)
    _uuids: dict[str, str] = field(default_factory=dict)
    _seen: float = field(default_factory=monotonic)
    _busy_until: dict[str, float] = field(default_factory=dict)
    _unfit: set[str] = field(default_factory=set)
    _looked: float = float("-inf")
    _turns: Turns = field(init=False)
    _last: set[str] = field(default_factory=set)
    _losses: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        distributed = distributed_or_refusal()
        security = security_of(distributed, self.tls)
        address = self.address
        if not address.startswith("local:"):
            address = scheduler_address(address, security)
        elif security is not None:
            raise UsageError(f"--tls {self.tls}: {address} talks to itself alone, on this machine, without TLS; leave --tls out")
        else:
            self.gpus = _count(address)
            self._cluster = self._started_here()
            address = self._cluster.scheduler_address
        self._turns = Turns(self.loaded.experiment.alone)
        try:
            self._line = Line(distributed, address, security)
        except BaseException:
            self.close()
            raise

    def _started_here(self) -> Any:
        """Start a cluster of this machine; where `auto` finds no GPU, of simulated ones, as elsewhere."""
        from runner.execution.local_cluster import start_local

        try:
            return start_local(self.gpus, self.device)
        except DeviceUnavailable as error:
            if self.device != "auto":
                raise
            self.device, self.note = f"simulated:{DEFAULT_PROFILE}", instead(error)
            return start_local(self.gpus, self.device)

    @property
    def dashboard(self) -> str:
        """The address of the scheduler's dashboard; empty where it has none."""
        return self._line.dashboard

    @property
    def waiting(self) -> str:
        """What there is to wait for at the begin, in a sentence; empty where workers are there, or are started here."""
        if self._cluster is not None or self._line.present():
            return ""
        return f"Waiting {PATIENCE_S:.0f} s for workers: {self._line.nobody()}"

    def arrivals(self) -> list[Seat]:
        """Return the seats of workers that have come, opened their device and fit this run.

        Who asks oftener than each LOOKED_S, for each case say, gets none in between.
        """
        if monotonic() - self._looked < LOOKED_S:
            return []
        self._looked = monotonic()
        present = self._line.present()
        if present != self._last:
            self._last, self._seen = present, monotonic()
        self._known &= present
        for address in present - self._known:
            if monotonic() < self._busy_until.get(address, 0):
                continue
            self._known.add(address)
            asked = json.dumps({"run": self.run, "device": self.device, "wait": self.loaded.experiment.measure.wait})
            self._greeted[address] = self._line.ask(address, station.greet, asked)
        return [seat for address in list(self._greeted) if (seat := self._seat(address, present)) is not None]

    def expects_more(self) -> bool:
        """Whether a worker is opening its device, or the last one came or left only a while ago."""
        more = bool(self._greeted) or monotonic() - self._seen < PATIENCE_S
        if not more and not self._uuids and not self.refused:
            self.refused["the scheduler"] = self._line.nobody()
        return more

    def short(self) -> bool:
        """Whether a worker is opening its device, or fewer came than were asked for and may still; in the end it is told."""
        if self._greeted:
            return True
        came = len(self._uuids) + len(self._unfit)
        waits = came < self.gpus and self.expects_more()
        if came < self.gpus and not waits:
            self.refused["a GPU that --gpus counts"] = f"{came} of {self.gpus} had come {PATIENCE_S:.0f} s after the last one"
        return waits

    def close(self) -> None:
        """Let the workers give their devices back, and leave the cluster; one that was started here ends."""
        if hasattr(self, "_line"):
            self._line.leave()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _given_back(self, address: str) -> None:
        """Greet a worker anew that was lost and may be there all the same, but not for ever."""
        self._seen = monotonic()
        self._losses[address] += 1
        if self._losses[address] < MOST_LOSSES:
            self._known.discard(address)

    def _seat(self, address: str, present: set[str]) -> Seat | None:
        """Return the seat of a worker that has answered, None where it has not, cannot take part, or is gone."""
        asked = self._greeted[address]
        if not asked.waited(0):
            if address not in present:
                del self._greeted[address]
            return None
        del self._greeted[address]
        answer = asked.answer()
        if answer is None:
            self._known.discard(address)
            return None
        name, why = f"worker {address}", _misfit(answer)
        if "busy" in answer:
            self._known.discard(address)
            self._busy_until[address] = monotonic() + BUSY_S
            self.refused[name] = str(answer["busy"])
            return None
        self.refused.pop(name, None)
        if not why:
            opened = _opened(answer["opened"])
            own = str(opened.facts.environment.get("uuid"))
            other = self._uuids.get(own)
            if other is not None and other != address and other in present:
                name, why = f"worker {address} on {answer['host']}", f"its GPU {own} is that of the worker {other}, too"
            else:
                self._uuids[own] = address
                bench = WorkerBench(self._line, asked, opened, self.run, self.loaded.spec_sha256, self._given_back)
                seat = Seat(bench, answer["host"], own, self._turns, machine=answer["machine"])
                seat.open()
                return seat
        self._unfit.add(address)
        self.refused[name] = why
        return None


def _count(address: str) -> int:
    number = address.removeprefix("local:")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 256:
        raise UsageError(f"--cluster {address}: allowed: local:N with N from 1 to 256, or the scheduler's address")
    return int(number)


def _misfit(answer: Mapping[str, Any]) -> str:
    """Say why a worker cannot take part, empty where it can."""
    if "refused" in answer:
        return str(answer["refused"])
    here = station.software()
    if answer.get("dmalab") != here["dmalab"]:
        return f"it has dmalab {answer.get('dmalab')}, and here is {runner.__version__}"
    if answer.get("sources") != here["sources"]:
        return "the sources of its dmalab are others than here, though the version is the same"
    return ""


def _opened(told: Mapping[str, Any]) -> Opened:
    return Opened(DeviceFacts(**told["facts"]), told["note"], told["recording"], told["deterministic"])
