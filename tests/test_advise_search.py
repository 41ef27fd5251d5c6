"""The search for the best settings: as good as trying them all, at a tenth of the cost, and never beyond what the job allows."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from runner.advise_job import FROM_ORDINARY, Job, Setting, Work
from runner.advise_search import GAIN, MIB, Search
from runner.device.simulated import SimulatedDevice, load_profile
from runner.errors import UsageError

SMALL = Job(16 * MIB, 16 * MIB, page_locked=False)


def search(job: Job, profile: str = "test", most_threads: int = 4) -> Search:
    return Search(SimulatedDevice(load_profile(profile)), job, most_threads)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "most_threads", "page_locked", "work"),
    [
        ("test", 4, False, Work(passes=1)),
        ("test", 4, True, Work(ratio=2.0)),
        ("h200", 8, False, Work(ratio=2.0)),
        ("h200", 16, True, Work(passes=1)),
    ],
)
def test_it_ends_within_3_percent_of_the_best_of_all(profile: str, most_threads: int, page_locked: bool, work: Work) -> None:
    job = Job(4 * MIB, 4 * MIB, page_locked, work)
    found = search(job, profile, most_threads)
    best_ms = found.time_ms(found.run()[0])
    everything = search(job, profile, most_threads)
    least_ms = min(everything.time_ms(setting) for setting in everything.exhaustive())
    assert least_ms <= best_ms <= 1.03 * least_ms
    assert found.times_ms.keys() <= everything.times_ms.keys(), "it goes nowhere else"


@pytest.mark.slow
@pytest.mark.parametrize("page_locked", [False, True])
@pytest.mark.parametrize(("profile", "most_threads"), [("test", 4), ("h200", 16)])
def test_it_costs_less_than_a_tenth_of_trying_all(profile: str, most_threads: int, page_locked: bool) -> None:
    found = search(Job(256 * MIB, 256 * MIB, page_locked), profile, most_threads)
    found.run()
    # Each chunk is at least a copy up, a kernel, and a copy down.
    least = sum(3 * 256 * MIB // setting.chunk for setting in found.exhaustive())
    assert found.operations < least / 10
    assert found.operations > 3 * 256, "it has played"


def test_the_best_of_each_method_comes_back_the_fastest_first() -> None:
    found = search(SMALL)
    settings = found.run()
    assert {setting.method.name for setting in settings} == {method.name for method in FROM_ORDINARY}
    assert all(found.time_ms(before) <= found.time_ms(after) for before, after in pairwise(settings))


def test_no_single_step_from_the_best_gains() -> None:
    found = search(SMALL)
    best = found.run()[0]
    least = found.time_ms(best) * (1 - GAIN)
    halves = replace(best, chunk=best.chunk // 2), replace(best, chunk=best.chunk * 2)
    assert all(found.time_ms(other) >= least for other in (*halves, replace(best, streams=best.streams + 1)))


@pytest.mark.parametrize("pin_bytes", [MIB, 4 * MIB])
def test_nothing_page_locks_more_than_it_may(pin_bytes: int) -> None:
    found = search(replace(SMALL, pin_bytes=pin_bytes))
    for setting in found.run():
        model = found.model(setting.fields())
        assert model is not None
        assert model.demand().pinned_bytes <= pin_bytes
        assert model.demand().pinned_bytes or setting.method.name == "loop"


def test_without_room_for_a_ring_the_loop_is_left() -> None:
    assert [setting.method.name for setting in search(replace(SMALL, pin_bytes=1024)).run()] == ["loop"]


def test_threads_and_lanes_are_no_more_than_there_are_processors() -> None:
    found = search(SMALL, "h200", 3)
    found.run()
    assert max(setting.lanes * setting.threads for setting in found.times_ms) == 3


def test_one_thread_alone_leaves_a_ring() -> None:
    names = {setting.method.name for setting in search(SMALL, "h200", 1).run()}
    assert names == {"loop", "register", "ring", "threads", "lanes"}
    assert all(setting.lanes * setting.threads == 1 for setting in search(SMALL, "h200", 1).run())


def test_slots_that_would_never_see_a_chunk_are_not_tried() -> None:
    found = search(SMALL)
    idle = Setting(FROM_ORDINARY[2], 16 * MIB, streams=2)
    assert found.time_ms(idle) == math.inf
    assert found.operations == 0


@pytest.mark.parametrize(
    ("in_bytes", "out_bytes", "direction", "ratio"),
    [(MIB, 0, "upload", None), (0, MIB, "download", None), (MIB, MIB, "round_trip", None), (4 * MIB, MIB, "round_trip", 0.25)],
)
def test_a_job_is_a_direction_and_a_ratio(in_bytes: int, out_bytes: int, direction: str, ratio: float | None) -> None:
    job = Job(in_bytes, out_bytes, page_locked=True)
    fields = job.fields()
    assert (fields["direction"], fields.get("output_ratio")) == (direction, ratio)
    found = search(job)
    model = found.model(found.run()[0].fields())
    assert model is not None
    assert {way: size for way, size in (("h2d", in_bytes), ("d2h", out_bytes)) if size} == dict(model.link_bytes())


def test_the_work_is_made_passes_by_the_profile() -> None:
    kernel_ns = load_profile("test").engines.kernel.ns(8 * MIB)
    by_time = search(replace(SMALL, work=Work(kernel_ms=20 * 2 * kernel_ns / 1e6)))
    assert by_time.passes == pytest.approx(20, abs=1)
    assert search(replace(SMALL, work=Work(ratio=2.0))).passes == pytest.approx(
        2 * search(replace(SMALL, work=Work(ratio=1.0))).passes, abs=1
    )
    nothing = search(replace(SMALL, work=Work(ratio=0.0)))
    assert nothing.passes == 0
    assert nothing.time_ms(nothing.run()[0]) < math.inf


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (Job(0, 0, page_locked=True), "no bytes"),
        (Job(6, 6, page_locked=True), "sizes are multiples of 4 bytes, and 6 is none"),
        (Job(6, 6, page_locked=True, work=Work(ratio=1.0)), "multiples of 4"),
        (Job(MIB, 17 * MIB, page_locked=True), "at most 16"),
        (Job(2**40, 0, page_locked=True), "what goes one way stays on the device, which has .* free"),
        (replace(SMALL, work=Work(ratio=1e9)), "not between 0 and 100"),
        (replace(SMALL, work=Work(kernel_ms=1e9)), "at most 10,000"),
    ],
)
def test_a_job_that_no_pipeline_can_do_is_refused_with_the_reason(job: Job, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        search(job).run()
