"""The machine of a run in a line, as its manifest describes it."""

from __future__ import annotations

from typing import Final

from runner.report.reading import RunTables
from runner.units import digits

_MACHINE: Final = (
    ("device", "name", ""),
    ("device", "driver", "driver {}"),
    ("device", "cuda_driver_api", "CUDA {}"),
    ("device", "link_gb_per_s", "link {} GB/s one way"),
    ("device", "cpu_model", "{}"),
    ("host", "platform", "{}"),
)


def machine_line(run: RunTables) -> str:
    """Return the machine in a line: device, driver, link, processor, system; what is unknown is left out."""
    told = []
    for part, name, form in _MACHINE:
        facts = run.manifest.get(part)
        value = facts.get(name) if isinstance(facts, dict) else None
        if value not in (None, ""):
            told.append(form.replace("{}", digits(value) if isinstance(value, float) else str(value)) if form else str(value))
    return ", ".join([*told, *_around(run.manifest.get("host"))])


def _around(host: object) -> list[str]:
    """Say that the host is no machine of its own, where it is not: neighbours share its memory and its link."""
    facts = host if isinstance(host, dict) else {}
    below, within = facts.get("virtualisation"), facts.get("container")
    named = "" if below == "unknown" else f" ({below})"
    told = [f"a virtual machine{named}"] if below not in (None, "", "none") else []
    return [*told, *([f"in a container ({within})"] if within else [])]
