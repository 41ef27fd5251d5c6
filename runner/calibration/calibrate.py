"""Calibrating: a finished run becomes a profile file, which `device: simulated:NAME` finds from then on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.calibration.fit import FIRST_GUESS, Fitted, fit_profile
from runner.calibration.profile_text import profile_text
from runner.calibration.solve import Step
from runner.device.simulated.profile import Profile
from runner.device.simulated.profile_files import as_profile, user_folder
from runner.errors import EnvironmentProblem, InputError
from runner.observed import ObservedRun
from runner.predict import accuracy_lines
from runner.tables import check_writable, write_whole
from runner.units import counted

EXPERIMENT: Final = "calibrate"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A profile that was fitted and written: its file, and whether that had been there before."""

    profile: Profile
    path: Path
    fitted: Fitted
    replaced: bool
    doubts: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return what was fitted and how well, for the screen."""
        assert self.profile.fit is not None, "what was fitted says how well"
        return [
            f"{counted(len(self.fitted.fitted), 'parameter')} of profile {self.profile.name} fitted; what is left over:",
            "",
            *accuracy_lines(self.profile.fit),
            "",
            *self.doubts,
            f"{'It replaces the one that was in' if self.replaced else 'It is in'} {self.path}: --device "
            + (
                f"simulated:{self.profile.name}"
                if self.path.parent == user_folder()
                else f"takes names; move it to {user_folder()}"
            ),
        ]


def calibrate(
    run: ObservedRun, name: str = "", out: Path | None = None, tell: Callable[[Step], None] = lambda step: None
) -> Calibrated:
    """Fit a profile to a run and write it to `out`, or among the user's own; `name` is by the device where it is not given.

    Raises InputError for a name that cannot be one or is that of a shipped profile, EnvironmentProblem where the file cannot be
    written.
    """
    name = name or name_for(run.device)
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name of a profile; allowed: lower-case letters, digits and -, at most 63")
    path = user_folder() / f"{name}.yaml" if out is None else out
    replaced = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"{path.parent} cannot be made: {error.strerror}") from None
    check_writable(path)
    fitted = fit_profile(run, name, tell=tell)
    write_whole(path, profile_text(fitted.data).encode())
    return Calibrated(as_profile(fitted.data, name), path, fitted, replaced, tuple(_doubts(run)))


def _doubts(run: ObservedRun) -> Iterator[str]:
    """Yield what a user should know of a profile that was fitted to this run."""
    if run.simulated_by:
        yield "The run was simulated: the profile gives back that of its device, and says nothing about a machine."
    asked = run.loaded.experiment.name
    if asked != EXPERIMENT:
        yield f"The run was of {asked}.yaml: what only {EXPERIMENT}.yaml asks is as in {FIRST_GUESS}, whatever the machine."


def name_for(device: str) -> str:
    """Return the name that the profile of a device has: `NVIDIA H200` gives `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")[:63] or "calibrated"
