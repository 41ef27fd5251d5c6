"""A Dask cluster of this machine: a scheduler in this process, and a process for each worker, each with a GPU of its own."""

from __future__ import annotations

import logging
import os
from typing import Any

from runner.errors import EnvironmentProblem
from runner.execution.members import ALL, members_of


def start_local(count: int, device: str) -> Any:
    """Start `count` workers and return their cluster; raises EnvironmentProblem where the machine has fewer GPUs.

    A real GPU is bound to its worker by its UUID. Each worker is started anew where it dies.
    """
    from distributed import Nanny, Scheduler, SpecCluster

    bound = [{}] * count if device.startswith("simulated") else _bound(count)
    workers = {
        place: {
            "cls": Nanny,
            "options": {
                "nthreads": 1,
                "resources": {"GPU": 1},
                "name": f"local-{place}",
                "env": env,
                "memory_limit": 0,
                "silence_logs": logging.ERROR,
                "dashboard_address": None,
                "protocol": "tcp://",
                "host": "127.0.0.1",
            },
        }
        for place, env in enumerate(bound)
    }
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "dashboard": False, "dashboard_address": ":0"}}
    cluster: Any = SpecCluster
    return cluster(workers=workers, scheduler=scheduler, silence_logs=logging.ERROR)


def _bound(count: int) -> list[dict[str, str]]:
    uuids = [member.uuid for member in members_of(ALL)]
    if len(uuids) < count:
        raise EnvironmentProblem(f"{count} workers want a GPU each, and this machine has {len(uuids)}; start fewer, as local:1")
    keep = {name: value for name, value in os.environ.items() if name.startswith(("PYCUDA_", "DMALAB_"))}
    return [{**keep, "CUDA_VISIBLE_DEVICES": uuid} for uuid in uuids[:count]]
