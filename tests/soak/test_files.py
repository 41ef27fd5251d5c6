"""Files of strangers: whatever stands in one, it is an experiment or a refusal in sentences, and nothing is written."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.scenarios import SCENARIOS
from runner.spec.load import list_experiments
from tests.soak.commands import ROOT
from tests.soak.counts import SHARE, count
from tests.soak.judging import HOSTILE, Judge

KNOWN = [path.read_text(encoding="utf-8") for path in list_experiments().values()]
PIECES = [*HOSTILE.split(), "", "\t", "\ufeff"]
WORDS = sorted({field for kind in SCENARIOS.values() for field in kind.model_fields} | {"kind", "where", "at_least", "zip"})
MANY = settings(
    max_examples=count(60, 10_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with closing(Judge()) as judge:
        yield judge
        if SHARE:
            judge.check_limits()


@st.composite
def spoiled(draw: st.DrawFn) -> str:
    """Draw a file of the repository in which some pieces were changed, moved or doubled."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    lines = chance.choice(KNOWN).splitlines()
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(lines))
        column = chance.randint(0, len(lines[place]))
        change = chance.randrange(5)
        if change == 0:
            lines[place] = lines[place][:column] + chance.choice(PIECES) + lines[place][column:]
        elif change == 1:
            lines[place] = lines[place][:column]
        elif change == 2:
            lines.insert(chance.randrange(len(lines)), lines[place])
        elif change == 3:
            lines[place] = " " * chance.randint(0, 8) + lines[place].lstrip()
        else:
            words = lines[place].split(" ")
            words[chance.randrange(len(words))] = chance.choice(PIECES)
            lines[place] = " ".join(words)
    return "\n".join(lines)


values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.sampled_from(PIECES), st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.none(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)),
    max_leaves=6,
)


@MANY
@given(spoiled())
def test_a_spoiled_file_is_an_experiment_or_is_refused(judge: Judge, text: str) -> None:
    judge.judge(text.encode("utf-8", errors="surrogatepass"))


@MANY
@given(
    st.dictionaries(st.sampled_from(["a", "b-1"]), st.dictionaries(st.sampled_from(WORDS), values, max_size=6), max_size=2),
    values,
)
def test_any_scenarios_are_an_experiment_or_are_refused(judge: Judge, scenarios: dict[str, Any], other: object) -> None:
    for scenario in scenarios.values():
        scenario.setdefault("kind", "transfer")
    content = {"name": "any", "question": "q", "scenarios": scenarios, "measure": other}
    judge.judge(yaml.safe_dump(content, allow_unicode=True).encode("utf-8", errors="surrogatepass"))


@MANY
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(judge: Judge, content: bytes) -> None:
    judge.judge(content)


@pytest.mark.skipif(not SHARE, reason="takes minutes: make soak")
def test_what_a_fuzzer_makes_of_files_is_an_experiment_or_is_refused() -> None:
    pytest.importorskip("atheris", reason="the fuzzer is not there for this Python: pip install atheris")
    inputs = count(0, 100_000)
    command = [sys.executable, "-m", "tests.soak.fuzz", str(inputs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert f"{inputs:,} inputs" in done.stdout
