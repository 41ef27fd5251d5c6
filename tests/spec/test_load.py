from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import SpecError
from runner.memory import BufferKind
from runner.spec.load import find_experiment, list_experiments, load_experiment
from tests.spec.files import COPY, HEAD, load, only_problem, problems, write

RING = "  ring: {kind: pipeline, schedule: overlapped, total: 64MiB, chunk: 1MiB, streams: 2}\n"


def test_loads_values_with_defaults_and_keeps_the_bytes(tmp_path: Path) -> None:
    text = HEAD + COPY
    loaded = load(tmp_path, text)
    assert loaded.original == text.encode()
    assert loaded.path == tmp_path / "trial.yaml"
    assert (loaded.experiment.name, loaded.experiment.device, loaded.experiment.baseline) == ("trial", "auto", None)
    assert (loaded.experiment.measure.warmup, loaded.experiment.measure.samples, loaded.experiment.measure.clock) == (3, 10, None)
    assert loaded.scenarios[0].fixed == {"kind": "transfer", "direction": "h2d", "size": 2**20}


def test_the_hash_is_of_the_content_not_of_layout_comments_encoding_or_anchors(tmp_path: Path) -> None:
    same = [
        HEAD + COPY,
        "# remark\n" + HEAD + COPY.replace("{", "{ ").replace("h2d", '"h2d"') + "\n",
        (HEAD + COPY).replace("\n", "\r\n").encode("utf-16"),
        "name: trial\nquestion: Does it work?\nscenarios:\n  copy: &c\n    kind: transfer\n    direction: h2d\n    size: 1MiB\n",
    ]
    hashes = {load(tmp_path, text).spec_sha256 for text in same}
    assert len(hashes) == 1
    assert len(hashes.pop()) == 64
    assert load(tmp_path, HEAD + COPY.replace("1MiB", "2MiB")).spec_sha256 != load(tmp_path, HEAD + COPY).spec_sha256
    assert (
        load(tmp_path, HEAD + COPY, ["scenarios.copy.size=2MiB"]).spec_sha256
        == load(tmp_path, HEAD + COPY.replace("1MiB", "2MiB")).spec_sha256
    )


def test_all_problems_of_a_file_come_at_once_in_the_order_of_their_places(tmp_path: Path) -> None:
    text = """name: Trial
question: 1.10
measure: {samples: 1e3, warmup: -1, sampels: 3}
baseline: rin
scenarios:
  ring: {kind: pipeline, schedule: overlapped, total: 64MiB, chunk: [1MiB, 128MiB], streams: 2}
  copy: {kind: transfer, direction: HtoD, size: [1MiB, 1048576, 32Mbit], size: 3}
  loop: {kind: pipline}
expect:
  - {claim: c, of: {scenario: ring, chnk: 1MiB}, against: {scenario: lop}, metric: wall_ms, ratio: {}}
colour: red
"""
    found = [(each.line, each.column, each.path) for each in problems(tmp_path, text)]
    assert found == [
        (1, 7, "name"),
        (2, 11, "question"),
        (3, 20, "measure.samples"),
        (3, 33, "measure.warmup"),
        (3, 37, "measure.sampels"),
        (4, 11, "baseline"),
        (6, 76, "scenarios.ring.chunk[1]"),
        (7, 37, "scenarios.copy.direction"),
        (7, 56, "scenarios.copy.size[1]"),
        (7, 65, "scenarios.copy.size[2]"),
        (7, 74, ""),
        (8, 16, "scenarios.loop.kind"),
        (10, 37, "expect[0].of.chnk"),
        (10, 70, "expect[0].against.scenario"),
        (10, 100, "expect[0].ratio"),
        (11, 1, "colour"),
    ]


def test_of_very_many_problems_the_first_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    found = problems(tmp_path, HEAD + COPY + "".join(f"k{number}: 1\n" for number in range(150)))
    assert len(found) == 101
    assert found[-1].message == "50 more problems are not shown"


BUFFERS = ", ".join(get_args(BufferKind))
GOLDEN = [
    ("streams: 1e1", "a whole number is expected, got 1e1; write 10"),
    ("streams: 010", "a whole number is expected, got 010; write 10, without a plus sign and leading zeros"),
    ("streams: 0x10", "a whole number is expected, got 0x10; numbers are decimal: write 16"),
    ("streams: 1:30", "a whole number is expected, got 1:30; a colon makes no number; write plain decimal digits"),
    ("streams: on", "a whole number is expected, got on"),
    ("streams: yes", "a whole number is expected, got yes"),
    ("streams: '3'", 'a whole number is expected, got "3"; write 3 without quotes'),
    ("streams: 1.5", "a whole number is expected, got 1.5; it has no fraction"),
    ("streams: 3.0", "a whole number is expected, got 3.0; write 3"),
    ("streams: .inf", "a whole number is expected, got .inf"),
    ("streams: true", "a whole number is expected, got true"),
    ("streams: null", "a whole number is expected, got null"),
    ("streams:", "a whole number is expected, got nothing"),
    ("streams: {a: 1}", "a whole number is expected, got a mapping"),
    ("streams: 0", "too small: at least 1, got 0"),
    ("streams: -3", "too small: at least 1, got -3"),
    ("streams: 5000", "too large: at most 4,096, got 5000"),
    ("buffer: Pinned", f"not one of the allowed words, got Pinned; allowed: {BUFFERS}; did you mean pinned?"),
    ("buffer: page-locked", f"not one of the allowed words, got page-locked; allowed: {BUFFERS}; did you mean pinned?"),
    ("buffer: 'pinned '", f'not one of the allowed words, got "pinned "; allowed: {BUFFERS}; did you mean pinned?'),
    ("buffer: no", f"not one of the allowed words, got no; allowed: {BUFFERS}"),
    ("buffer: 3", f"not one of the allowed words, got 3; allowed: {BUFFERS}"),
]


@pytest.mark.parametrize(("line", "sentence"), GOLDEN, ids=[line for line, _ in GOLDEN])
def test_a_wrong_value_is_told_with_place_value_allowed_and_fix(tmp_path: Path, line: str, sentence: str) -> None:
    key = line.split(":")[0]
    text = f"{HEAD}  copy:\n    kind: transfer\n    direction: h2d\n    size: 1MiB\n    {line}\n"
    place = f"{tmp_path / 'trial.yaml'}:8:{5 + len(key) + (2 if ': ' in line else 1)}: scenarios.copy.{key}: "
    assert only_problem(tmp_path, text).sentence().removeprefix(place) == sentence


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("1,5GiB", "the decimal mark is a point"),
        ("32-64MiB", "several sizes are a list"),
        ("'32MiB, 64MiB'", "several sizes are a list"),
        ("32MiB/s", "is not a size"),
        ("1.2.3GiB", "is not a size"),
        ("32 MiB x", "is not a size"),
        ("32Mb", "capital B"),
        ("32Mbit", "capital B"),
        ("32M", "write MiB (a power of 2) or MB (a power of 10)"),
        ("32Mi", "write MiB (a power of 2) or MB (a power of 10)"),
        ("32MIB", "write MiB"),
        ("32 MiBs", "write MiB"),
        ("0.1KiB", "not a whole number of bytes"),
        ("1.9B", "not a whole number of bytes"),
        ("1e6", "write 1000000"),
        ("1_000", "write 1000"),
        ("0x1F", "write 31"),
        ("010", "write 10"),
        ("1:30", "a colon makes no number"),
        ("0", "smallest size"),
        ("-1", "smallest size"),
        ("1.5", "1.5 is not a size"),
        ("9999999TiB", "largest size, 1 PiB"),
        ("99999999999999999999", "largest size, 1 PiB"),
        ("null", "a size is expected, got null"),
        ("true", "a size is expected, got true"),
        ("{a: 1}", "a size is expected, got a mapping"),
        ("on", "is not a size"),
        ("３２MiB", "is not a size"),
    ],
)
def test_a_wrong_size_is_told_with_the_fix(tmp_path: Path, size: str, words: str) -> None:
    problem = only_problem(tmp_path, f"{HEAD}  copy:\n    size: {size}\n    kind: transfer\n    direction: h2d\n")
    assert words in problem.sentence()
    assert (problem.line, problem.column, problem.path) == (5, 11, "scenarios.copy.size")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no scenarios defined"),
        ("name: trial\nquestion: q\n", "scenarios is missing"),
        ("name: trial\nquestion: q\nscenarios:\n", "scenarios: a mapping is expected, got nothing"),
        ("name: trial\nquestion: q\nscenarios: {}\n", "scenarios: too few: at least 1"),
        ("name: trial\nquestion: q\nscenarios: [1]\n", "scenarios: a mapping is expected, got a list"),
        (HEAD + "  copy:\n", "scenarios.copy: a mapping is expected, got nothing"),
        (HEAD + "  Copy: {kind: transfer, direction: h2d, size: 1MiB}\n", "Copy is not a name"),
        (HEAD + "  a/b: {kind: transfer, direction: h2d, size: 1MiB}\n", "a/b is not a name"),
        (HEAD + "  con: {kind: transfer, direction: h2d, size: 1MiB}\n", "device on Windows"),
        (HEAD + "  copy: {direction: h2d, size: 1MiB}\n", "kind is missing; allowed: transfer, pipeline"),
        (HEAD + "  copy: {kind: Transfer, direction: h2d}\n", "did you mean transfer?"),
        (HEAD + "  copy: {kind: [transfer, pipeline]}\n", "two kinds are two scenarios"),
        (HEAD + "  copy: {kind: transfer, size: 1MiB}\n", "scenarios.copy: direction is missing"),
        (HEAD + COPY + "measure: [1]\n", "measure: a mapping is expected, got a list"),
        (HEAD + COPY + "measure: {samples: 100001}\n", "too large: at most 100,000"),
        (HEAD + COPY + "measure: {samples: 0}\n", "too small: at least 1"),
        (HEAD + COPY + "measure: {clock: cpu}\n", "allowed: wall, event"),
        (HEAD + COPY + "device: 1:30\n", "not a device, got 1:30"),
        (HEAD + COPY + "device: gpu0\n", "not a device"),
        (HEAD + COPY + "baseline: 3\n", "text is expected"),
        (HEAD + COPY + "baseline: Copy\n", "did you mean copy?"),
        (HEAD + COPY + "expect: {a: 1}\n", "a list is expected"),
        (HEAD + COPY + "on: 1\n", "unknown key on"),
        (HEAD.replace("trial", "2026_01_05") + COPY, "not a name, got 2026_01_05"),
        (HEAD.replace("trial", "007") + COPY, "not a name, got 007"),
        (HEAD.replace("trial", "x" * 65) + COPY, "not a name"),
        (HEAD.replace("trial", "..") + COPY, "not a name"),
        (HEAD.replace("trial", "lpt1") + COPY, "device on Windows"),
        (HEAD.replace("trial", "reference") + COPY, "published results"),
    ],
)
def test_a_file_of_the_wrong_shape_is_told_so(tmp_path: Path, text: str, words: str) -> None:
    assert words in only_problem(tmp_path, text).sentence()


@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:0", "cuda:12", "simulated", "simulated:rtx-4090", "simulated:h200"])
def test_devices_by_name(tmp_path: Path, device: str) -> None:
    assert load(tmp_path, HEAD + COPY + f"device: {device}\n").experiment.device == device


def test_expectations_hold_parsed_values_and_judge_bounds(tmp_path: Path) -> None:
    text = (
        HEAD + RING + COPY + "expect:\n"
        "  - claim: c\n    of: {scenario: ring, chunk: 1MiB, compute.passes: 1}\n    against: {scenario: copy}\n"
        "    metric: wall_ms\n    ratio: {at_most: 0.8, above: 0}\n"
    )
    loaded = load(tmp_path, text)
    (expectation,) = loaded.experiment.expect
    assert (expectation.of.scenario, dict(expectation.of.fields())) == ("ring", {"chunk": 2**20, "compute.passes": 1})
    assert dict(expectation.against.fields()) == {}
    assert expectation.ratio.text() == "at most 0.8 and above 0"
    assert [expectation.ratio.holds(ratio) for ratio in (0, 0.5, 0.8, 0.81)] == [False, True, True, False]


def test_expectations_name_known_scenarios_and_fields(tmp_path: Path) -> None:
    text = HEAD + COPY + "expect:\n  - {claim: c, of: {scenario: cpy}, against: {scenario: copy, sise: 1, size: 3Mb},"
    found = problems(tmp_path, text + " metric: wall_ms, ratio: {at_most: 1}}\n")
    assert [each.sentence().split("; allowed")[0].split(": ", 2)[2] for each in found] == [
        "there is no such scenario, got cpy",
        "unknown key sise",
        "'3Mb' has the unknown unit 'Mb'; sizes are in bytes, write a capital B: MB or MiB",
    ]


def test_names_find_experiments_and_unknown_ones_tell_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = Path(__file__).parents[2] / "experiments"
    monkeypatch.chdir(tmp_path)
    assert find_experiment("overlap") == find_experiment("overlap.yaml") == checkout / "overlap.yaml"
    assert {"overlap", "bandwidth"} <= set(list_experiments())
    with pytest.raises(SpecError, match="did you mean overlap") as caught:
        find_experiment("overlp.yaml")
    assert caught.value.exit_code == 2
    own = tmp_path / "experiments"
    own.mkdir()
    (own / "mine.yaml").write_text(HEAD + COPY)
    assert find_experiment("mine") == Path("experiments/mine.yaml")
    path = write(tmp_path, HEAD + COPY)
    assert find_experiment(path) == path


@pytest.mark.parametrize("file", ["trail.yaml", "my/trail.yml"])
def test_a_file_without_its_ending_is_told_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(HEAD + COPY)
    with pytest.raises(SpecError, match=f"no such file and no such experiment; did you mean {file}[?]"):
        find_experiment(file.rpartition(".")[0])


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, "no/such/folder.yaml", "../", "."])
def test_no_name_of_a_file_gives_a_traceback(name: str) -> None:
    with pytest.raises(SpecError):
        load_experiment(name)


LINES = st.sampled_from(
    [
        "name: trial",
        "question: q",
        "scenarios:",
        "  a: {kind: transfer, direction: h2d, size: 1MiB}",
        "  b:",
        "    kind: pipeline",
        "    schedule: [serialized, overlapped]",
        "    total: 4MiB",
        "    chunk: [1MiB, 2MiB]",
        "    streams: [1, 2]",
        "    compute: {passes: [1, 2]}",
        "    compute: [{passes: 1}, 3]",
        "    zip: [[chunk, streams]]",
        "    zip: [[chunk, [streams]], 3]",
        "    exclude: [{because: x, where: {streams: {above: 1}, chunk: [1MiB]}}]",
        "    exclude: [{because: x, where: {kind: {not: {not: pipeline}}, compute.passes: 2}}, 3]",
        "    exclude: {where: 1}",
        "    size: [[1MiB], {a: [1]}]",
        "baseline: a",
        "baseline: [a]",
        "measure: {samples: [1, 2]}",
        "expect: [{claim: c, of: {scenario: b, chunk: [1MiB]}, against: 3, metric: m, ratio: {below: x}}]",
        "expect: [3, {of: {scenario: [a]}}]",
        "device: [auto]",
        "scenarios: 3",
    ]
)


@given(
    st.lists(LINES, max_size=14),
    st.lists(st.sampled_from(["a.b=1", "scenarios.b=[1]", "expect.0=3", "name=", "=", "scenarios=x"])),
)
def test_no_mixture_of_lines_raises_anything_but_a_spec_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], overrides: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    assert all(each.message and each.file for each in problems(folder, "\n".join(lines), overrides))
