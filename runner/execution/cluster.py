"""GPUs of a Dask cluster as the seats of a fleet: the scheduler knows who is there and carries what is asked and answered.

Every task names its worker, since this process decides who measures what: it keeps the journal, it counts attempts, it knows
which GPUs share a host. Workers are taken in as they come, and what one that goes away has not answered is asked of another one.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

import runner
from runner.device.contract import DeviceFacts
from runner.device.select import DEFAULT_PROFILE, instead
from runner.errors import DeviceUnavailable, EnvironmentProblem, UsageError
from runner.execution import station
from runner.execution.messages import Opened
from runner.execution.records import Ended, ended_of, reading_of
from runner.execution.seats import Seat, SeatLost, Turns
from runner.execution.stopping import StoppedAtOnce
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.result import CaseResult
from runner.spec.load import LoadedExperiment

INSTALL: Final = "install it with: pip install 'dmalab[cluster]'"
GPU: Final = "GPU"
"""The resource of which a worker holds one: so nothing else that asks for it runs beside a case."""
PATIENCE_S: Final = 60.0
"""Seconds for which workers are waited for where none is there."""
LOOKED_S: Final = 0.5
"""How often who waits for an answer looks whether its worker is still there."""
SEEN_S: Final = 1.0
"""How often the scheduler is asked for its workers; with more than 500 less often, since it tells much of each."""
SILENT_S: Final = 10.0
"""Seconds of a silent scheduler after which its workers count as gone."""
MOST_LOSSES: Final = 5
"""How often a worker that was lost is greeted anew."""
BATCH_S: Final = 5.0
"""Seconds that a batch shall take: long against the milliseconds that sending costs, short against what a lost worker costs."""
FIRST_BATCH: Final = 8
MOST_IN_BATCH: Final = 256


@dataclass(slots=True)
class ClusterHall:
    """A hall whose seats are the workers of a Dask cluster; `address` is the scheduler's, `local:N` starts one here.

    `note` says why `auto` means simulated devices here; empty where it does not. Raises UsageError for an address that is none,
    EnvironmentProblem where distributed is missing or no scheduler answers.
    """

    loaded: LoadedExperiment
    device: str
    address: str
    tls: str = ""
    note: str = field(init=False, default="")
    refused: dict[str, str] = field(default_factory=dict)
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    _line: Line = field(init=False)
    _cluster: Any = None
    _expected: int = 1
    _known: set[str] = field(default_factory=set)
    _greeted: dict[str, Asked] = field(default_factory=dict)
    _uuids: dict[str, str] = field(default_factory=dict)
    _seen: float = field(default_factory=monotonic)
    _turns: Turns = field(init=False)
    _came: int = 0
    _last: set[str] = field(default_factory=set)
    _losses: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        distributed = _distributed()
        security = _security(distributed, self.tls)
        address = self.address
        if address.startswith("local:"):
            self._expected = _count(address)
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
            return start_local(self._expected, self.device)
        except DeviceUnavailable as error:
            if self.device != "auto":
                raise
            self.device, self.note = f"simulated:{DEFAULT_PROFILE}", instead(error)
            return start_local(self._expected, self.device)

    @property
    def dashboard(self) -> str:
        """The address of the scheduler's dashboard; empty where it has none."""
        return self._line.dashboard

    def arrivals(self) -> list[Seat]:
        """Return the seats of workers that have come, opened their device and fit this run."""
        present = self._line.present()
        if present != self._last:
            self._last, self._seen = present, monotonic()
        self._known &= present
        for address in present - self._known:
            self._known.add(address)
            asked = json.dumps({"run": self.run, "device": self.device, "wait": self.loaded.experiment.measure.wait})
            self._greeted[address] = self._line.ask(address, station.greet, asked)
        come = [seat for address in list(self._greeted) if (seat := self._seat(address, present)) is not None]
        self._came += len(come)
        return come

    def expects_more(self) -> bool:
        """Whether a worker is opening its device, too few have come yet, or the last one left only a while ago."""
        return bool(self._greeted) or monotonic() - self._seen < PATIENCE_S or self._short()

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

    def _short(self) -> bool:
        return self._came + len(self.refused) < self._expected and self._cluster is not None

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
        name, why = f"worker {address}", _unfit(answer)
        if not why:
            opened = _opened(answer["opened"])
            own = str(opened.facts.environment.get("uuid"))
            other = self._uuids.get(own)
            if other is not None and other != address and other in present:
                name, why = f"worker {address} on {answer['host']}", f"its GPU {own} is that of the worker {other}, too"
            else:
                self._uuids[own] = address
                bench = WorkerBench(self._line, address, opened, self.run, self.loaded.spec_sha256, self._given_back)
                seat = Seat(bench, answer["host"], own, self._turns, machine=answer["machine"])
                seat.open()
                return seat
        self.refused[name] = why
        return None


class WorkerBench:
    """The GPU of one worker; a bench whose sweeps go there in batches."""

    def __init__(self, line: Line, address: str, opened: Opened, run: str, spec: str, given_back: Callable[[str], None]) -> None:
        self._given_back, self._lost = given_back, False
        self._line, self.address, self._opened = line, address, opened
        self._run, self._spec = run, spec
        self._told: dict[str, float | None] | None = None
        self._abandoned = self._closed = False
        self._size = FIRST_BATCH

    def open(self) -> Opened:
        """Return what the GPU said of itself when the worker was greeted."""
        return self._opened

    def sweep(self, work: Work) -> Iterator[Ended]:
        """Yield each case as its batch comes back; raises SeatLost where the worker is gone or cannot go on."""
        place = 0
        while place < len(work.cases):
            batch = work.cases[place : place + self._size]
            place += len(batch)
            to_run = [case for case in batch if not case.excluded]
            yield from (Ended(CaseResult(case, "excluded", case.excluded)) for case in batch if case.excluded)
            if to_run:
                try:
                    yield from self._measured(work, to_run)
                except SeatLost:
                    self._lost = True
                    raise

    def facts_at_end(self) -> DeviceFacts | None:
        """Return None: a worker is not asked again."""
        return None

    def notes(self) -> Mapping[str, Any]:
        """Return which worker it is."""
        return {"worker": self.address}

    def abandon(self) -> None:
        """Let who waits for an answer raise StoppedAtOnce."""
        self._abandoned = True

    def close(self) -> None:
        """Let the worker give its device back; safe to call twice."""
        if self._lost:
            self._lost = False
            self._given_back(self.address)
        elif not self._closed:
            self._line.ask(self.address, station.leave, "{}")
        self._closed = True

    def _measured(self, work: Work, cases: Sequence[Case]) -> Iterator[Ended]:
        begun = monotonic()
        answer = self._answer(work, cases)
        known = {case.case_id: case for case in cases}
        for record in answer["records"]:
            if record["type"] == "sentinel":
                work.sentinel.readings.append(reading_of(record))
            else:
                yield ended_of(record, known[record["case"]], work.medians)
        if answer["lost"]:
            raise SeatLost(f"worker {self.address} cannot go on: {answer['lost']}")
        per_case = (monotonic() - begun) / len(cases)
        self._size = max(1, min(MOST_IN_BATCH, 2 * self._size, round(BATCH_S / per_case)))

    def _answer(self, work: Work, cases: Sequence[Case]) -> Mapping[str, Any]:
        # The worker keeps what it learns of companions; only what somebody else has learnt is sent.
        medians = None if work.medians is self._told else dict(work.medians)
        self._told = work.medians
        job = {
            "run": self._run,
            "spec": self._spec,
            "measure": work.measure.model_dump_json(exclude_unset=True),
            "most_pinned": work.most_pinned,
            "medians": medians,
            "cases": [station.plain_case(case) for case in cases],
        }
        asked = self._line.ask(self.address, station.measure, json.dumps(job))
        while not asked.waited(LOOKED_S):
            work.listener.begins(cases[0])
            if self._abandoned:
                raise StoppedAtOnce
            if not self._line.holds(self.address):
                asked.forget()
                raise SeatLost(f"worker {self.address} is gone")
        answer = asked.answer()
        if answer is None:
            raise SeatLost(f"worker {self.address} is gone, or the scheduler")
        if answer.get("spec") != self._spec:
            raise SeatLost(f"worker {self.address} answered for another file")
        return answer


class Line:
    """The way to the scheduler; it is taken up again where the scheduler was away. Every thread may use it."""

    def __init__(self, distributed: Any, address: str, security: Any) -> None:
        self._distributed, self._address, self._security = distributed, address, security
        self._lock = threading.Lock()
        self._present: set[str] = set()
        self._asked = self._told = 0.0
        self._client: Any = self._connected()
        self.dashboard: str = self._client.dashboard_link if self._client.scheduler_info(n_workers=1)["services"] else ""

    def ask(self, address: str, function: Any, asked: str) -> Asked:
        """Let a worker run a function of `runner.execution.station`."""
        options = {"workers": [address], "allow_other_workers": False, "resources": {GPU: 1}, "pure": False, "retries": 0}
        try:
            return Asked(self._client.submit(function, asked, **options))
        except Exception:
            return Asked(None)

    def holds(self, address: str) -> bool:
        """Whether a worker is there."""
        return address in self.present()

    def present(self) -> set[str]:
        """Return the addresses of the workers that hold a GPU, as the scheduler said lately; none where it is away."""
        with self._lock:
            if monotonic() - self._asked > max(SEEN_S, len(self._present) / 500):
                told = self._asked_for()
                self._asked = monotonic()
                if told is not None:
                    self._present, self._told = told, self._asked
                elif self._asked - self._told > SILENT_S:
                    self._present = set()
            return set(self._present)

    def leave(self) -> None:
        """Hang up; safe to call twice."""
        if self._client is not None:
            self._client.close(timeout=2)

    def _asked_for(self) -> set[str] | None:
        """Return the workers that hold a GPU, None where the scheduler does not answer: it may only be busy."""
        try:
            if self._client.status != "running":
                self._client.close(timeout=1)
                self._client = self._connected(timeout=1)
            workers = self._client.scheduler_info()["workers"]
        except Exception:
            return None
        return {address for address, told in workers.items() if told.get("resources", {}).get(GPU)}

    def _connected(self, timeout: float = 10) -> Any:
        """Return a client that takes nothing pickled as a result."""
        try:
            return self._distributed.Client(
                self._address,
                timeout=timeout,
                security=self._security,
                set_as_default=False,
                deserializers=["dask", "msgpack"],
                name="dmalab",
            )
        except (OSError, self._distributed.TimeoutError) as error:
            raise EnvironmentProblem(
                f"no scheduler answers at {self._address}: {error}; start one with `dask scheduler`, or use --cluster local:2"
            ) from None


class Asked:
    """A question to a worker; `future` is Dask's, None where it could not be asked: then it is done and has no answer."""

    def __init__(self, future: Any) -> None:
        self._future, self._over = future, threading.Event()
        if future is None:
            self._over.set()
        else:
            # Not by a result with a time limit: Dask fetches results together, and who gives up takes them from all others.
            future.add_done_callback(lambda _: self._over.set())

    def waited(self, seconds: float) -> bool:
        """Wait for so many seconds at most; return whether there is an end of it."""
        return self._over.wait(seconds)

    def answer(self) -> Mapping[str, Any] | None:
        """Return what the worker answered, None where worker or scheduler went away before it had."""
        try:
            answer = json.loads(self._future.result())
        except Exception:
            return None
        return answer if isinstance(answer, dict) else None

    def forget(self) -> None:
        """Want no answer any more."""
        if self._future is not None:
            self._future.cancel()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise EnvironmentProblem(f"--cluster needs the package distributed; {INSTALL}") from error
    return distributed


def _security(distributed: Any, tls: str) -> Any:
    """Return what a client shows and asks for: `tls` is a folder with ca.pem, cert.pem and key.pem, or CA,CERT,KEY."""
    if not tls:
        return None
    files = [Path(part) for part in tls.split(",")]
    if len(files) == 1:
        files = [files[0] / name for name in ("ca.pem", "cert.pem", "key.pem")]
    missing = [str(path) for path in files if not path.is_file()]
    if len(files) != 3 or missing:
        told = f"there is no {', '.join(missing)}" if missing else f"{len(files)} files are given"
        raise UsageError(f"--tls {tls}: {told}; give a folder with ca.pem, cert.pem and key.pem, or CA,CERT,KEY")
    ca, cert, key = map(str, files)
    return distributed.Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True)


def _count(address: str) -> int:
    number = address.removeprefix("local:")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 256:
        raise UsageError(f"--cluster {address}: allowed: local:N with N from 1 to 256, or the scheduler's address")
    return int(number)


def _unfit(answer: Mapping[str, Any]) -> str:
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
