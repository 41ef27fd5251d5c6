"""What `plan` says that a file would cost, held against published runs of a real device."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runner.device.simulated.profile_files import newest_calibrated
from runner.pricing import Price, price, stand_in
from runner.spec.load import load_experiment

PUBLISHED = Path(__file__).parents[1] / "results" / "reference" / "nvidia-h200" / "model"
FILE = """
name: priced
question: What would it cost?
device: simulated:test
measure: {warmup: 1, samples: SAMPLES}
scenarios:
  ring: {kind: pipeline, schedule: overlapped, staging: copy, total: 64MiB, chunk: 8MiB, streams: STREAMS}
"""


def priced(tmp_path: Path, samples: int, streams: str) -> Price:
    path = tmp_path / "priced.yaml"
    path.write_text(FILE.replace("SAMPLES", str(samples)).replace("STREAMS", streams))
    return price(load_experiment(path), device=None, max_cases=100)


@pytest.mark.parametrize("name", ["calibrate", "validate"])
def test_the_likely_time_is_within_a_third_of_what_a_run_took(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    took = json.loads((PUBLISHED / name / "manifest.json").read_text())["seconds"]["total"]
    cost = price(load_experiment(PUBLISHED / name / "experiment.yaml"), device="cuda", max_cases=10_000)
    assert cost.profile == "simulated:h200"
    assert 2 / 3 * took < cost.seconds < 4 / 3 * took


def test_companions_that_cases_share_are_paid_for_once(tmp_path: Path) -> None:
    one, two, three = (priced(tmp_path, 10, streams).seconds for streams in ("3", "[3, 4]", "[3, 4, 5]"))
    assert three - two == pytest.approx(two - one, rel=0.1)
    assert two - one < 0.6 * one, "the first case brings its twin and its legs"


def test_each_sample_more_costs_the_same(tmp_path: Path) -> None:
    some, more, most = (priced(tmp_path, samples, "3").seconds for samples in (10, 30, 50))
    assert most - more == pytest.approx(more - some)
    assert more > some


def test_a_real_device_is_priced_by_the_newest_profile_that_was_calibrated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert (newest_calibrated(), stand_in("cuda"), stand_in("auto")) == ("", "cuda", "auto")
    folder = tmp_path / "dmalab" / "profiles"
    folder.mkdir(parents=True)
    for age, name in ((20, "older"), (10, "newer"), (0, "h200")):
        (folder / f"{name}.yaml").write_text("")
        os.utime(folder / f"{name}.yaml", (1_000_000 - age, 1_000_000 - age))
    assert stand_in("cuda") == "simulated:newer", "a file named like a shipped profile is passed over"
    assert stand_in("simulated:test") == "simulated:test"


def test_what_a_run_would_skip_is_counted_with_its_reason_and_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "priced.yaml"
    ring = "kind: pipeline, schedule: overlapped, chunk: 64MiB, streams: 3"
    path.write_text(FILE[: FILE.index("  ring")].replace("SAMPLES", "3") + f"  ring: {{{ring}, total: [64MiB, 1TiB]}}\n")
    loaded = load_experiment(path)
    ((reason, count),) = price(loaded, device=None, max_cases=9).skipped.items()
    assert count == 1
    assert reason.startswith("needs 2TiB of host memory")
    assert price(loaded, device=None, max_cases=9).seconds < 60
    allowed = price(loaded, device=None, max_cases=9, most_pinned=1 << 20).skipped
    assert any("more than the 1MiB that --allow-pinned allows" in each for each in allowed)
