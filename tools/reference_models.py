"""The pages of the file format and of the tables, from the models and the columns themselves."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from runner import columns
from runner.columns import Column
from runner.measure.result import FLAGS
from runner.memory import KINDS
from runner.scenarios import SCENARIOS
from runner.spec import clauses
from runner.spec.answers import Fastest
from runner.spec.experiment import Exclude, Experiment, Measure, Until
from runner.units import format_size

_TRAITS: Final = {
    "asynchronous": "copy engines use it in place",
    "page_locked": "page-locked",
    "kernel_access": "kernels may use it",
    "migrates": "its pages move",
    "slow_cpu_read": "slow for the processor to read",
}
_GRID: Final = """
A list is an axis anywhere in a scenario, and the grid is every combination. Three keys are lists by nature:

- `zip: [[chunk, streams]]`: these axes move together.
- `exclude`: cases that keep their row, with the reason, and are not run.
- `copies` of `concurrency`; an axis of it is a list of lists.

A size is a whole number of bytes, or a number with `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`, `GiB` or `TiB`. A condition of
`where` is a value, a list of values, or a mapping of `at_least`, `at_most`, `above`, `below` and `not`. A field inside another is
named with a dot: `compute.ratio`.
"""


def spec_page() -> str:
    """Return the file format: every key of a file, of every kind of scenario, and of every form of expectation."""
    parts: list[str] = ["# The file", "", *_model("Top level", Experiment, "##")]
    for name, model in (("measure", Measure), ("measure.until", Until), ("exclude", Exclude), ("fastest", Fastest)):
        parts += _model(f"`{name}`", model)
    parts += ["## Grids", *_GRID.splitlines(), "", "## Kinds of scenarios", ""]
    for kind, scenario in SCENARIOS.items():
        parts += _model(f"`kind: {kind}`", scenario)
    parts += ["## Kinds of host memory", "", *_memory(), "", "## Expectations", ""]
    parts += ["Each entry of `expect` has one form, told by its own key.", ""]
    for key, form in clauses.FORMS.items():
        parts += _model(f"`{key}`", form)
    parts += _model("Bounds", clauses.Bounds)
    return "\n".join(parts).rstrip() + "\n"


def columns_page() -> str:
    """Return every column of every table, figures of samples once with the statistics that summary.csv has of them."""
    told = {f"{word}_{name}" for word in _statistics() for name in columns.TIMES} | set(columns.TIMES)
    parts = ["# The tables", "", "`columns.csv` of a run has all of this, a row a column. Every run has the same columns.", ""]
    for title, listed in (
        ("`summary.csv`: a row a case", columns.summary_columns()),
        ("`samples.csv`: a row a play", columns.SAMPLE),
        ("`verdicts.csv`: a row an expectation", columns.VERDICT),
        ("`cases.csv`: the grid", columns.CASE),
    ):
        parts += [f"## {title}", "", *_columns(one for one in listed if one.name not in told), ""]
        told |= {one.name for one in listed}
    if rest := [one for one in columns.all_columns() if one.name not in told]:
        parts += ["## Further tables, of many GPUs", "", *_columns(rest), ""]
    parts += ["The columns of `summary.csv` up to the axes lead each of the others, too.", ""]
    parts += ["## Figures", "", "In `samples.csv` as they are; in `summary.csv` as the statistics below.", ""]
    parts += [*table(["figure", "unit", "meaning"], [(f"`{name}`", *row) for name, row in columns.TIMES.items()]), ""]
    parts += [*table(["statistic", "formula"], [(f"`{word}_…`", text) for word, text in _statistics().items()]), ""]
    parts += [
        "## Flags",
        "",
        *table(["flag", "the row's numbers are in doubt, since"], [(f"`{k}`", v) for k, v in FLAGS.items()]),
    ]
    return "\n".join(parts) + "\n"


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """Return a table of Markdown, bars within cells escaped."""
    rows = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in body)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _statistics() -> dict[str, str]:
    """Return the words before a figure's name in summary.csv, each with its formula."""
    some = next(iter(columns.TIMES))
    own = [
        one for one in columns.summary_columns() if one.name.endswith(f"_{some}") and one.formula and one.name != f"leg_{some}"
    ]
    return {one.name.removesuffix(f"_{some}"): one.formula for one in own if one.meaning.endswith(_meaning_of(some))}


def _meaning_of(figure: str) -> str:
    meaning = columns.TIMES[figure][1]
    return f"{figure}: {meaning[0].lower()}{meaning[1:]}"


def _columns(listed: Iterable[Column]) -> list[str]:
    rows = [
        (
            f"`{one.name}`",
            one.unit or ("" if one.type == "text" else one.type),
            one.meaning + (f" *{one.formula}*" if one.formula else ""),
        )
        for one in listed
    ]
    return table(["column", "unit or type", "meaning, formula"], rows)


def _memory() -> list[str]:
    rows = [
        (
            f"`{kind.name}`",
            kind.meaning,
            ", ".join(text for trait, text in _TRAITS.items() if getattr(kind, trait)),
            ", ".join(sorted(kind.pages, reverse=True)),
        )
        for kind in KINDS.values()
    ]
    return table(["`buffer`", "what it is", "traits", "`pages`"], rows)


def _model(title: str, model: type[BaseModel], level: str = "###") -> Iterator[str]:
    told = " ".join((model.__doc__ or "").partition("`scenarios` holds")[0].split())
    rows = [(f"`{name}`", _values(info), _default(info), info.description or "") for name, info in _fields(model)]
    yield from (f"{level} {title}", "", told, "", *table(["key", "values", "where omitted", "meaning"], rows), "")


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every field, those of a mapping that scenarios contain under a dotted name after it."""
    for name, info in model.model_fields.items():
        yield f"{prefix}{name}", info
        inner = [kind for kind in _kinds(info.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if model in SCENARIOS.values():
            for each in inner:
                yield from _fields(each, f"{name}.")


def _values(info: FieldInfo) -> str:
    if isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("unit") == "bytes":
        return "size"
    words = [_word(kind) for kind in _kinds(info.annotation) if kind is not type(None)]
    return " or ".join(dict.fromkeys(words)) + _range(info)


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) in (tuple, list):
        return "list"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "mapping"
    names = {bool: "`true`, `false`", int: "integer", float: "number", str: "text"}
    return names.get(kind, "mapping")


def _range(info: FieldInfo) -> str:
    limits = []
    for limit in info.metadata:
        match limit:
            case annotated_types.Ge(ge=low):
                limits.append(f"from {low:,}")
            case annotated_types.Gt(gt=low):
                limits.append(f"above {low:,}")
            case annotated_types.Le(le=high):
                limits.append(f"to {high:,}")
            case annotated_types.Lt(lt=high):
                limits.append(f"below {high:,}")
            case _:
                continue
    return f" {' '.join(limits)}" if limits else ""


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "**required**"
    value = info.default
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, BaseModel):
        given = value.model_dump(exclude_defaults=True)
        return f"`{{{', '.join(f'{key}: {one}' for key, one in given.items())}}}`" if given else ""
    if isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("unit") == "bytes":
        return f"`{format_size(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _kinds(annotation: Any) -> list[Any]:
    """Return the plain types of an annotation: without `Annotated`, a union taken apart."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in _kinds(part)]
    return [annotation]
