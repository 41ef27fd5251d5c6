"""Profiles as files: those that come with the package, and the user's own, which `dmalab calibrate` writes."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from runner.device.simulated.profile import Profile
from runner.errors import DeviceUnavailable, house_words

_SUFFIX: Final = ".yaml"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def profile_names() -> list[str]:
    """Return the names of all profiles, sorted: those of the package and those of the user."""
    return sorted({*shipped_names(), *user_names()})


def shipped_names() -> list[str]:
    """Return the names of the profiles that come with the package, sorted."""
    folder = resources.files("runner.device.profiles")
    return sorted(entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if entry.name.endswith(_SUFFIX))


def user_names() -> list[str]:
    """Return the names of the user's own profiles, sorted; a file named like a shipped profile is passed over."""
    return sorted(_user_files().keys() - set(shipped_names()))


def passed_over() -> list[tuple[str, Path]]:
    """Return name and file of those of the user's profiles that are named like shipped ones, and so not used."""
    return sorted((name, path) for name, path in _user_files().items() if name in shipped_names())


def newest_calibrated() -> str:
    """Return the name of the user's profile that was written last, empty where there is none."""
    files = {name: path for name, path in _user_files().items() if name not in shipped_names()}
    return max(files, key=lambda name: files[name].stat().st_mtime, default="")


def user_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's profiles, `dmalab/profiles` where the system keeps the data of programs."""
    home = environment.get("XDG_DATA_HOME") or environment.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".local" / "share") / "dmalab" / "profiles"


@lru_cache(maxsize=16)
def load_profile(name_or_path: str) -> Profile:
    """Read a profile by its name, or from a file whose path ends in `.yaml`.

    Raises DeviceUnavailable naming the nearest profiles where there is none of that name, or what is wrong in the file.
    """
    return as_profile(profile_data(name_or_path), f"simulated:{name_or_path}")


def profile_data(name_or_path: str) -> dict[str, Any]:
    """Return a profile as its file has it, rates in GB/s. Raises DeviceUnavailable where it cannot be read."""
    try:
        data = yaml.load(_text(name_or_path), Loader=_LOADER)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise DeviceUnavailable(f"simulated:{name_or_path}", f"its profile cannot be read: {error}", "correct the file") from None
    return data if isinstance(data, dict) else {}


def as_profile(data: Mapping[str, Any], label: str) -> Profile:
    """Return the profile that data in the form of a file make; raises DeviceUnavailable, naming `label`, where they are wrong."""
    try:
        # By way of JSON, since strict models take its lists for tuples, which they refuse from Python.
        return Profile.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message, allowed = house_words(first["msg"])
        remedy = f"allowed: {allowed}" if allowed else "correct the profile"
        raise DeviceUnavailable(label, f"its profile is wrong at {where}: {message}", remedy) from None
    except (TypeError, ValueError) as error:
        raise DeviceUnavailable(label, f"its profile cannot be read: {error}", "correct the file") from None


def _user_files() -> dict[str, Path]:
    folder = user_folder()
    return {path.stem: path for path in folder.glob(f"*{_SUFFIX}")} if folder.is_dir() else {}


def _text(name_or_path: str) -> str:
    if name_or_path.endswith((_SUFFIX, ".yml")):
        return Path(name_or_path).read_text(encoding="utf-8")
    if name_or_path in shipped_names():
        return resources.files("runner.device.profiles").joinpath(f"{name_or_path}{_SUFFIX}").read_text(encoding="utf-8")
    if name_or_path in user_names():
        return (user_folder() / f"{name_or_path}{_SUFFIX}").read_text(encoding="utf-8")
    nearest = difflib.get_close_matches(name_or_path, profile_names()) or profile_names()
    raise DeviceUnavailable(f"simulated:{name_or_path}", "there is no such profile", f"nearest: {', '.join(nearest)}")
