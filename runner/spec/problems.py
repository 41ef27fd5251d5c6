"""From Pydantic's errors to Problems: the place in the file, the text as written, what is allowed, and the next step."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runner.errors import Problem, house_words
from runner.spec.fields import keys_at
from runner.spec.places import Document, Path, Place, nearest
from runner.spec.scalars import boolean_fix, is_plain_number, number_fix

_OTHER_WORDS: Final = {
    "htod": "h2d",
    "hosttodevice": "h2d",
    "upload": "h2d",
    "dtoh": "d2h",
    "devicetohost": "d2h",
    "download": "d2h",
    "both": "bidirectional",
    "duplex": "bidirectional",
    "pagelocked": "pinned",
    "locked": "pinned",
    "paged": "pageable",
    "malloc": "pageable",
    "zerocopy": "mapped",
    "unified": "managed",
    "wc": "write_combined",
    "serial": "serialized",
    "asynchronous": "async",
    "synchronous": "sync",
}
"""What people call things elsewhere, letters and digits only → the word here."""


def translate(error: ValidationError, document: Document, base: Path, model: type[BaseModel], inner: Path = ()) -> list[Problem]:
    """Turn every error of one validation of the value at `base` into a Problem.

    That value is what `model` holds at `inner`; the model's fields are what an unknown key is compared with.
    """
    return [_translate(details, document, base, model, inner) for details in error.errors(include_url=False)]


def guess(word: str, allowed: Sequence[str]) -> str:
    """Return `did you mean h2d?` for `HtoD` and the like; empty where nothing allowed is near."""
    bare = re.sub(r"[^a-z0-9]", "", word.lower())
    for name in allowed:
        if re.sub(r"[^a-z0-9]", "", name.lower()) == bare or _OTHER_WORDS.get(bare) == name:
            return f"did you mean {name}?"
    return nearest(word.strip(), allowed)


def _translate(details: ErrorDetails, document: Document, base: Path, model: type[BaseModel], inner: Path) -> Problem:
    loc: Path = (*base, *details["loc"])
    kind = details["type"]
    if kind == "missing":
        return document.problem(loc[:-1], f"{loc[-1]} is missing", at_key=True)
    if kind == "extra_forbidden":
        return unknown_key(document, loc, keys_at(model, (*inner, *details["loc"][:-1])))
    context: Mapping[str, Any] = details.get("ctx", {})
    if loc[-1:] == ("[key]",):
        message, allowed, hint = _words(kind, context, details, str(loc[-2]))
        return document.problem(loc, f"{loc[-2]} is {message}", at_key=True, allowed=allowed, hint=hint)
    if (*loc, context.get("field")) in document.values:
        loc = (*loc, context["field"])
    place = document.values.get(document.path_of(loc), Place(document.file))
    message, allowed, hint = _words(kind, context, details, place.text)
    told = kind in _TYPES or kind == "size" or place.text not in ("a list", "a mapping")
    return document.problem(loc, message, told=told, allowed=allowed, hint=hint)


def unknown_key(document: Document, loc: Path, known: Sequence[str]) -> Problem:
    """Make the Problem of a key that nothing knows, with the nearest of those that are."""
    return document.problem(
        loc, f"unknown key {loc[-1]}", at_key=True, allowed=", ".join(known), hint=guess(str(loc[-1]), known) if known else ""
    )


def _words(kind: str, context: Mapping[str, Any], details: ErrorDetails, text: str) -> tuple[str, str, str]:
    """Return message, allowed and hint of one error."""
    if "message" in context:
        hint = context.get("hint", "")
        if kind == "size" and not (text.startswith('"') or is_plain_number(text)):
            hint = hint or number_fix(text)
        return str(context["message"]), str(context.get("allowed", "")), str(hint)
    if kind == "literal_error":
        allowed = [word.strip("'") for word in re.split(r", | or ", str(context["expected"]))]
        return "not one of the allowed words", ", ".join(allowed), guess(text.strip('"'), allowed)
    if kind in _TYPES:
        message, fix = _TYPES[kind]
        return message, "", fix(text)
    if kind in _LIMITS:
        template, key = _LIMITS[kind]
        limit = context[key]
        return template.format(f"{limit:,}" if isinstance(limit, int) else limit), "", ""
    return (*house_words(details["msg"]), "")


def _number(text: str) -> str:
    return number_fix(text.strip('"'))


def _boolean(text: str) -> str:
    return boolean_fix(text.strip('"'))


def _whole(text: str) -> str:
    if re.fullmatch(r"-?[0-9]+\.0+", text):
        return f"write {text.split('.')[0]}"
    return "it has no fraction" if is_plain_number(text) else _number(text)


def _quotes(text: str) -> str:
    return "" if text in ("nothing", "a list", "a mapping") else f"write '{text}' in quotes"


def _nothing(text: str) -> str:
    return ""


_TYPES: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    "int_type": ("a whole number is expected", _whole),
    "int_parsing": ("a whole number is expected", _whole),
    "int_from_float": ("a whole number is expected", _whole),
    "float_type": ("a number is expected", _number),
    "float_parsing": ("a number is expected", _number),
    "bool_type": ("true or false is expected", _boolean),
    "bool_parsing": ("true or false is expected", _boolean),
    "string_type": ("text is expected", _quotes),
    "dict_type": ("a mapping is expected", _nothing),
    "model_type": ("a mapping is expected", _nothing),
    "model_attributes_type": ("a mapping is expected", _nothing),
    "list_type": ("a list is expected", _nothing),
    "tuple_type": ("a list is expected", _nothing),
    "none_required": ("nothing is expected here", _nothing),
    "finite_number": ("a finite number is expected", _nothing),
}
_LIMITS: Final = {
    "greater_than_equal": ("too small: at least {}", "ge"),
    "greater_than": ("too small: more than {}", "gt"),
    "less_than_equal": ("too large: at most {}", "le"),
    "less_than": ("too large: less than {}", "lt"),
    "multiple_of": ("not a multiple of {}", "multiple_of"),
    "string_too_short": ("too short: at least {} characters", "min_length"),
    "string_too_long": ("too long: at most {} characters", "max_length"),
    "too_short": ("too few: at least {}", "min_length"),
    "too_long": ("too many: at most {}", "max_length"),
    "string_pattern_mismatch": ("does not have the form {}", "pattern"),
}
