"""The kernels: adding one to each word of a range, writing the pattern, and holding a stream until the host says go."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from runner.device.cuda.toolchain import Nvcc, explain_compile_error, private_cache
from runner.errors import DeviceUnavailable
from runner.pattern import STEP, WORD, first_word

SOURCE: Final = r"""
extern "C" __global__ void increment(unsigned *data, unsigned long long words)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
        data[i] += 1u;
}

extern "C" __global__ void pattern(unsigned *data, unsigned long long words, unsigned step, unsigned first)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
        data[i] = (unsigned)i * step + first;
}

static __device__ unsigned long long now_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

extern "C" __global__ void gate(volatile unsigned *open, unsigned *timed_out, unsigned long long limit_ns)
{
    const unsigned long long begin = now_ns();
    while (*open == 0u) {
        if (now_ns() - begin > limit_ns) {
            *timed_out = 1u;
            __threadfence_system();
            return;
        }
#if __CUDA_ARCH__ >= 700
        __nanosleep(200);
#endif
    }
}
"""
THREADS: Final = 256
BLOCKS_PER_MULTIPROCESSOR: Final = 8
"""256 threads a block and 8 blocks fill the 2,048 threads of a multiprocessor; more blocks would only queue."""
GATE_LIMIT_NS: Final = 5_000_000_000
"""A gate opens by itself after 5 s, so that no mistake of the host hangs the device."""

Call = Callable[[], object]


class Kernels:
    """The compiled kernels of one context, with their launches made ready. Forget it before the context is popped."""

    def __init__(self, module: Any, multiprocessors: int) -> None:
        self._module = module
        self._increment = module.get_function("increment")
        self._pattern = module.get_function("pattern")
        self._gate = module.get_function("gate")
        self._multiprocessors = multiprocessors

    def increment(self, address: int, size: int, stream: Any) -> Call:
        """Return a ready launch that adds 1 to `size // 4` words from `address` on; a stream of None is the null stream."""
        words = size // WORD
        packed = struct.pack("=QQ", address, words)
        return partial(self._increment._launch_kernel, self._grid(words), (THREADS, 1, 1), packed, 0, stream)

    def pattern(self, address: int, size: int, start: int, common: int) -> Call:
        """Return a ready launch on the null stream that writes the pattern over `size // 4` words from `address` on.

        The first of them is the word at byte `start`, a multiple of 4, of the filled buffer; see `runner.pattern`.
        """
        words = size // WORD
        packed = struct.pack("=QQII", address, words, STEP, first_word(start, common))
        return partial(self._pattern._launch_kernel, self._grid(words), (THREADS, 1, 1), packed, 0, None)

    def gate(self, flag_address: int, timeout_address: int, stream: Any, limit_ns: int = GATE_LIMIT_NS) -> Call:
        """Return a ready launch that holds a stream until the word at `flag_address` is not 0, `limit_ns` at most."""
        packed = struct.pack("=QQQ", flag_address, timeout_address, limit_ns)
        return partial(self._gate._launch_kernel, (1, 1), (1, 1, 1), packed, 0, stream)

    def _grid(self, words: int) -> tuple[int, int]:
        return blocks_for(words, self._multiprocessors), 1


def blocks_for(words: int, multiprocessors: int) -> int:
    """Return the blocks of a launch over `words` words: one at least, no more than the device can hold at once."""
    return max(1, min(-(-words // THREADS), multiprocessors * BLOCKS_PER_MULTIPROCESSOR))


def compile_kernels(device: str, architecture: str, nvcc: Nvcc, environment: dict[str, str], multiprocessors: int) -> Kernels:
    """Compile SOURCE for the current context and load it; raises DeviceUnavailable with the compiler's last words."""
    from pycuda.compiler import SourceModule
    from pycuda.driver import CompileError, Error

    cache = private_cache(environment)
    for folder in [str(cache), False] if cache else [False]:
        try:
            with warnings.catch_warnings():
                # PyCUDA warns of remarks of nvcc, which say nothing to who wants to measure a copy.
                warnings.simplefilter("ignore")
                module = SourceModule(SOURCE, nvcc=nvcc.path, arch=architecture, no_extern_c=True, cache_dir=folder)
            return Kernels(module, multiprocessors)
        except CompileError as error:
            raise explain_compile_error(device, error.stderr or str(error)) from error
        except (Error, OSError) as error:
            # A cache that is full, or holds a file that another process has half written, must not stop the run.
            failure: Exception = error
    raise DeviceUnavailable(
        device, f"the compiled kernels could not be loaded: {failure}", "run it again, or use device: simulated"
    )
