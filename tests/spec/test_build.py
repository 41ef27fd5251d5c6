"""Points that are built the quick way are those that Pydantic reads, and are refused with the same errors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pydantic import ValidationError

from runner.scenarios import SCENARIOS
from runner.scenarios.pipeline import Pipeline
from runner.scenarios.transfer import Transfer
from runner.spec.build import Builder

FIXED = {"kind": "pipeline", "schedule": "overlapped", "total": 1 << 20}


def points() -> list[dict[str, Any]]:
    chunks, streams, slots = (1 << 16, 1 << 18), (1, 2, 3), (3, 4)
    return [FIXED | {"chunk": c, "streams": s, "slots": k} for c, s, k in itertools.product(chunks, streams, slots)]


def test_every_point_equals_what_pydantic_reads() -> None:
    build = Builder(Pipeline)
    for raw in points():
        quick, read = build(raw), Pipeline.model_validate(raw)
        assert quick == read
        assert hash(quick) == hash(read)
        assert quick.model_fields_set == read.model_fields_set
        assert quick.model_dump_json() == read.model_dump_json()
        assert quick.model_copy(update={"streams": 9}) == read.model_copy(update={"streams": 9})


def test_a_point_that_a_check_refuses_has_pydantics_error() -> None:
    build = Builder(Pipeline)
    for raw in points():
        build(raw)
    bad = FIXED | {"chunk": 1 << 16, "streams": 5, "slots": 4}
    with pytest.raises(ValidationError) as quick:
        build(bad)
    with pytest.raises(ValidationError) as read:
        Pipeline.model_validate(bad)
    assert quick.value.errors() == read.value.errors()


def test_values_that_are_not_parsed_yet_are_always_read() -> None:
    build = Builder(Pipeline)
    for raw in points():
        assert build(raw | {"total": "1MiB"}).model_dump()["total"] == 1 << 20


def test_a_model_with_private_attributes_is_always_read() -> None:
    build = Builder(Transfer)
    raw = {"kind": "transfer", "direction": "h2d", "size": 1 << 20}
    for _ in range(5):
        assert build(raw).plan() == Transfer.model_validate(raw).plan()


def test_most_kinds_can_be_built_quickly() -> None:
    assert sum(not model.__private_attributes__ for model in SCENARIOS.values()) > len(SCENARIOS) // 2
