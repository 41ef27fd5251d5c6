"""The published page of two GPUs is what its runs say, and those runs are of two GPUs that are told apart."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "results" / "reference" / "nvidia-h200-x2"


@pytest.fixture(scope="module")
def two_gpus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("two_gpus", ROOT / "tools" / "two_gpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["two_gpus"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_runs_say(two_gpus: ModuleType) -> None:
    assert (REFERENCE / "README.md").read_text(encoding="utf-8") == "\n".join(two_gpus.page_of(REFERENCE)) + "\n"


def test_the_runs_are_of_two_gpus_of_one_host() -> None:
    devices = [
        json.loads((REFERENCE / way / "overlap" / "manifest.json").read_text(encoding="utf-8"))["device"]
        for way in ("alone-0", "alone-1")
    ]
    for fact in ("uuid", "pci_bus_id", "ordinal"):
        assert devices[0][fact] != devices[1][fact], fact


def test_a_row_that_was_not_measured_is_refused(two_gpus: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "summary.csv").write_text("case_id,status,corrupt_bytes\nc_1,failed,\n", encoding="utf-8")
    with pytest.raises(ValueError, match="case c_1 is failed"):
        two_gpus.times(tmp_path, "median_event_ms")


def test_the_ratio_is_of_both_at_once_over_alone(two_gpus: ModuleType) -> None:
    lines = [two_gpus.Line("pinned h2d 1MiB", 1.0, 1.0, 2.0), two_gpus.Line("pinned h2d 4MiB", 1.0, 1.0, 8.0)]
    assert two_gpus.middles(lines) == {"pinned h2d": pytest.approx(4.0)}
