"""`dmalab init`: a first file to change, with the question, the keys that matter for it, and what each of them is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Final

from runner.device.simulated.profile_files import profile_names
from runner.errors import UsageError
from runner.memory import KINDS
from runner.spec.experiment import check_name, why_no_device
from runner.units import ALLOWED_SIZE, parse_size


class About(StrEnum):
    """What a first file can be about."""

    link = "link"
    overlap = "overlap"
    pinning = "pinning"
    calls = "calls"


@dataclass(frozen=True, slots=True)
class Start:
    """A kind of first file: what it asks, the sizes that it begins with, and its scenarios as text with places to fill."""

    meaning: str
    question: str
    sizes: tuple[str, ...]
    buffers: tuple[str, ...]
    scenarios: str


@dataclass(frozen=True, slots=True)
class Wishes:
    """What somebody wants in the file; what is empty is filled with what the kind of file begins with."""

    about: About
    question: str = ""
    sizes: Sequence[str] = ()
    buffers: Sequence[str] = ()
    device: str = "auto"


COMMENT_COLUMN: Final = 34
"""Where comments behind values begin, counted from 0."""
HEAD: Final = Template("""\
# yaml-language-server: $$schema=$schema
# Check it: dmalab validate $file    What it would do: dmalab plan $file    Run it: dmalab run $file
name: $name                     # the folder of its results
question: $question
device: $device                 # auto, cuda, cuda:1, or without a GPU simulated, simulated:rtx-4090
measure: {warmup: 3, samples: 10} # or until: {ci_percent: 1} instead of samples: until the median is known that well
""")
_LINK: Final = """
scenarios:
  copies:
    kind: transfer
    buffer: $buffers  # a list is an axis: every combination of the lists is a case
    direction: [h2d, d2h]         # to the device, and back
    size: $sizes

expect:                           # what you believe; the run says whether it held, with its interval
  - claim: Copies from pinned memory are faster than from pageable memory
    of: {scenario: copies, buffer: $first, direction: h2d, size: $largest}
    against: {scenario: copies, buffer: $last, direction: h2d, size: $largest}
    metric: event_ms
    ratio: {at_most: 1}
"""
_OVERLAP: Final = """baseline: loop                    # every other case gets a speedup against this scenario

scenarios:
  loop:                           # what most people write first: one chunk after another
    kind: pipeline
    schedule: serialized
    buffer: pageable
    total: $largest
    chunk: 32MiB

  ring:                           # chunks take turns on a ring of slots: one goes up while another is computed
    kind: pipeline
    schedule: overlapped
    buffer: $buffers
    staging: copy                 # your data are in ordinary memory; direct: they already lie in the buffer
    total: $largest
    chunk: [1MiB, 4MiB, 16MiB]    # a list is an axis: every combination of the lists is a case
    streams: [1, 2, 3]

fastest:
  - job: the whole round trip
    among: [loop, ring]           # the simplest first
"""
_PINNING: Final = """
scenarios:
  allocations:
    kind: allocation
    buffer: $buffers  # a list is an axis: every combination of the lists is a case
    size: $sizes
    payback: true                 # after how many copies has page-locked memory earned what it cost?
"""
_CALLS: Final = """
scenarios:
  uploads:
    kind: blocking                # how long does a call named async hold the host, behind work of the GPU?
    buffer: $buffers  # a list is an axis: every combination of the lists is a case
    direction: [h2d, d2h]
    size: $sizes
"""
STARTS: Final[Mapping[About, Start]] = {
    About.link: Start(
        "how fast copies between host and GPU are",
        "How fast do copies cross the link of this machine, by memory, direction and size?",
        ("1MiB", "16MiB", "256MiB"),
        ("pinned", "pageable"),
        _LINK,
    ),
    About.overlap: Start(
        "how much of the copies hides behind compute, and with which chunks and streams",
        "How much does a ring of slots gain over a serialized loop, and with which chunk and streams?",
        ("256MiB",),
        ("pinned",),
        _OVERLAP,
    ),
    About.pinning: Start(
        "what page-locked memory costs, and when it pays",
        "What does page-locking cost here, and after how many copies has it paid?",
        ("1MiB", "64MiB", "256MiB"),
        ("pinned", "registered"),
        _PINNING,
    ),
    About.calls: Start(
        "which async calls return at once, and which hold the host",
        "Which copy calls return at once on this machine, and which hold the host?",
        ("64KiB", "16MiB"),
        ("pinned", "pageable"),
        _CALLS,
    ),
}


def starting_text(wishes: Wishes, file: Path, schema: str) -> str:
    """Return the text of a first file that shall lie at `file`; `schema` is the way from there to the schema for editors.

    Raises UsageError where a wish cannot be met. That the file is sound is for its reader to find out.
    """
    start = STARTS[wishes.about]
    unknown = [each for each in wishes.buffers if each not in KINDS]
    if unknown:
        raise UsageError(f"{unknown[0]} is no kind of buffer; allowed: {', '.join(KINDS)}")
    for size in wishes.sizes:
        _refuse_no_size(size, "--size: ")
    if why := why_no_device(wishes.device):
        raise UsageError(f"--device: {why}")
    sizes, buffers = tuple(wishes.sizes) or start.sizes, tuple(wishes.buffers) or start.buffers
    question = _checked_question(wishes.question or start.question).replace("\\", "\\\\").replace('"', '\\"')
    head = HEAD.substitute(schema=schema, file=file.name, name=name_of(file), question=f'"{question}"', device=wishes.device)
    filled = Template(start.scenarios).substitute(
        sizes=_listed(sizes), largest=sizes[-1], buffers=_listed(buffers), first=buffers[0], last=buffers[-1]
    )
    body = filled if len(set(buffers)) > 1 else filled.partition("\nexpect:")[0]
    return "".join(f"{_aligned(line)}\n" for line in (head + body).rstrip("\n").split("\n"))


def name_of(file: Path) -> str:
    """Return a name for the experiment by that of its file; raises UsageError where none can be made of it."""
    name = re.sub(r"[^a-z0-9_-]+", "-", file.stem.lower()).strip("-")
    try:
        return check_name(name)
    except ValueError as error:
        raise UsageError(f"no experiment can be called after {file.name}; begin it with a letter, as in my-link.yaml") from error


Check = Callable[[str], str]
"""Returns an answer as it is to be taken; raises UsageError where it is none."""


def wishes_by_asking(ask: Callable[[str, str, Check], str]) -> Wishes:
    """Ask a person the few questions that shape a first file.

    `ask` shows a sentence and what an empty answer means, and asks again until the check takes the answer.
    """
    topics = "; ".join(f"{about} ({start.meaning})" for about, start in STARTS.items())
    about = About(ask(f"What is it about? {topics}", About.link, _checked_topic))
    start = STARTS[about]
    question = ask("The question, in your words", start.question, _checked_question)
    sizes = ask("Sizes", " ".join(start.sizes), _checked_sizes).split()
    devices = f"Device (auto, cuda:1, or of {', '.join(f'simulated:{name}' for name in profile_names())})"
    return Wishes(about, question, sizes, (), ask(devices, "auto", _checked_device))


def _checked_topic(answer: str) -> str:
    if answer not in STARTS:
        raise UsageError(f"{answer!r} is nothing that a first file is about; allowed: {', '.join(STARTS)}")
    return answer


def _checked_question(answer: str) -> str:
    if "\n" in answer:
        raise UsageError("a question is one line")
    return answer


def _checked_sizes(answer: str) -> str:
    """Return the sizes with blanks between them."""
    for size in (sizes := answer.replace(",", " ").split()):
        _refuse_no_size(size)
    return " ".join(sizes)


def _refuse_no_size(size: str, place: str = "") -> None:
    try:
        parse_size(size)
    except ValueError as error:
        raise UsageError(f"{place}{error}; allowed: {ALLOWED_SIZE}") from error


def _checked_device(answer: str) -> str:
    if why := why_no_device(answer):
        raise UsageError(why)
    return answer


def _listed(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"


def _aligned(line: str) -> str:
    """Put the comment behind a value into the column of all the others, or right behind a value that reaches beyond it.

    The question has none, but may have the sign of one.
    """
    value, sign, comment = line.partition(" # ")
    return f"{value.rstrip():<{COMMENT_COLUMN - 1}}{sign}{comment}" if sign and not line.startswith("question:") else line
