"""From YAML text to a Document: plain values and the place of each, every fault with its line and column.

What a scalar means is decided by `runner.spec.scalars` from the text as written, never by YAML 1.1's rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from runner.errors import Problem, SpecError
from runner.spec.compose import DEEPEST, MOST_NODES, Refused, compose, problem_of, shorten
from runner.spec.places import Document, Path, Place
from runner.spec.scalars import read_plain

_STRANGE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff]")
"""What an escape such as "\\0" can smuggle in: control characters, which a terminal may obey, those that turn the order of others
around, and halves of characters that no file can hold."""

Pairs = dict[str, tuple[yaml.Node, yaml.Node]]
"""A mapping as nodes: key → (node of the key, node of the value)."""


def read_document(text: str, file: str) -> tuple[Document, list[Problem]]:
    """Read a document whose top is a mapping; return it with the problems that leave the rest readable, such as a doubled key.

    Raises SpecError where nothing can be read: no YAML, a tab, a tag, several documents, an empty file, another top.
    """
    root = compose(text, file)
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value and not root.style):
        raise SpecError([Problem(file, "the file is empty: no scenarios defined", hint="write name, question and scenarios")])
    if not isinstance(root, yaml.MappingNode):
        what = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        mark = root.start_mark
        message = f"{what} stands at the top, where a mapping is expected"
        raise SpecError([Problem(file, message, mark.line + 1, mark.column + 1, hint="begin with name: and scenarios:")])
    builder = _Builder(file)
    try:
        content = builder.build(root, ())
    except Refused as refused:
        raise SpecError([problem_of(file, refused)]) from None
    return Document(file, content, builder.values, builder.keys), builder.problems


def read_value(text: str, file: str) -> tuple[Document, list[Problem]]:
    """Read one value of any sort, as after `--set KEY=`, into `content`; places have no lines. Raises SpecError for no YAML."""
    root = compose(text, file, placed=False)
    builder = _Builder(file, placed=False)
    if root is None:
        return Document(file, None, {(): Place(file, text="nothing")}), []
    try:
        content = builder.build(root, ())
    except Refused as refused:
        raise SpecError([problem_of(file, refused, placed=False)]) from None
    return Document(file, content, builder.values, builder.keys), builder.problems


@dataclass(slots=True)
class _Builder:
    """Turns nodes into values, a copy for every alias, and notes places and problems."""

    file: str
    placed: bool = True
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _count: int = 0
    _open: set[int] = field(default_factory=set)
    _pairs: dict[int, Pairs] = field(default_factory=dict)
    _merging: set[int] = field(default_factory=set)

    def build(self, node: yaml.Node, path: Path) -> Any:
        """Return the value of `node`, which stands at `path`; raises Refused for endless or too many nodes."""
        self._spend(1, node)
        if len(path) > DEEPEST:
            raise Refused(f"the document, aliases spelt out, is nested deeper than {DEEPEST} levels", node.start_mark)
        self.values[path] = self._place(node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise Refused("an alias stands inside what it names", node.start_mark)
        self._open.add(id(node))
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = {}
            for key, (key_node, value_node) in self._mapping(node).items():
                self.keys[(*path, key)] = self._place(key_node)
                value[key] = self.build(value_node, (*path, key))
        else:
            value = [self.build(element, (*path, index)) for index, element in enumerate(node.value)]
        self._open.remove(id(node))
        return value

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        strange = _STRANGE.search(node.value)
        if strange:
            raise Refused(f"the character U+{ord(strange[0]):04X} is not allowed in a text", node.start_mark)
        if node.style:
            return node.value
        try:
            return read_plain(node.value)
        except ValueError as error:
            raise Refused(str(error), node.start_mark) from None

    def _mapping(self, node: yaml.MappingNode) -> Pairs:
        """Return the pairs of a mapping, `<<` spelt out: first wins, shallow, a key of the mapping's own wins over all."""
        if id(node) in self._pairs:
            return self._pairs[id(node)]
        if id(node) in self._merging or len(self._merging) > DEEPEST:
            raise Refused("an alias stands inside what it names, or << merges too deep", node.start_mark)
        self._merging.add(id(node))
        own = self._own(node)
        pairs: Pairs = {}
        for key, (key_node, value_node) in own.items():
            if key != "<<" or getattr(key_node, "style", None):
                pairs[key] = (key_node, value_node)
                continue
            for merged in self._merged(value_node):
                inherited = self._mapping(merged)
                self._spend(len(inherited), node)
                for name, pair in inherited.items():
                    if name not in own:
                        pairs.setdefault(name, pair)
        self._merging.remove(id(node))
        self._pairs[id(node)] = pairs
        return pairs

    def _own(self, node: yaml.MappingNode) -> Pairs:
        own: Pairs = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is not None and key in own:
                where = f", first in line {own[key][0].start_mark.line + 1}" if self.placed else ""
                self._note(f"the key {shorten(key)} stands here twice{where}", key_node, "keep one of them")
            elif key is not None:
                own[key] = (key_node, value_node)
        return own

    def _spend(self, nodes: int, node: yaml.Node) -> None:
        self._count += nodes
        if self._count > MOST_NODES:
            raise Refused(f"the document, aliases spelt out, has more than {MOST_NODES:,} keys and values", node.start_mark)

    def _merged(self, node: yaml.Node) -> list[yaml.MappingNode]:
        maps = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found = [each for each in maps if isinstance(each, yaml.MappingNode)]
        if len(found) < len(maps):
            self._note("<< merges mappings only", node, "write <<: *anchor or <<: [*first, *second]")
        for each in found:
            if id(each) in self._open:
                raise Refused("an alias stands inside what it names", node.start_mark)
        return found

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._note("a key is text, never a list or a mapping", node)
            return None
        value = self._scalar(node)
        if not isinstance(value, str):
            self._note("a key is text", node, f"write '{shorten(node.value)}' in quotes if it is meant" if node.value else "")
            return None
        return value

    def _note(self, message: str, node: yaml.Node, hint: str = "") -> None:
        place = self._place(node)
        self.problems.append(Problem(self.file, message, place.line, place.column, value=place.text, hint=hint))

    def _place(self, node: yaml.Node) -> Place:
        if isinstance(node, yaml.ScalarNode):
            text = shorten(f'"{node.value}"' if node.style else node.value or "nothing")
        else:
            text = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        if not self.placed:
            return Place(self.file, text=text)
        return Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1, text)
