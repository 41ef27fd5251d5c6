"""Faults on purpose: a simulated device that does what real ones do on bad days, so that tests can tell what a run makes of it.

DMALAB_FAULTS names a JSON file, or is JSON itself: a list of faults. A fault befalls the Plans that have a buffer of `size`
bytes, in the play number `play` and those after it, of several devices side by side on that called `member`:

    failed_allocation     the buffer is refused          failed_registration   page-locking it in place is refused
    flipped_byte          one byte of what is compared   lost_context          an error that costs the device
    hang                  the play never ends            slow_case             the play takes `seconds` of real time more
    crash                 the process is killed          clock_drop            its times are `factor` times as long
    unsteady              the device plays in rounds, as one whose plays differ
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from runner.device.contract import DeviceFacts, Trace
from runner.device.simulated.contents import UNKNOWN
from runner.device.simulated.device import SimulatedDevice, SimulatedSession
from runner.device.simulated.profile import Profile
from runner.errors import CaseFailed, DeviceUnavailable
from runner.memory import kind_of
from runner.plan import Alloc, Plan, Register

FaultName = Literal[
    "failed_allocation",
    "failed_registration",
    "flipped_byte",
    "lost_context",
    "hang",
    "slow_case",
    "crash",
    "clock_drop",
    "unsteady",
]
_PLAYS_DIFFER: Final = ("clock_drop", "unsteady")
_HANG_S: Final = 3600.0


class Fault(BaseModel):
    """One fault; `size` 0 stands for every Plan, an empty `member` for every device."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    fault: FaultName
    size: int = Field(0, ge=0)
    play: int = Field(0, ge=0)
    seconds: float = Field(0.5, ge=0, le=_HANG_S)
    factor: float = Field(2.0, ge=1e-3, le=1e3)
    member: str = ""

    def befalls(self, plan: Plan) -> bool:
        """Whether it befalls a Plan."""
        return not self.size or any(buffer.size == self.size for buffer in plan.buffers)


def with_faults(device: str, profile: Profile, text: str, member: str = "") -> SimulatedDevice:
    """Return the device called so with the faults that `text`, a DMALAB_FAULTS, asks for; raises DeviceUnavailable."""
    try:
        faults = TypeAdapter(tuple[Fault, ...]).validate_json(text if text.lstrip().startswith("[") else _read(Path(text)))
    except (OSError, ValueError) as error:
        raise DeviceUnavailable(
            device, f"DMALAB_FAULTS asks for no faults that there are: {_why(error)}", "mend or unset DMALAB_FAULTS"
        ) from None
    return FaultyDevice(profile, [fault for fault in faults if fault.member in ("", member)], member)


def _read(path: Path) -> str:
    """Read a file of faults; raises OSError or ValueError where it is none."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file")
    return path.read_text(encoding="utf-8")


def _why(error: OSError | ValueError) -> str:
    """Say in one line what is wrong, and where in the list."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


class FaultyDevice(SimulatedDevice):
    """A simulated device with faults; what it does is told apart from a sound one by its results alone."""

    def __init__(self, profile: Profile, faults: Sequence[Fault], member: str = "") -> None:
        super().__init__(profile, member)
        self.faults = tuple(faults)
        self.deterministic = not any(fault.fault in _PLAYS_DIFFER for fault in faults)
        self.plays = 0

    def facts(self) -> DeviceFacts:
        """Return the profile's facts, and the clock of one whose clock drops."""
        facts = super().facts()
        drops = [fault for fault in self.faults if fault.fault == "clock_drop"]
        if not drops:
            return facts
        clock = 1000 / max(fault.factor if self.plays > fault.play else 1.0 for fault in drops)
        return replace(facts, environment={**facts.environment, "sm_clock_mhz": clock, "sm_clock_default_mhz": 1000})

    def open(self, plan: Plan) -> SimulatedSession:
        """Open a Plan; raises CaseFailed where its fault is a refused allocation."""
        self.require_usable()
        mine = tuple(fault for fault in self.faults if fault.befalls(plan))
        setup = _refusals(plan, plan.setup, mine)
        if setup:
            raise CaseFailed(setup)
        return FaultySession(self, plan, mine)


class FaultySession(SimulatedSession):
    """One opened Plan with the faults that befall it."""

    def __init__(self, device: FaultyDevice, plan: Plan, faults: Sequence[Fault]) -> None:
        super().__init__(device, plan)
        self._faults, self._faulty = faults, device

    def play(self, sample: int, *, record: bool = False) -> Trace:
        """Play the Plan, and let happen what befalls it."""
        self._faulty.plays += 1
        now = {fault.fault: fault for fault in self._faults if sample >= fault.play and fault.fault != "clock_drop"}
        refused = "".join(_refusals(self.plan, lane, tuple(now.values())) for lane in self.plan.lanes)
        if refused:
            raise CaseFailed(refused)
        if "crash" in now:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "hang" in now or "slow_case" in now:
            time.sleep(_HANG_S if "hang" in now else now["slow_case"].seconds)
        if "lost_context" in now:
            self.device.lost = True
            raise CaseFailed("an illegal memory access was encountered; the device is lost for this process")
        trace = super().play(sample, record=record)
        if "flipped_byte" in now and self.plan.expects:
            assert self.memory is not None, "a session that plays is open"
            expect = self.plan.expects[0]
            self.memory.contents[expect.buffer].write(expect.offset + expect.size // 2, 1, [(0, UNKNOWN)], 0)
        # The clock is the whole device's: it counts all plays, not those of one case.
        factor = max(
            (fault.factor for fault in self._faults if fault.fault == "clock_drop" and self._faulty.plays > fault.play),
            default=1.0,
        )
        return trace if factor == 1 else _slower(trace, factor)


def _refusals(plan: Plan, operations: Sequence[object], faults: Sequence[Fault]) -> str:
    """Say which of these operations is refused, empty where none is."""
    refused = {fault.fault: fault.size for fault in faults if fault.fault in ("failed_allocation", "failed_registration")}
    for operation in operations:
        if not isinstance(operation, Alloc | Register):
            continue
        buffer = plan.buffers[operation.buffer]
        locks = isinstance(operation, Register) or (not buffer.on_device and kind_of(buffer.memory).registers)
        for fault, size in refused.items():
            if size in (0, buffer.size) and (locks if fault == "failed_registration" else isinstance(operation, Alloc)):
                what = f"page-locking {buffer.size:,} bytes" if locks else f"{buffer.size:,} bytes of {buffer.memory} memory"
                return f"{what} for buffer {buffer.name} was refused (out of memory)"
    return ""


def _slower(trace: Trace, factor: float) -> Trace:
    """Return a trace whose clocks ran as long as a device of a lower clock takes."""

    def longer(times: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return tuple(None if time is None else round(time * factor) for time in times)

    activities = tuple(
        replace(work, begin_ns=round(work.begin_ns * factor), end_ns=round(work.end_ns * factor)) for work in trace.activities
    )
    return replace(trace, host_ns=longer(trace.host_ns), event_ns=longer(trace.event_ns), activities=activities)
