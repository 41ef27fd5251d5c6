"""Every column of the tables: its name, type, unit, meaning and formula. What is not described here cannot be written.

A column that only some scenario kinds have takes its meaning from the description of the field in the kind's own model, so a
new kind needs no line here, unless it times something that has no name yet: then one row of TIMES.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from runner.scenarios import SCENARIOS
from runner.scenarios.base import column_of

ColumnType = Literal["integer", "number", "text"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. An `integer` or `number` cell is a number or empty; a `text` cell without a value is empty text."""

    name: str
    type: ColumnType
    unit: str
    meaning: str
    formula: str = ""


LEAD: Final = (
    Column("run_id", "text", "", "The run that wrote the row; it starts with r_ and no two runs share it."),
    Column("experiment", "text", "", "The name in the experiment's file."),
    Column("scenario", "text", "", "The name of the scenario in the file."),
    Column(
        "case_id",
        "text",
        "",
        "The case; it stays the same as long as its scenario's name and its values do.",
        "c_ + content hash",
    ),
    Column("status", "text", "", "ok, excluded, skipped, unsupported, failed, timeout, corrupt or not_run."),
    Column("reason", "text", "", "Why the status is not ok, or what a verdict stands on, in a sentence."),
    Column("flags", "text", "", "Doubts about the numbers of the row, as words with blanks between them."),
    Column("device", "text", "", "The device's name; a simulated one's is simulated:<profile>."),
    Column("device_kind", "text", "", "cuda: measured on a GPU. simulated: computed from a profile, measured nowhere."),
)

AXES: Final = (
    Column("buffer", "text", "", "The kind of host memory that the copy engine is handed."),
    Column(
        "direction",
        "text",
        "",
        "h2d: host to device. d2h: device to host. bidirectional: both at once. Of a pipeline: round_trip, upload or download.",
    ),
    Column("size_bytes", "integer", "bytes", "Bytes that one sample moves in each direction."),
    Column("chunk_bytes", "integer", "bytes", "Bytes of one copy; the last one may be shorter."),
    Column("total_bytes", "integer", "bytes", "Bytes of the input of a pipeline."),
    Column("streams", "integer", "streams", "Streams over which the chunks take turns; for both directions at once, of each."),
    Column("slots", "integer", "slots", "Chunks that can be under way at once."),
    Column(
        "staging",
        "text",
        "",
        "direct: the data lie in the buffer. copy: the host copies each chunk in and out of it. register: the data are "
        "page-locked in place inside the timing.",
    ),
    Column("staging_threads", "integer", "threads", "Host threads that share each of the staging copies."),
    Column("staging_lanes", "integer", "lanes", "Host lanes that stage side by side, each with slots and streams of its own."),
    Column("schedule", "text", "", "serialized: one chunk at a time. overlapped: a ring of slots."),
    Column("issue", "text", "", "Order of the calls: depth_first (chunk by chunk) or breadth_first (operation by operation)."),
    Column(
        "submit",
        "text",
        "",
        "calls: each operation is handed over by a call. graph: all by one launch of a graph that was captured before. batch: "
        "many copies by one call.",
    ),
    Column(
        "allocate",
        "text",
        "",
        "once: before the timing. per_chunk: inside it. pool: inside it, from the driver's pool, in the order of a stream.",
    ),
    Column("allocator", "text", "", "Of the device's memory: driver (its plain calls) or pool (in the order of a stream)."),
    Column("nodes", "integer", "nodes", "Kernels of the graph."),
    Column("compute_passes", "integer", "passes", "Passes of the kernel over each chunk; each adds 1 to every word."),
    Column("compute_ratio", "number", "", "Time of the kernels asked for, as a multiple of the time of the copies."),
    Column("pages_count", "integer", "pages", "Pages of 4 KiB that an allocation has.", "size_bytes / 4096, rounded up"),
    Column(
        "batch_n", "integer", "copies", "Times that a sample copied the same bytes; its times are those of one of these copies."
    ),
)

TIMES: Final = {
    "wall_ms": ("ms", "The host's time from before the first operation until the last result is there."),
    "event_ms": ("ms", "The device's time between CUDA events around all work of the sample that is timed."),
    "engine_ms": (
        "ms",
        "The engines' own time by their records: of one copy, or of several from the first begin to the last end; of a batch "
        "their busy time over their number. From recorded plays (role engine) unless measure.clock is engine.",
    ),
    "engine_busy_ms": ("ms", "Time in which an engine worked at all, of a batch over its copies; from the same plays."),
    "engine_gap_us": ("us", "Mean time for which no engine worked between two stretches in which one did; from the same plays."),
    "event_excess_us": (
        "us",
        "How much longer a pair of events said than the engines did, in the same recorded play; where both enclose the same.",
    ),
    "call_us": ("us", "How long one call held the host, as a mean over the copy calls (or other calls asked for) of the sample."),
    "h2d_event_ms": ("ms", "Of copies in both directions at once: the device's time around those to the device."),
    "d2h_event_ms": ("ms", "Of copies in both directions at once: the device's time around those to the host."),
    "cpu_ms": ("ms", "Processor time that the calling thread burnt during wall_ms, its waiting by spinning included."),
    "host_free_ms": ("ms", "wall_ms without the time that the copy calls held the host: what is left for other work."),
    "solo_ms": ("ms", "Sum of the device's times of the copies, each alone."),
    "concurrency": ("", "How much runs at once: solo_ms / event_ms; 1 where the copies serialize."),
    "wait_share": ("", "How long the copy call held the host, as a share of the earlier work in its stream: call_us / busy_ms."),
    "submission_share": ("", "Time of all copy calls as a share of the device's time around all copies."),
    "register_ms": ("ms", "Page-locking memory where it lies."),
    "unregister_ms": ("ms", "Undoing that."),
    "instantiate_ms": (
        "ms",
        "Making the graph: once, before the timing; with staging: register in each play, within wall_ms.",
    ),
    "node_us": ("us", "How long the launch of a graph held the host, over its copies and kernels."),
    "allocate_ms": ("ms", "Allocating the memory."),
    "touch_ms": ("ms", "Writing every word of the memory for the first time, by one thread."),
    "access_ms": (
        "ms",
        "The passes over the memory alone: of a kernel by CUDA events, else by the host's clock. A pass touches each byte "
        "once; an increment reads and writes it, and its rate counts it once.",
    ),
    "resident_bytes": ("bytes", "By how much the process's resident memory grew by allocating, touching and registering: VmRSS."),
    "locked_bytes": (
        "bytes",
        "By how much its locked memory grew by that, as the system counts it: the larger of VmLck and VmPin.",
    ),
    "free_ms": ("ms", "How long freeing the memory held the host."),
    "faulted": ("", "1 where the device ended the case with an error, which the reason names; 0 where it allowed the access."),
    "copy_alone_ms": ("ms", "A copy of the host before anything was pinned."),
    "copy_pinned_ms": ("ms", "The same copy beside the pinned ballast."),
    "copy_slowdown": ("", "How many times as long the host's copy took beside the ballast: copy_pinned_ms / copy_alone_ms."),
    "touch_alone_ms": ("ms", "Allocating and touching fresh memory before anything was pinned."),
    "touch_pinned_ms": ("ms", "The same beside the pinned ballast."),
    "touch_slowdown": ("", "How many times as long fresh memory took beside the ballast: touch_pinned_ms / touch_alone_ms."),
    "pin_ms": ("ms", "Allocating the pinned ballast."),
    "pinned_bytes": ("bytes", "The ballast that was pinned."),
}
"""Every figure that a sample can have: its unit and its meaning. A scenario's `figures` give these names and no others."""

_STATISTICS: Final = {
    "median": ("Median of", "median over the samples"),
    "min": ("Smallest of", "minimum over the samples"),
    "p05": (
        "5th percentile of",
        "quantile 0.05 with linear interpolation (Hyndman and Fan, definition 7); empty for fewer than 3 samples",
    ),
    "p95": (
        "95th percentile of",
        "quantile 0.95 with linear interpolation (Hyndman and Fan, definition 7); empty for fewer than 3 samples",
    ),
    "ci_low": (
        "Lower end of the 95 % interval of the median of",
        "order statistic by the binomial; empty for fewer than 6 samples and on a simulated device",
    ),
    "ci_high": (
        "Upper end of the 95 % interval of the median of",
        "order statistic by the binomial; empty for fewer than 6 samples and on a simulated device",
    ),
}

_CORRUPT: Final = Column(
    "corrupt_bytes",
    "integer",
    "bytes",
    "Bytes that did not hold what they should; 0 where all was right, empty where nothing ran. Of a hazard's samples the most.",
)
WHERE: Final = (
    Column("host", "text", "", "The machine of the GPU, where many GPUs take part; empty in a run of one."),
    Column(
        "gpu_uuid", "text", "", "The UUID of the GPU, where many take part; one that is simulated has one that begins with SIM-."
    ),
    Column("pci_bus_id", "text", "", "The place of that GPU in its machine."),
)

OUTCOME: Final = (
    *WHERE,
    Column(
        "placement",
        "text",
        "",
        "NUMA node of thread and memory: local (the GPU's), remote (another), any (as the system likes); empty where simulated.",
    ),
    Column("wait", "text", "", "How the host waited for the GPU: spin, yield or block; empty where simulated."),
    Column("memory_actual", "text", "", "What the driver said of each host buffer, as name=kind with blanks between them."),
    Column(
        "host_copier",
        "text",
        "",
        "What copied between host buffers. numpy: the C library's memcpy. c: threads of our own. c_streaming: these, past the "
        "caches into ordinary memory. On a simulated device what its profile assumes.",
    ),
    _CORRUPT,
)

_CLOCK = "median_event_ms for a transfer, median_wall_ms for a pipeline"
_OWN_TIME: Final = "Of copies in both directions at once: the rate of one direction over its own time"
RATES: Final = (
    Column(
        "gb_per_s",
        "number",
        "10^9 bytes/s",
        "Payload a second. A transfer's bytes of both directions are added where both are copied; of a pipeline the bytes of "
        "its input count once, there and back, so that its link carries up to twice as many each way together.",
        f"payload bytes / ms / 10^6; ms is {_CLOCK}, unless the file sets measure.clock",
    ),
    Column("gib_per_s", "number", "2^30 bytes/s", "The same rate in binary units.", "gb_per_s * 10^9 / 2^30"),
    Column(
        "link_gb_per_s", "number", "10^9 bytes/s", "The limit of the link in one direction, as the device reports it under load."
    ),
    Column(
        "share_of_link",
        "number",
        "",
        "The rate as a share of what the link allows, of both directions where both are used at once.",
        "gb_per_s / link_gb_per_s, or / (2 * link_gb_per_s) for both directions",
    ),
    Column("h2d_bytes", "integer", "bytes", "Bytes of payload that one sample moves over the link to the device."),
    Column("d2h_bytes", "integer", "bytes", "Bytes of payload that one sample moves over the link to the host."),
    Column("h2d_gb_per_s", "number", "10^9 bytes/s", f"{_OWN_TIME}, to the device.", "size_bytes / median_h2d_event_ms / 10^6"),
    Column("d2h_gb_per_s", "number", "10^9 bytes/s", f"{_OWN_TIME}, to the host.", "size_bytes / median_d2h_event_ms / 10^6"),
    Column(
        "speedup",
        "number",
        "",
        "How many times as fast as the baseline scenario's case with the same values on the axes that both have; 1 in the "
        "baseline's own rows, empty where there is no such case or more than one, or it is of another kind or payload.",
        f"ms of the baseline's case / ms; ms is {_CLOCK}, unless the file sets measure.clock",
    ),
    Column(
        "ci_low_speedup",
        "number",
        "",
        "Lower end of an interval of the speedup; wider than a 95 % one need be, and empty in the baseline's own rows.",
        "ci_low of the baseline's time / ci_high of the own one",
    ),
    Column(
        "ci_high_speedup",
        "number",
        "",
        "Upper end of an interval of the speedup.",
        "ci_high of the baseline's time / ci_low of the own one",
    ),
)

_PART = "median of the leg alone, over all chunks, handed over as the case is, measured once a run for each distinct one"
_UNHIDDEN: Final = "; with staging: register plus the medians of register_ms, unregister_ms and, of a graph, instantiate_ms"
DERIVED: Final = (
    Column(
        "twin_ms",
        "number",
        "ms",
        "The same work one chunk at a time, handed over in the same way (of batches by calls), measured in the same run.",
        "median wall time of role twin",
    ),
    Column("leg_host_in_ms", "number", "ms", "The host's copies into the stagers, alone.", _PART),
    Column("leg_h2d_ms", "number", "ms", "The uploads of all chunks, alone.", _PART),
    Column("leg_kernel_ms", "number", "ms", "The kernels of all chunks, alone.", _PART),
    Column("leg_d2h_ms", "number", "ms", "The downloads of all chunks, alone.", _PART),
    Column("leg_host_out_ms", "number", "ms", "The host's copies out of the stagers, alone.", _PART),
    Column("bound_none_ms", "number", "ms", "What the legs take where nothing overlaps.", f"sum of the legs{_UNHIDDEN}"),
    Column(
        "bound_one_way_ms",
        "number",
        "ms",
        "The least where uploads and downloads take turns on one engine and all else overlaps.",
        f"greatest of host legs, h2d + d2h, and kernel{_UNHIDDEN}",
    ),
    Column(
        "bound_full_ms",
        "number",
        "ms",
        "The least where uploads, kernels, downloads and the host's copies all overlap.",
        f"greatest of host legs, h2d, kernel and d2h{_UNHIDDEN}",
    ),
    Column(
        "overlap_efficiency",
        "number",
        "",
        "How much of what could be gained was gained: 0 as slow as the twin, 1 at the full bound. Empty for one chunk, which "
        "nothing overlaps.",
        "(twin_ms - median_wall_ms) / (twin_ms - bound_full_ms)",
    ),
    Column(
        "hidden_fraction",
        "number",
        "",
        "How much of the shorter legs ran hidden behind the longest one.",
        "1 - (median_wall_ms - bound_full_ms) / (bound_none_ms - bound_full_ms), from 0 to 1",
    ),
    Column(
        "copies_to_pay",
        "number",
        "copies",
        "After how many copies to the device page-locked memory has paid what it costs beyond pageable memory; 0 where it costs "
        "no more, empty where its copies save nothing.",
        "(median_wall_ms - that of pageable memory) / (copy from pageable memory - copy from this memory), by events",
    ),
)

_WORKS: Final = {"h2d": "uploads", "kernel": "kernels", "d2h": "downloads"}
_OVERLAP: Final = (
    Column(
        "overlap_h2d_d2h",
        "number",
        "",
        "Share of the time in which copies or kernels ran at all in which copies in both directions did at once; median.",
        "time of h2d and d2h at once / time of h2d, d2h or a kernel",
    ),
    Column(
        "overlap_copy_kernel",
        "number",
        "",
        "Share of the time in which copies or kernels ran at all in which a kernel ran beside a copy; median of the plays.",
        "time of a kernel and a copy at once / time of h2d, d2h or a kernel",
    ),
    *(
        Column(f"among_{work}_ms", "number", "ms", f"Time of the {called}, summed up, among all other work; median of the plays.")
        for work, called in _WORKS.items()
    ),
)
ENGINE: Final = (
    *_OVERLAP,
    *(
        Column(
            f"slowdown_{work}",
            "number",
            "",
            f"How many times as long the {called} took among the other work as alone; empty where one takes less than 10 us "
            "alone or the host takes part in the copies, since then the leg is not the engine's time.",
            f"among_{work}_ms / leg_{work}_ms",
        )
        for work, called in _WORKS.items()
    ),
    Column(
        "timeline_source",
        "text",
        "",
        "What the overlap was read from. engine: the engines' records. events: CUDA events, which is coarser. none: neither.",
    ),
    Column(
        "event_pair_us",
        "number",
        "us",
        "Time between two events with nothing between them, measured once on the device; empty where simulated.",
    ),
    Column(
        "event_constant_us",
        "number",
        "us",
        "What a pair of events around a copy adds to it, measured once on the device by 4 KiB from pinned memory.",
        "median of event time - engine time",
    ),
)

_OF_CLOCK: Final = "Of the samples' times by the clock that gives the rate, in the order in which they were taken"
_BLOCK: Final = Column(
    "block",
    "integer",
    "",
    "Number of the last reading of the sentinel before the row was measured, from 0; of the sentinel's own rows the reading. "
    "Empty on a simulated device.",
)
SAMPLING: Final = (
    Column("samples", "integer", "samples", "Samples that the statistics are made of, without warm-ups."),
    Column("warmups", "integer", "plays", "Plays before the first sample, until two in a row agreed within 5 %."),
    Column(
        "stopped_by",
        "text",
        "",
        "Why there are no more samples. samples: as many as asked for. interval: that of the median was as narrow as asked for. "
        "cap_samples, cap_seconds: the limit came first. deterministic: every play gives the same.",
    ),
    _BLOCK,
    Column(
        "noise_percent",
        "number",
        "%",
        f"{_OF_CLOCK}: half the width of the 95 % interval of the median, in percent of the median.",
        "(ci_high - ci_low) / 2 / median * 100; empty for fewer than 6 samples and on a simulated device",
    ),
    Column(
        "drift",
        "number",
        "",
        f"{_OF_CLOCK}: how much longer the last ones took than the first ones.",
        "median of the last third / median of the first third - 1; empty for fewer than 6 samples and on a simulated device",
    ),
    Column(
        "outliers",
        "integer",
        "samples",
        f"{_OF_CLOCK}: how many lie far from the others; they are kept and counted in every statistic.",
        "values below quartile 1 - 3 * IQR or above quartile 3 + 3 * IQR (Tukey's far out; quartiles by Hyndman and Fan, "
        "definition 7); empty for fewer than 6 samples and on a simulated device",
    ),
    Column(
        "first_over_median",
        "number",
        "",
        "How much longer the very first play took, a warm-up where there is one, than a sample does.",
        "time of the first play / median of the samples, by the clock that gives the rate; empty on a simulated device",
    ),
)

SAMPLE: Final = (
    Column(
        "role",
        "text",
        "",
        "sample: it counts. warmup: taken before, and left out of every statistic. twin, leg_…: what the case is held against. "
        "engine: recorded, after the samples. sentinel: one fixed small copy between the cases, which shows whether the machine "
        "changed.",
    ),
    Column("sample", "integer", "", "Number of the play, from 0, within its role."),
    Column("round", "integer", "", "Number of the round in which cases that share buffers took turns, from 0; empty outside."),
    Column("order", "integer", "", "Place of the case within its round, from 0; a fixed seed shuffles each round."),
    _BLOCK,
    Column("leg_ms", "number", "ms", "Time of a leg: of host copies by the host's clock, of the device's work between events."),
)

CASE: Final = (Column("excluded", "text", "", "Why the file excludes the case; empty where it runs."),)

VERDICT: Final = (
    Column("claim", "text", "", "What the file expects, in its own words."),
    Column("source", "text", "", "The sentence that it tests, as its document has it."),
    Column("form", "text", "", "ratio, same, ordering, value, exponent, threshold, lowest or text: what is judged."),
    Column(
        "verdict",
        "text",
        "",
        "confirmed: the figure's interval lies within the limit. refuted: it lies beyond. undecided: it straddles the limit, or "
        "a case has no number. Of several cases the worst counts.",
    ),
    Column(
        "figure",
        "number",
        "",
        "What was measured, in the row's unit: a ratio of two figures, a figure, an exponent, or a place on an axis.",
        "ratio: figure of the one case / of the other; exponent: slope of ln(figure) against ln(axis) by least squares; "
        "threshold: the smallest value of the axis from which on the condition holds",
    ),
    Column("low", "number", "", "Lower end of its interval.", "ratio: ci_low of the one / ci_high of the other"),
    Column("high", "number", "", "Upper end of its interval.", "ratio: ci_high of the one / ci_low of the other"),
    Column("limit", "text", "", "The limit that the file states."),
    Column("unit", "text", "", "Unit of figure, low and high; empty for a ratio, an exponent and a text."),
)


FLEET: Final = (
    Column("compared", "text", "", "The figure that is compared: the median by the clock that gives the rate."),
    Column("fleet_value", "number", "ms", "That figure on this GPU; empty where the case gave none."),
    Column("fleet_median", "number", "ms", "Its median over all GPUs."),
    Column("deviation_percent", "number", "%", "How far the value lies above that.", "(fleet_value / fleet_median - 1) * 100"),
    Column(
        "limit_percent",
        "number",
        "%",
        "How far it may lie from it.",
        "max(5 %, 3.5 * 1.4826 * median of |fleet_value - fleet_median| / fleet_median * 100)",
    ),
    Column("gpus", "integer", "GPUs", "How many GPUs gave the figure."),
    Column(
        "fleet_verdict",
        "text",
        "",
        "ok: within the limit. outlier: beyond it. undecided: no figure, or fewer than three GPUs, of which none can be odd.",
    ),
)


def summary_columns() -> tuple[Column, ...]:
    """Return the columns of summary.csv in order; the same for every run, so that tables can be put under each other."""
    return (*LEAD, *AXES, *own_columns(), *OUTCOME, *SAMPLING, *_statistics(), *RATES, *DERIVED, *ENGINE)


def sample_columns() -> tuple[Column, ...]:
    """Return the columns of samples.csv in order."""
    return (
        *LEAD,
        *AXES,
        *own_columns(),
        *SAMPLE,
        *WHERE,
        _CORRUPT,
        *_OVERLAP,
        *(Column(name, "number", *row) for name, row in TIMES.items()),
    )


def case_columns() -> tuple[Column, ...]:
    """Return the columns of cases.csv in order: the grid as it was expanded, before anything ran."""
    names = {"run_id", "experiment", "scenario", "case_id"}
    return (*(column for column in LEAD if column.name in names), *CASE, *AXES, *own_columns())


def verdict_columns() -> tuple[Column, ...]:
    """Return the columns of verdicts.csv in order."""
    lead = {column.name: column for column in LEAD}
    return (lead["run_id"], lead["experiment"], *VERDICT, lead["reason"], lead["device"], lead["device_kind"])


def fleet_columns() -> tuple[Column, ...]:
    """Return the columns of fleet.csv in order: each case of each GPU, held against the fleet."""
    lead = {column.name: column for column in LEAD}
    names = ("run_id", "experiment", "scenario", "case_id", "status", "flags", "device", "device_kind")
    return (*(lead[name] for name in names), *WHERE, *FLEET)


def all_columns() -> tuple[Column, ...]:
    """Return every column of every table once, as columns.csv lists them."""
    every = (*summary_columns(), *sample_columns(), *case_columns(), *verdict_columns(), *fleet_columns())
    return tuple({column.name: column for column in every}.values())


@cache
def own_columns() -> tuple[Column, ...]:
    """Return the columns of the kinds' fields that are no shared axis, in the order of the kinds and their fields."""
    shared = {column.name for column in AXES}
    found: dict[str, Column] = {}
    for kind, model in SCENARIOS.items():
        for column in field_columns(model):
            if column.name in shared:
                continue
            known = found.get(column.name)
            meaning = f"{kind}: {column.meaning}"
            found[column.name] = Column(
                column.name, column.type, column.unit, f"{known.meaning} {meaning}" if known else meaning, column.formula
            )
    return tuple(found.values())


def field_columns(model: type[BaseModel], prefix: str = "") -> Iterator[Column]:
    """Yield a column for each field of a model; those of a model inside it stand under `<field>_<its field>`."""
    for name, info in model.model_fields.items():
        inner = [kind for kind in _kinds_of(info.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
        for each in inner:
            yield from field_columns(each, f"{prefix}{name}_")
        if not inner:
            column = prefix + column_of(name, info.json_schema_extra)
            unit = "bytes" if column.endswith("_bytes") else ""
            yield Column(column, _type_of(info.annotation), unit, info.description or "")


def _statistics() -> Iterator[Column]:
    for name, (unit, meaning) in TIMES.items():
        for statistic, (of, formula) in _STATISTICS.items():
            yield Column(f"{statistic}_{name}", "number", unit, f"{of} {name}: {meaning[0].lower()}{meaning[1:]}", formula)


def _type_of(annotation: Any) -> ColumnType:
    kinds = [kind for kind in _kinds_of(annotation) if kind is not type(None)]
    if all(kind is int for kind in kinds):
        return "integer"
    return "number" if all(kind in (int, float) for kind in kinds) else "text"


def _kinds_of(annotation: Any) -> list[Any]:
    """Return the plain types of an annotation: without `Annotated`, a union taken apart."""
    if get_origin(annotation) is Annotated:
        return _kinds_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in _kinds_of(part)]
    return [annotation]
