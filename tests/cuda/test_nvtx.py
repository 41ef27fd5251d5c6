"""NVTX ranges by recording their calls: around each play and operation where they are asked for, nowhere where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from runner.device.contract import DeviceFacts
from runner.device.cuda.nvtx import NvtxSession, Ranges, load_ranges
from runner.device.ranges import NVTX
from runner.errors import EnvironmentProblem
from runner.measure.environment import device_flags
from runner.plan import Mark, Plan
from tests.cuda.standin import Bench
from tests.results_for_tests import pipeline, transfer


@dataclass
class StandInNvtx:
    """The package nvtx: logs every range by its indented name, and checks that pops meet pushes."""

    log: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)

    def get_domain(self, name: str) -> StandInNvtx:
        self.domains.append(name)
        return self

    def get_event_attributes(self, message: str) -> str:
        return message

    def push_range(self, attributes: str) -> None:
        self.log.append("  " * len(self.open) + attributes)
        self.open.append(attributes)

    def pop_range(self) -> None:
        self.open.pop()


@pytest.fixture
def bench() -> Iterator[Bench]:
    opened = Bench()
    yield opened
    opened.close()


def ranged(bench: Bench, plan: Plan) -> tuple[NvtxSession, StandInNvtx]:
    nvtx = StandInNvtx()
    of = (bench.context, bench.kernels, bench.pool, bench.workers, plan, bench.closed.append, None, None)
    return NvtxSession(Ranges(nvtx), *of), nvtx


def test_a_play_and_its_operations_have_ranges(bench: Bench) -> None:
    plan = replace(transfer(size=8192, chunk=4096).plan(), title="copy c_1")
    session, nvtx = ranged(bench, plan)
    assert nvtx.log == [], "nothing is named before it is played"
    session.play(3)
    assert nvtx.log[0] == "copy c_1, play 3"
    assert nvtx.log[1:] == [
        "  Record",
        "  Copy h2d 4096 B, h2d 0",
        "  Copy h2d 4096 B, h2d 0",
        "  Record",
        "  HostWait",
    ]
    assert nvtx.open == []
    assert nvtx.domains == ["dmalab"]
    assert session.verify() == ()
    session.close()


def test_every_operation_but_marks_has_one_range(bench: Bench) -> None:
    plan = pipeline(total=65536, chunk=16384, streams=2).plan()
    session, nvtx = ranged(bench, plan)
    session.play(0)
    wanted = [operation for operation in plan.lanes[0] if not isinstance(operation, Mark)]
    assert [line.split()[0].rstrip(",") for line in nvtx.log[1:]] == [type(each).__name__ for each in wanted]
    assert nvtx.log[0] == "what cases are held against, play 0"
    session.close()


def test_a_session_without_ranges_has_the_calls_that_it_always_had(bench: Bench) -> None:
    plan = transfer(size=8192, chunk=4096).plan()
    session, _ = ranged(bench, plan)
    plain = bench.open(plan)
    added = 2 * sum(not isinstance(each, Mark) for each in plan.lanes[0])
    assert len(session._lanes[0].calls) == len(plain._lanes[0].calls) + added
    for each in (plain, session):
        each.play(0)  # what is allocated for filling is there from now on
    bench.driver.log.clear()
    plain.play(0)
    without = list(bench.driver.log)
    bench.driver.log.clear()
    session.play(0)
    assert bench.driver.log == without, "ranges change nothing of what the driver is asked to do"
    session.close()
    plain.close()


def test_a_title_makes_no_other_plan() -> None:
    plan = transfer().plan()
    assert replace(plan, title="one") == plan


def test_ranges_are_made_only_where_they_are_asked_for() -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    assert load_ranges({}, missing) is None
    assert load_ranges({NVTX: "0"}, missing) is None
    assert isinstance(load_ranges({NVTX: "1"}, lambda name: StandInNvtx()), Ranges)
    with pytest.raises(EnvironmentProblem, match="No module named 'nvtx'"):
        load_ranges({NVTX: "1"}, missing)


def test_rows_measured_with_ranges_carry_a_flag() -> None:
    facts = DeviceFacts("NVIDIA Test", "cuda", 0, 0, 2, {"nvtx": True})
    assert device_flags(facts) == ("nvtx",)
    assert device_flags(replace(facts, environment={"nvtx": False})) == ()
