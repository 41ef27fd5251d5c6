"""A value that an option cannot take is refused in this program's words: the value and what is allowed, none of a library's."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from runner import cli

REFUSED = [
    (["run", "overlap", "--workers", "x"], "'--workers': 'x' is not allowed; allowed: a valid integer"),
    (["run", "overlap", "--workers", "257"], "'--workers': '257' is not allowed; allowed: less than or equal to 256"),
    (["run", "overlap", "--max-cases", "0"], "'--max-cases': '0' is not allowed; allowed: greater than or equal to 1"),
    (["run", "overlap", "--export", "xml"], "'--export': 'xml' is not one of 'xlsx', 'parquet', 'csv-semicolon'"),
    (["init", "x.yaml", "--about", "speed"], "'--about': 'speed' is not one of 'link', 'overlap', 'pinning', 'calls'"),
    (["list", "kind"], "'topic': 'kind' is not one of 'experiments', 'profiles', 'kinds'"),
    (["advise", "--ratio", "much"], "'--ratio': 'much' is not allowed; allowed: a valid number"),
    (["plan", "overlap", "--device", "cuda:x"], "'--device': 'cuda:x' is not a device; allowed: auto, cuda, cuda:N, all,"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_a_refused_option_is_told_with_its_value_and_what_is_allowed(words: list[str], sentence: str) -> None:
    refused = CliRunner().invoke(cli.app, words)
    assert refused.exit_code == 2
    assert f"Error: Invalid value for {sentence}" in refused.stderr
    assert "Value error" not in refused.stderr
