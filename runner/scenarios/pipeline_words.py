"""What a pipeline does, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.memory import kind_of
from runner.units import counted, told_size

if TYPE_CHECKING:
    from runner.scenarios.pipeline import Pipeline


def describe_pipeline(pipeline: Pipeline) -> str:
    """Say in one sentence what one sample does, every size in bytes."""
    where = {"round_trip": "to the device and back", "upload": "to the device", "download": "from the device"}
    chunks = f"in {counted(pipeline.chunks(), 'chunk')} of {told_size(pipeline.chunk)}"
    return (
        f"take {told_size(pipeline.total)} {where[pipeline.direction]} {chunks} {_ring(pipeline)}, {_work(pipeline)}; "
        f"{_data(pipeline)}{_allocation(pipeline)}{_submission(pipeline)}"
    )


def advise_pipeline(pipeline: Pipeline) -> str:
    """Warn of memory under which the ring cannot overlap, of stagers that the processor reads slowly, and of uneven lanes."""
    handed = kind_of(pipeline.handed())
    stager = "the stager is what `buffer` says: " if pipeline.staging == "copy" else ""
    if pipeline.schedule == "overlapped" and not handed.asynchronous:
        return (
            f"{stager}{handed.name} memory is {handed.meaning}: a call that copies it waits, so this ring can hide little; "
            "take buffer: pinned, or compare both"
        )
    if pipeline.staging == "copy" and pipeline.direction != "upload" and handed.slow_cpu_read:
        return f"{handed.name} memory is {handed.meaning}: copying results out of it may take most of the time"
    if pipeline.staging == "register" and pipeline.buffer != pipeline.handed() and "buffer" in pipeline.model_fields_set:
        return f"buffer: {pipeline.buffer} says nothing here: the data are pageable and registered where they lie"
    slots, lanes = pipeline.ring_slots(), pipeline.staging_lanes
    if slots % lanes:
        return f"{counted(slots, 'slot')} cannot be dealt evenly to {counted(lanes, 'lane')}: some have one less than the others"
    return ""


def _ring(pipeline: Pipeline) -> str:
    if pipeline.schedule == "serialized":
        return "one after another" + _streams(pipeline)
    slots, chunks = pipeline.ring_slots(), pipeline.chunks()
    idle = f" ({counted(slots - chunks, 'slot')} stay idle)" if slots > chunks else ""
    engines = ", a stream an engine" if pipeline.layout == "per_engine" else ""
    return f"on a ring of {counted(slots, 'slot')} and {counted(pipeline.streams, 'stream')}{idle}{engines}{_streams(pipeline)}"


def _streams(pipeline: Pipeline) -> str:
    kinds = {"non_blocking": "", "blocking": ", which wait for the null stream", "null": ", all of it the null stream"}
    work = ", with a tiny kernel on the null stream between chunks" if pipeline.null_stream_work else ""
    return kinds[pipeline.stream_kind] + work


def _work(pipeline: Pipeline) -> str:
    compute = pipeline.compute
    if compute.passes is None:
        return f"computing on each chunk for {compute.ratio:g} times as long as its copies take"
    ratio = "" if pipeline.output_ratio == 1 else f", with {told_size(round(pipeline.output_of(pipeline.total)))} of output"
    return f"adding {compute.passes} to each word{ratio}"


def _data(pipeline: Pipeline) -> str:
    pages = " with huge pages" if pipeline.pages == "huge" else ""
    threads = f" of {pipeline.staging_threads} threads" if pipeline.staging_threads > 1 else ""
    match pipeline.staging:
        case "copy":
            lanes = "" if pipeline.staging_lanes == 1 else f" on {pipeline.staging_lanes} lanes"
            return f"the data are pageable{pages} and staged by host copies{threads}{lanes} through {pipeline.buffer} memory"
        case "register":
            return f"the data are pageable{pages} and page-locked where they lie, inside the timing"
        case "direct":
            return f"the data are in {pipeline.buffer} memory{pages}"


def _allocation(pipeline: Pipeline) -> str:
    return {
        "once": "",
        "per_chunk": ", allocating a device buffer and a landing buffer for each chunk",
        "pool": ", taking the device buffer of each chunk from the driver's pool",
    }[pipeline.allocate]


def _submission(pipeline: Pipeline) -> str:
    return {
        "calls": "",
        "graph": ", all of it launched as one graph" + (", made anew each time" if pipeline.staging == "register" else ""),
        "batch": ", the copies of each third of the ring handed over by one call",
    }[pipeline.submit]
