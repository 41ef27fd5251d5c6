"""`dmalab schema`: the JSON Schema of an experiment's file, for editors to complete, explain and underline while somebody writes.

It is made from the same models that read a file. What those check across fields, and what refers to names of the file itself, no
schema can say: `dmalab validate` tells that. Draft 7, which every editor with a YAML language server knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from runner.figures import unit_of_time, units
from runner.scenarios import SCENARIOS
from runner.scenarios.base import Scenario
from runner.spec.clauses import FORMS, ORDERS
from runner.spec.experiment import Exclude, Experiment
from runner.units import LARGEST_SIZE, UNITS

Schema = dict[str, Any]

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
NAME: Final = "experiment.schema.json"
SIZE: Final = "#/definitions/size"
_GROUPS: Final[tuple[str, ...]] = ("properties", "$defs")
"""Keys whose content is a mapping of names to schemas."""
_PACKAGE: Final = Path(__file__).resolve().parent
_ORDERED: Final[Schema] = {word: {"$ref": "#/definitions/bound"} for word in ORDERS}
_WORDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
"""What Pydantic calls a limit that stands behind a validator of ours, and what JSON Schema calls it."""
_DEVICES: Final = ["auto", "cuda", "cuda:1", "all", "simulated", "simulated:rtx-4090", "simulated:h200*4"]


def experiment_schema() -> Schema:
    """Return the schema of a whole file."""
    whole = _tidied(Experiment.model_json_schema(ref_template="#/definitions/{model}"))
    definitions: Schema = {
        "size": _size(),
        **_figures(),
        **whole.pop("definitions"),
        **_clauses(),
        "any_scenario": _any_scenario(),
    }
    definitions["AxisBounds"]["properties"] = {word: _bound_of_axis(word) for word in ORDERS}
    for name, model in SCENARIOS.items():
        definitions |= _scenario(name, model)
    fastest = definitions["Fastest"]["properties"]
    fastest["metric"] = {**_annotations(fastest["metric"]), "$ref": "#/definitions/time"}
    properties = whole["properties"]
    properties["name"]["examples"] = ["my-link"]
    properties["question"]["examples"] = ["Which chunk is best for my job on this machine?"]
    properties["device"]["examples"] = _DEVICES
    properties["scenarios"] = {
        **_annotations(properties["scenarios"]),
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": properties["name"]["pattern"]},
        "additionalProperties": {"$ref": "#/definitions/any_scenario"},
    }
    properties["expect"]["items"] = {"anyOf": [{"$ref": f"#/definitions/{model.__name__}"} for model in FORMS.values()]}
    head = {"$schema": DRAFT, "title": "An experiment of dmalab", "description": "A question, and what is measured to answer it."}
    return {**head, **{key: value for key, value in whole.items() if key not in head}, "definitions": definitions}


def schema_text() -> str:
    """Return the schema as its file has it."""
    return json.dumps(experiment_schema(), indent=1, ensure_ascii=False) + "\n"


def schema_file() -> Path:
    """Return where the schema lies: in the checkout, or beside the experiments of the installed package."""
    checkout = _PACKAGE.parent / "schema" / NAME
    return checkout if checkout.is_file() else _PACKAGE / "schema" / NAME


def _scenario(name: str, model: type[Scenario]) -> Schema:
    """Return the definitions of one kind: its mapping, whose fields take axes, and what `where` may say of them."""
    raw = _tidied(model.model_json_schema(ref_template="#/definitions/{model}"))
    inner = {key: value for key, value in raw.get("definitions", {}).items() if "properties" in value}
    with_axes = {f"{key}_of_axes": _with_axes(value, frozenset(), refs={}) for key, value in inner.items()}
    fields = {key: value for key, value in raw["properties"].items() if key != "kind"}
    body = _with_axes({**raw, "properties": fields}, model.LISTS, refs={key: f"{key}_of_axes" for key in inner})
    kind = {"description": raw["properties"]["kind"].get("description", ""), "const": name}
    axes = [*fields, *(f"{field}.{key}" for field, key, _ in _inner_fields(fields, inner))]
    body["properties"] = {"kind": kind, **body["properties"], **_grid_keys(name, axes)}
    body["required"] = ["kind", *(key for key in body.get("required", ()) if key != "kind")]
    body.pop("definitions", None)
    dotted = {f"{field}.{key}": value for field, key, value in _inner_fields(fields, inner)}
    conditions = {key: _condition(value, key in model.LISTS) for key, value in {**fields, **dotted}.items()}
    exclude = _tidied(Exclude.model_json_schema())
    exclude["properties"]["where"] = {**_annotations(exclude["properties"]["where"]), **_mapping_of(conditions)}
    return {**inner, **with_axes, name: body, f"{name}_exclude": exclude}


def _any_scenario() -> Schema:
    """Return what every scenario is: it names its kind, which says the rest."""
    kinds = {name: model.model_fields["kind"].description or "" for name, model in SCENARIOS.items()}
    choices = [{"const": name, "description": meaning} for name, meaning in kinds.items()]
    chosen = [
        {
            "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
            "then": {"$ref": f"#/definitions/{name}"},
        }
        for name in kinds
    ]
    kind = {"description": "What is asked; the other keys depend on it.", "anyOf": choices}
    return {"type": "object", "required": ["kind"], "properties": {"kind": kind}, "allOf": chosen}


def _grid_keys(name: str, axes: list[str]) -> Schema:
    groups = {"type": "array", "items": {"type": "array", "items": {"enum": axes}, "uniqueItems": True}}
    zipped = {"description": "Axes that move together, as in [[chunk, streams]].", "examples": [[["chunk", "streams"]]], **groups}
    excluded = {"description": "Cases that keep their row, with a reason, and are not run.", "type": "array"}
    return {"zip": zipped, "exclude": {**excluded, "items": {"$ref": f"#/definitions/{name}_exclude"}}}


def _with_axes(model: Schema, lists: Iterable[str], refs: Mapping[str, str]) -> Schema:
    """Let every field of a model take a list of its values, too; a field that is a list by nature takes a list of lists.

    A field that is a mapping (`refs`: its model's name → that of the model with axes inside) takes axes inside as well.
    """
    properties = {}
    for name, field in model["properties"].items():
        value = {key: content for key, content in field.items() if key not in ("description", "default", "examples")}
        choices = list(value["anyOf"]) if set(value) == {"anyOf"} else [value]
        first = [_replaced(choice, refs) for choice in choices]
        values = {"type": "array", "items": value, "minItems": 1, "uniqueItems": True}
        values["description"] = "An axis of lists." if name in lists else "An axis: a case for each value."
        properties[name] = {**_annotations(field), "anyOf": [*first, values]}
    return {**model, "properties": properties}


def _replaced(choice: Schema, refs: Mapping[str, str]) -> Schema:
    name = choice.get("$ref", "").rpartition("/")[2]
    return {"$ref": f"#/definitions/{refs[name]}"} if name in refs else choice


def _inner_fields(fields: Mapping[str, Schema], inner: Mapping[str, Schema]) -> list[tuple[str, str, Schema]]:
    """Return (field, key, schema of the key) for each key of each field that is a mapping."""
    found = []
    for field, schema in fields.items():
        model = inner.get(schema.get("$ref", "").rpartition("/")[2])
        found += [(field, key, value) for key, value in (model["properties"].items() if model else ())]
    return found


def _condition(field: Schema, is_list: bool) -> Schema:
    """Return what `where` may say of a field: a value, a list of values, or bounds, all of which must hold."""
    value = {key: content for key, content in field.items() if key not in ("description", "default", "examples")}
    plain = [value] if is_list else [value, {"type": "array", "items": value, "minItems": 1}]
    opposite = _mapping_of({**_ORDERED, "not": {"anyOf": [*plain, {"$ref": "#/definitions/bounds"}]}})
    return {**_annotations(field), "anyOf": [*plain, opposite]}


def _clauses() -> Schema:
    """Return the forms of `expect`, with the figures that there are."""
    definitions: Schema = {}
    for model in FORMS.values():
        raw = _tidied(model.model_json_schema(ref_template="#/definitions/{model}"))
        definitions |= raw.pop("definitions", {})
        for key in {"metric", "against_metric"} & raw["properties"].keys():
            raw["properties"][key] = {**_annotations(raw["properties"][key]), "$ref": "#/definitions/figure"}
        definitions[model.__name__] = raw
    for name in ("Bounds", "Ratio"):
        definitions[name]["minProperties"] = 1
    return definitions


def _mapping_of(properties: Schema) -> Schema:
    return {"type": "object", "minProperties": 1, "additionalProperties": False, "properties": properties}


def _figures() -> Schema:
    """Return the figures that an expectation can be about, those of them that are times, and bounds on a field."""
    times = [figure for figure in units() if unit_of_time(figure)]
    bound = {"anyOf": [{"type": "number"}, {"$ref": SIZE}]}
    return {"figure": {"enum": list(units())}, "time": {"enum": times}, "bound": bound, "bounds": _mapping_of(_ORDERED)}


def _bound_of_axis(word: str) -> Schema:
    text = f"The place is {word.replace('_', ' ')} this."
    return {"description": text, "anyOf": [{"type": "number", "minimum": 0}, {"$ref": SIZE}, {"type": "null"}]}


def _size() -> Schema:
    text = {"type": "string", "pattern": rf"^(0|[1-9][0-9]{{0,18}})(\.[0-9]{{1,18}})? ?({'|'.join(UNITS)})$"}
    whole = {"type": "integer", "minimum": 1, "maximum": LARGEST_SIZE}
    said = f"A number of bytes, or a number with {', '.join(UNITS)}."
    return {"description": said, "anyOf": [text, whole], "examples": ["64KiB", "4MiB", "256MiB"]}


def _annotations(schema: Schema) -> Schema:
    return {key: schema[key] for key in ("description", "default", "examples") if key in schema}


def _tidied(schema: Schema) -> Schema:
    """Return what Pydantic wrote in the words of draft 7: without titles, with sizes as files have them, defaults as written."""
    if "properties" in schema or "$defs" in schema:
        children = {key: {name: _tidied(each) for name, each in schema[key].items()} for key in _GROUPS if key in schema}
        schema = {**schema, **children}
    else:
        schema = dict(schema)
    definitions = schema.pop("$defs", None)
    schema.pop("title", None)
    if schema.pop("unit", "") == "bytes" and schema.get("type") == "integer":
        return {"$ref": SIZE, **_annotations(schema)}
    for theirs, ours in _WORDS.items():
        if theirs in schema:
            schema[ours] = schema.pop(theirs)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = _tidied(schema[key])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            schema[key] = [_tidied(each) for each in schema[key]]
    if "null" in schema.get("enum", ()):
        # YAML's own null names the null stream.
        schema = {**_annotations(schema), "enum": [*schema["enum"], None]}
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].replace("`", "").split())
    if schema.get("default", 0) is None:
        del schema["default"]
    elif isinstance(schema.get("default"), dict):
        schema["default"] = {key: value for key, value in schema["default"].items() if value is not None}
    return {**schema, **({"definitions": definitions} if definitions is not None else {})}
