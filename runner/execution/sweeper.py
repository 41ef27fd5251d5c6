"""A sweep in a process of its own, which owns the device: what runs there.

Started as `python -m runner.execution.sweeper FD END`. It speaks with its supervisor (`runner.execution.supervisor`) over FD, and
ends with it. After every round of samples and every case it waits until that is noted, so that nothing of the supervisor's work
runs beside what is timed (`runner.execution.teller`).
"""

from __future__ import annotations

import gc
import importlib.util
import signal
import sys
import traceback
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from runner.device.contract import Device, DeviceFacts
from runner.device.select import open_device
from runner.errors import DeviceUnavailable, DmalabError
from runner.execution.local import Sweep
from runner.execution.messages import Finished, Open, Opened, OwnFault, Read, Refused, Task, connection
from runner.execution.process import end_with_parent
from runner.execution.teller import Teller
from runner.measure.sentinel import Sentinel


def serve(wire: Connection) -> None:
    """Open the device, tell its facts, measure the cases of one task after another, and give the device back."""
    request: Open = wire.recv()
    try:
        opened = open_device(request.device, request.wait)
        facts = opened.device.facts()
    except DeviceUnavailable as error:
        wire.send(Refused(error.device, error.why, error.remedy))
        return
    except DmalabError as error:
        wire.send(Refused("", str(error), ""))
        return
    with closing(opened.device) as device:
        wire.send(Opened(facts, opened.note, device.recording, device.deterministic))
        more = True
        while more and not device.lost:
            task: Task = wire.recv()
            more = task.more
            _sweep(wire, device, facts, task)
            wire.send(Finished(None if device.lost else device.facts()))


def _sweep(wire: Connection, device: Device, facts: DeviceFacts, task: Task) -> None:
    sentinel = Sentinel(list(task.readings))
    told = len(sentinel.readings)
    teller = Teller(wire)
    sweep = Sweep(
        device,
        facts,
        task.cases,
        task.measure,
        sentinel,
        teller,
        medians=task.medians,
        most_pinned=task.most_pinned,
        ends_when_lost=True,
        bare=task.bare,
    )
    for ended in sweep:
        teller.settle()
        for reading in sentinel.readings[told:]:
            wire.send(Read(reading))
        told = len(sentinel.readings)
        wire.send(ended)
        wire.recv()
    teller.settle()
    for reading in sentinel.readings[told:]:
        wire.send(Read(reading))


def main() -> None:
    """Serve one supervisor."""
    end_with_parent(int(sys.argv[2]))
    # The supervisor decides what an interrupt means; a second one kills this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    with connection(int(sys.argv[1])) as wire:
        try:
            _read_ahead(wire)
            serve(wire)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the supervisor has what it wanted, or is gone
        except Exception as error:
            traceback.print_exc()
            wire.send(OwnFault(_in_words(error)))


def _read_ahead(wire: Connection) -> None:
    """Read the modules of a real device while nobody has said yet which device to open; its driver is loaded, and not called."""
    if not wire.poll() and importlib.util.find_spec("pycuda") is not None:
        with suppress(Exception):  # what cannot be read is told when that device is asked for
            importlib.import_module("runner.device.cuda.device")


def _in_words(error: Exception) -> str:
    """Say in one line what happened and where."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({' '.join(str(error).split())}) in line {frame.lineno} of {Path(frame.filename).name}"


if __name__ == "__main__":
    main()
