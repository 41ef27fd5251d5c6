"""Files of strangers: whatever stands in one, it is an experiment or a refusal in sentences, and nothing is written."""

from __future__ import annotations

import contextlib
import random
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.errors import SpecError
from runner.expand import expand
from runner.scenarios import SCENARIOS
from runner.spec.load import list_experiments, load_experiment
from tests.soak.counts import count

KNOWN = [path.read_text(encoding="utf-8") for path in list_experiments().values()]
HOSTILE = """&a *a <<: [ ] { } , : - ? | > ! !!python/object/apply:os.system %YAML --- ... # " ' \\x00 1e6 010 1:30 on yes ~ 0x10
.inf .nan -1 1_000 1MiB 1,5GiB 9999999TiB 99999999999999999999 ../../etc/passwd con aux name: scenarios: kind: zip: exclude:"""
PIECES = [*HOSTILE.split(), "", "\t", "\ufeff"]
WORDS = sorted({field for kind in SCENARIOS.values() for field in kind.model_fields} | {"kind", "where", "at_least", "zip"})
MANY = settings(
    max_examples=count(60, 50_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def judged(content: bytes) -> None:
    """Load a file of this content; it is refused by SpecError alone, and a grid that is not is no larger than asked for."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.yaml"
        path.write_bytes(content)
        with contextlib.suppress(SpecError):
            loaded = load_experiment(path)
            assert sum(1 for _ in expand(loaded, 200)) <= 200
        assert [each.name for each in Path(folder).iterdir()] == ["file.yaml"]


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
def test_a_spoiled_file_is_an_experiment_or_is_refused(text: str) -> None:
    judged(text.encode("utf-8", errors="surrogatepass"))


@MANY
@given(
    st.dictionaries(st.sampled_from(["a", "b-1"]), st.dictionaries(st.sampled_from(WORDS), values, max_size=6), max_size=2),
    values,
)
def test_any_scenarios_are_an_experiment_or_are_refused(scenarios: dict[str, Any], other: object) -> None:
    for scenario in scenarios.values():
        scenario.setdefault("kind", "transfer")
    content = {"name": "any", "question": "q", "scenarios": scenarios, "measure": other}
    judged(yaml.safe_dump(content, allow_unicode=True).encode("utf-8", errors="surrogatepass"))


@MANY
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(content: bytes) -> None:
    judged(content)
