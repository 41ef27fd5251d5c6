"""The reference is what the code says, the explanation what the published runs came to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.columns import all_columns
from runner.measure.result import FLAGS
from runner.memory import KINDS
from runner.scenarios import SCENARIOS
from tools.readme_tables import REFERENCE, Row, read_rows
from tools.reference import DOCS, ROOT, questions_page, verdict_line, with_verdicts, written
from tools.reference_models import columns_page, spec_page

PAGES = written()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_page_is_what_would_be_written_now(path: Path) -> None:
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    assert found == PAGES[path], "make reference writes it"


def test_the_reference_of_the_file_has_every_field_and_every_kind() -> None:
    page = spec_page()
    assert [kind for kind in KINDS if f"| `{kind}` |" not in page] == []
    for kind, model in SCENARIOS.items():
        section = page.split(f"### `kind: {kind}`")[1].split("\n### ")[0]
        assert [name for name in model.model_fields if f"| `{name}` |" not in section] == []
    assert "| `chunk` | size | **required** |" in page
    assert "| `compute.ratio` | number from 0 to 100.0 |" in page


def test_the_reference_of_the_tables_has_every_column() -> None:
    page = columns_page()
    figures = set(re.findall(r"^\| `([a-z0-9_]+)` \|", page, re.MULTILINE))
    words = re.findall(r"^\| `([a-z0-9]+(?:_[a-z]+)*)_…` \|", page, re.MULTILINE)
    assert words == ["median", "min", "p05", "p95", "ci_low", "ci_high"]
    told = figures | {f"{word}_{figure}" for word in words for figure in figures}
    assert [column.name for column in all_columns() if column.name not in told] == []
    assert [flag for flag in FLAGS if flag not in figures] == []


def test_the_explanation_has_only_verdicts_that_were_published() -> None:
    text = (DOCS / "explanation.md").read_text(encoding="utf-8")
    names = re.findall(r"<!-- verdicts: ([a-z-]+) -->", text)
    published = {row["experiment"] for row in read_rows(REFERENCE / "claims" / "verdicts.csv")}
    assert len(names) >= 20
    assert set(names) <= published
    assert len(set(names)) == len(names)


ROW: Row = {"experiment": "x", "claim": "It is so", "verdict": "refuted", "device": "H1", "device_kind": "cuda", "form": "ratio"}


def test_a_verdict_is_told_with_figure_interval_unit_and_device() -> None:
    figures = {"figure": "4194304", "low": "1048576", "high": "8388608", "limit": "at most 1MiB", "unit": "bytes"}
    told = "It is so: **refuted** on an H1, a ratio of 4,194,304 (1,048,576 … 8,388,608) bytes where at most 1MiB was claimed."
    assert verdict_line(ROW | figures) == told
    bare = ROW | {
        "figure": "0.51234",
        "low": "",
        "high": "",
        "limit": "below 1",
        "unit": "",
        "device_kind": "simulated",
        "form": "value",
    }
    assert verdict_line(bare) == "It is so: **refuted** on H1 (SIMULATED), 0.512 where below 1 was claimed."
    assert verdict_line(ROW | {"form": "text", "figure": ""}) == "It is so: **refuted** on an H1."


def test_verdicts_are_put_into_their_block_and_stay() -> None:
    row = ROW | {"form": "text", "figure": ""}
    text = "Before.\n\n<!-- verdicts: x -->\nold\n<!-- end -->\n\nAfter.\n"
    filled = with_verdicts(text, [row])
    assert filled == "Before.\n\n<!-- verdicts: x -->\n\n- It is so: **refuted** on an H1.\n\n<!-- end -->\n\nAfter.\n"
    assert with_verdicts(filled, [row]) == filled
    with pytest.raises(KeyError, match="no verdict of x"):
        with_verdicts(text, [])


def test_a_question_shows_what_was_measured_once_that_is_published(tmp_path: Path) -> None:
    (tmp_path / "issue-order").mkdir()
    claim = "With an engine for each direction the order makes less than a tenth of a difference"
    (tmp_path / "issue-order" / "verdicts.csv").write_text(f"claim,verdict,device\n{claim},undecided,H1\n", encoding="utf-8")
    page = questions_page(tmp_path)
    assert f"| {claim} | confirmed | undecided (H1) |" in page
    assert "## How many streams do I need?\n\n`dmalab run streams`\n\n| expected | simulated H200 |\n" in page
