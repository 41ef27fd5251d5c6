"""The kernels: adding to, writing, reading and copying the words of a range, and holding a stream for the host or for a time."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from runner.device.cuda.toolchain import Nvcc, explain_compile_error, private_cache
from runner.errors import DeviceUnavailable
from runner.pattern import WORD, first_word

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

extern "C" __global__ void copy(unsigned *to, const unsigned *from, unsigned long long words)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long me = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool wide = (((unsigned long long)to | (unsigned long long)from) & 15ull) == 0ull;
    const unsigned long long quads = wide ? words / 4 : 0ull;
    for (unsigned long long i = me; i < quads; i += stride)
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    for (unsigned long long i = 4 * quads + me; i < words; i += stride)
        to[i] = from[i];
}

__device__ unsigned long long impossible_sum;

extern "C" __global__ void read(const unsigned *data, unsigned long long words)
{
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long me = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long quads = ((unsigned long long)data & 15ull) == 0ull ? words / 4 : 0ull;
    unsigned long long sum = 0ull;
    for (unsigned long long i = me; i < quads; i += stride) {
        const uint4 four = ((const uint4 *)data)[i];
        sum += (unsigned long long)four.x + four.y + four.z + four.w;
    }
    for (unsigned long long i = 4 * quads + me; i < words; i += stride)
        sum += data[i];
    // No sum of fewer than 2**32 words comes to this, which the compiler cannot know: so it has to read every word.
    if (sum == ~0ull)
        impossible_sum = sum;
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

extern "C" __global__ void busy(unsigned long long duration_ns)
{
    const unsigned long long begin = now_ns();
    while (now_ns() - begin < duration_ns) {
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
_PLACE_OF_WORD: Final = 20
"""Where the packed arguments of `pattern` hold its first word: behind two of 8 bytes and one of 4."""

Call = Callable[[], object]


class Kernels:
    """The compiled kernels of one context, with their launches made ready. Forget it before the context is popped."""

    def __init__(self, module: Any, multiprocessors: int) -> None:
        self._module = module
        self._increment = module.get_function("increment")
        self._pattern = module.get_function("pattern")
        self._copy = module.get_function("copy")
        self._read = module.get_function("read")
        self._gate = module.get_function("gate")
        self._busy = module.get_function("busy")
        self._multiprocessors = multiprocessors

    def increment(self, address: int, size: int, stream: Any) -> Call:
        """Return a ready launch that adds 1 to `size // 4` words from `address` on; a stream of None is the null stream."""
        words = size // WORD
        packed = struct.pack("=QQ", address, words)
        return partial(self._increment._launch_kernel, self._grid(words), (THREADS, 1, 1), packed, 0, stream)

    def pattern(self, address: int, size: int, start: int, common: int, step: int) -> Call:
        """Return a ready launch on the null stream that writes the pattern over `size // 4` words from `address` on.

        The first of them is the word at byte `start`, a multiple of 4, of the filled buffer; see `runner.pattern`.
        """
        words = size // WORD
        packed = struct.pack("=QQII", address, words, step, first_word(start, common, step))
        return partial(self._pattern._launch_kernel, self._grid(words), (THREADS, 1, 1), packed, 0, None)

    def write(self, address: int, size: int, stream: Any) -> tuple[Call, Callable[[int], object]]:
        """Return a ready launch that writes one word over `size // 4` words, and the call that says which word it shall be."""
        words = size // WORD
        packed = bytearray(struct.pack("=QQII", address, words, 0, 0))
        launch = partial(self._pattern._launch_kernel, self._grid(words), (THREADS, 1, 1), packed, 0, stream)
        return launch, partial(struct.pack_into, "=I", packed, _PLACE_OF_WORD)

    def read(self, address: int, size: int, stream: Any) -> Call:
        """Return a ready launch that reads each of `size // 4` words from `address` on."""
        words = size // WORD
        packed = struct.pack("=QQ", address, words)
        return partial(self._read._launch_kernel, self._grid(words), (THREADS, 1, 1), packed, 0, stream)

    def copy(self, to: int, source: int, size: int, stream: Any) -> Call:
        """Return a ready launch that copies `size // 4` words, four at a time where both addresses are multiples of 16."""
        words = size // WORD
        packed = struct.pack("=QQQ", to, source, words)
        return partial(self._copy._launch_kernel, self._grid(words), (THREADS, 1, 1), packed, 0, stream)

    def busy(self, duration_ns: int, stream: Any) -> Call:
        """Return a ready launch that keeps one thread of a stream spinning for a time by the device's own timer."""
        return partial(self._busy._launch_kernel, (1, 1), (1, 1, 1), struct.pack("=Q", duration_ns), 0, stream)

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
