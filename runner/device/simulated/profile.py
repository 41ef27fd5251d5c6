"""Profiles: what a simulated device knows of a machine, every parameter with its unit, its origin and its source.

`runner.device.simulated.profile_files` reads them from YAML.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from runner.memory import Pages

How = Literal["measured", "published", "fitted", "assumed"]
PER_MILLION: Final = 1_000_000
ALL: Final = "all"
"""The name under which an accuracy has all cases together."""


class Sourced(BaseModel):
    """A parameter: how it is known, and from where."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    how: How = Field(description="Measured by us, published by others, fitted to reproduce a published figure, or assumed.")
    source: str = Field(min_length=3, description="Where and when, or why it was assumed.")


class Value(Sourced):
    """A whole number; its unit is the end of its name in the file."""

    value: int = Field(ge=0, description="The number, in the unit that ends its name.")


class Flag(Sourced):
    """A yes or no."""

    value: bool = Field(description="The answer.")


def _bytes_per_second(value: object) -> object:
    """Read GB/s exactly, as whole bytes a second."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a rate is a number of GB/s")
    return int(Decimal(str(value)) * 10**9)


Rate = Annotated[int, BeforeValidator(_bytes_per_second), Field(ge=1, le=10**18)]
"""A rate that the file gives in GB/s (10^9 bytes a second), kept in bytes a second."""
Point = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class Curve(Sourced):
    """A time as a function of a size: straight lines between the points, one rate after the last."""

    points: tuple[Point, ...] = Field(min_length=1, description="[bytes, ns] in rising order, the first at 0 bytes.")
    then_gb_per_s: Rate | None = Field(None, description="Rate after the last point; no more time where omitted.")

    @model_validator(mode="after")
    def _rises(self) -> Self:
        sizes = [size for size, _ in self.points]
        times = [time for _, time in self.points]
        if sizes[0] != 0 or sizes != sorted(set(sizes)) or times != sorted(times):
            raise ValueError("points begin at 0 bytes and rise in bytes and in ns")
        return self

    def ns(self, size: int) -> int:
        """Return the time in ns, rounded up, of `size` bytes."""
        index = bisect_right(self.points, size, key=lambda point: point[0])
        size_0, time_0 = self.points[index - 1]
        if index < len(self.points):
            size_1, time_1 = self.points[index]
            return time_0 + _up((size - size_0) * (time_1 - time_0), size_1 - size_0)
        return time_0 + (_up((size - size_0) * 10**9, self.then_gb_per_s) if self.then_gb_per_s else 0)


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


class RateTable(Sourced):
    """A total rate by a number of threads: straight lines between the rows, constant after the last."""

    by_threads: dict[int, Rate] = Field(min_length=1, description="Threads: GB/s, the first row for 1 thread.")

    @model_validator(mode="after")
    def _begins_at_one(self) -> Self:
        if min(self.by_threads) != 1:
            raise ValueError("the first row is for 1 thread")
        return self

    def bytes_per_second(self, threads: int) -> int:
        """Return the total rate of `threads` threads in bytes a second."""
        return _between(self.by_threads, threads)


class WorkTable(Sourced):
    """Work by a number of bytes, in millionths: straight lines between the rows, constant before the first and after the last."""

    by_bytes: dict[int, Annotated[int, Field(ge=1)]] = Field(min_length=1, description="Bytes: millionths of the usual work.")

    def ppm(self, size: int) -> int:
        """Return the millionths at `size` bytes, rounded down."""
        return _between(self.by_bytes, size)


class StartTable(Sourced):
    """A time by a number of threads: straight lines between the rows, constant before the first and after the last."""

    ns_by_threads: dict[int, Annotated[int, Field(ge=0)]] = Field(min_length=1, description="Threads: ns.")

    def ns(self, threads: int) -> int:
        """Return the ns of `threads` threads, rounded down."""
        return _between(self.ns_by_threads, threads)


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
    start_ns: StartTable | None = Field(
        None,
        description="What several threads take to begin a piece of work together and to be waited for; nothing where omitted.",
    )
    page_bytes: Value = Field(description="Bytes of a page.")
    first_touch_ns: Value = Field(description="Time of the first touch of one page, by one thread.")
    huge_page_bytes: Value = Field(description="Bytes of a huge page.")
    huge_first_touch_ns: Value = Field(description="Time of the first touch of one huge page, by one thread.")
    read_ppm: Value = Field(description="Work of reading a byte, in millionths of the work of copying one.")
    write_ppm: Value = Field(description="Work of writing a byte, in millionths of the work of copying one.")
    increment_ppm: Value = Field(description="Work of reading a byte and writing it back, in millionths of copying one.")


class Engines(BaseModel):
    """How the engines of the device take turns."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    kernel: Curve = Field(description="Engine time of one pass of the increment kernel over so many bytes.")
    kernel_read: Curve = Field(description="Engine time of a kernel that reads so many bytes of the device's memory.")
    kernel_write: Curve = Field(description="Engine time of a kernel that writes so many bytes of the device's memory.")
    duplex_ppm: Value = Field(description="Rate of a copy while another runs the opposite way, in millionths of its own rate.")
    stream_change_ns: Value = Field(description="Gap on one engine between operations of different streams.")
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


def _between(table: Mapping[int, int], key: int) -> int:
    """Return what lies between the rows of a table, rounded down; before the first and after the last what these say."""
    rows = sorted(table.items())
    index = bisect_right(rows, key, key=lambda row: row[0])
    if index in (0, len(rows)):
        return rows[max(0, index - 1)][1]
    (key_0, value_0), (key_1, value_1) = rows[index - 1], rows[index]
    return value_0 + (key - key_0) * (value_1 - value_0) // (key_1 - key_0)


def _up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
