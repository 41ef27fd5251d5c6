"""Profiles: what a simulated device knows of a machine, every parameter with its unit, its origin and its source.

`runner.device.simulated.profile_files` reads them from YAML.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from runner.device.simulated.profile_values import Curve, Flag, RateTable, StartTable, Value, WorkTable
from runner.memory import Pages

PER_MILLION: Final = 1_000_000
ALL: Final = "all"
"""The name under which an accuracy has all cases together."""


class Kind(BaseModel):
    """What one kind of memory costs."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    h2d: Curve | None = Field(None, description="Engine time of a copy from this kind to the device.")
    d2h: Curve | None = Field(None, description="Engine time of a copy from the device to this kind.")
    allocate: Curve = Field(description="Time of its allocation; of a kind that registers, before it is touched and page-locked.")
    free: Curve = Field(description="Time of freeing it; of a kind that registers, after its pages were unlocked.")
    free_huge: Curve | None = Field(None, description="The same of huge pages, where these are freed faster.")
    free_waits: Flag | None = Field(None, description="Whether freeing it waits for all work of the device; no where omitted.")
    copies_wait: Flag | None = Field(
        None,
        description="Whether any copy waits for its stream and holds its caller, although engines reach it; no where omitted.",
    )
    cpu_read: Curve | None = Field(None, description="What reading costs one thread more than reading ordinary memory.")


class Locking(BaseModel):
    """Page-locking memory where it lies."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    lock: Curve = Field(description="Time of registering memory whose pages were touched.")
    unlock: Curve = Field(description="Time of undoing that.")


class InPlace(BaseModel):
    """A kernel that works on host memory over the link."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    read: Curve = Field(description="Engine time of a kernel that reads so many bytes of host memory.")
    write: Curve = Field(description="Engine time of a kernel that writes so many bytes of host memory.")
    increment: Curve = Field(description="Engine time of a kernel that reads and writes back so many bytes of host memory.")
    copy_h2d: Curve = Field(description="Engine time of a copy by a kernel from host memory to the device's.")
    copy_d2h: Curve = Field(description="Engine time of a copy by a kernel from the device's memory to the host's.")


class Migration(BaseModel):
    """Pages that move to whoever touches them."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    fault_h2d: Curve = Field(description="Time that a kernel takes longer for so many bytes that lie with the host.")
    fault_d2h: Curve = Field(description="Time that the processor takes longer for so many bytes that lie on the device.")
    fresh_device: Curve = Field(description="Time that a kernel takes longer for so many bytes that nobody has touched.")
    prefetch_h2d: Curve = Field(description="Engine time of moving so many bytes to the device when asked to.")
    prefetch_d2h: Curve = Field(description="Engine time of moving so many bytes to the host when asked to.")
    prefetch_held_h2d: Curve = Field(description="Time for which that call to the device holds its caller.")
    prefetch_held_d2h: Curve = Field(description="Time for which that call to the host holds its caller.")


class Staging(BaseModel):
    """How an async copy from memory that no engine can reach comes back to its caller."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    early_return_bytes: Value = Field(
        description="Up to this size a copy to the device returns once the data are staged, without waiting for its stream; "
        "larger ones first wait for the stream and return at their end."
    )
    held: Curve = Field(description="Time that staging holds the caller of such a small copy.")
    first_h2d: Curve | None = Field(
        None,
        description="What the first copy of a play from such memory takes longer, by its bytes; nothing where omitted.",
    )
    first_d2h: Curve | None = Field(None, description="The same of the first copy into such memory.")
    fresh_page_ns: Value | None = Field(
        None, description="Time of the first touch of one page by a copy from the device; as by the host where omitted."
    )


class Calls(BaseModel):
    """Time of the host for one call."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    copy_ns: Value = Field(description="An async copy.")
    cold_copy: Curve | None = Field(
        None, description="What the first copy call of a play takes longer, by the bytes of its copy; nothing where omitted."
    )
    change_ns: Value | None = Field(
        None, description="What a copy takes longer after a launch, and a launch after a copy; nothing where omitted."
    )
    handover_ns: Value | None = Field(
        None,
        description="What a call takes longer that had to wait for one of another lane, where there are two lanes; of more lanes "
        "by the logarithm of their number, of four twice as much. Nothing where omitted.",
    )
    launch_ns: Value = Field(description="One kernel launch.")
    record_ns: Value = Field(description="Recording an event.")
    stream_wait_ns: Value = Field(description="Letting a stream wait for an event.")
    graph_launch_ns: Value = Field(description="Launching a graph, whatever it holds.")
    graph_node_ns: Value = Field(description="Launching a graph, more for each copy or kernel in it.")
    graph_make_ns: Value = Field(description="Capturing, instantiating and uploading a graph, whatever it holds.")
    graph_make_node_ns: Value = Field(description="Capturing, instantiating and uploading a graph, more for each node.")
    batch_ns: Value = Field(description="One call for a batch of copies, however many they are.")
    batch_copy_ns: Value = Field(description="That call, more for each copy.")
    pool_alloc_ns: Value = Field(description="Allocating from the pool, in the order of a stream.")
    pool_free_ns: Value = Field(description="Giving memory back to the pool, in the order of a stream.")
    host_wait_ns: Value = Field(description="From an event, or the end of a stream, to the lane that waited for it.")


class Host(BaseModel):
    """The host's processor and pages."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    memory_bytes: Value = Field(description="Memory of the host that a case's buffers may take.")
    pins_counted: Flag = Field(description="Whether the system counts what a driver has pinned as locked memory of its process.")
    lock_limit_kept: Flag = Field(description="Whether a driver pins no more than a process may lock.")
    copy_gb_per_s: RateTable = Field(description="Total rate of all host copies under way, by their number of threads.")
    plain_gb_per_s: RateTable | None = Field(
        None,
        description="That rate with plain stores, by which in-place work of several threads goes; the same where omitted.",
    )
    host_copier: Literal["numpy", "c", "c_streaming"] = Field(
        "numpy", description="What copies at these rates, as the column of that name has it."
    )
    stager_ppm: WorkTable | None = Field(
        None,
        description="Work of copying a byte into or out of a page-locked buffer, in millionths of that between ordinary ones, by "
        "the bytes of all page-locked buffers of a case: small ones stay in the caches. As between ordinary ones where omitted.",
    )
    shared_stager_ppm: WorkTable | None = Field(
        None,
        description="The same where several threads copy, whose stores out of a stager pass the caches by, so that more of the "
        "stagers stay there. As stager_ppm where omitted.",
    )
    start_ns: StartTable | None = Field(
        None,
        description="What several threads take to begin a piece of work together and to be waited for; nothing where omitted.",
    )
    processors: Value | None = Field(
        None, description="Processors of the host: more threads copy no faster, and flag the row; no limit where omitted."
    )
    page_bytes: Value = Field(description="Bytes of a page.")
    first_touch_ns: Value = Field(description="Time of the first touch of one page, by one thread.")
    huge_page_bytes: Value = Field(description="Bytes of a huge page.")
    huge_first_touch_ns: Value = Field(description="Time of the first touch of one huge page, by one thread.")
    read_ppm: Value = Field(description="Work of reading a byte, in millionths of the work of copying one.")
    write_ppm: Value = Field(description="Work of writing a byte, in millionths of the work of copying one.")
    increment_ppm: Value = Field(description="Work of reading a byte and writing it back, in millionths of copying one.")

    def copied_per_second(self, threads: int) -> int:
        """Return the total rate of host copies by so many threads, in bytes a second."""
        working = threads if self.processors is None else min(threads, self.processors.value)
        return self.copy_gb_per_s.bytes_per_second(working)


class Engines(BaseModel):
    """How the engines of the device take turns."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    kernel: Curve = Field(description="Engine time of one pass of the increment kernel over so many bytes.")
    kernel_read: Curve = Field(description="Engine time of a kernel that reads so many bytes of the device's memory.")
    kernel_write: Curve = Field(description="Engine time of a kernel that writes so many bytes of the device's memory.")
    duplex_ppm: Value = Field(description="Rate of a copy while another runs the opposite way, in millionths of its own rate.")
    stream_change_ns: Value = Field(description="Gap on one engine between operations of different streams.")
    row_h2d_ns: Value | None = Field(
        None, description="Least time of a copy to the device that is not the first one of a play; nothing where omitted."
    )
    switch_ns: Value | None = Field(
        None,
        description="What ready work waits for an engine that served another stream, beside that gap; nothing where omitted.",
    )
    kernel_gap_ns: Value | None = Field(None, description="Gap between kernels of one stream; none where omitted.")
    handoff_ns: Value = Field(description="Gap within a stream from one engine to another.")
    timed_event_ns: Value = Field(description="Time that a timed event takes in its stream, after its time was taken.")


class Residual(BaseModel):
    """How far predictions lay from what was measured, of one sort of cases."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    cases: int = Field(ge=1, description="Cases of this sort.")
    median_percent: float = Field(ge=0, description="Median of the errors without their signs, in percent of the measured time.")
    worst_percent: float = Field(ge=0, description="The largest of them.")

    def words(self) -> str:
        """Return it in words, aligned under others."""
        count = f"{self.cases:4d} case{'s' if self.cases != 1 else ' '}"
        return f"{count}, median error {self.median_percent:.1f} %, largest {self.worst_percent:.1f} %"


class Accuracy(BaseModel):
    """How well a profile gives back measurements: those that it was fitted to, or others."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    run: str = Field(description="The run with which the profile was compared.")
    date: str = Field(description="When that run began, in UTC.")
    sorts: dict[str, Residual] = Field(
        min_length=1, description="Each sort of cases, by the name of its scenario; `all` of them."
    )


class Profile(BaseModel):
    """A machine as the simulated device knows it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="Name after `simulated:`.")
    description: str = Field(description="The machine in words.")
    source: str = Field(description="Where its figures come from, in one sentence.")
    fit: Accuracy | None = Field(
        None, description="What the fit left over, of the cases that it saw; none where nothing was fitted."
    )
    memory_bytes: Value = Field(description="Memory of the device.")
    copy_engines: Literal[1, 2] = Field(description="One for both directions, or one each.")
    link_gb_per_s: float = Field(gt=0, description="Nominal rate of the link in one direction, in GB/s.")
    kinds: dict[str, Kind] = Field(description="Each kind of memory, `device` too.")
    registration: dict[Pages, Locking] = Field(min_length=2, description="Page-locking in place, by the size of the pages.")
    staging: Staging = Field(description="Async copies from memory that no engine can reach.")
    engines: Engines = Field(description="The engines.")
    in_place: InPlace = Field(description="Kernels on host memory.")
    migration: Migration = Field(description="Pages that move to whoever touches them.")
    pageable_access: Flag = Field(description="Whether a kernel may use ordinary host memory.")
    calls: Calls = Field(description="Calls of the host.")
    host: Host = Field(description="The host.")
