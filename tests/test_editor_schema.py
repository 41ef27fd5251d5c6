"""The schema for editors: made from the models, as committed, taking every experiment and refusing what the loader refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from runner import cli
from runner.editor_schema import experiment_schema, schema_file, schema_text
from runner.errors import SpecError
from runner.scenarios import SCENARIOS
from runner.spec.load import load_experiment
from runner.spec.nodes import read_document
from runner.spec.text import read_source

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = sorted((ROOT / "experiments").rglob("*.yaml"))
SCHEMA = experiment_schema()
VALIDATOR = Draft7Validator(SCHEMA)
GOOD = """\
name: good
question: Is it taken?
device: simulated:rtx-4090
measure: {warmup: 1, samples: 3, until: null}
baseline: a
scenarios:
  a: {kind: transfer, direction: [h2d, d2h], size: [4096, 1.5 MiB], chunk: null, batch: [1, auto]}
  b:
    kind: pipeline
    schedule: overlapped
    total: 1MiB
    chunk: [64KiB, 128KiB]
    streams: [1, 2]
    stream_kind: [null, blocking]
    compute: {passes: [1, 2]}
    zip: [[chunk, streams]]
    exclude:
      - {because: why not, where: {chunk: {at_most: 64KiB, not: [128KiB]}, compute.passes: 2}}
      - {because: why not, where: {streams: {above: 0, not: {below: 2}}, buffer: [pinned, mapped]}}
  c: {kind: pipeline, schedule: serialized, total: 1MiB, chunk: 1MiB, compute: [{passes: 1}, {ratio: 0.5}]}
  e: {kind: pipeline, schedule: overlapped, total: 1MiB, chunk: [64KiB, 128KiB, 256KiB]}
  d: {kind: concurrency, size: 1MiB, copies: [[h2d, h2d], [h2d, d2h]]}
expect:
  - {claim: x, of: {scenario: a, size: 4096, direction: h2d}, metric: wall_ms, value: {above: 0}}
  - {claim: x, of: {scenario: e}, metric: wall_ms, over: chunk, lowest: {at_least: 64KiB, at_most: 1000000000}}
fastest: [{job: a copy, among: [e]}]
"""
BAD = {
    "an unknown key": ("baseline: a", "baselin: a"),
    "an unknown key of a kind": ("batch:", "batsh:"),
    "an unknown kind": ("kind: concurrency", "kind: concurency"),
    "a key of another kind": ("kind: concurrency,", "kind: concurrency, chunk: 1MiB,"),
    "a size without a unit": ("total: 1MiB\n", "total: 1Mi\n"),
    "a size of nothing": ("[4096,", "[0,"),
    "a value that is none": ("[h2d, d2h]", "[h2d, d2d]"),
    "an empty axis": ("chunk: [64KiB, 128KiB]", "chunk: []"),
    "a value twice": ("streams: [1, 2]", "streams: [1, 1]"),
    "too many streams": ("streams: [1, 2]", "streams: 100000"),
    "a boolean in words": ("batch: [1, auto]", "gated: on"),
    "a name with a capital": ("name: good", "name: Good"),
    "a device that is none": ("simulated:rtx-4090", "gpu0"),
    "no scenario": ("scenarios:", "scenarioz:"),
    "a number in quotes": ("samples: 3", 'samples: "3"'),
    "a list where there is no axis": ("samples: 3", "samples: [3, 4]"),
    "a condition of an unknown word": ("{at_most: 64KiB", "{atmost: 64KiB"),
    "a condition on an unknown field": ("{streams: {above", "{strems: {above"),
    "an axis that is none in zip": ("zip: [[chunk, streams]]", "zip: [[chunk, streems]]"),
    "a figure that is none": ("metric: wall_ms, value", "metric: wall_s, value"),
    "a clause without a form": (", value: {above: 0}", ""),
    "a clause without a claim": ("{claim: x, of: {scenario: a", "{of: {scenario: a"),
    "bounds without a bound": ("value: {above: 0}", "value: {}"),
    "a rate as the fastest": ("among: [e]", "among: [e], metric: gb_per_s"),
    "passes inside that are none": ("{passes: [1, 2]}", "{passes: [1, 0]}"),
}


def content(path: Path) -> Any:
    source = read_source(path)
    document, problems = read_document(source.text, source.file)
    assert problems == []
    return document.content


def faults(path: Path) -> list[str]:
    return [f"{'.'.join(map(str, error.path))}: {error.message[:200]}" for error in VALIDATOR.iter_errors(content(path))]


def test_the_schema_is_one_and_names_every_kind() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert set(SCENARIOS) <= set(SCHEMA["definitions"])
    fields = SCHEMA["definitions"]["pipeline"]["properties"]
    assert fields["chunk"]["description"].startswith("Bytes of one chunk")
    assert (fields["streams"]["default"], SCHEMA["definitions"]["size"]["examples"][0]) == (1, "64KiB")
    assert all(field.get("description") for name in SCENARIOS for field in SCHEMA["definitions"][name]["properties"].values())


def test_every_reference_inside_the_schema_leads_somewhere() -> None:
    text = json.dumps(SCHEMA)
    named = {part.split('"')[0] for part in text.split('"$ref": "#/definitions/')[1:]}
    assert named <= set(SCHEMA["definitions"])


def test_the_committed_schema_is_that_of_the_models() -> None:
    assert schema_file() == ROOT / "schema" / "experiment.schema.json"
    assert schema_file().read_text(encoding="utf-8") == schema_text(), "make schema writes it"


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_is_taken_and_tells_editors_of_the_schema(path: Path) -> None:
    assert faults(path) == []
    first = path.read_text(encoding="utf-8").splitlines()[0]
    up = "../" * len(path.relative_to(ROOT).parent.parts)
    assert first == f"# yaml-language-server: $schema={up}schema/experiment.schema.json", "its first line"


def test_what_the_loader_takes_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    load_experiment(path)
    assert faults(path) == []


@pytest.mark.parametrize("what", BAD)
def test_what_the_loader_refuses_is_underlined(tmp_path: Path, what: str) -> None:
    good, bad = BAD[what]
    text = GOOD
    assert text.count(good) >= 1
    path = tmp_path / "bad.yaml"
    path.write_text(text.replace(good, bad))
    with pytest.raises(SpecError):
        load_experiment(path)
    assert faults(path) != []


def test_the_verb_prints_or_writes_it(tmp_path: Path) -> None:
    assert json.loads(CliRunner().invoke(cli.app, ["schema"]).stdout) == SCHEMA
    path = tmp_path / "new" / "schema.json"
    result = CliRunner().invoke(cli.app, ["schema", "--out", str(path)])
    assert (result.exit_code, path.read_text(encoding="utf-8")) == (0, schema_text())
