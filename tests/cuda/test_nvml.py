"""NVML's answers on a stand-in of its library: found by identity, asked under load, and silent where a card does not tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runner.device.cuda.burst import QUEUED, under_load
from runner.device.cuda.nvml import Nvml, nvml_missing, open_nvml, reason_names
from tests.cuda.standin import Bench

UUID = "GPU-592555b7-1570-64f7-ec6e-f8f83072c13a"
BUS = "0000:00:06.0"


class NvmlError(Exception):
    pass


class Library:
    """`pynvml` for two cards, of which ours is the second; `refuse` names questions that this card cannot answer."""

    NVMLError = NvmlError

    def __init__(self, refuse: tuple[str, ...] = (), broken: bool = False) -> None:
        self.refuse, self.broken, self.open = refuse, broken, 0
        self.processes: dict[str, list[int]] = {"Compute": [10], "Graphics": [], "MPSCompute": []}
        self.generation, self.bits = 5, 0

    def nvmlInit(self) -> None:
        if self.broken:
            raise NvmlError("NVML Shared Library Not Found")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.159.04"

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> int:
        if uuid != UUID.encode():
            raise NvmlError("Not Found")
        return 1

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: bytes) -> int:
        if bus_id != BUS.encode():
            raise NvmlError("Not Found")
        return 1

    def __getattr__(self, name: str) -> Any:
        answers = {
            "ClockInfo": lambda sort: {1: 1980, 2: 3201}[sort],
            "MaxClockInfo": lambda sort: {1: 1980, 2: 3201}[sort],
            "DefaultApplicationsClock": lambda sort: {0: 1830}[sort],
            "CurrentClocksEventReasons": lambda: self.bits,
            "CurrentClocksThrottleReasons": lambda: 0x2,
            "Temperature": lambda sort: {0: 33}[sort],
            "PowerUsage": lambda: 120_500,
            "EnforcedPowerLimit": lambda: 700_000,
            "CurrPcieLinkGeneration": lambda: self.generation,
            "CurrPcieLinkWidth": lambda: 16,
            "MaxPcieLinkGeneration": lambda: 5,
            "MaxPcieLinkWidth": lambda: 16,
            "PersistenceMode": lambda: 1,
            "MigMode": lambda: [0, 1],
            **{f"{sort}RunningProcesses": lambda pids=pids: self.listed(pids) for sort, pids in self.processes.items()},
        }
        question = name.removeprefix("nvmlDeviceGet")
        if question not in answers:
            raise AttributeError(name)

        def ask(handle: int, *arguments: int) -> Any:
            assert handle == 1
            if question in self.refuse:
                raise NvmlError("Not Supported")
            return answers[question](*arguments)

        return ask

    def listed(self, pids: list[int]) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in pids]


def opened(library: Library) -> Nvml:
    return Nvml(library, 1)


@pytest.mark.parametrize(("uuid", "bus_id"), [(UUID, BUS), (UUID, "0000:99:00.0"), (None, BUS), ("GPU-other", BUS)])
def test_the_card_is_found_by_uuid_or_bus_id(uuid: str | None, bus_id: str) -> None:
    library = Library()
    with open_nvml(uuid, bus_id, lambda name: library) as nvml:
        assert nvml is not None
        assert nvml.link() == {"pcie_generation": 5, "pcie_width": 16}
        assert library.open == 1
    assert library.open == 0


def test_no_other_card_is_taken_for_it() -> None:
    library = Library()
    with open_nvml("GPU-other", "0000:99:00.0", lambda name: library) as nvml:
        assert nvml is None
    assert library.open == 0


def test_an_error_in_the_block_leaves_the_library_closed() -> None:
    library = Library()
    with pytest.raises(ZeroDivisionError), open_nvml(UUID, BUS, lambda name: library):
        raise ZeroDivisionError
    assert library.open == 0


def absent(name: str) -> Any:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_machine_without_nvml_is_told_and_breaks_nothing() -> None:
    with open_nvml(UUID, BUS, absent) as nvml:
        assert nvml is None
    with open_nvml(UUID, BUS, lambda name: Library(broken=True)) as nvml:
        assert nvml is None
    assert nvml_missing(absent) == "the package nvidia-ml-py is not installed"
    assert nvml_missing(lambda name: Library(broken=True)) == "its library does not start (NVML Shared Library Not Found)"
    assert nvml_missing(lambda name: Library()) == ""


def test_what_lasts_and_what_changes_is_told_with_units() -> None:
    library = Library()
    assert opened(library).lasting() == {
        "driver": "580.159.04",
        "sm_clock_max_mhz": 1980,
        "sm_clock_default_mhz": 1830,
        "memory_clock_max_mhz": 3201,
        "power_limit_w": 700.0,
        "pcie_generation_max": 5,
        "pcie_width_max": 16,
        "persistence_mode": True,
        "mig": False,
    }
    assert opened(library).state() == {
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "clock_limits": "",
        "temperature_c": 33,
        "power_w": 120.5,
        "pcie_generation": 5,
        "pcie_width": 16,
    }


def test_what_a_card_does_not_tell_is_empty_and_the_rest_stands() -> None:
    library = Library(refuse=("PowerUsage", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "MigMode"))
    state = opened(library).state()
    assert (state["power_w"], state["clock_limits"], state["sm_clock_mhz"]) == (None, None, 1980)
    assert opened(library).lasting()["mig"] is None


def test_an_older_driver_is_asked_for_the_reasons_by_their_older_name() -> None:
    assert opened(Library(refuse=("CurrentClocksEventReasons",))).state()["clock_limits"] == "applications_clocks_setting"


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0, ""),
        (0x1, "gpu_idle"),
        (0x4 | 0x40, "sw_power_cap hw_thermal_slowdown"),
        (0x1FF, " ".join(reason_names(1 << bit) for bit in range(9))),
        (0x8 | 0x400, "hw_slowdown unknown_0x400"),
    ],
)
def test_reasons_have_names(bits: int, names: str) -> None:
    assert reason_names(bits) == names


@pytest.mark.parametrize(
    ("compute", "graphics", "others"),
    [
        ([10], [], 0),  # only we
        ([10, 11], [], 1),
        ([10], [44], 1),
        ([10, 11], [11], 1),  # one process that computes and draws
        ([90_001], [], 0),  # we, by the number that the host gives us
        ([90_001, 90_002], [], 1),
        ([], [], 0),  # a container that hides them all
    ],
)
def test_only_processes_of_others_are_counted(compute: list[int], graphics: list[int], others: int) -> None:
    library = Library()
    library.processes |= {"Compute": compute, "Graphics": graphics}
    assert opened(library).other_processes(frozenset({10, 9})) == others


def test_a_card_that_does_not_list_processes_gives_no_count() -> None:
    refuse = tuple(f"{sort}RunningProcesses" for sort in ("Compute", "Graphics", "MPSCompute"))
    assert opened(Library(refuse=refuse)).other_processes(frozenset({10})) is None


def test_the_card_is_looked_at_while_copies_and_kernels_run(bench: Bench) -> None:
    seen, _ = under_load(bench.context, bench.kernels, lambda: list(bench.driver.log), seconds=0)
    assert seen.count("copy h2d") == seen.count("launch increment") == QUEUED
    assert "wait stream" not in seen
    after = bench.driver.log[len(seen) :]
    assert after == ["wait stream", "free device", "free pinned"]


def test_the_copies_end_before_their_memory_when_looking_fails(bench: Bench) -> None:
    def fail() -> None:
        raise NvmlError("GPU is lost")

    with pytest.raises(NvmlError, match="GPU is lost"):
        under_load(bench.context, bench.kernels, fail, seconds=0)
    assert bench.driver.log[-3:] == ["wait stream", "free device", "free pinned"]
