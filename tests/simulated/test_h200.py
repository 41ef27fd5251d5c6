"""The profile of the H200 gives back the run that it was fitted to, and predicts another one, as well as it is said to."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

import pytest

from runner.claims import run_claims
from runner.device.simulated import Profile, load_profile
from runner.device.simulated.profile import ALL
from runner.observed import ObservedRun, read_observed
from runner.predict import Prediction, accuracy_of, predict
from runner.validation import ENGINES, HOST, scores
from tests.test_claims import Watch

ROOT: Final = Path(__file__).parents[2]
REFERENCE: Final = ROOT / "results" / "reference" / "nvidia-h200"
MODEL: Final = REFERENCE / "model"


OF_THE_HOST: Final = {"": (7, 70), "another-host": (11, 80), "third-host": (18, 35)}
"""The largest median error in percent where the host takes part, and the least share of cases within 15 %: hosts differ."""

NOT_MODELLED: Final = {"pinned-same-for-the-processor"}
"""Claims that the host of the fit decides by what no profile says: a rate of reading that hangs on the kind of ordinary pages."""


@pytest.fixture(scope="module")
def h200() -> Profile:
    return load_profile("h200")


@pytest.fixture(scope="module", params=["", "another-host", "third-host"])
def host(request: pytest.FixtureRequest) -> str:
    """The host of a published validation: that of the fit first."""
    return str(request.param)


@pytest.fixture(scope="module")
def predictions(h200: Profile, host: str) -> tuple[Prediction, ...]:
    return predict(read_observed(MODEL / host / "validate"), h200)


@pytest.fixture(scope="module")
def calibrating() -> ObservedRun:
    return read_observed(MODEL / "calibrate")


def test_it_gives_its_own_run_back_as_well_as_it_says(h200: Profile, calibrating: ObservedRun) -> None:
    found = accuracy_of(calibrating, predict(calibrating, h200))
    assert h200.fit is not None
    assert found.run == h200.fit.run
    assert found.sorts.keys() == h200.fit.sorts.keys()
    for name, each in found.sorts.items():
        said = h200.fit.sorts[name]
        assert (each.cases, each.median_percent, each.worst_percent) == pytest.approx(
            (said.cases, said.median_percent, said.worst_percent), abs=0.02
        )
    assert found.sorts[ALL].median_percent < 2


def test_the_published_predictions_are_its_own(predictions: tuple[Prediction, ...], host: str) -> None:
    with (MODEL / host / "predicted.csv").open(newline="", encoding="utf-8-sig") as file:
        published = {row["case_id"]: float(row["predicted_ms"]) for row in csv.DictReader(file)}
    assert {each.case.case_id: each.predicted_ms for each in predictions} == pytest.approx(published, rel=1e-6)


def test_it_predicts_what_it_was_not_fitted_to(predictions: tuple[Prediction, ...], host: str) -> None:
    found = {each.sort: each.row() for each in scores(predictions)}
    assert found[ENGINES]["median_error_percent"] <= 5
    assert found[ENGINES]["within_15_percent"] >= 95
    assert found[ALL]["ranked_right_percent"] >= 98
    median, within = OF_THE_HOST[host]
    assert found[HOST]["median_error_percent"] <= median
    assert found[HOST]["within_15_percent"] >= within


def test_no_claim_that_was_decided_on_the_h200_is_decided_otherwise_by_its_profile(tmp_path: Path) -> None:
    files = sorted((ROOT / "experiments" / "claims").glob("*.yaml"))
    outcome = run_claims(files, device="simulated:h200", out=tmp_path, watcher=Watch())
    simulated, measured = _verdicts(outcome.folder), _verdicts(REFERENCE / "claims")
    assert simulated.keys() == measured.keys()
    differing = {key: (verdict, measured[key]) for key, verdict in simulated.items() if verdict != measured[key]}
    assert {claim for (claim, _), (_, real) in differing.items() if real != "undecided"} <= NOT_MODELLED
    assert len(differing) <= 8, "what spreads on the H200 is decided where nothing spreads, and little does"


def _verdicts(folder: Path) -> dict[tuple[str, str], str]:
    with (folder / "verdicts.csv").open(newline="", encoding="utf-8-sig") as file:
        return {(row["experiment"], row["claim"]): row["verdict"] for row in csv.DictReader(file)}
