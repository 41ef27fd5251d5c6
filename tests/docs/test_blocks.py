"""What counts as a block of a page, and when a page's words are what was printed."""

from __future__ import annotations

from pathlib import Path

from tests.docs.blocks import Block, blocks_of, prints


def test_blocks_know_their_language_line_and_mark(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n<!-- not run: it takes a cluster -->\n```console\n$ one --with 'a b'\nout\n…\n$ two\n```\n"
        "\n<!-- a remark -->\n  ```yaml\n  name: x\n    deep: 1\n  ```\n\ntext\n```python\nprint()\n```\n"
    )
    first, second, third = blocks_of(page)
    assert first == Block("console", "$ one --with 'a b'\nout\n…\n$ two\n", 4, "not run", "it takes a cluster")
    assert list(first.commands()) == [("one --with 'a b'", "out\n…"), ("two", "")]
    assert (second.text, second.mark, second.line) == ("name: x\n  deep: 1\n", "", 12)
    assert (third.language, third.line) == ("python", 18)


def test_what_is_printed_is_compared_line_by_line_with_gaps() -> None:
    assert prints("", "anything")
    assert prints("one\n…\nthree", "zero\none\ntwo\n2\nthree\n")
    assert not prints("one\n…\nthree", "three\none\n")
    assert prints("took … ms (a+b)", "took 3.1 ms (a+b)")
    assert not prints("one.", "onex")
