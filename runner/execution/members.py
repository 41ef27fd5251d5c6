"""The names of many devices in a file, and the single devices that they stand for."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from runner.device.select import DEFAULT_PROFILE
from runner.errors import DeviceUnavailable, EnvironmentProblem
from runner.execution.process import Child

ALL: Final = "all"
LISTED_S: Final = 60.0
"""Seconds that the driver may take to count its devices."""

_SIMULATED = re.compile(r"simulated(?::([a-z0-9][a-z0-9_-]{0,63}))?\*([1-9][0-9]{0,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Member:
    """One of many devices: the name by which `open_device` opens it, and the UUID that it then must have."""

    device: str
    uuid: str


def is_many(device: str) -> bool:
    """Whether a name stands for many devices, also where only one of them is there."""
    return device == ALL or _SIMULATED.fullmatch(device) is not None


def members_of(device: str) -> list[Member]:
    """Return the devices that a name stands for: `all` those of this machine, `simulated:h200*4` four of that profile.

    Real ones are named by their ordinal and known by their UUID: whoever opens one looks whether it is that one. Raises
    DeviceUnavailable where the machine has none.
    """
    simulated = _SIMULATED.fullmatch(device)
    if simulated:
        profile = simulated[1] or DEFAULT_PROFILE
        return [simulated_member(profile, str(place)) for place in range(int(simulated[2]))]
    return [Member(f"cuda:{ordinal}", uuid) for ordinal, uuid in enumerate(_listed())]


def simulated_member(profile: str, name: str) -> Member:
    """Return one of several simulated devices; `name` tells it from the others."""
    return Member(f"simulated:{profile}#{name}", f"SIM-{profile}-{name}")


def _listed() -> list[str]:
    """Return the UUIDs of the machine's GPUs by their ordinal; a process of its own asks, so that this one holds no driver."""
    with closing(Child("runner.device.cuda.listing", stdout=subprocess.PIPE)) as child:
        try:
            answer, _ = child.process.communicate(timeout=LISTED_S)
            told = json.loads(answer)
        except (subprocess.TimeoutExpired, ValueError):
            raise EnvironmentProblem(f"the process that counts the GPUs {child.end_in_words()}") from None
    if "refused" in told:
        raise DeviceUnavailable(*told["refused"])
    if None in told["gpus"]:
        raise DeviceUnavailable(ALL, "the driver tells no UUID of a GPU", "use one GPU by its number, as in device: cuda:1")
    return [str(uuid) for uuid in told["gpus"]]
