"""Writes the tables of README.md from the published runs in results/reference/; `make tables` calls it.

A block between `<!-- table: NAME -->` and `<!-- end -->` is replaced by what TABLES[NAME] makes of that run's file.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.units import digits
from runner.verdicts import limit_text, measured_text

ROOT: Final = Path(__file__).resolve().parents[1]
README: Final = ROOT / "README.md"
REFERENCE: Final = ROOT / "results" / "reference" / "nvidia-h200"
MIB: Final = 2**20

Row = dict[str, str]
_BLOCK: Final = re.compile(r"(<!-- table: (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Rewrite README.md where a table differs; return the exit code."""
    try:
        old = README.read_text(encoding="utf-8")
        new = with_tables(old, REFERENCE)
    except (OSError, ValueError, KeyError) as error:
        print(f"The tables of the README could not be made: {error}", file=sys.stderr)
        return 3
    if new != old:
        README.write_text(new, encoding="utf-8")
    print("README.md has new tables." if new != old else "The tables of README.md are up to date.")
    return 0


def with_tables(text: str, reference: Path) -> str:
    """Return `text` with every block filled from the run of its name in `reference`.

    Raises OSError where there is no such run, ValueError where it lacks a case, KeyError for a block of an unknown name.
    """

    def filled(block: re.Match[str]) -> str:
        made = TABLES[block["name"]]
        return block[1] + "\n" + "\n".join(made.lines(read_rows(reference / block["name"] / made.file))) + "\n\n" + block[3]

    return _BLOCK.sub(filled, text)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file as text."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def bandwidth(rows: Sequence[Row]) -> list[str]:
    """Return GB/s of both kinds of memory in both directions, a row a size."""
    series = [(buffer, direction) for direction in ("h2d", "d2h") for buffer in ("pageable", "pinned")]
    cells = {(int(row["size_bytes"]), row["buffer"], row["direction"]): row["gb_per_s"] for row in rows}
    sizes = sorted({size for size, _, _ in cells})
    head = ["GB/s", *(f"{buffer} {direction}" for buffer, direction in series)]
    body = [[f"{size // MIB} MiB", *(f"{float(cells[size, *one]):.2f}" for one in series)] for size in sizes]
    return [f"{_where(rows)}: one copy, timed by CUDA events, median of {rows[0]['samples']}.", "", *_table(head, body)]


def overlap(rows: Sequence[Row]) -> list[str]:
    """Return the loop, the example's ring and the best ring, with their speedups."""
    good = [row for row in rows if row["status"] == "ok"]
    loop = _only(good, lambda row: row["scenario"] == "serialized")
    rings = [row for row in good if row["scenario"] == "overlapped"]
    example = _only(rings, lambda row: (int(row["chunk_bytes"]), row["streams"]) == (32 * MIB, "3"))
    best = min(rings, key=_wall_ms)
    named = [("serialized pageable loop", loop), ("ring of pinned slots", example), ("best ring of pinned slots", best)]
    head = ["pipeline", "chunk", "streams", "ms", "speedup"]
    body = [
        [
            name,
            f"{int(row['chunk_bytes']) // MIB} MiB",
            row["streams"],
            f"{_wall_ms(row):.1f}",
            f"{float(row['speedup']):.2f}x",
        ]
        for name, row in named
    ]
    total = int(loop["total_bytes"]) // MIB
    return [f"{_where(rows)}: {total} MiB there and back, wall time, median of {loop['samples']}.", "", *_table(head, body)]


def claims(rows: Sequence[Row]) -> list[str]:
    """Return every claim with its verdict, the measured figure and its interval, refuted ones first within their counts."""
    counts = ", ".join(f"{sum(row['verdict'] == word for row in rows)} {word}" for word in ("confirmed", "refuted", "undecided"))
    order = {"refuted": 0, "undecided": 1, "confirmed": 2}
    body = [
        [row["claim"].replace("|", "\\|"), row["verdict"], _figure(row), limit_text(row["limit"], row["unit"])]
        for row in sorted(rows, key=lambda row: order[row["verdict"]])
    ]
    head = ["claim", "verdict", "measured", "claimed"]
    return [f"{_where(rows)}: {len(rows)} claims, {counts}.", "", *_table(head, body)]


def speed(rows: Sequence[Row]) -> list[str]:
    """Return every goal of speed with its figure, the range of its rounds and its limit."""
    body = []
    for row in rows:
        rounds = f"{float(row['lowest_round']):.4g} … {float(row['highest_round']):.4g}" if row["lowest_round"] else ""
        figure = f"{float(row['figure']):.4g}" if row["figure"] else ""
        body.append(
            [row["goal"], figure + (f" {row['unit']}" if figure and row["unit"] else ""), rounds, row["limit"], row["verdict"]]
        )
    met = sum(row["verdict"] == "met" for row in rows)
    head = ["goal", "figure", "by rounds", "limit", ""]
    return [
        f"{_where(rows)}: {met} of {len(rows)} goals met, native C++ and the runner by turns in one run.",
        "",
        *_table(head, body),
    ]


def fastest(rows: Sequence[Row]) -> list[str]:
    """Return the best case of each way to take data there and back, the fastest first."""
    good = [row for row in rows if row["status"] == "ok"]
    ways = {row["scenario"]: min((each for each in good if each["scenario"] == row["scenario"]), key=_wall_ms) for row in good}
    head = ["way", "chunk", "streams", "lanes x threads", "ms"]
    body = [
        [
            f"`{way}`",
            f"{int(row['chunk_bytes']) // MIB} MiB",
            row["streams"],
            f"{row['staging_lanes']} x {row['staging_threads']}",
            digits(_wall_ms(row)),
        ]
        for way, row in sorted(ways.items(), key=lambda pair: _wall_ms(pair[1]))
    ]
    total = int(good[0]["total_bytes"]) // MIB
    return [f"{_where(rows)}: {total} MiB there and back, wall time, median of {good[0]['samples']}.", "", *_table(head, body)]


def _wall_ms(row: Row) -> float:
    return float(row["median_wall_ms"])


@dataclass(frozen=True)
class Table:
    """A table of the README: the file of the published run that it is made of, and how."""

    file: str
    lines: Callable[[Sequence[Row]], list[str]]


TABLES: Final = {
    "bandwidth": Table("summary.csv", bandwidth),
    "overlap": Table("summary.csv", overlap),
    "fastest": Table("summary.csv", fastest),
    "speed": Table("goals.csv", speed),
    "claims": Table("verdicts.csv", claims),
}


def _figure(row: Row) -> str:
    if not row["figure"]:
        return ""
    low, high = (float(row[end]) if row[end] else None for end in ("low", "high"))
    figure, interval = measured_text(float(row["figure"]), low, high, row["unit"])
    return f"{figure} ({interval})" if interval else figure


def _where(rows: Sequence[Row]) -> str:
    (device,) = {row["device"] for row in rows}
    return f"{device}, {'measured' if rows[0]['device_kind'] == 'cuda' else 'SIMULATED'}"


def _only(rows: Sequence[Row], wanted: Callable[[Row], bool]) -> Row:
    found = [row for row in rows if wanted(row)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} cases where the table needs one")
    return found[0]


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *body)]
    return [lines[0], "|" + " --- |" + " ---: |" * (len(head) - 1), *lines[1:]]


if __name__ == "__main__":
    sys.exit(main())
