from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from runner.device.cuda.kernels import BLOCKS_PER_MULTIPROCESSOR, GATE_LIMIT_NS, SOURCE, THREADS, blocks_for
from tests.cuda.standin import Bench

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_compile(architecture: str, tmp_path: Path) -> None:
    source = tmp_path / "kernels.cu"
    source.write_text(SOURCE)
    cubin = tmp_path / "kernels.cubin"
    command = ["nvcc", "--cubin", "-arch", architecture, "-Werror", "all-warnings", "-o", str(cubin), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for kernel in (b"increment", b"pattern", b"copy", b"read", b"gate", b"busy"):
        assert kernel in cubin.read_bytes()


@pytest.mark.parametrize("size", [4, 4092, 2**31 - 4, 2**31, 2**31 + 4, 2**32 - 128, 2**32, 2**32 + 4, 8 * 2**30, 2**50])
def test_a_grid_strides_over_every_word_once_and_is_capped(size: int) -> None:
    words = size // 4
    blocks = blocks_for(words, multiprocessors=132)
    assert 1 <= blocks <= 132 * BLOCKS_PER_MULTIPROCESSOR
    stride = blocks * THREADS
    last_thread = (words - 1) % stride
    # The thread that comes to the last word comes to it in whole strides from its own place, without passing 2**64.
    assert (words - 1 - last_thread) % stride == 0
    assert words + stride < 2**64
    assert blocks == 132 * BLOCKS_PER_MULTIPROCESSOR or stride >= words


def test_a_launch_is_packed_in_64_bits_before_it_is_made(bench: Bench) -> None:
    call = bench.kernels.increment(0x7F00_0000_0004, 2**32 + 4, None)
    grid, block, packed, shared, stream = call.args  # type: ignore[attr-defined]
    assert struct.unpack("=QQ", packed) == (0x7F00_0000_0004, 2**30 + 1)
    assert (grid, block, shared, stream) == ((4 * BLOCKS_PER_MULTIPROCESSOR, 1), (THREADS, 1, 1), 0, None)


def test_a_gate_has_a_limit(bench: Bench) -> None:
    call = bench.kernels.gate(4096, 4224, None)
    assert struct.unpack("=QQQ", call.args[2]) == (4096, 4224, GATE_LIMIT_NS)  # type: ignore[attr-defined]


def test_a_flat_write_is_packed_once_and_takes_a_new_word_for_each_play(bench: Bench) -> None:
    call, set_word = bench.kernels.write(4096, 400, None)
    set_word(2**32 - 2)
    assert struct.unpack("=QQII", call.args[2]) == (4096, 100, 0, 2**32 - 2)  # type: ignore[attr-defined]
    set_word(5)
    assert struct.unpack("=QQII", call.args[2]) == (4096, 100, 0, 5)  # type: ignore[attr-defined]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_the_compiler_keeps_the_loads_of_the_reading_kernel(tmp_path: Path) -> None:
    source, ptx = tmp_path / "kernels.cu", tmp_path / "kernels.ptx"
    source.write_text(SOURCE)
    subprocess.run(["nvcc", "--ptx", "-arch", "sm_90", "-o", str(ptx), str(source)], check=True)
    body = ptx.read_text().partition(".entry read(")[2].partition("\n}\n")[0]
    assert re.search(r"ld\.global(\.nc)?\.v4\.", body)
    assert re.search(r"st\.global\.\w64", body)
