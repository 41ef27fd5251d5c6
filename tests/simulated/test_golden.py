"""The frozen profile of round numbers says today what it said when its table was looked at."""

from __future__ import annotations

import csv
import io

import pytest

from tests.simulated.golden import TABLE, golden_text


@pytest.fixture(scope="module")
def golden() -> list[str]:
    return TABLE.read_text(encoding="utf-8").splitlines()


def test_every_figure_of_the_test_profile_is_as_it_was(golden: list[str]) -> None:
    assert golden_text().splitlines() == golden


@pytest.mark.parametrize(
    ("scenario", "case", "figure", "expected"),
    [
        # 1 MiB at 10 GB/s takes 104,858 ns, rounded up; the first of the two events takes 1,000 more.
        ("copies", "buffer=pinned direction=h2d size=1048576", "engine_ms", 0.104858),
        ("copies", "buffer=pinned direction=h2d size=1048576", "event_ms", 0.105858),
        # Two copies of 4 MiB in one direction wait for each other, with a gap of 1,000 ns between their streams.
        ("together", "copies=('h2d', 'h2d')", "engine_busy_ms", 2 * 0.419431),
        ("together", "copies=('h2d', 'h2d')", "engine_gap_us", 1),
    ],
)
def test_the_table_says_what_can_be_reckoned_by_hand(
    golden: list[str], scenario: str, case: str, figure: str, expected: float
) -> None:
    rows = list(csv.DictReader(io.StringIO("\n".join(golden))))
    (value,) = (row["value"] for row in rows if (row["scenario"], row["case"], row["figure"]) == (scenario, case, figure))
    assert float(value) == pytest.approx(expected, rel=1e-6)
