"""The real device, on PyCUDA."""

from __future__ import annotations

import atexit
import os
from dataclasses import replace
from functools import partial

from runner.device.contract import DeviceFacts
from runner.device.cuda.cupti import Recorder
from runner.device.cuda.data import DataWorkers
from runner.device.cuda.driver import abandon
from runner.device.cuda.facts import read_facts
from runner.device.cuda.host_copier import load_copier
from runner.device.cuda.kernels import Kernels
from runner.device.cuda.nvtx import NvtxSession, load_ranges
from runner.device.cuda.opening import open_context
from runner.device.cuda.pool import HostPool
from runner.device.cuda.session import CudaSession
from runner.placement import Wait
from runner.plan import Plan


class CudaDevice:
    """An NVIDIA GPU; see `runner.device.contract.Device`. `ordinal` counts as the driver does, from 0; threads `wait` so for it.

    Raises DeviceUnavailable where anything is missing, EnvironmentProblem where ranges are asked for and nvtx is missing. One
    thread opens, uses and closes it.
    """

    deterministic = False

    def __init__(self, ordinal: int = 0, wait: Wait = "spin") -> None:
        ranges = load_ranges(os.environ)
        opened = open_context(ordinal, wait=wait)
        self._context, self._nvcc = opened.context, opened.nvcc
        self._kernels: Kernels | None = opened.kernels
        self._pool = HostPool()
        self._workers = DataWorkers(self._context)
        self._copying = load_copier(os.environ)
        self._recorder = Recorder(self._context)
        self._ranges = ranges
        self._sessions: list[CudaSession] = []
        # Whoever forgets to close gets no banner and no abort of PyCUDA's at the end of the process.
        atexit.register(self.close)

    @property
    def lost(self) -> bool:
        """Whether an error has stuck to the context, so that only a new process can go on."""
        return self._context.lost

    @property
    def recording(self) -> str:
        """Empty where plays can be recorded by CUPTI, else why not."""
        return self._recorder.why_not()

    def facts(self) -> DeviceFacts:
        """Return what identifies and limits the device and the machine around it, clocks and link under load."""
        self._context.require_usable()
        assert self._kernels is not None, "an open context has its kernels"
        facts = read_facts(self._context, self._nvcc, self._kernels)
        return replace(facts, environment={**facts.environment, "nvtx": self._ranges is not None})

    def open(self, plan: Plan) -> CudaSession:
        """Allocate and bind a Plan; raises CaseFailed with the figures where memory is refused."""
        self._context.require_usable()
        assert self._kernels is not None, "an open context has its kernels"
        kind = CudaSession if self._ranges is None else partial(NvtxSession, self._ranges)
        session = kind(
            self._context, self._kernels, self._pool, self._workers, plan, self._sessions_remove, self._recorder, self._copying
        )
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """Close what is open, free what is kept, and give the context back; safe to call twice."""
        if self._context.closed or not self._context.of_this_process:
            return
        for session in list(self._sessions):
            session.close()
        self._recorder.detach()
        if self._context.lost:
            self._pool.abandon()
            abandon(self._kernels)
        else:
            self._pool.clear()
        self._workers.close()
        # The module is unloaded with its last reference, which must go while its context is current.
        self._kernels = None
        self._context.close()
        # Only now: a Ctrl-C that came before leaves the rest to the end of the process.
        atexit.unregister(self.close)

    def _sessions_remove(self, session: CudaSession) -> None:
        if session in self._sessions:
            self._sessions.remove(session)
