"""Which profile a finished run is held against, and what that predicts of it."""

from __future__ import annotations

from pathlib import Path

from runner.calibration.calibrate import name_for
from runner.device.simulated import load_profile, profile_names
from runner.device.simulated.profile import Profile
from runner.device.simulated.profile_files import shipped_names
from runner.errors import UsageError
from runner.observed import ObservedRun, read_observed
from runner.predict import predict
from runner.predict_page import predicted_rows
from runner.rows import Row


def predictions_of(folder: Path) -> list[Row]:
    """Return what the profile of the device of a measured run predicts of it, a row a case, the largest error first.

    Raises UsageError where there is no such profile and for a simulated run, which is what its profile says.
    """
    run = read_observed(folder)
    if run.simulated_by:
        raise UsageError(f"{run.run_id} is simulated: its times are themselves what a profile says; allowed: a measured run")
    profile = profile_for(run, None)
    return list(predicted_rows(predict(run, profile), profile.name))


def why_it_had_to_fit(run: ObservedRun, profile: Profile) -> list[str]:
    """Return a sentence where a profile knows a run, so that its predictions tell nothing of what it does not know."""
    if run.simulated_by == profile.name:
        return ["The run was simulated by this very profile, so it had to fit: that says nothing about a machine."]
    if profile.fit is not None and profile.fit.run == run.run_id:
        return ["The profile was fitted to this very run, so it had to fit: that says nothing about other cases."]
    return []


def profile_for(run: ObservedRun, name: str | None) -> Profile:
    """Return the profile of a name or, without one, that of the run's device.

    That is the simulated one's own, or as `calibrate` names it, or the shipped one whose name the device's ends with (`h200` for
    NVIDIA H200). Raises UsageError where there is none of these.
    """
    if name or run.simulated_by:
        return load_profile(name or run.simulated_by)
    own = name_for(run.device)
    fitting = [each for each in shipped_names() if own == each or own.endswith(f"-{each}")]
    names = profile_names()
    found = own if own in names else next(iter(fitting), None)
    if found is None:
        raise UsageError(
            f"there is no profile of {run.device}, which would be {own}; name one by --profile ({', '.join(names)}), or make it "
            "by dmalab calibrate on that machine"
        )
    return load_profile(found)
