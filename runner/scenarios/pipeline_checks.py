"""Which pipelines cannot be: each refused at the field that the user would change, with what is allowed there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runner.memory import KINDS, kind_of
from runner.pattern import WORD
from runner.scenarios.base import LARGEST_PLAN, field_error
from runner.scenarios.builder import ORDINARY, check_copied, check_pages
from runner.units import counted, format_size

if TYPE_CHECKING:
    from runner.scenarios.pipeline import Pipeline

CALLS_PER_CHUNK: Final = 12


def check_pipeline(pipeline: Pipeline) -> None:
    """Refuse what cannot be, at its field; everything else has a Plan.

    It runs once for each case of a grid, so whole groups of checks are passed over where no field could break them.
    """
    _check_sizes(pipeline)
    if pipeline.staging_lanes > 1:
        _check_lanes(pipeline)
    if pipeline.schedule == "serialized" or pipeline.layout == "per_engine" or pipeline.slots or pipeline.null_stream_work:
        _check_ring(pipeline)
    if pipeline.pages != "normal" or pipeline.staging == "register" or pipeline.staging_threads > 1:
        _check_memory(pipeline)
    if pipeline.submit != "calls":
        _check_submit(pipeline)
    check_copied(pipeline.buffer)
    if pipeline.direction != "round_trip" or pipeline.output_ratio > 1:
        _check_directions(pipeline)
    chunks = pipeline.chunks()
    if chunks * (CALLS_PER_CHUNK + (pipeline.compute.passes or 1)) > LARGEST_PLAN * 2:
        raise field_error("chunk", f"{chunks:,} chunks are too many for one sample", f"at most about {LARGEST_PLAN // 7:,}")


def _check_sizes(pipeline: Pipeline) -> None:
    chunk, total = pipeline.chunk, pipeline.total
    for field, size in (("total", total), ("chunk", chunk)):
        if size % WORD:
            raise field_error(field, f"{size:,} bytes are no multiple of the kernel's word, {WORD} bytes")
    if chunk > total:
        raise field_error("chunk", f"a chunk of {format_size(chunk)} is larger than the total, {format_size(total)}")
    if pipeline.output_ratio == 1:
        return
    for size in {chunk, total % chunk or chunk}:
        output = pipeline.output_of(size)
        if output.denominator != 1 or output % WORD:
            message = f"the output of a chunk of {size:,} bytes would be {float(output):,} bytes, no multiple of {WORD}"
            raise field_error("output_ratio", message)


def _check_ring(pipeline: Pipeline) -> None:
    streams, slots = pipeline.streams, pipeline.slots
    if pipeline.schedule == "serialized":
        if pipeline.layout == "per_engine":
            raise field_error("layout", "a serialized pipeline has no use for a stream an engine", "schedule: overlapped")
        if max(streams, slots or 1) > 1:
            field = "streams" if streams > 1 else "slots"
            raise field_error(field, "a serialized pipeline has one chunk under way at a time", "1, or schedule: overlapped")
    if pipeline.layout == "per_engine":
        engines = len(pipeline.ways_used()) + 1
        if streams != engines:
            raise field_error("streams", f"a stream an engine makes {engines} streams here", f"{engines}; slots are apart")
        if pipeline.stream_kind == "null":
            raise field_error("stream_kind", "the null stream is one, not one an engine", "non_blocking, blocking")
    elif slots is not None and slots < streams:
        message = f"{slots} slots leave some of {streams} streams without work"
        raise field_error("slots", message, "as many as streams or more")
    if pipeline.null_stream_work and pipeline.stream_kind == "null":
        raise field_error("null_stream_work", "all work is on the null stream already", "false, or other streams")


def _check_lanes(pipeline: Pipeline) -> None:
    lanes = pipeline.staging_lanes
    several = counted(lanes, "lane")
    if pipeline.staging != "copy":
        message = f"the host copies nothing that {several} could stage side by side"
        raise field_error("staging_lanes", message, "1, or staging: copy")
    if pipeline.schedule == "serialized":
        message = f"a serialized pipeline has one chunk under way, which leaves {counted(lanes - 1, 'lane')} without work"
        raise field_error("staging_lanes", message, "1, or schedule: overlapped")
    if lanes > pipeline.chunks():
        message = f"{counted(pipeline.chunks(), 'chunk')} leave {counted(lanes - pipeline.chunks(), 'lane')} without work"
        raise field_error("staging_lanes", message, f"at most {pipeline.chunks()}, or smaller chunks")
    if pipeline.layout == "per_engine":
        raise field_error("layout", f"{several} need streams of their own, and a stream an engine is shared by all", "per_slot")
    if pipeline.stream_kind == "null" or pipeline.null_stream_work:
        field, allowed = ("null_stream_work", "false") if pipeline.null_stream_work else ("stream_kind", "non_blocking, blocking")
        raise field_error(field, f"{several} need streams of their own, and the null stream is one", allowed)
    if pipeline.streams < lanes:
        message = f"{several} need a stream each, and there {'is' if pipeline.streams == 1 else 'are'} {pipeline.streams}"
        raise field_error("staging_lanes", message, f"at most {pipeline.streams}, or as many streams as lanes")


def _check_memory(pipeline: Pipeline) -> None:
    kind = kind_of(pipeline.buffer)
    if pipeline.pages != "normal":
        check_pages(pipeline.buffer if pipeline.staging == "direct" else ORDINARY, pipeline.pages)
    # Pinned is what the field says where nobody wrote it, so that an axis of stagings can do without an axis of buffers.
    if pipeline.staging == "register" and not kind.registers and pipeline.buffer != type(pipeline).model_fields["buffer"].default:
        message = f"the data are pageable and registered where they lie, so no {pipeline.buffer} memory takes part"
        raise field_error("buffer", message, "registered")
    if pipeline.staging_threads > 1 and pipeline.staging != "copy" and pipeline.allocate != "per_chunk":
        message = f"the host copies nothing that {counted(pipeline.staging_threads, 'thread')} could share"
        raise field_error("staging_threads", message, "1, or staging: copy")


def _check_submit(pipeline: Pipeline) -> None:
    """Let a graph or a batch hold only what needs no host between its operations and copies only memory that is page-locked."""
    reached = ", ".join(row.name for row in KINDS.values() if row.asynchronous and not row.migrates)
    wrong = (
        (pipeline.staging == "copy", "the host copies between the operations", "staging: direct, staging: register"),
        (pipeline.schedule == "serialized", "the host waits for each chunk of a serialized pipeline", "schedule: overlapped"),
        (
            pipeline.staging == "direct" and not kind_of(pipeline.buffer).asynchronous,
            f"a call that copies {pipeline.buffer} memory may hold the host",
            f"buffer: {reached}",
        ),
        (pipeline.allocate != "once", "memory that comes and goes has no address beforehand", "allocate: once"),
        (pipeline.null_stream_work, "work on the null stream cannot be part of it", "null_stream_work: false"),
        (
            pipeline.submit == "graph" and pipeline.stream_kind != "non_blocking",
            f"a graph forgets that its streams were {pipeline.stream_kind}",
            "stream_kind: non_blocking",
        ),
        (
            pipeline.submit == "batch" and (pipeline.layout != "per_engine" or pipeline.issue != "breadth_first"),
            "a batch is the copies of a turn in one stream",
            f"layout: per_engine with issue: breadth_first and streams: {len(pipeline.ways_used()) + 1}",
        ),
    )
    for is_wrong, message, allowed in wrong:
        if is_wrong:
            raise field_error("submit", message, f"calls, or {allowed}")


def _check_directions(pipeline: Pipeline) -> None:
    if pipeline.direction != "round_trip":
        if pipeline.allocate != "once":
            raise field_error("allocate", "in one direction the whole array stays on the device", "once")
        if pipeline.output_ratio != 1:
            raise field_error("output_ratio", "only a round trip has an output beside its input", "1")
    if pipeline.output_ratio > 1 and pipeline.allocate != "once":
        message = "a fresh device buffer holds nothing that could make the output larger than the input"
        raise field_error("output_ratio", message, "at most 1, or allocate: once")
