"""What is missing on a machine is told in one sentence, and nothing of CUDA is imported by who does not ask for it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from runner.device.cuda import opening
from runner.device.cuda.opening import load_module, open_context
from runner.errors import DeviceUnavailable
from tests.cuda.standin import Error


def test_a_variable_that_makes_every_call_wait_is_refused() -> None:
    with pytest.raises(DeviceUnavailable, match=r"CUDA_LAUNCH_BLOCKING=1 makes every call wait, .*; unset CUDA_LAUNCH_BLOCKING"):
        open_context(0, {"CUDA_LAUNCH_BLOCKING": "1"})


def test_blocking_launches_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_DRIVER_LIBRARY", "libcuda-that-is-not-there.so.1")
    with pytest.raises(DeviceUnavailable, match="was not found"):  # past the refusal
        open_context(0, {"CUDA_LAUNCH_BLOCKING": "1", "DMALAB_ALLOW_LAUNCH_BLOCKING": "1"})
    with pytest.raises(DeviceUnavailable, match="DMALAB_ALLOW_LAUNCH_BLOCKING=1 to measure that, flagged"):
        open_context(0, {"CUDA_LAUNCH_BLOCKING": "1", "DMALAB_ALLOW_LAUNCH_BLOCKING": "yes"})


def test_a_machine_without_a_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_DRIVER_LIBRARY", "libcuda-that-is-not-there.so.1")
    with pytest.raises(DeviceUnavailable) as caught:
        open_context(0, {"CUDA_LAUNCH_BLOCKING": "0"})
    assert str(caught.value) == (
        "device cuda:0 cannot be used: this machine has no NVIDIA driver (libcuda-that-is-not-there.so.1 was not found); "
        "install the driver on a machine with an NVIDIA GPU, or use device: simulated"
    )


def missing(module: str) -> Any:
    raise ModuleNotFoundError(f"No module named {module!r}", name=module.split(".")[0])


def broken(module: str) -> Any:
    raise ImportError("libcurand.so.10: cannot open shared object file")


def lacking(module: str) -> Any:
    raise ModuleNotFoundError("No module named 'pytools'", name="pytools")


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        (missing, "PyCUDA is not installed; install it with: pip install 'dmalab[cuda]'"),
        (lacking, "PyCUDA lacks pytools; install it with: pip install 'dmalab[cuda]'"),
        (broken, "PyCUDA is installed but cannot be loaded (libcurand.so.10: cannot open shared object file); reinstall it"),
    ],
)
def test_a_package_that_is_absent_or_broken_is_told(load: Any, sentence: str) -> None:
    with pytest.raises(DeviceUnavailable) as caught:
        load_module("cuda:0", "pycuda.driver", "PyCUDA", load)
    assert sentence in str(caught.value)


def fake_cuda(count: int, error: str = "") -> Any:
    def init() -> None:
        if error:
            raise Error(error)

    return SimpleNamespace(Error=Error, init=init, Device=SimpleNamespace(count=lambda: count))


@pytest.mark.parametrize(
    ("cuda", "ordinal", "sentence"),
    [
        (
            fake_cuda(0, "cuInit failed: no CUDA-capable device is detected"),
            0,
            "the NVIDIA driver does not start (cuInit failed: no",
        ),
        (fake_cuda(0), 0, "there is none"),
        (fake_cuda(1), 1, "there is only cuda:0"),
        (fake_cuda(4), 7, "there are cuda:0 to cuda:3"),
    ],
)
def test_a_device_that_is_not_there_is_told(cuda: Any, ordinal: int, sentence: str) -> None:
    with pytest.raises(DeviceUnavailable) as caught:
        opening.require_device(f"cuda:{ordinal}", cuda, ordinal)
    assert sentence in str(caught.value)


def test_importing_the_choice_of_devices_imports_nothing_of_cuda() -> None:
    code = (
        "import sys, runner.device.select, runner.device.cuda.device\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pycuda', 'cuda', 'pynvml')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
