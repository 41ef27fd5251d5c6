from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.errors import SpecError
from runner.spec.nodes import read_document
from runner.spec.text import LARGEST_FILE, read_source

TEXT = "question: wie schnell, 4 µs?\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
    ],
    ids=["utf-8", "utf-8 with mark", "utf-16 little", "utf-16 big"],
)
def test_reads_utf8_and_marked_utf16_and_keeps_the_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    source = read_source(path)
    assert source.text == TEXT
    assert source.original == data


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [(TEXT.encode("latin-1"), 1, 26), (b"a: 1\r\nb: \xff\r\n", 2, 4), (b"\xff\xfea\x00\x00\xd8", 1, 2)],
    ids=["latin-1", "second line", "half a surrogate pair"],
)
def test_refuses_other_bytes_with_their_place_naming_utf8(tmp_path: Path, data: bytes, line: int, column: int) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    with pytest.raises(SpecError) as caught:
        read_source(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert "UTF-8" in problem.sentence()


def test_utf32_is_refused_by_name_and_unmarked_utf16_by_its_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes("a: 1\n".encode("utf-32"))
    with pytest.raises(SpecError, match="UTF-32"):
        read_source(path)
    path.write_bytes("a: 1\n".encode("utf-16-le"))
    with pytest.raises(SpecError, match=r"U\+0000"):
        read_document(read_source(path).text, "a.yaml")


def test_missing_directory_and_large_files_have_one_plain_sentence(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (LARGEST_FILE + 1))
    for path, words in ((tmp_path / "no.yaml", "no such file"), (tmp_path, "directory"), (large, "1 MiB")):
        with pytest.raises(SpecError, match=words) as caught:
            read_source(path)
        assert "\n" not in str(caught.value)


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"#" * LARGEST_FILE)
    assert len(read_source(path).text) == LARGEST_FILE


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(SpecError, match="not a regular file"):
        read_source(pipe)


def test_an_unreadable_file_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1")

    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(SpecError, match="cannot be read: Permission denied"):
        read_source(path)
