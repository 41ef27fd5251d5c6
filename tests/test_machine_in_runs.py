"""What the machine does to a run reaches its rows and its manifest."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runner import cli
from runner.device.contract import DeviceFacts
from runner.device.simulated import SimulatedDevice
from runner.measure import case as measuring
from runner.measure.environment import MOST_MAJOR_FAULTS, Paging

FILE = """\
name: machine
question: What did the machine do?
measure: {warmup: 1, samples: 3, PLACE}
scenarios:
  copy:
    kind: transfer
    direction: h2d
    size: [4KiB, 8KiB]
    exclude: [{because: too large, where: {size: 8KiB}}]
"""


def run(folder: Path, place: str = "wait: spin") -> tuple[int, list[dict[str, str]], dict[str, Any]]:
    (folder / "machine.yaml").write_text(FILE.replace("PLACE", place))
    arguments = ["run", str(folder / "machine.yaml"), "--device", "simulated:test", "--out", str(folder)]
    code = CliRunner().invoke(cli.app, arguments).exit_code
    latest = folder / "machine" / "latest"
    with (latest / "summary.csv").open(encoding="utf-8", newline="") as file:
        return code, list(csv.DictReader(file)), json.loads((latest / "manifest.json").read_text())


def answering(monkeypatch: pytest.MonkeyPatch, *states: dict[str, Any]) -> None:
    """Let the device tell one state after another, the last one for ever."""
    left = list(states)
    real = SimulatedDevice.facts

    def facts(self: SimulatedDevice) -> DeviceFacts:
        told = real(self)
        state = left.pop(0) if len(left) > 1 else left[0]
        return replace(told, environment={**told.environment, **state})

    monkeypatch.setattr(SimulatedDevice, "facts", facts)


def test_a_clock_that_falls_during_the_run_flags_its_rows_and_both_states_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good, low = ({"sm_clock_mhz": mhz, "sm_clock_max_mhz": 1980} for mhz in (1980, 900))
    answering(monkeypatch, good, low)
    code, rows, manifest = run(tmp_path)
    assert (code, [row["flags"] for row in rows]) == (0, ["low_clock", ""])  # the excluded case has no number to doubt
    assert manifest["device"]["sm_clock_mhz"] == 1980
    assert manifest["device_at_end"] == {"sm_clock_mhz": 900}


def test_a_quiet_machine_leaves_no_flag(tmp_path: Path) -> None:
    _, rows, manifest = run(tmp_path)
    assert [row["flags"] for row in rows] == ["", ""]
    assert manifest["host"]["kernel"]
    assert "transparent_huge_pages" in manifest["host"]


def test_a_placement_that_cannot_be_had_makes_every_case_unsupported(tmp_path: Path) -> None:
    code, rows, _ = run(tmp_path, "placement: remote")
    assert code == 3
    assert [row["status"] for row in rows] == ["unsupported", "excluded"]
    assert rows[0]["reason"].startswith("placement: remote needs a second NUMA node")


def test_rows_of_a_simulated_device_say_nothing_of_threads_and_nodes(tmp_path: Path) -> None:
    code, rows, _ = run(tmp_path, "placement: local, wait: block")
    assert code == 0
    assert [(row["placement"], row["wait"]) for row in rows] == [("", "")] * 2


def test_paging_flags_a_case_of_a_device_with_noise_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    faults = iter(range(0, 1_000_000, MOST_MAJOR_FAULTS + 1))
    monkeypatch.setattr(measuring, "read_paging", lambda: Paging(next(faults), 0))
    assert run(tmp_path)[1][0]["flags"] == ""
    monkeypatch.setattr(SimulatedDevice, "deterministic", False)
    assert "paging" in run(tmp_path)[1][0]["flags"].split()


@pytest.mark.parametrize(("threads", "flagged"), [(2, False), (3, True)])
def test_more_threads_than_processors_are_flagged_on_a_device_with_noise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, threads: int, flagged: bool
) -> None:
    ring = "kind: pipeline\n    schedule: overlapped\n    staging: copy\n    total: 64KiB\n    chunk: 8KiB\n    streams: 2"
    copy = "kind: transfer\n    direction: h2d\n    size: [4KiB, 8KiB]\n    exclude: [{because: too large, where: {size: 8KiB}}]"
    assert copy in FILE
    monkeypatch.setattr("tests.test_machine_in_runs.FILE", FILE.replace(copy, f"{ring}\n    staging_threads: {threads}"))
    monkeypatch.setattr(measuring, "allowed_cpus", lambda: frozenset({3, 5}))
    assert run(tmp_path)[1][0]["flags"] == "", "a simulated device has no processors of this machine"
    monkeypatch.setattr(SimulatedDevice, "deterministic", False)
    row = run(tmp_path)[1][0]
    assert ("oversubscribed" in row["flags"].split()) == flagged
    assert (row["host_copier"], row["staging_threads"], row["staging_lanes"]) == ("numpy", str(threads), "1")
