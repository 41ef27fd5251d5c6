"""The choice of a device by its name in a file or on the command line."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from runner.device.contract import Device
from runner.errors import DeviceUnavailable, InputError
from runner.placement import Wait

ALLOWED: Final = "auto, cuda, cuda:N (such as cuda:1), simulated, or simulated:PROFILE (such as simulated:rtx-4090)"
DEFAULT_PROFILE: Final = "h200"
FAULTS: Final = "DMALAB_FAULTS"
"""A variable of tests: faults for a simulated device that is opened by its name (`runner.device.simulated.faults`)."""

_CUDA = re.compile(r"cuda(?::(0|[1-9][0-9]{0,3}))?", re.ASCII)
_SIMULATED = re.compile(r"simulated(?::([a-z0-9][a-z0-9_-]{0,63}))?(?:#([a-z0-9][a-z0-9_-]{0,63}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened device, and a sentence to show where it is not what `auto` would rather have taken; empty otherwise."""

    device: Device
    note: str = ""


def open_device(text: str, wait: Wait = "spin") -> Opened:
    """Open the device called `text`: auto, cuda, cuda:1, simulated, simulated:rtx-4090, simulated:h200#2 (a member of a fleet).

    `auto` takes the first CUDA device where it opens and a simulated H200 where it does not, and then says why. `wait` is how
    threads wait for a real device. Raises InputError for any other text, DeviceUnavailable where the named device cannot be
    opened.
    """
    if text == "auto":
        return _open_any(wait)
    cuda = _CUDA.fullmatch(text)
    if cuda:
        return Opened(_open_cuda(int(cuda[1] or 0), wait))
    simulated = _SIMULATED.fullmatch(text)
    if simulated:
        return Opened(_open_simulated(simulated[1] or DEFAULT_PROFILE, os.environ.get(FAULTS, ""), simulated[2] or ""))
    raise InputError(f"{text!r} is not a device; allowed: {ALLOWED}")


def open_twin(text: str) -> Device:
    """Open the simulated device that stands for the one called `text`: itself where it is simulated, a simulated H200 elsewhere.

    Of many devices it stands for each.

    Raises as `open_device` does; a real device is never touched.
    """
    simulated = _SIMULATED.fullmatch(text.partition("*")[0])
    if simulated is None and text not in ("auto", "all") and not _CUDA.fullmatch(text):
        raise InputError(f"{text!r} is not a device; allowed: {ALLOWED}")
    return _open_simulated((simulated[1] if simulated else None) or DEFAULT_PROFILE)


def instead(error: DeviceUnavailable) -> str:
    """Say that `auto` means a simulated device here, and why."""
    return f"No CUDA device was used ({error.why}); these numbers are simulated, on simulated:{DEFAULT_PROFILE}."


def _open_any(wait: Wait) -> Opened:
    try:
        return Opened(_open_cuda(0, wait))
    except DeviceUnavailable as error:
        return Opened(_open_simulated(DEFAULT_PROFILE), instead(error))


def _open_cuda(ordinal: int, wait: Wait) -> Device:
    # Imported only here: NumPy is enough to look for a GPU, but the simulated device needs none of it.
    from runner.device.cuda.device import CudaDevice

    return CudaDevice(ordinal, wait)


def _open_simulated(profile: str, faults: str = "", member: str = "") -> Device:
    from runner.device.simulated import SimulatedDevice, load_profile

    if faults:
        from runner.device.simulated.faults import with_faults

        return with_faults(f"simulated:{profile}", load_profile(profile), faults, member)
    return SimulatedDevice(load_profile(profile), member)
