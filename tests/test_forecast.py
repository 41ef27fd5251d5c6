"""What a run will likely hold and last, told before anything is allocated and kept in its manifest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner.device.contract import DeviceFacts
from runner.device.simulated import SimulatedDevice, load_profile
from runner.execution.bench import Here
from runner.execution.work import Work
from runner.expand import Case, expand
from runner.forecast import Forecast, foresee
from runner.measure.preflight import Limits
from runner.plan import Demand
from runner.spec.load import LoadedExperiment, load_experiment
from tests.test_flow import Watch, run

MIB, GIB = 2**20, 2**30
FILE = """
name: two
question: How much does it hold?
device: simulated:test
measure: {warmup: 1, samples: 4}
scenarios:
  copy: {kind: transfer, direction: h2d, size: [1MiB, 8MiB, 2MiB], buffer: [pageable, pinned]}
  ring: {kind: pipeline, schedule: overlapped, staging: copy, total: 16MiB, chunk: [1MiB, 4MiB], streams: 2,
    exclude: [{because: too large, where: {chunk: 4MiB}}]}
"""


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedExperiment:
    (tmp_path / "two.yaml").write_text(FILE)
    return load_experiment(tmp_path / "two.yaml")


def facts(kind: str = "simulated") -> DeviceFacts:
    return replace(SimulatedDevice(load_profile("test")).facts(), kind=kind, free_bytes=GIB)  # type: ignore[arg-type]


def foreseen(loaded: LoadedExperiment, limits: Limits) -> Forecast:
    return foresee(list(expand(loaded)), loaded.experiment.measure, limits)


def test_each_sort_of_memory_is_the_most_that_a_case_holds(loaded: LoadedExperiment) -> None:
    cases = [case for case in expand(loaded) if not case.excluded]
    forecast = foreseen(loaded, Limits(facts(), 64 * GIB))
    assert forecast.cases == len(cases) == 7
    demands = [case.model.demand() for case in cases]
    assert forecast.demand.pageable_bytes == max(demand.pageable_bytes for demand in demands) == 32 * MIB
    assert forecast.demand.device_bytes == max(demand.device_bytes for demand in demands) == 8 * MIB
    assert forecast.demand.pinned_bytes == max(demand.pinned_bytes for demand in demands) == 8 * MIB
    assert forecast.seconds is None, "a simulated run takes this machine's time, not the one that it computes"
    assert forecast.lines() == ["memory at the peak: 32MiB pageable of 64GiB, 8MiB pinned of 32GiB, 8MiB on the device of 1GiB"]


def test_what_does_not_fit_is_told_before_it_is_skipped(loaded: LoadedExperiment) -> None:
    forecast = foreseen(loaded, Limits(facts(), 64 * GIB, most_pinned=4 * MIB))
    assert forecast.demand.pinned_bytes > 4 * MIB
    assert forecast.lines()[0].endswith("pinned of 4MiB, 8MiB on the device of 1GiB; what does not fit is skipped")


def test_a_real_run_is_told_how_long_it_likely_takes(loaded: LoadedExperiment) -> None:
    forecast = foreseen(loaded, Limits(facts("cuda"), 64 * GIB))
    assert forecast.seconds is not None
    twice = foresee([*expand(loaded)] * 2, loaded.experiment.measure, Limits(facts("cuda"), 64 * GIB))
    assert twice.seconds is not None
    assert forecast.seconds < twice.seconds < 2 * forecast.seconds, "the start and shared companions are paid for once"
    assert forecast.lines()[1].endswith("of measuring, by a simulated device")


def test_a_run_says_it_and_keeps_it_before_the_first_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    class Listening(Watch):
        def foreseen(self, forecast: Forecast) -> None:
            told.append(forecast)

    real = Here.sweep

    def sweep(self: Here, work: Work) -> object:
        told.append("sweep")
        return real(self, work)

    monkeypatch.setattr(Here, "sweep", sweep)
    outcome = run(tmp_path, watch=Listening())
    forecast, then = told
    assert then == "sweep"
    assert isinstance(forecast, Forecast)
    manifest = json.loads((outcome.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["forecast"] == json.loads(json.dumps(forecast.described()))
    assert manifest["forecast"]["cases"] == 2


def test_a_grid_without_a_case_holds_nothing(loaded: LoadedExperiment) -> None:
    nothing: list[Case] = []
    assert foresee(nothing, loaded.experiment.measure, Limits(facts("cuda"), GIB)).demand == Demand(0, 0, 0)
