"""Which measured figure fits which parameter: the steps of a fit, each standing on those before it.

Cases are chosen by what they do, not by their names, so that any run tells what it can: a parameter without a witness keeps the
value of the profile that a fit begins with, and is marked as assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from runner.calibration import of_copies, of_host, of_kernels
from runner.calibration.cases import Cases, Found
from runner.calibration.parameters import Node, Parameter, has_node
from runner.calibration.simulator import Witness
from runner.calibration.solve import Step

BETWEEN: Final = (
    ("engines", "duplex_ppm"),
    ("engines", "handoff_ns"),
    ("engines", "stream_change_ns"),
    ("engines", "switch_ns"),
    ("calls", "change_ns"),
    ("calls", "host_wait_ns"),
)
"""What lies between the operations of a pipeline."""


def steps(cases: Cases, data: Node) -> Iterator[Step]:
    """Yield the steps in their order; `data` is the profile to begin with, and parameters that it lacks are passed over."""
    row, event = ("engines", "row_h2d_ns"), ("engines", "timed_event_ns")
    gap, fresh = ("engines", "kernel_gap_ns"), ("staging", "fresh_page_ns")
    pageable = [_from_what_was_measured(each) for each in _alone("pageable copies", of_copies.pageable_copies(cases), data)]
    yield from _alone("calls", of_copies.calls(cases), data)
    yield from _alone("engine copies", of_copies.engine_copies(cases), data)
    yield from _together(
        "copies in a row", [Parameter(row)], of_copies.copies_in_a_row(cases), of_copies.least_in_a_row_ns(cases)
    )
    yield from _together("events", [Parameter(event)], of_copies.pairs_of_events(cases), of_copies.beyond_engine_ns(cases))
    yield from _alone("first calls", of_copies.first_calls(cases), data)
    yield from _alone("staging", of_copies.staging(cases), data)
    yield from pageable
    # Each of the two stands on the other, the less the longer the rows: of their copies one is the first.
    first = _alone("first pageable copies", of_copies.first_pageable_copies(cases), data)
    yield from [*first, *(pageable + first) * 2] if first else []
    yield from _alone("kernels", of_kernels.kernels(cases), data)
    yield from _together("gaps between kernels", [Parameter(gap)], of_kernels.kernels_in_a_row(cases), 2_000.0)
    yield from _alone("kernels on the device", of_kernels.device_access(cases), data)
    yield from _alone("kernels over the link", of_kernels.in_place(cases), data)
    pipelines = [*of_copies.duplex(cases), *of_copies.direct_pipelines(cases)]
    yield from _together("pipelines", [Parameter(path) for path in BETWEEN], pipelines)
    for step in _together("host copies", *of_host.host_copies(cases)):
        yield replace(step, start=of_host.guesses(step.parameters, data))
    yield from _alone("access", of_host.access_by_processor(cases), data)
    yield from _alone("access by threads", of_host.access_by_processors(cases), data)
    yield from _alone("memory", of_host.memory(cases), data)
    yield from _alone("first touch", of_host.first_touch(cases), data)
    yield from _alone("page-locking", of_host.page_locking(cases), data)
    yield from _alone("migration", of_kernels.migration(cases), data)
    yield from _together("fresh pages", [Parameter(fresh)], of_host.fresh_landings(cases))


def _alone(name: str, found: Iterable[Found], data: Node) -> list[Step]:
    """Return a step whose parameters have a witness each; of two witnesses of one parameter the first counts."""
    pairs: dict[Parameter, Witness] = {}
    for parameter, witness in found:
        if has_node(data, parameter.path) and witness.measured > 0:
            pairs.setdefault(parameter, witness)
    return [Step(name, tuple(pairs), tuple(pairs.values()), alone=True)] if pairs else []


def _from_what_was_measured(step: Step) -> Step:
    """Return a step that begins with the measured times, in ms, as ns: where a call takes longer than the copy, none shows."""
    return replace(step, start=tuple(each.measured * 1e6 for each in step.witnesses))


def _together(name: str, parameters: Sequence[Parameter], found: Iterable[Witness], start: float | None = None) -> list[Step]:
    """Return a step whose parameters share witnesses, where these are enough."""
    witnesses = tuple(found)
    if not parameters or len(witnesses) < len(parameters):
        return []
    return [Step(name, tuple(parameters), witnesses, alone=False, how="fitted", start=() if start is None else (start,))]
