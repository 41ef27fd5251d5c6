"""The page report.html: one file with everything in it, from what lies in a run's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from runner import __version__
from runner.claims_page import WORST_FIRST
from runner.report.answer import answer, warnings
from runner.report.bars import bars_figure
from runner.report.cases import shown
from runner.report.figures import PageFigure
from runner.report.heat import heat_figures
from runner.report.machine import machine_line
from runner.report.rates import size_figures
from runner.report.reading import RunTables, read_run
from runner.report.scatter import held_figure, predicted_figure
from runner.report.table import page_table
from runner.report.timelines import page_timelines, why_none
from runner.rows import Row
from runner.tables import write_whole
from runner.verdicts import limit_text, measured_text

REPORT: Final = "report.html"
TABLES: Final = ("summary.csv", "samples.csv", "verdicts.csv", "columns.csv", "cases.csv", "experiment.yaml", "manifest.json")
_ASSETS: Final = ("plotly-cartesian.min.js", "page.js", "table.js", "style.css")


def write_report(folder: Path, out: Path | None = None, predicted: Sequence[Row] = ()) -> Path:
    """Write the page of the run in `folder` as its report.html, or as `out`, and return where it lies.

    `predicted` are rows of predictions to show instead of those that lie in the folder. Raises InputError where the tables cannot
    be read, EnvironmentProblem where the page cannot be written.
    """
    target = out or folder / REPORT
    tables = os.path.relpath(folder.resolve(), target.parent.resolve())
    run = read_run(folder)
    run = replace(run, predicted=tuple(predicted)) if predicted else run
    write_whole(target, page(run, "" if tables == os.curdir else tables).encode("utf-8", "replace"))
    return target


def page(run: RunTables, tables: str = "") -> str:
    """Return the page as HTML; `tables` is the way from where it will lie to the run's folder, empty where it lies in it."""
    table = page_table(run)
    figures, timelines = page_figures(run), page_timelines(run)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            run=run,
            title=str(run.manifest.get("experiment", run.folder.name)),
            question=_question(run),
            note=str(run.manifest.get("note", "")),
            device=_device_name(run),
            machine=machine_line(run),
            warnings=warnings(run),
            verdicts=_verdicts(run),
            answer=answer(run),
            figures=figures,
            timelines=timelines,
            no_timeline="" if timelines else why_none(run),
            table=table,
            specs=_json([figure.spec() for figure in figures]),
            cells=_json(table.data()),
            environment=_flat({name: run.manifest[name] for name in sorted(run.manifest)}),
            tables=tables,
            files=[(name, quote(f"{tables}/{name}" if tables else name)) for name in TABLES if (run.folder / name).exists()],
            version=__version__,
            **{name.replace("-", "_").replace(".", "_"): _asset(name) for name in _ASSETS},
        )
    )


def page_figures(run: RunTables) -> list[PageFigure]:
    """Return the figures for which a run has the numbers, in the order of the page; none of several experiments together.

    Where pipelines are compared with their bounds, that is what the file asks, and stands first.
    """
    if run.of_several:
        return []
    found = [bars_figure(run), *heat_figures(run), *size_figures(run), held_figure(run), predicted_figure(run)]
    return [figure for figure in found if figure is not None]


def _device_name(run: RunTables) -> str:
    device = run.manifest.get("device")
    named = device.get("name") if isinstance(device, dict) else None
    return str(named or next((row["device"] for row in run.rows if "device" in row), "an unknown device"))


def _question(run: RunTables) -> str:
    """Return the file's question; of several experiments what all of them ask together."""
    asked = str(run.manifest.get("question", ""))
    return asked or (f"Which claims hold on {_device_name(run)}?" if run.of_several else "")


def _verdicts(run: RunTables) -> list[tuple[str, list[Mapping[str, str]]]]:
    """Return the verdicts in the order of the file; of several experiments by their word, so that many can be looked through."""
    told = [_verdict(row) for row in run.verdicts]
    if not run.of_several:
        return [("", told)] if told else []
    groups = [(word, [each for each in told if each["verdict"] == word]) for word in WORST_FIRST]
    return [(f"{len(group)} {word}", group) for word, group in groups if group]


def _verdict(row: Row) -> Mapping[str, str]:
    figure, low, high = (cell if isinstance(cell, int | float) else None for cell in map(row.get, ("figure", "low", "high")))
    measured, interval = measured_text(figure, low, high, str(row.get("unit", "")))
    words = {name: str(row.get(name, "")) for name in ("claim", "verdict", "limit", "reason", "source")}
    words["limit"] = limit_text(words["limit"], str(row.get("unit", "")))
    return words | {"measured": f"{measured} ({interval})" if interval else measured}


def _flat(value: object, name: str = "") -> list[tuple[str, str]]:
    """Return the manifest as pairs of a dotted name and a text."""
    if isinstance(value, Mapping) and value:
        return [pair for key, inner in value.items() for pair in _flat(inner, f"{name}.{key}" if name else str(key))]
    if isinstance(value, list):
        return [(name, ", ".join(map(str, value)))]
    return [(name, "" if value is None else str(value))]


def _json(value: object) -> Markup:
    """Return JSON that can stand in a script element: no sign in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _asset(name: str) -> Markup:
    """Return one of our own files as it is: it is no data and needs no escaping."""
    return Markup(files("runner.report").joinpath("assets", name).read_text(encoding="utf-8"))


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("runner.report", "assets"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown_of"] = lambda cell, column: shown(column, cell)
    return environment
