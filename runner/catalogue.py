"""What there is to choose from: experiments, profiles of simulated devices, kinds of scenarios and of buffers, as lines."""

from __future__ import annotations

from collections.abc import Iterable

from runner.device.simulated.profile import ALL
from runner.device.simulated.profile_files import load_profile, passed_over, profile_names
from runner.errors import DeviceUnavailable, InputError
from runner.memory import KINDS
from runner.scenarios import SCENARIOS
from runner.spec.load import list_experiments, load_experiment


def experiment_lines() -> list[str]:
    """Return each experiment that can be run by its name, with the question it asks."""
    return ["Experiments:", *_aligned((name, _question(name)) for name in list_experiments())]


def profile_lines() -> list[str]:
    """Return each profile that `--device simulated:NAME` knows: what it stands for, its source, and how well it was fitted."""
    lines = ["Profiles of simulated devices:"]
    for name in profile_names():
        try:
            profile = load_profile(name)
        except DeviceUnavailable as error:
            lines.append(f"  {name}: {error.why}")
            continue
        lines += [f"  {name}: {profile.description}", f"    {profile.source}"]
        if profile.fit is not None and ALL in profile.fit.sorts:
            lines.append(f"    Of the run it was fitted to it gives back {profile.fit.sorts[ALL].words().strip()}.")
    return lines + [f"  {name}: not used, since a profile of that name comes with dmalab: {path}" for name, path in passed_over()]


def kind_lines() -> list[str]:
    """Return each kind of scenario with its fields, and each kind of buffer."""
    lines = ["Kinds of scenarios:"]
    for name, model in SCENARIOS.items():
        lines.append(f"  {name}: {model.model_fields['kind'].description}")
        fields = [(field, info.description or "") for field, info in model.model_fields.items() if field != "kind"]
        lines.extend(f"  {line}" for line in _aligned(fields))
    return [*lines, "Kinds of buffers:", *_aligned((kind.name, kind.meaning) for kind in KINDS.values())]


def _question(name: str) -> str:
    """Return the question of an experiment, or that its file is bad: one bad file must not hide the others."""
    try:
        return load_experiment(name).experiment.question
    except InputError:
        return f"(cannot be read: dmalab validate {name} tells why)"


def _aligned(rows: Iterable[tuple[str, str]]) -> list[str]:
    pairs = list(rows)
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"  {name.ljust(width)}  {' '.join(meaning.split())}".rstrip() for name, meaning in pairs]
