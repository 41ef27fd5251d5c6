"""Both recipes of docs/howto, followed to the letter in a copy of the package: what they name is all that is needed."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
TABLE = "ALLOCATE: Final[dict[str, Allocate]] = {\n"
KNOWN_TO_BOTH = """
from runner.device.cuda.memory import ALLOCATE
from runner.memory import DEVICE, KINDS
assert set(ALLOCATE) == {*KINDS, DEVICE}, sorted(ALLOCATE)
assert ALLOCATE["locked"].__name__ == "allocate_locked"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package, to be changed as the recipes say."""
    shutil.copytree(ROOT / "runner", tmp_path / "runner", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def recipe(page: str) -> dict[str, str]:
    """Return what a page of docs/howto gives to write, by the file that it belongs to."""
    return {block.value: block.text for block in blocks_of(ROOT / "docs" / "howto" / page) if block.mark == "recipe"}


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} no longer has {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def run(checkout: Path, text: str) -> dict[str, str]:
    """Run an experiment of one case on the profile `test` with the changed package and return its row."""
    (checkout / "new.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "runner", "run", "new.yaml", "--device", "simulated:test", "--out", "out", "--no-report"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with (checkout / "out" / "new" / "latest" / "summary.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    return row


def test_a_new_kind_of_scenario_is_a_file_and_its_name(checkout: Path) -> None:
    given = recipe("scenario.md")
    runs, calls = "RUNS in tests/scenarios/test_runs.py", "CASES in tests/cuda/test_recording.py"
    assert sorted(given) == [calls, runs, "new.yaml", "runner/scenarios/__init__.py", "runner/scenarios/echo.py"]
    table = checkout / "runner/scenarios/__init__.py"
    (checkout / "runner/scenarios/echo.py").write_text(given["runner/scenarios/echo.py"], encoding="utf-8")
    change(table, "from runner.scenarios.hazard", "from runner.scenarios.echo import Echo\nfrom runner.scenarios.hazard")
    change(table, '    "transfer": Transfer,\n', f'    "transfer": Transfer,\n{given["runner/scenarios/__init__.py"]}')
    row = run(checkout, given["new.yaml"])
    # Two copies at 10 GB/s and what their calls and the hand-over between the engines cost.
    assert 0.2 < float(row["median_wall_ms"]) < 0.21
    assert (row["status"], row["buffer"], row["size_bytes"]) == ("ok", "registered", "1000000")
    shutil.copytree(ROOT / "tests", checkout / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", checkout)
    change(checkout / "tests/scenarios/test_runs.py", "RUNS = [\n", f"RUNS = [\n{given[runs]}")
    change(checkout / "tests/cuda/test_recording.py", "\nCASES = {\n", f"\nCASES = {{\n{given[calls]}")
    tests = [
        "tests/scenarios/test_runs.py::test_no_field_of_any_kind_is_left_out",
        "tests/scenarios/test_runs.py::test_every_field_runs_from_yaml_to_table[0-simulated:test]",
        "tests/cuda/test_recording.py::test_every_kind_is_recorded",
        "tests/cuda/test_recording.py::test_a_lane_gives_the_driver_the_calls_of_the_plan_and_no_others[echo]",
    ]
    tried = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(tried, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_a_new_kind_of_buffer_is_a_row_a_function_and_an_entry(checkout: Path) -> None:
    given = recipe("buffer-kind.md")
    memory = "runner/device/cuda/memory.py"
    assert sorted(given) == [f"ALLOCATE in {memory}", "new.yaml", memory, "runner/device/profiles/test.yaml", "runner/memory.py"]
    change(checkout / "runner/memory.py", "BufferKind = Literal[", 'BufferKind = Literal["locked", ')
    change(checkout / "runner/memory.py", "_ROWS: Final = (\n", f"_ROWS: Final = (\n{given['runner/memory.py']}")
    change(checkout / memory, "\n\nAllocate = ", f"\n\n{given[memory]}\n\nAllocate = ")
    change(checkout / memory, TABLE, f"{TABLE}{given[f'ALLOCATE in {memory}']}")
    profile = "runner/device/profiles/test.yaml"
    change(checkout / profile, "\n  pageable:", f"\n{given[profile]}  pageable:")
    row = run(checkout, given["new.yaml"])
    assert (row["status"], row["buffer"], row["memory_actual"]) == ("ok", "locked", "h2d_host=pinned")
    # 10 MB at 5 GB/s, and the microsecond of the event before them.
    assert float(row["median_event_ms"]) == 2.001
    subprocess.run([sys.executable, "-c", KNOWN_TO_BOTH], cwd=checkout, check=True)
