"""Writes results/reference/nvidia-h200-x2/README.md from the runs beside it; `make tables` calls it.

The runs: each GPU alone (alone-0, alone-1), both at once (both), by turns (fleet), and one grid shared between them (shared).
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
REFERENCE: Final = ROOT / "results" / "reference" / "nvidia-h200-x2"
CLOCKS: Final = {"bandwidth": "median_event_ms", "overlap": "median_wall_ms"}
AXES: Final = ("scenario", "buffer", "direction", "size_bytes", "chunk_bytes", "streams")
MIB: Final = 2**20

Row = Mapping[str, str]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One case: its name, the mean of both GPUs' medians alone and by turns, and both at once, in ms."""

    name: str
    alone_ms: float
    turns_ms: float
    both_ms: float

    @property
    def ratio(self) -> float:
        """How many times as long it takes while the other GPU does the same."""
        return self.both_ms / self.alone_ms


def main() -> int:
    """Write the page; return the exit code."""
    try:
        page = "\n".join(page_of(REFERENCE)) + "\n"
    except (OSError, ValueError, KeyError) as error:
        print(f"The table of two GPUs could not be made: {error}", file=sys.stderr)
        return 3
    (REFERENCE / "README.md").write_text(page, encoding="utf-8")
    return 0


def page_of(reference: Path) -> list[str]:
    """Return the page; raises OSError, ValueError or KeyError where a run lacks something."""
    manifests = [
        json.loads((reference / way / "bandwidth" / "manifest.json").read_text(encoding="utf-8"))
        for way in ("alone-0", "alone-1")
    ]
    gpus = [manifest["device"] for manifest in manifests]
    lines = [
        "# Two NVIDIA H200 of one host",
        "",
        "Measured by `dmalab run bandwidth overlap` on each GPU alone, on both at once (`--device all`, `alone: gpu`), by turns",
        "(`alone: host`), and with one grid shared between them (`spread: cases`); 8 samples a case, 2026-11-29.",
        "This page is made by `make tables`.",
        "",
        "| GPU | UUID | bus id | link, one way | SM clock under load |",
        "| --- | --- | --- | ---: | ---: |",
        *(
            f"| {gpu['name']} | {gpu['uuid']} | {gpu['pci_bus_id']} | PCIe {gpu['pcie_generation']} x{gpu['pcie_width']}, "
            f"{gpu['link_gb_per_s']:.1f} GB/s | {gpu['sm_clock_mhz']} MHz |"
            for gpu in gpus
        ),
        "",
        "Milliseconds, the mean of both GPUs' medians; every byte of every play was right.",
    ]
    for experiment in CLOCKS:
        found = lines_of(reference, experiment)
        lines += [
            "",
            f"## {experiment}",
            "",
            "| case | alone | by turns | both at once | both / alone |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        lines += [f"| {of.name} | {of.alone_ms:.4g} | {of.turns_ms:.4g} | {of.both_ms:.4g} | {of.ratio:.2f} |" for of in found]
        lines += ["", *(f"{name}: {ratio:.2f} times as long while both work." for name, ratio in middles(found).items())]
    return lines


def lines_of(reference: Path, experiment: str) -> list[Line]:
    """Return the lines of one experiment, in the order of its cases."""
    alone = [times(reference / way / experiment, CLOCKS[experiment]) for way in ("alone-0", "alone-1")]
    turns, both = (times(reference / way / experiment, CLOCKS[experiment]) for way in ("fleet", "both"))
    return [
        Line(name_of(key), fmean(value for own in alone for value in own[key]), fmean(turns[key]), fmean(both[key]))
        for key in alone[0]
    ]


def times(run: Path, column: str) -> dict[Key, list[float]]:
    """Return the times of each case, one a GPU; raises ValueError where a row has none or a byte was wrong."""
    found: dict[Key, list[float]] = {}
    with (run / "summary.csv").open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] != "ok" or row["corrupt_bytes"] != "0":
                raise ValueError(f"{run}: case {row['case_id']} is {row['status']}, with {row['corrupt_bytes']} wrong bytes")
            found.setdefault(tuple(row[axis] for axis in AXES), []).append(float(row[column]))
    return found


def name_of(key: Key) -> str:
    """Name a case as people write it."""
    scenario, buffer, direction, size, chunk, streams = key
    if size:
        return f"{buffer} {direction} {int(size) // MIB}MiB"
    return f"{scenario}, {buffer}, chunk {int(chunk) // MIB}MiB, streams {streams}"


def middles(lines: Sequence[Line]) -> dict[str, float]:
    """Return the geometric mean of the ratios by what the names begin with."""
    groups: dict[str, list[float]] = {}
    for line in lines:
        groups.setdefault(line.name.rsplit(" ", 1)[0] if "chunk" not in line.name else line.name.split(",")[0], []).append(
            line.ratio
        )
    return {name: geometric_mean(ratios) for name, ratios in groups.items()}


if __name__ == "__main__":
    sys.exit(main())
