"""Which transfers cannot be: each refused at the field that the user would change, with what is allowed there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runner.memory import KINDS, kind_of
from runner.pattern import WORD
from runner.scenarios.base import LARGEST_PLAN, field_error
from runner.scenarios.builder import check_pages
from runner.units import format_size

if TYPE_CHECKING:
    from runner.scenarios.transfer import Transfer

GATED_CALLS: Final = 512
"""Calls that may be queued behind a gate: half of what the launch queue took on an H200, whose driver holds its caller, who alone
could open the gate, once the queue is full."""
CALLS_AROUND: Final = 6
"""Records and waits of a stream of one direction, at most."""


def check_transfer(transfer: Transfer) -> None:
    """Refuse what cannot be, at its field; everything else has a Plan."""
    chunk, size = transfer.chunk, transfer.size
    if chunk is not None and chunk > size:
        raise field_error("chunk", f"a chunk of {format_size(chunk)} is larger than the size, {format_size(size)}")
    if transfer.copies() * (1 if transfer.call == "async" else 2) + CALLS_AROUND * transfer.streams > LARGEST_PLAN:
        raise field_error("chunk", f"{transfer.copies():,} copies are too many for one sample", f"at most {LARGEST_PLAN:,}")
    check_pages(transfer.buffer, transfer.pages)
    _check_mover(transfer)
    if transfer.mover == "kernel" or transfer.moves_by() == "fault":
        for field in ("size", "chunk"):
            value = getattr(transfer, field) or 0
            if value % WORD:
                raise field_error(field, f"{value:,} bytes are no multiple of the word that is touched, {WORD} bytes")
    if transfer.submit == "batch":
        _check_batch(transfer)
    _check_repeats(transfer)
    _check_gate(transfer)
    _check_opposite(transfer)


def most_copies(transfer: Transfer) -> int:
    """Return the most copies that a batch may have: one Plan's, or what the launch queue takes behind a gate."""
    ways = len(transfer.played())
    around = CALLS_AROUND * transfer.streams * ways
    if transfer.gated:
        return (GATED_CALLS - around) // (transfer.copies() * ways)
    return (LARGEST_PLAN // 2 - around) // (transfer.copies() * ways) - transfer.lead_in


def _check_mover(transfer: Transfer) -> None:
    kind = kind_of(transfer.buffer)
    if transfer.migration and not kind.migrates:
        allowed = ", ".join(row.name for row in KINDS.values() if row.migrates)
        raise field_error("migration", f"{transfer.buffer} memory does not migrate, it is copied", f"only with buffer: {allowed}")
    if transfer.moves_by() == "fault" and transfer.direction == "bidirectional":
        message = f"the host may not touch {transfer.buffer} memory while the device works"
        raise field_error("direction", message, "h2d, d2h, or migration: prefetch")
    if transfer.mover == "kernel" and kind.migrates:
        raise field_error("mover", f"{transfer.buffer} memory migrates; migration: fault lets a kernel touch it", "engine")
    if transfer.mover == "kernel" and not kind.kernel_access:
        raise field_error("mover", f"a kernel cannot use {transfer.buffer} memory in place", "engine")


def _check_batch(transfer: Transfer) -> None:
    """Let a batch hold only copies of an engine that return at once."""
    kind = kind_of(transfer.buffer)
    if kind.migrates or not kind.asynchronous:
        allowed = ", ".join(row.name for row in KINDS.values() if row.asynchronous and not row.migrates)
        raise field_error(
            "submit", f"a call that moves {transfer.buffer} memory may hold the host", f"calls, or buffer: {allowed}"
        )
    if transfer.mover == "kernel":
        raise field_error("submit", "a batch holds copies of an engine, not of a kernel", "calls, or mover: engine")
    if transfer.call == "sync":
        raise field_error("submit", "the plain call waits for its one copy", "calls, or call: async")


def _check_repeats(transfer: Transfer) -> None:
    """Pages that have moved cannot be moved again, and one Plan holds so many operations only."""
    if kind_of(transfer.buffer).migrates:
        for field, once in (("batch", 1), ("lead_in", 0)):
            if getattr(transfer, field) != once:
                message = f"pages of {transfer.buffer} memory that have moved are there, so nothing moves twice"
                raise field_error(field, message, str(once))
    most = most_copies(transfer)
    if transfer.batch != "auto" and transfer.batch > max(1, most):
        where = "behind a gate" if transfer.gated else "in one sample"
        raise field_error("batch", f"{transfer.batch:,} copies are too many {where}", f"at most {max(1, most):,}")
    if transfer.lead_in > GATED_CALLS // transfer.copies():
        raise field_error("lead_in", f"{transfer.lead_in:,} copies are too many", f"at most {GATED_CALLS // transfer.copies():,}")


def _check_gate(transfer: Transfer) -> None:
    """Let a gate hold only calls that return at once: whoever waits behind it would wait for himself to open it."""
    if not transfer.gated:
        return
    kind = kind_of(transfer.buffer)
    if kind.migrates or not kind.asynchronous:
        allowed = ", ".join(row.name for row in KINDS.values() if row.asynchronous and not row.migrates)
        message = f"a call that moves {transfer.buffer} memory may wait for its stream, which a gate holds for ever then"
        raise field_error("gated", message, f"only with buffer: {allowed}")
    if transfer.call == "sync":
        raise field_error("gated", "the plain call waits for its copy, which a gate holds for ever then", "only with call: async")
    if transfer.mover == "kernel":
        raise field_error(
            "gated", "only copies of an engine are held by a gate, which is a kernel itself", "only with mover: engine"
        )
    if most_copies(transfer) < 1:
        raise field_error(
            "gated", f"the calls of {transfer.copies():,} copies do not fit behind a gate", f"at most {GATED_CALLS:,}"
        )


def _check_opposite(transfer: Transfer) -> None:
    if transfer.opposite is None:
        return
    if transfer.direction == "bidirectional":
        raise field_error("opposite", "both directions are measured already", "only with direction: h2d or d2h")
    if not transfer.gated:
        raise field_error(
            "opposite", "without a gate one direction is under way before the other is queued", "only with gated: true"
        )
