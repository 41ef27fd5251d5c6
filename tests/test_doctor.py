"""The doctor: what is missing is told with its remedy, what is doubtful is judged by numbers, and the exit code follows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from runner import cli, doctor
from runner.device.contract import Activity, DeviceFacts, Mismatch, Trace
from runner.device.simulated import SimulatedDevice, load_profile
from runner.doctor import Diagnosis, diagnose
from runner.doctor_probes import SIZE, Check, Taken, async_check, clock_check, engine_ms, probe, rate_check
from runner.errors import CaseFailed, DeviceUnavailable, InputError
from runner.plan import Plan

QUIET: dict[str, str] = {"PATH": ""}
LINK = 63.015


def taken(event_ms: float, *more: float, wall_ms: float | None = None, engine: float | None = None) -> Taken:
    times = (event_ms, *more)
    return Taken(tuple({"event_ms": time, "wall_ms": wall_ms or time, "call_us": 3.0} for time in times), engine, 0)


def found(diagnosis: Diagnosis, name: str) -> list[Check]:
    return [check for check in diagnosis.checks if check.name == name]


# without a GPU


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ordinal: int, wait: str) -> Any:
        raise DeviceUnavailable(f"cuda:{ordinal}", "there is no driver", "install one")

    monkeypatch.setattr("runner.device.select._open_cuda", refuse)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_simulated_device_serves(tmp_path: Path) -> None:
    diagnosis = diagnose("auto", tmp_path, QUIET)
    (nvcc,), (device,) = found(diagnosis, "nvcc"), found(diagnosis, "device")
    assert (nvcc.level, device.level, diagnosis.exit_code) == ("warn", "warn", 0)
    assert "nvcc was not found" in nvcc.found or "host C++ compiler" in nvcc.found
    assert nvcc.remedy
    assert "these numbers are simulated, on simulated:h200" in device.found
    assert diagnosis.lines()[-1].startswith("Runs on simulated:h200 can go ahead; read ")


@pytest.mark.usefixtures("no_gpu")
def test_what_needs_the_driver_comes_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise DeviceUnavailable(name, "there is no driver", "install one")

    monkeypatch.setattr("runner.device.cuda.opening.require_driver_library", refuse)
    monkeypatch.setattr("runner.device.cuda.opening.load_module", lambda name, module, label: refuse(name))
    diagnosis = diagnose("auto", tmp_path, QUIET)
    assert found(diagnosis, "pycuda")[0].remedy.startswith("after the driver, type: ")
    monkeypatch.setattr("runner.device.cuda.opening.require_driver_library", lambda name: None)
    assert found(diagnose("auto", tmp_path, QUIET), "pycuda")[0].remedy.startswith("type: ")


@pytest.mark.usefixtures("no_gpu")
def test_a_real_device_that_was_asked_for_and_is_not_there_is_bad(tmp_path: Path) -> None:
    diagnosis = diagnose("cuda", tmp_path, QUIET)
    (device,) = found(diagnosis, "device")
    assert device == Check("device", "bad", "there is no driver", "install one; or use device: simulated, which needs none of it")
    assert found(diagnosis, "nvcc")[0].level == "bad"
    assert diagnosis.exit_code == 3
    assert diagnosis.lines()[-1].startswith("Numbers of cuda:0 could not be trusted: ")


def test_a_simulated_device_says_that_it_measures_nothing(tmp_path: Path) -> None:
    diagnosis = diagnose("simulated:rtx-4090", tmp_path, QUIET)
    assert found(diagnosis, "device")[0].level == "ok"
    assert "none is measured" in found(diagnosis, "device")[0].found
    assert diagnosis.exit_code == 0


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(InputError, match="is not a device"):
        diagnose("gpu0")


# the host


def test_limits_and_settings_are_told_with_what_to_type(tmp_path: Path) -> None:
    files = {
        "proc/self/limits": "Max locked memory         8388608              8388608              bytes\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
        "tmp/nvidia-mps/control": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    diagnosis = diagnose("simulated", tmp_path, QUIET)
    for name, remedy in {
        "memlock": "ulimit -l unlimited",
        "huge pages": "echo madvise | sudo tee",
        "cpu governor": "cpupower frequency-set -g performance",
        "cpu quota": "run without a limit",
        "mps": "nvidia-cuda-mps-control",
    }.items():
        (check,) = found(diagnosis, name)
        assert check.level == "warn"
        assert remedy in check.remedy
    assert diagnosis.exit_code == 0


@pytest.mark.parametrize(
    ("variables", "levels"),
    [
        ({}, ["ok"]),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, []),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, ["warn"]),
        ({"CUDA_INJECTION64_PATH": "/nsys.so", "LD_PRELOAD": "/x.so"}, ["warn", "warn"]),
        ({"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, ["warn"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["ok"]),
    ],
)
def test_variables_that_change_a_measurement_are_named(tmp_path: Path, variables: dict[str, str], levels: list[str]) -> None:
    checks = found(diagnose("simulated", tmp_path, QUIET | variables), "variables")
    assert [check.level for check in checks] == levels
    for check, name in zip((check for check in checks if check.level == "warn"), variables, strict=False):
        assert name in check.found
        assert check.remedy == f"unset {name}"


# the device's own words


def device_checks(**environment: Any) -> dict[str, Check]:
    link = environment.pop("link", LINK)
    facts = DeviceFacts("NVIDIA H200", "cuda", 1, 1, 3, {"pci_bus_id": "0000:00:06.0", **environment}, link_gb_per_s=link)
    return {check.name: check for check in doctor._device(facts)}


def test_a_healthy_device_is_all_ok() -> None:
    healthy = {"pcie_generation": 5, "pcie_generation_max": 5, "pcie_width": 16, "pcie_width_max": 16, "other_processes": 0}
    checks = device_checks(**healthy, sm_clock_mhz=1980, sm_clock_max_mhz=1980, memory_clock_mhz=3201, clock_limits="")
    assert {check.level for check in checks.values()} == {"ok"}
    assert checks["link"].found == "PCIe 5 x16 under load, 63.0 GB/s in one direction at most"
    assert checks["clocks"].found == "1980 MHz, memory 3201 MHz"


@pytest.mark.parametrize(
    ("environment", "name", "words"),
    [
        ({"pcie_generation": 4, "pcie_generation_max": 5, "pcie_width": 16}, "link", "the card can do PCIe 5"),
        ({"pcie_generation": 5, "pcie_width": 8, "pcie_width_max": 16}, "link", "PCIe 5 x8 under load"),
        ({"link": None}, "link", "nobody tells its speed"),
        ({"sm_clock_mhz": 345, "sm_clock_max_mhz": 1980}, "clocks", "345 MHz under load, of 1980 MHz"),
        ({"clock_limits": "hw_thermal_slowdown"}, "clocks", "held down by hw_thermal_slowdown"),
        ({"other_processes": 2}, "other processes", "2 other processes on the GPU"),
        ({"mig": True}, "mig", "cut into instances"),
    ],
)
def test_what_a_device_says_against_itself_is_a_warning(environment: dict[str, Any], name: str, words: str) -> None:
    check = device_checks(**environment)[name]
    assert (check.level, words in check.found) == ("warn", True)
    assert check.remedy


# judging what was measured


@pytest.mark.parametrize(
    ("rate", "spread", "held", "level"),
    [
        (55.0, 0.01, True, "ok"),
        (30.0, 0.01, True, "warn"),  # half of the link
        (65.0, 0.01, True, "bad"),  # faster than the link
        (65.0, 0.01, False, "bad"),
        (55.0, 0.10, True, "warn"),
        (55.0, 0.30, True, "bad"),
        (7.0, 0.30, False, "ok"),  # pageable memory is slow and uneven by nature
    ],
)
def test_rates_are_held_against_the_link(rate: float, spread: float, held: bool, level: str) -> None:
    ms = SIZE / rate / 1e6
    check = rate_check("pinned h2d", taken(ms * (1 - spread / 2), ms, ms * (1 + spread / 2)), LINK, held_to_link=held)
    assert check.level == level
    assert f"{rate:.2f} GB/s" in check.found
    assert bool(check.remedy) == (level != "ok")


def test_a_rate_without_a_known_link_is_only_told() -> None:
    check = rate_check("pinned h2d", taken(5.0, 5.0), None, held_to_link=True)
    assert (check.level, check.found) == ("ok", "53.69 GB/s, samples within 0.0%")


@pytest.mark.parametrize(
    ("wall", "engine", "level"),
    [(4.88, 4.843, "ok"), (4.88, None, "ok"), (5.2, 4.843, "bad"), (4.88, 1.2, "bad"), (4.5, None, "bad")],
)
def test_three_clocks_must_agree_over_a_long_copy(wall: float, engine: float | None, level: str) -> None:
    assert clock_check("clocks h2d", taken(4.869, wall_ms=wall, engine=engine)).level == level


@pytest.mark.parametrize(("held_ms", "level"), [(0.003, "ok"), (0.48, "ok"), (0.49, "bad"), (4.9, "bad")])
def test_an_async_call_returns_in_less_than_a_tenth_of_its_copy(held_ms: float, level: str) -> None:
    assert async_check("async h2d", held_ms, 4.87).level == level


def test_the_engines_time_is_from_the_first_begin_to_the_last_end_of_the_copies() -> None:
    activities = (
        Activity(0, 1, "h2d", 1_000_000, 3_000_000),
        Activity(0, 2, "compute", 0, 9_000_000),
        Activity(0, 3, "copy", 2, 5),
    )
    assert engine_ms(Trace((), (), (), activities[:2])) == 2.0
    assert engine_ms(Trace((), (), (), activities[1:2])) is None


# measuring


class Wrong:
    """A device that plays on a simulated one and answers otherwise where it is told to."""

    deterministic, lost, recording = False, False, ""

    def __init__(self, *, wrong_bytes: int = 0, fail: bool = False, recording: str = "") -> None:
        self.device, self.wrong_bytes, self.fail, self.recording = (
            SimulatedDevice(load_profile("test")),
            wrong_bytes,
            fail,
            recording,
        )

    def facts(self) -> DeviceFacts:
        return self.device.facts()

    def close(self) -> None:
        self.device.close()

    def open(self, plan: Plan) -> Any:
        if self.fail:
            raise CaseFailed("256MiB of pinned memory was refused")
        session = self.device.open(plan)
        wrong = (Mismatch("host", 0, self.wrong_bytes),) if self.wrong_bytes else ()
        return SimpleNamespace(play=session.play, verify=lambda: session.verify() + wrong, close=session.close)


def test_a_device_that_works_as_its_profile_says_is_trusted() -> None:
    device = Wrong()
    checks = {check.name: check for check in probe(device, device.facts())}
    assert list(checks) == [
        *("engine clock", "pinned h2d", "clocks h2d", "async h2d", "pinned d2h", "clocks d2h", "async d2h"),
        *("pageable h2d", "pageable d2h", "async h2d behind work", "async d2h behind work"),
    ]
    assert {name: check for name, check in checks.items() if check.level == "bad"} == {}
    assert "engine" in checks["clocks h2d"].found


def test_without_records_there_are_two_clocks() -> None:
    device = Wrong(recording="another profiler holds CUPTI")
    checks = {check.name: check for check in probe(device, device.facts())}
    assert checks["engine clock"].level == "warn"
    assert "engine" not in checks["clocks h2d"].found


def test_wrong_bytes_and_refusals_are_bad() -> None:
    for device, words in ((Wrong(wrong_bytes=2), "24 wrong bytes arrived"), (Wrong(fail=True), "pinned memory was refused")):
        check = next(check for check in probe(device, device.facts()) if check.name == "pinned h2d")
        assert check.level == "bad"
        assert words in check.found


# the command


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Diagnose without looking at this machine, and keep which devices were asked for."""
    asked: list[str] = []

    def fixed(device: str) -> Diagnosis:
        asked.append(device)
        level = "bad" if device.startswith("cuda") else "ok"
        return Diagnosis(
            device, (Check("python", "ok", "3.11"), Check("driver", level, "so it is", "do this" if level == "bad" else ""))
        )  # type: ignore[arg-type]

    monkeypatch.setattr(doctor, "diagnose", fixed)
    return asked


def test_the_verb_prints_and_exits(plain: list[str]) -> None:
    result = CliRunner().invoke(cli.app, ["doctor"])
    assert (result.exit_code, plain) == (0, ["auto"])
    assert result.stdout.splitlines() == ["ok    python  3.11", "ok    driver  so it is", "", "Runs on auto can go ahead."]
    result = CliRunner().invoke(cli.app, ["doctor", "--device", "cuda:1"])
    assert (result.exit_code, plain[-1]) == (3, "cuda:1")
    assert result.stdout.splitlines()[1:3] == ["bad   driver  so it is", "              -> do this"]


def test_the_verb_writes_json(plain: list[str]) -> None:
    result = CliRunner().invoke(cli.app, ["doctor", "--device", "cuda", "--json"])
    told = json.loads(result.stdout)
    assert (result.exit_code, told["device"], told["trusted"]) == (3, "cuda", False)
    assert told["checks"][1] == {"name": "driver", "level": "bad", "found": "so it is", "remedy": "do this"}


def test_levels_have_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["ok    a  b", "warn  c  d", "", "Runs on x can go ahead."]
    assert cli.coloured(lines) == lines
    monkeypatch.setattr(cli.sys, "stdout", SimpleNamespace(isatty=lambda: True))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert cli.coloured(lines) == ["\x1b[32mok  \x1b[0m  a  b", "\x1b[33mwarn\x1b[0m  c  d", "", "Runs on x can go ahead."]
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.coloured(lines) == lines
