"""Every fault that can be injected, in one run, and the table of docs/reliability.md that this run gives.

`python -m tests.execution.faults` writes the table into the file.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from runner.execution.bench import FAULTS
from runner.flow import RunOutcome, run_experiment
from runner.measure.result import CaseResult
from runner.spec.load import load_experiment
from tests.scenarios.runs import Silent

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- table: faults, written by python -m tests.execution.faults -->\n", "<!-- end -->\n"
KIB = 1024


@dataclass(frozen=True)
class Injected:
    """One fault, the size of the copy that it befalls, and in words what it stands for."""

    fault: str
    size: int
    words: str
    more: str = ""
    registers: bool = False

    def json(self) -> dict[str, object]:
        return {"fault": self.fault, "size": self.size, **json.loads(self.more or "{}")}


INJECTED = (
    Injected("failed_allocation", 64 * KIB, "memory is refused"),
    Injected("failed_registration", 128 * KIB, "page-locking in place is refused", registers=True),
    Injected("flipped_byte", 192 * KIB, "one byte is wrong"),
    Injected("lost_context", 256 * KIB, "an error sticks to the context"),
    Injected("crash", 320 * KIB, "the process crashes"),
    Injected("hang", 384 * KIB, "a play never ends"),
    Injected("slow_case", 448 * KIB, "a play takes long, but ends", '{"seconds": 0.3}'),
)
SOUND = tuple(size * KIB for size in (32, 96, 160, 224, 288, 352, 416, 480))
"""Sizes of copies that no fault befalls, between and around the others."""
DEADLINE_S = 6
FILE = f"""
name: faults
question: What is lost?
device: simulated:test
measure: {{warmup: 1, samples: 3, deadline_s: {DEADLINE_S}}}
scenarios:
  copy: {{kind: transfer, direction: h2d, size: {sorted([*SOUND, *(each.size for each in INJECTED if not each.registers)])}}}
  registered: {{kind: transfer, direction: h2d, buffer: registered, size: {[each.size for each in INJECTED if each.registers]}}}
"""


def run(folder: Path, text: str, faults: list[dict[str, object]] | None = None) -> RunOutcome:
    """Run a file with faults, or without any where there are None."""
    path = folder / "faults.yaml"
    path.write_text(text)
    before = os.environ.pop(FAULTS, None)
    if faults is not None:
        os.environ[FAULTS] = json.dumps(faults)
    try:
        return run_experiment(load_experiment(path), device=None, out=folder / "out", max_cases=1000, watcher=Silent())
    finally:
        os.environ.pop(FAULTS, None)
        if before is not None:
            os.environ[FAULTS] = before


def by_size(outcome: RunOutcome) -> dict[int, CaseResult]:
    return {int(result.case.model.columns()["size_bytes"] or 0): result for result in outcome.results}


def table(outcome: RunOutcome) -> str:
    """Return the table in Markdown: each fault, its injection, its own row, and the others."""
    results = by_size(outcome)
    measured = sum(results[size].status == "ok" for size in SOUND)
    lines = [
        "| what happens | injected as | status of its case | reason in its row | the cases around it |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in INJECTED:
        result = results[each.size]
        cells = (
            each.words,
            f"`{each.fault}`",
            f"`{result.status}`",
            result.reason or "none: it is measured",
            f"{measured} of {len(SOUND)} measured",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def with_table(page: str, content: str) -> str:
    """Return the page with this table in the place of the old one."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + content + "\n" + END + rest.split(END, 1)[1]


def main() -> None:
    """Write the table into the page."""
    with tempfile.TemporaryDirectory() as folder:
        content = table(run(Path(folder), FILE, [each.json() for each in INJECTED]))
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), content), encoding="utf-8")


if __name__ == "__main__":
    main()
