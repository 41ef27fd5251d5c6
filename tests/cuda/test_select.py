from __future__ import annotations

import pytest

from runner.device import select
from runner.device.select import open_device
from runner.errors import DeviceUnavailable, InputError


@pytest.mark.parametrize(
    "text", ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:01", "cuda:1:2", "simulated:", "simulated:../x", "auto "]
)
def test_an_unknown_device_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InputError) as caught:
        open_device(text)
    assert str(caught.value) == f"{text!r} is not a device; allowed: {select.ALLOWED}"


def test_a_simulated_device_is_an_h200_unless_another_is_named() -> None:
    opened = open_device("simulated")
    assert (opened.device.facts().name, opened.note) == ("simulated:h200", "")
    assert open_device("simulated:rtx-4090").device.facts().name == "simulated:rtx-4090"


def test_auto_falls_back_to_the_simulated_device_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ordinal: int, wait: str) -> None:
        raise DeviceUnavailable(f"cuda:{ordinal}", "there is no driver", "install one")

    monkeypatch.setattr(select, "_open_cuda", refuse)
    opened = open_device("auto")
    assert opened.device.facts().kind == "simulated"
    assert opened.note == "No CUDA device was used (there is no driver); these numbers are simulated, on simulated:h200."
    with pytest.raises(DeviceUnavailable):
        open_device("cuda:3")
