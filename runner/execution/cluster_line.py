"""The way to the scheduler of a Dask cluster, and what is asked on it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final

from runner.errors import EnvironmentProblem, UsageError

SCHEMES: Final = ("tcp", "tls")
INSTALL: Final = "install it with: pip install 'dmalab[cluster]'"
GPU: Final = "GPU"
"""The resource of which a worker holds one: so nothing else that asks for it runs beside a case."""
SEEN_S: Final = 1.0
"""How often the scheduler is asked for its workers; with more than 500 less often."""
SILENT_S: Final = 10.0
"""Seconds of a silent scheduler after which its workers count as gone."""


class Line:
    """The way to the scheduler; it is taken up again where the scheduler was away. Every thread may use it."""

    def __init__(self, distributed: Any, address: str, security: Any) -> None:
        self._distributed, self._address, self._security = distributed, address, security
        self._lock = threading.Lock()
        self._present: set[str] = set()
        self._lends: dict[str, bool] = {}
        self._asked = self._told = 0.0
        self._client: Any = self._connected()
        self.dashboard: str = self._client.dashboard_link if self._client.scheduler_info(n_workers=1)["services"] else ""

    def ask(self, address: str, function: Any, asked: str) -> Asked:
        """Let a worker run a function of `runner.execution.station`."""
        options = {"workers": [address], "allow_other_workers": False, "resources": {GPU: 1}, "pure": False, "retries": 0}
        try:
            return Asked(address, self._client.submit(function, asked, **options))
        except Exception:
            return Asked(address, None)

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

    def nobody(self) -> str:
        """Say that no worker can take part, and how one is started that can."""
        others = sum(not lends for lends in self._lends.values())
        told = f"{others} of its workers hold no resource {GPU}" if others else "it has no worker"
        return f"{told}; start one with: dask worker {self._address} --nthreads 1 --resources {GPU}=1 --name NAME"

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
            there = set(self._client.nthreads())
            if not there <= self._lends.keys():
                # All that is told of every worker, some kilobytes for each: only where one is new.
                workers = self._client.scheduler_info(n_workers=-1)["workers"]
                self._lends = {address: bool(told.get("resources", {}).get(GPU)) for address, told in workers.items()}
        except Exception:
            return None
        return {address for address in there if self._lends.get(address)}

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
            raise EnvironmentProblem(_unanswered(self._address, str(error))) from None


class Asked:
    """A question to the worker at `address`; `future` is Dask's, None where it could not be asked: that has no answer."""

    def __init__(self, address: str, future: Any) -> None:
        self.address, self._future, self._over = address, future, threading.Event()
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


def _unanswered(address: str, why: str) -> str:
    """Say that nobody could be reached, and what to look at."""
    if "certificate" in why or "SSL" in why:
        return (
            f"the scheduler at {address} and this client do not take each other's certificates ({why}); "
            "give --tls a certificate and an authority of those that the scheduler was started with"
        )
    if "reset" in why and address.startswith("tcp://"):
        why += f"; if it was started with certificates, use tls://{address.removeprefix('tcp://')} and --tls"
    return f"no scheduler answers at {address}: {why}; start one with `dask scheduler`, or use --cluster local:2"


def distributed_or_refusal() -> Any:
    """Return the package; raises EnvironmentProblem where it is missing."""
    try:
        import distributed
    except ImportError as error:
        raise EnvironmentProblem(f"--cluster needs the package distributed; {INSTALL}") from error
    return distributed


def scheduler_address(address: str, security: Any) -> str:
    """Return the address of a scheduler as Dask wants it, `tcp://` where it has no scheme; raises UsageError for what is none."""
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme not in ("", *SCHEMES) or not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(
            f"--cluster {address}: allowed: the scheduler's address as it says it itself when it starts, "
            "such as tcp://host:8786 or tls://host:8786, or local:N for N workers here"
        )
    scheme = scheme or ("tcp" if security is None else "tls")
    if scheme != "tls" and security is not None and security.require_encryption:
        raise UsageError(f"--cluster {address}: with --tls allowed: tls://{place}, the address of a scheduler with certificates")
    if scheme == "tls" and security is None:
        raise UsageError(
            f"--cluster {address}: a scheduler with certificates wants one from its clients, too; "
            "add --tls with a folder that has ca.pem, cert.pem and key.pem"
        )
    return f"{scheme}://{place}"


def security_of(distributed: Any, tls: str) -> Any:
    """Return what a client shows and asks for: `tls` is a folder with ca.pem, cert.pem and key.pem, or CA,CERT,KEY.

    Without it what the settings of Dask say; None where they say nothing. Raises UsageError for files that are none, or that do
    not belong together.
    """
    if not tls:
        own = distributed.Security()
        return own if own.get_connection_args("client").get("ssl_context") else None
    files = [Path(part) for part in tls.split(",")]
    if len(files) == 1:
        files = [files[0] / name for name in ("ca.pem", "cert.pem", "key.pem")]
    missing = [str(path) for path in files if not path.is_file()]
    if len(files) != 3 or missing:
        told = f"there is no {', '.join(missing)}" if missing else f"{len(files)} files are given"
        raise UsageError(f"--tls {tls}: {told}; give a folder with ca.pem, cert.pem and key.pem, or CA,CERT,KEY")
    ca, cert, key = map(str, files)
    security = distributed.Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True)
    try:
        security.get_connection_args("client")
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"--tls {tls}: {error}; allowed: a certificate, its own key, and the authority's certificate") from None
    return security
