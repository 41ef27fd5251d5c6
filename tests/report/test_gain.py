from __future__ import annotations

from runner.report.gain import bound_above_twin, gain_sentences, limit_sentences, set_up_differences
from tests.report.folders import MIB, pipeline

SET_UP = {"staging": "copy", "allocate": "once"}
SERIAL = pipeline(32 * MIB, 1, 268.9, buffer="pageable", staging="direct", allocate="per_chunk")


def test_a_speedup_is_split_into_overlap_and_the_rest() -> None:
    ring = pipeline(32 * MIB, 4, 68.2, twin_ms=85.36, **SET_UP)
    assert gain_sentences(ring, SERIAL) == [
        "Overlap itself gives 1.25 times: the same work from the same buffers, one chunk at a time, takes 85.36 ms. The rest "
        "comes from what the two differ in besides: buffer pinned instead of pageable, staging copy instead of direct, allocate "
        "once instead of per_chunk."
    ]
    assert set_up_differences(ring, ring) == []
    assert gain_sentences(SERIAL | {"twin_ms": None}, SERIAL) == [], "what has no twin is not split"


def test_overlap_that_gives_nothing_is_said_to_give_nothing() -> None:
    (same,) = gain_sentences(pipeline(MIB, 4, 99.0), None)
    assert same.startswith("None of it comes from overlap: ")
    (worse,) = gain_sentences(pipeline(MIB, 4, 110.0), None)
    assert worse.startswith("None of it comes from overlap, which costs time here: ")


def test_the_longest_part_is_named_as_the_limit() -> None:
    ring = pipeline(MIB, 4, 68.2, leg_host_in_ms=30.0, leg_host_out_ms=31.5, leg_h2d_ms=50.0)
    assert limit_sentences(ring) == ["What limits it most is the host's own copies: measured alone 61.5 ms of its 68.2 ms."]
    assert limit_sentences(pipeline(MIB, 4, 68.2)) == [], "without legs nothing is named"


def test_bounds_above_the_twin_limit_nothing() -> None:
    ring = pipeline(MIB, 4, 92.0, twin_ms=79.07, bound_full_ms=86.1, leg_host_in_ms=86.1)
    assert bound_above_twin(ring)
    (told,) = limit_sentences(ring)
    assert told.startswith("What limits it cannot be told: the host's own copies took 86.1 ms")
    assert not bound_above_twin(pipeline(MIB, 4, 92.0))
