"""A device without hardware: a discrete-event model that plays Plans by the figures of a profile."""

from runner.device.simulated.device import SimulatedDevice
from runner.device.simulated.profile import Profile
from runner.device.simulated.profile_files import load_profile, profile_names

__all__ = ["Profile", "SimulatedDevice", "load_profile", "profile_names"]
