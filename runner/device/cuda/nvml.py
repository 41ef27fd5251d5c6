"""What NVIDIA's management library (NVML, package nvidia-ml-py) tells of one GPU: clocks, link, power, and who else uses it.

The GPU is found by its UUID or its bus id, never by an index: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER renumber the driver's
devices, and NVML counts all of them in its own order. Whatever a card or an older library does not tell is None.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

Fact = str | int | float | bool | None

REASONS: Final[Mapping[int, str]] = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Why clocks are not higher, by the bits of nvmlClocksEventReason* in nvml.h."""
_GRAPHICS, _SM, _MEMORY = 0, 1, 2
"""NVML_CLOCK_* of nvml.h."""
_TEMPERATURE: Final = 0
"""NVML_TEMPERATURE_GPU of nvml.h."""


class Nvml:
    """NVML's view of one GPU; `library` is the module pynvml, `handle` its handle of the device."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    def lasting(self) -> dict[str, Fact]:
        """Return what does not change while a run lasts: driver, limits of clocks (MHz), power (W) and link, modes."""
        power = self._device("EnforcedPowerLimit")
        return {
            "driver": _text(self._ask("nvmlSystemGetDriverVersion")),
            "sm_clock_max_mhz": self._device("MaxClockInfo", _SM),
            "sm_clock_default_mhz": self._device("DefaultApplicationsClock", _GRAPHICS),
            "memory_clock_max_mhz": self._device("MaxClockInfo", _MEMORY),
            "power_limit_w": None if power is None else power / 1e3,
            "pcie_generation_max": self._device("MaxPcieLinkGeneration"),
            "pcie_width_max": self._device("MaxPcieLinkWidth"),
            "persistence_mode": _truth(self._device("PersistenceMode")),
            "mig": _first_truth(self._device("MigMode")),
        }

    def state(self) -> dict[str, Fact]:
        """Return what changes: clocks (MHz), why they are not higher, temperature (°C), power (W), and the PCIe link as it is."""
        power = self._device("PowerUsage")
        reasons = self._device("CurrentClocksEventReasons")
        if reasons is None:
            reasons = self._device("CurrentClocksThrottleReasons")
        return {
            "sm_clock_mhz": self._device("ClockInfo", _SM),
            "memory_clock_mhz": self._device("ClockInfo", _MEMORY),
            "clock_limits": None if reasons is None else reason_names(int(reasons)),
            "temperature_c": self._device("Temperature", _TEMPERATURE),
            "power_w": None if power is None else power / 1e3,
            **self.link(),
        }

    def link(self) -> dict[str, Fact]:
        """Return the generation and the number of lanes that the PCIe link has at this moment."""
        return {
            "pcie_generation": self._device("CurrPcieLinkGeneration"),
            "pcie_width": self._device("CurrPcieLinkWidth"),
        }

    def other_processes(self, own: frozenset[int]) -> int | None:
        """Return how many processes but ours (`own` are their ids) compute or draw on the GPU, None where NVML does not tell.

        In a container NVML may count processes by the numbers that the host gives them. Then none of them is known as ours, and
        one must be, since this process has a context.
        """
        lists = [self._device(f"{sort}RunningProcesses") for sort in ("Compute", "Graphics", "MPSCompute")]
        told = [each for each in lists if each is not None]
        if not told:
            return None
        found = {int(process.pid) for each in told for process in each}
        others = found - own
        return len(others) if found != others or not found else len(others) - 1

    def _device(self, name: str, *arguments: object) -> Any:
        return self._ask(f"nvmlDeviceGet{name}", self._handle, *arguments)

    def _ask(self, name: str, *arguments: object) -> Any:
        """Ask one question; None where this card, driver or package cannot answer it."""
        question = getattr(self._library, name, None)
        try:
            return None if question is None else question(*arguments)
        except self._library.NVMLError:
            return None


@contextmanager
def open_nvml(uuid: str | None, bus_id: str, load: Callable[[str], Any] = importlib.import_module) -> Iterator[Nvml | None]:
    """Yield NVML's view of the GPU with this UUID or bus id; None where the package, the library or the GPU in it is absent."""
    library = _started(load)
    if library is None:
        yield None
        return
    try:
        handle = _handle(library, uuid, bus_id)
        yield None if handle is None else Nvml(library, handle)
    finally:
        with suppress(library.NVMLError):
            library.nvmlShutdown()


def nvml_missing(load: Callable[[str], Any] = importlib.import_module) -> str:
    """Return why NVML cannot be asked on this machine, in a few words; empty where it can."""
    try:
        library = load("pynvml")
    except ImportError:
        return "the package nvidia-ml-py is not installed"
    try:
        library.nvmlInit()
        library.nvmlShutdown()
    except library.NVMLError as error:
        return f"its library does not start ({error})"
    return ""


def own_processes() -> frozenset[int]:
    """Return the ids of the processes that are ours: this one, and the one that started it, which may measure on the GPU, too."""
    return frozenset({os.getpid(), os.getppid()})


def reason_names(bits: int) -> str:
    """Return the names of the reasons in a word of nvmlClocksEventReason* bits, with blanks between them; empty for none."""
    known = [name for bit, name in REASONS.items() if bits & bit]
    rest = bits & ~sum(REASONS)
    return " ".join([*known, *([f"unknown_{rest:#x}"] if rest else [])])


def _started(load: Callable[[str], Any]) -> Any:
    try:
        library = load("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
    except library.NVMLError:
        return None
    return library


def _handle(library: Any, uuid: str | None, bus_id: str) -> Any:
    for find, key in (("nvmlDeviceGetHandleByUUID", uuid), ("nvmlDeviceGetHandleByPciBusId", bus_id)):
        if key:
            with suppress(library.NVMLError):
                return getattr(library, find)(key.encode())
    return None


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _first_truth(value: Any) -> bool | None:
    """Return the present one of NVML's pairs of a present and a pending mode."""
    return None if value is None else bool(value[0])
