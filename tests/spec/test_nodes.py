from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import Problem, SpecError
from runner.spec.compose import DEEPEST, MOST_NODES
from runner.spec.nodes import read_document
from runner.spec.scalars import boolean_fix, number_fix, read_plain


def content(text: str) -> Any:
    document, problems = read_document(text, "a.yaml")
    assert not problems, problems
    return document.content


def refusal(text: str) -> Problem:
    with pytest.raises(SpecError) as caught:
        read_document(text, "a.yaml")
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("1048576", 1048576),
        ("0.8", 0.8),
        ("-1.50", -1.5),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_plain_decimals_and_few_words_are_values(text: str, value: object) -> None:
    found = content(f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


ODD_NUMBERS = [
    "010",
    "007",
    "0x1F",
    "0o17",
    "0b11",
    "1_000",
    "1:30",
    "12:30:45",
    "1e6",
    "1e+6",
    "1.0e+1",
    "+5",
    ".5",
    "5.",
    "-0",
    "1,5",
]
ODD_WORDS = ["on", "off", "yes", "no", "y", "n", "True", "NULL", ".inf", ".nan", "2013_05_10", "2026-01-05"]


@pytest.mark.parametrize("text", ODD_NUMBERS + ODD_WORDS)
def test_what_yaml_1_1_would_change_stays_the_text_that_was_written(text: str) -> None:
    assert content(f"a: {text}\n") == {"a": text}
    assert content(f"{text}: 1\n") == {text: 1}


@pytest.mark.parametrize("text", ["1", "true", "null", "1.5", ""])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_quoted_scalars_are_always_text(text: str, quote: str) -> None:
    assert content(f"a: {quote}{text}{quote}\n") == {"a": text}


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("1e6", "write 1000000"),
        ("1.5e3", "write 1500"),
        ("1e-2", "write 0.01"),
        ("010", "write 10,"),
        ("0x1F", "write 31"),
        ("0o17", "write 15"),
        ("1_000", "write 1000"),
        ("+5", "write 5,"),
        (".5", "write 0.5"),
        ("5.", "write 5"),
        ("1:30", "colon"),
        ("32", "write 32 without quotes"),
        ("1,5", "point"),
    ],
)
def test_number_fix_says_how_to_write_it(text: str, fix: str) -> None:
    assert fix in number_fix(text)


def test_fixes_are_silent_where_nothing_was_meant() -> None:
    assert number_fix("on") == number_fix("") == number_fix("1" * 40) == number_fix("a list") == boolean_fix("maybe") == ""
    assert (boolean_fix("On"), boolean_fix("off")) == ("write true", "write false")


@given(st.integers(-(10**29), 10**29))
def test_integers_read_back(number: int) -> None:
    assert read_plain(str(number)) == number


@given(st.text(max_size=40))
def test_no_text_makes_the_fixes_raise(text: str) -> None:
    assert isinstance(number_fix(text), str)
    assert isinstance(boolean_fix(text), str)


def test_places_count_from_one_and_hold_the_text_as_written() -> None:
    document, _ = read_document('a: 007\nb:\n  - {c: "x"}\n', "a.yaml")
    value, key, quoted = document.values["a",], document.keys["b",], document.values["b", 0, "c"]
    assert (value.line, value.column, value.text) == (1, 4, "007")
    assert (key.line, key.column) == (2, 1)
    assert (quoted.line, quoted.column, quoted.text) == (3, 9, '"x"')


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("chunk: 1MiB\t# note\n", 1, 12),
        ("a:\n\tb: 1\n", 2, 1),
        ("a:\n  \tb: 1\n", 2, 3),
        ("sweep:\t\n  x: 1\n", 1, 7),
        ("a: 1\n\t\n", 2, 1),
        ("a:\t1\n", 1, 3),
        ("a: [1,\t2]\n", 1, 7),
        ("a: 1\r\nb: 1\t\r\n", 2, 5),
    ],
)
def test_a_tab_is_named_with_its_place(text: str, line: int, column: int) -> None:
    problem = refusal(text)
    assert (problem.line, problem.column, problem.message) == (line, column, "tab character; use spaces")


def test_a_tab_in_quotes_or_in_a_comment_is_legal() -> None:
    assert content('a: "x\ty" # c\td\n') == {"a": "x\ty"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("---\n", "empty"),
        ("~", "single value"),
        ("- a\n", "list stands at the top"),
        ("word\n", "single value"),
        ("a: 1\n---\nb: 2\n", "one document expected"),
        ("a: !!python/object:os.system x\n", "tag !!python/object:os.system is not allowed"),
        ("a: !x 1\n", "tag !x is not allowed"),
        ("a: !!int 3\n", "tag !!int"),
        ("a: ! 3\n", "tag ! is"),
        ("a: *nowhere\n", "no anchor"),
        ("a: &x {b: *x}\n", "inside what it names"),
        ("a: &x [*x]\n", "inside what it names"),
        ("a: &x {<<: *x}\n", "inside what it names"),
        ("a: {<<: &x {<<: *x}}\n", "inside what it names"),
        ("a: b: c\n", "colon"),
        ("a: [1, 2\n", "not YAML"),
        ("a: 'x\n", "not YAML"),
        ("a: @x\n", "not YAML"),
        ('a: "\\q"\n', "not YAML"),
        ('a: "\\UFFFFFFFF"\n', "not YAML"),
        ('a: "\\ud800"\n', "U+D800"),
        ('a: "\\0"\n', "U+0000"),
        ("a: \x07\n", "U+0007"),
        ('a: "\\x9b31m"\n', "U+009B"),
        ('"\\x85": 1\n', "U+0085"),
        ("a: \u202edrow\n", "U+202E"),
        ("a: 1" + "0" * 40 + "\n", "30 digits"),
        ("a: 0." + "1" * 40 + "\n", "30 digits"),
        ("a: " + "[" * (DEEPEST + 1), "deeper"),
        ("[" * 100_000, "deeper"),
        ("a: [" + "1," * MOST_NODES + "]", "more than"),
    ],
)
def test_what_is_no_experiment_is_refused_in_one_sentence(text: str, words: str) -> None:
    sentence = refusal(text).sentence()
    assert words in sentence
    assert "\n" not in sentence


def test_duplicate_keys_name_both_lines_and_the_rest_is_still_read() -> None:
    document, problems = read_document("a: 1\nb: {c: 1, c: 2}\na: 2\n", "a.yaml")
    assert [(each.line, each.column, each.message) for each in problems] == [
        (3, 1, "the key a stands here twice, first in line 1"),
        (2, 11, "the key c stands here twice, first in line 2"),
    ]
    assert document.content == {"a": 1, "b": {"c": 1}}


@pytest.mark.parametrize("key", ["1", "true", "null", "1.5", "[a]", "{a: 1}", "~"])
def test_keys_are_text(key: str) -> None:
    _, problems = read_document(f"? {key}\n: 1\n", "a.yaml")
    assert ["a key is text" in each.message for each in problems] == [True]


def test_merge_keys_are_first_wins_and_shallow_and_may_be_overridden() -> None:
    text = (
        "a: &a {chunk: 1, sub: {x: 1, y: 1}}\n"
        "b: &b {chunk: 2, more: 2}\n"
        "c: {<<: [*a, *b], own: 3}\n"
        "d: {<<: *a, chunk: 4, sub: {x: 2}}\n"
        "e: {chunk: 5, <<: *a}\n"
    )
    found = content(text)
    assert found["c"] == {"chunk": 1, "sub": {"x": 1, "y": 1}, "more": 2, "own": 3}
    assert found["d"] == {"chunk": 4, "sub": {"x": 2}}
    assert found["e"] == {"chunk": 5, "sub": {"x": 1, "y": 1}}
    assert list(found["c"]) == ["chunk", "sub", "more", "own"]


def test_merge_keys_take_mappings_only_and_once() -> None:
    for text, words in (("a: {<<: 3}", "mappings only"), ("a: {<<: [1, {b: 1}]}", "mappings only")):
        assert words in read_document(text, "a.yaml")[1][0].message
    _, problems = read_document("a: &a {x: 1}\nb: {<<: *a, <<: *a}\n", "a.yaml")
    assert "stands here twice" in problems[0].message
    assert content("a: {'<<': 1}") == {"a": {"<<": 1}}


def test_aliases_are_copies() -> None:
    found = content("a: &x {l: [1]}\nb: *x\n")
    found["a"]["l"].append(2)
    assert found["b"] == {"l": [1]}


@pytest.mark.parametrize("kind", ["lists", "maps", "merges"])
def test_nested_aliases_are_refused_before_they_fill_the_memory(kind: str) -> None:
    if kind == "lists":
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    elif kind == "maps":
        lines = ["a0: &a0 {x: 1, y: 1}"]
        lines += [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 25)]
    else:
        many = ", ".join(f"k{n}: 1" for n in range(1000))
        lines = [f"a: &a {{{many}}}", f"b: {{<<: [{', '.join(['{<<: *a}'] * 5000)}]}}"]
    tracemalloc.start()
    problem = refusal("\n".join(lines) + "\n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than" in problem.message
    assert peak < 100 * 2**20


def test_a_long_chain_of_merges_is_read_or_refused_without_running_out_of_stack() -> None:
    chain = "\n".join(["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 2000)])
    assert content(chain)["a1999"] == {"x": 1}
    hidden = "b: 1\nb:\n" + "\n".join("  " + line for line in chain.splitlines()) + "\nc: {<<: *a1999}\n"
    assert "too deep" in refusal(hidden).message


def test_the_shared_loader_of_other_libraries_is_unchanged() -> None:
    assert yaml.safe_load("a: 010\nb: on\nc: 1:30\n") == {"a": 8, "b": True, "c": 90}


JUMBLE = st.text(st.sampled_from(list("ab:- \n\t[]{},&*!|>'\"#%@`?<0.1~\\")), max_size=80)


@given(st.text(st.characters(codec="utf-8"), max_size=200) | JUMBLE)
def test_no_text_raises_anything_but_a_spec_error(text: str) -> None:
    with contextlib.suppress(SpecError):
        document, _ = read_document(text, "a.yaml")
        assert isinstance(document.content, dict)
