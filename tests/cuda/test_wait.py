"""How the host waits: the context is told before it is made, and each event besides."""

from __future__ import annotations

import pytest

from runner.device.cuda.driver import CudaContext
from runner.device.cuda.events import Events
from runner.placement import Wait
from runner.plan import Event, Plan, Stream, StreamWait
from tests.cuda.standin import LogicError, Raw, StandIn

SILENT, BLOCKING = 2, 1


@pytest.mark.parametrize(
    ("wait", "context_flags", "event_flags"),
    [("spin", 1, [0, SILENT]), ("yield", 2, [0, SILENT]), ("block", 4, [BLOCKING, SILENT | BLOCKING])],
)
@pytest.mark.parametrize("null", [False, True])
def test_the_context_and_its_events_wait_as_asked(wait: Wait, context_flags: int, event_flags: list[int], null: bool) -> None:
    driver = StandIn()
    context = CudaContext(driver, Raw(driver), 0, wait)
    assert driver.log == [f"context flags {context_flags}"]
    lane = (StreamWait(0, 0),) if null else ()
    streams = (Stream("s", "null" if null else "non_blocking"),)
    plan = Plan((), (), (), (lane,), streams=streams, events=(Event("timed", True), Event("silent")))
    events = Events(context, plan)
    made = [each._event if null else each for each in events._events]
    assert [event.flags for event in made] == event_flags
    events.close()
    context.close()


def test_a_context_that_cannot_be_told_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = StandIn()
    monkeypatch.setattr(Raw, "cuDevicePrimaryCtxSetFlags", lambda self, ordinal, flags: (708,))
    with pytest.raises(LogicError, match="cuDevicePrimaryCtxSetFlags failed"):
        CudaContext(driver, Raw(driver), 0, "block")
    assert driver.stack == []
