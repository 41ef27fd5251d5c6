"""`kind: submission` asks what one call costs: many small operations in one stream, one after another."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from runner.device.contract import Trace
from runner.memory import BufferKind
from runner.pattern import WORD
from runner.plan import Copy, Drain, Graph, GroupEnd, Launch, Operation, Plan, Record
from runner.scenarios.base import LARGEST_PLAN, Cell, Scenario, Size, cpu_ms, event_ms, field_error, host_ms, timed
from runner.scenarios.builder import PlanWriter, check_copied, chunks_of
from runner.units import counted, told_size

MOST_CALLS = 100_000


class Submission(Scenario):
    """`count` calls of one operation in one stream; each copy has a range of its own, so that every one is verified."""

    WORK: ClassVar[tuple[str, ...]] = ("size", "count")

    kind: Literal["submission"] = Field(description="Many calls of one operation in one stream.")
    operation: Literal["copy", "launch", "record", "graph"] = Field(
        description="Async copies to the device, launches of the increment kernel, records of an event, or launches of a graph "
        "of such kernels."
    )
    size: Size = Field(
        4096, description="Bytes of each copy, or those that each kernel touches.", json_schema_extra={"unit": "bytes"}
    )
    nodes: int = Field(1, ge=1, le=MOST_CALLS, description="Kernels of the graph, one after another.")
    count: int = Field(1000, ge=1, le=MOST_CALLS, description="Calls of one sample.")
    buffer: BufferKind = Field("pinned", description="The kind of the host buffer of copies; the others have none.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_copied(self.buffer)
        if self.operation in ("launch", "graph") and self.size % WORD:
            raise field_error("size", f"{self.size:,} bytes are no multiple of the kernel's word, {WORD} bytes")
        if self.operation != "copy" and self.buffer != type(self).model_fields["buffer"].default:
            message = f"no {self.buffer} memory takes part: only copies have a host buffer"
            raise field_error("buffer", message, "leave it out, or operation: copy")
        if self.operation != "graph" and self.nodes > 1:
            raise field_error("nodes", "only a graph has nodes", "1, or operation: graph")
        if self.count * (self.nodes + 2) > LARGEST_PLAN and self.operation == "graph":
            message = f"{self.count:,} launches of {self.nodes:,} nodes are too many for one sample"
            raise field_error("count", message, f"at most {LARGEST_PLAN // (self.nodes + 2):,}")
        return self

    def columns(self) -> dict[str, Cell]:
        """Return the fields as cells; what has no host buffer names none."""
        graph = self.operation == "graph"
        return super().columns() | {
            "buffer": self.buffer if self.operation == "copy" else None,
            "nodes": self.nodes if graph else None,
        }

    def paid_once(self) -> tuple[str, ...]:
        """Return the making of the graph."""
        return ("instantiate_ms",) if self.operation == "graph" else ()

    def payload_bytes(self) -> int:
        """Return the bytes of all copies; other operations carry none."""
        return self.size * self.count if self.operation == "copy" else 0

    def ways(self) -> int:
        """Return 1 for copies, 0 where nothing crosses the link."""
        return 1 if self.operation == "copy" else 0

    def async_calls(self) -> int:
        """Return 0: small calls are bound by their own cost, which says nothing of how asynchronous they are."""
        return 0

    def describe(self) -> str:
        """Say in one sentence what one sample does."""
        what = {
            "copy": f"copy {told_size(self.size)} from {self.buffer} memory to the device",
            "launch": f"launch a kernel over {told_size(self.size)}",
            "record": "record an event",
            "graph": f"launch a graph of {counted(self.nodes, 'kernel')} over {told_size(self.size)} each",
        }
        return f"{what[self.operation]} {self.count:,} times in one stream"

    def plan(self) -> Plan:
        """Write the calls between two marks and two timed events, and the wait."""
        writer = PlanWriter()
        stream = writer.stream("stream")
        calls = self._calls(writer, stream)
        writer.mark("begin", cpu=True)
        writer.record(stream, "start", timed=True)
        writer.mark("call_begin")
        writer.lane.extend(calls)
        writer.mark("call_end")
        writer.record(stream, "stop", timed=True)
        writer.lane.append(Drain(stream))
        writer.mark("end", cpu=True)
        return writer.plan()

    def figures(self, plan: Plan, trace: Trace) -> dict[str, float]:
        """Return `call_us` of one call, wall, event and processor time, of copies `submission_share`, and of a graph
        `instantiate_ms` and `node_us`, which is the time of a call over its nodes.

        That is the time of all calls over the device's time around all copies: near 1 where the calls, not the data, take the
        time.
        """
        held = host_ms(plan, trace, "call_begin", "call_end")
        event = event_ms(plan, trace, "start", "stop")
        share = held / event if held is not None and event and self.operation == "copy" else None
        return timed(
            {
                "wall_ms": host_ms(plan, trace, "begin", "end"),
                "event_ms": event,
                "call_us": None if held is None else held * 1e3 / self.count,
                "cpu_ms": cpu_ms(plan, trace, "begin", "end"),
                "submission_share": share,
                "instantiate_ms": None if trace.instantiate_ns is None else trace.instantiate_ns / 1e6,
                "node_us": held * 1e3 / (self.count * self.nodes) if held is not None and self.operation == "graph" else None,
            }
        )

    def _calls(self, writer: PlanWriter, stream: int) -> list[Operation]:
        """Add what the calls work on and return them."""
        if self.operation == "record":
            return [Record(stream, writer.event(f"event {index}")) for index in range(self.count)]
        if self.operation != "copy":
            touched = writer.device_buffer("device", self.size)
            writer.data(touched)
            writer.expect(touched, self.size, added=self.count * self.nodes)
            kernels: list[Operation] = [Launch(stream, touched, 0, self.size)] * self.nodes
            return ([Graph(stream), *kernels, GroupEnd()] if self.operation == "graph" else kernels) * self.count
        total = self.size * self.count
        host, device = writer.buffer("host", self.buffer, total), writer.device_buffer("device", total)
        writer.data(host)
        writer.poison(device)
        writer.expect(device, total)
        return [Copy(stream, "h2d", device, offset, host, offset, size) for offset, size in chunks_of(total, self.size)]
