"""Writes what docs/ says of models, columns, commands, questions and verdicts from these themselves; `make reference` calls it.

The pages in `docs/reference/` are written whole. In every other page a block between `<!-- verdicts: NAME -->` and `<!-- end -->`
is replaced by what the published run of that claim came to.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from runner.spec.load import load_experiment
from tools.readme_tables import REFERENCE, ROOT, Row, read_rows
from tools.reference_commands import commands_page
from tools.reference_models import columns_page, spec_page, table

DOCS: Final = ROOT / "docs"
EXPERIMENTS: Final = ROOT / "experiments"
GOLDEN: Final = ROOT / "tests" / "golden" / "verdicts.csv"
GENERATED: Final = "<!-- written by `make reference`; change the code that it describes, not this page -->"

_CALLED: Final = {"ratio": "a ratio of", "same": "a ratio of", "exponent": "an exponent of"}
_VERDICTS: Final = re.compile(r"(<!-- verdicts: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Write every page that differs, and name it; return the exit code."""
    try:
        pages = written()
    except (OSError, KeyError) as error:
        print(f"The reference could not be written: {error}", file=sys.stderr)
        return 3
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(pages[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)} is new.")
    if not stale:
        print("The reference is up to date.")
    return 0


def written() -> dict[Path, str]:
    """Return the text that each page must have: those of the reference, and every other page that has verdicts in it.

    Raises OSError where a published run is missing, KeyError where a page asks for verdicts of an unknown claim.
    """
    pages = {DOCS / "reference" / f"{name}.md": f"{GENERATED}\n\n{page()}" for name, page in PAGES.items()}
    published = read_rows(REFERENCE / "claims" / "verdicts.csv")
    for path in sorted(DOCS.rglob("*.md")):
        if path not in pages:
            text = path.read_text(encoding="utf-8")
            if _VERDICTS.search(text):
                pages[path] = with_verdicts(text, published)
    return pages


def with_verdicts(text: str, rows: Sequence[Row]) -> str:
    """Return `text` with every block of verdicts filled from the rows of its experiment; raises KeyError where there are none."""

    def filled(block: re.Match[str]) -> str:
        found = [row for row in rows if row["experiment"] == block["name"]]
        if not found:
            raise KeyError(f"no verdict of {block['name']}")
        return f"{block[1]}\n" + "\n".join(f"- {verdict_line(row)}" for row in found) + f"\n\n{block[3]}"

    return _VERDICTS.sub(filled, text)


def verdict_line(row: Row) -> str:
    """Return one verdict as a sentence: the claim, what became of it, on which device, and its figure with its interval."""
    what = f"{row['claim']}: **{row['verdict']}** on {_device(row)}"
    if row["form"] == "text" or not row["figure"]:
        return f"{what}."
    unit = "" if row["unit"] == "" else f" {row['unit']}"
    interval = f" ({_number(row['low'])} … {_number(row['high'])})" if row["low"] and row["high"] else ""
    lead = f"{_CALLED[row['form']]} " if row["form"] in _CALLED else ""
    return f"{what}, {lead}{_number(row['figure'])}{interval}{unit} where {row['limit']} was claimed."


def questions_page(published: Path = REFERENCE) -> str:
    """Return the list of experiments: question, file, and what each of its expectations comes to.

    The verdicts of the simulated H200 are those that the tests hold; beside them stand measured ones where `published` has a run.
    """
    lines = [
        "# Questions",
        "",
        "Each file in `experiments/` asks one question. `dmalab run NAME` answers it for your machine; the verdicts below show "
        "what an answer looks like. Those of the simulated H200 are computed and not measured. A *refuted* expectation is an "
        "answer, too: it says that what many expect is not so there, and the run exits with 5.",
    ]
    golden = read_rows(GOLDEN)
    for path in sorted(EXPERIMENTS.glob("*.yaml")):
        experiment = load_experiment(path).experiment
        lines += ["", f"## {experiment.question}", "", f"`dmalab run {experiment.name}`"]
        mine = {row["claim"]: row["verdict"] for row in golden if row["experiment"] == experiment.name}
        measured = _measured(published / experiment.name / "verdicts.csv")
        head = ["expected", "simulated H200", *(["measured"] if measured else [])]
        body = [[claim, verdict, *([measured.get(claim, "")] if measured else [])] for claim, verdict in mine.items()]
        lines += ["", *table(head, body)] if mine else []
    return "\n".join(lines) + "\n"


def _measured(path: Path) -> dict[str, str]:
    """Return what each claim of a published run came to, with the device; empty where nothing is published."""
    return {row["claim"]: f"{row['verdict']} ({row['device']})" for row in read_rows(path)} if path.exists() else {}


def _device(row: Row) -> str:
    return f"an {row['device']}" if row["device_kind"] == "cuda" else f"{row['device']} (SIMULATED)"


def _number(text: str) -> str:
    value = float(text)
    return f"{value:,.0f}" if value >= 10_000 else f"{value:.3g}"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "spec": spec_page,
    "columns": columns_page,
    "commands": commands_page,
    "questions": questions_page,
}

if __name__ == "__main__":
    sys.exit(main())
