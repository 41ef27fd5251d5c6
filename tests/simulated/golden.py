"""The golden table of the `test` profile: every figure of one play of each case of tests/golden/test-profile.yaml.

`python -m tests.simulated.golden` writes it anew; what it changes is to be looked at line by line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runner.device.simulated import SimulatedDevice, load_profile
from runner.execution.local import play_cases
from runner.expand import expand
from runner.spec.load import load_experiment

FOLDER: Final = Path(__file__).parents[1] / "golden"
TABLE: Final = FOLDER / "test-profile.csv"
_HEADER: Final = ("scenario", "case", "figure", "value")


def golden_text() -> str:
    """Return the table as it would be now, a line a figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADER)
    writer.writerows(_rows())
    return text.getvalue()


def _rows() -> Iterator[tuple[str, str, str, str]]:
    loaded = load_experiment(FOLDER / "test-profile.yaml")
    device = SimulatedDevice(load_profile("test"))
    for result in play_cases(device, device.facts(), list(expand(loaded)), loaded.experiment.measure):
        axes = " ".join(f"{name}={value}" for name, value in result.case.axes.items())
        for sample in result.samples:
            if sample.role == "sample":
                for name, value in sorted(sample.figures.items()):
                    yield result.case.scenario, axes, name, f"{value:.9g}"


if __name__ == "__main__":
    TABLE.write_text(golden_text(), encoding="utf-8")
