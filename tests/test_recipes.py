"""Both recipes of CONTRIBUTING.md, followed to the letter in a copy of the package: what they name is all that is needed."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SCENARIO = '''
"""`kind: echo` asks how long a copy there and back takes."""

from typing import Literal

from pydantic import Field

from runner.device.contract import Trace
from runner.memory import BufferKind
from runner.plan import Drain, Plan
from runner.scenarios.base import Scenario, Size, host_ms
from runner.scenarios.builder import PlanWriter


class Echo(Scenario):
    """A copy to the device and back."""

    kind: Literal["echo"] = Field(description="A copy to the device and back.")
    buffer: BufferKind = Field("pinned", description="The host's buffers.")
    size: Size = Field(description="Bytes.")

    def payload_bytes(self) -> int:
        """Return the bytes of one way."""
        return self.size

    def describe(self) -> str:
        """Say what it does."""
        return f"send {self.size:,} bytes and get them back"

    def plan(self) -> Plan:
        """Write both copies in one stream."""
        writer = PlanWriter()
        source, back = writer.buffer("source", self.buffer, self.size), writer.buffer("back", self.buffer, self.size)
        device, stream = writer.device_buffer("device", self.size), writer.stream("stream")
        writer.data(source)
        writer.poison(back)
        writer.mark("begin")
        writer.copy(stream, "h2d", (device, 0), (source, 0), self.size)
        writer.copy(stream, "d2h", (back, 0), (device, 0), self.size)
        writer.lane.append(Drain(stream))
        writer.mark("end")
        writer.expect(back, self.size)
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `wall_ms`."""
        wall = host_ms(plan, trace, "begin", "end")
        return {} if wall is None else {"wall_ms": wall}
'''
PROFILE_ENTRY = """
  locked:
    h2d: {points: [[0, 0]], then_gb_per_s: 5, how: assumed, source: half of the link}
    d2h: {points: [[0, 0]], then_gb_per_s: 5, how: assumed, source: half of the link}
    allocate: {points: [[0, 100000]], how: assumed, source: round}
    free: {points: [[0, 100000]], how: assumed, source: round}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package, to be changed as CONTRIBUTING.md says."""
    shutil.copytree(ROOT / "runner", tmp_path / "runner", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} no longer has {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def run(checkout: Path, scenario: str) -> dict[str, str]:
    """Run one case on the profile `test` with the changed package and return its row."""
    (checkout / "new.yaml").write_text(
        f"name: new\nquestion: Does it run?\nmeasure: {{warmup: 0, samples: 1}}\nscenarios:\n  one: {scenario}\n"
    )
    command = [sys.executable, "-m", "runner", "run", "new.yaml", "--device", "simulated:test", "--out", "out"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with (checkout / "out" / "new" / "latest" / "summary.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    return row


def test_a_new_kind_of_scenario_is_a_file_and_its_name(checkout: Path) -> None:
    scenarios = checkout / "runner" / "scenarios"
    (scenarios / "echo.py").write_text(SCENARIO, encoding="utf-8")
    change(
        scenarios / "__init__.py",
        "from runner.scenarios.hazard",
        "from runner.scenarios.echo import Echo\nfrom runner.scenarios.hazard",
    )
    change(scenarios / "__init__.py", '    "transfer": Transfer,', '    "transfer": Transfer,\n    "echo": Echo,')
    row = run(checkout, "{kind: echo, buffer: registered, size: 1MB}")
    # Two copies at 10 GB/s and what their calls and the hand-over between the engines cost.
    assert 0.2 < float(row["median_wall_ms"]) < 0.21
    assert (row["status"], row["buffer"], row["size_bytes"]) == ("ok", "registered", "1000000")


def test_a_new_kind_of_buffer_is_a_row_a_function_and_an_entry(checkout: Path) -> None:
    package = checkout / "runner"
    change(package / "memory.py", '"mapped", "managed"]', '"mapped", "managed", "locked"]')
    change(
        package / "memory.py",
        "_ROWS: Final = (",
        '_ROWS: Final = (\n    MemoryKind("locked", "locked memory", frozenset({"pinned"})),',
    )
    change(package / "device" / "profiles" / "test.yaml", "\n  pageable:", f"{PROFILE_ENTRY}  pageable:")
    row = run(checkout, "{kind: transfer, buffer: locked, direction: h2d, size: 10MB}")
    assert (row["status"], row["buffer"], row["memory_actual"]) == ("ok", "locked", "h2d_host=pinned")
    # 10 MB at 5 GB/s, and the microsecond of the event before them.
    assert float(row["median_event_ms"]) == 2.001
