"""The copies in C, on this machine's own processor; nothing here needs a GPU."""

from __future__ import annotations

import gc
import os
import threading
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

from runner.device.cuda import host_copier
from runner.device.cuda.host_copier import CopierLibrary, HostCopier, load_copier, make_copier
from runner.device.cuda.toolchain import host_compiler
from runner.pattern import Bytes
from runner.plan import Barrier, Buffer, HostAccess, HostCopy, Plan
from runner.scenarios.pipeline import Pipeline
from tests.cuda.standin import Bench

PATH = os.environ.get("PATH", "")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CopierLibrary:
    if host_compiler({"PATH": PATH}) is None:
        pytest.skip("this machine has no C compiler")
    library = load_copier({"PATH": PATH, "HOME": str(tmp_path_factory.mktemp("home"))})
    assert library is not None
    return library


def data(size: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def helpers_alive() -> int:
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return names.count("dmalab-copy")


def compiler_that_copies(folder: Path, library: CopierLibrary) -> dict[str, str]:
    """Put a compiler on PATH that makes in no time what the real one has made."""
    script = f'#!/bin/sh\n[ "$1" = --version ] && exec echo 12\nfor last; do :; done\nexec cp {library.functions._name} "$last"\n'
    path = folder / "bin" / "gcc"
    path.parent.mkdir()
    path.write_text(script)
    path.chmod(0o755)
    return {"PATH": f"{path.parent}:/bin:/usr/bin", "HOME": str(folder), "NVCC_CCBIN": str(path)}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 7, 256])
def test_every_byte_is_copied_and_none_beside_it(library: CopierLibrary, threads: int, streaming: bool) -> None:
    copier = HostCopier(library, 1, min(threads, 8) - 1)
    for size in (1, 4, 63, 64, 65, 255, 256, 4_000, 16_384, 16_385, 100_004, 1 << 20, (3 << 20) + 12):
        for shift in (0, 4, 60):
            source, target = data(size + 128), np.zeros(size + 256, np.uint8)
            place = slice(64 + shift, 64 + shift + size)
            copier.call(target[place], source[shift : shift + size], threads, streaming=streaming)()
            assert np.array_equal(target[place], source[shift : shift + size]), (size, shift)
            assert not target[: place.start].any(), (size, shift)
            assert not target[place.stop :].any(), (size, shift)
    copier.close()


def test_lanes_copy_at_the_same_time_and_share_the_threads(library: CopierLibrary) -> None:
    lanes, rounds, size = 5, 40, 300_000
    copier = HostCopier(library, lanes, 3)
    sources = [data(size, lane) for lane in range(lanes)]
    targets = [np.zeros((rounds, size), np.uint8) for _ in range(lanes)]
    wrong: list[int] = []
    together = threading.Barrier(lanes)

    def work(lane: int) -> None:
        calls = [copier.call(target, sources[lane], 4, streaming=bool(lane % 2)) for target in targets[lane]]
        together.wait()
        for call in calls:
            call()
        wrong.extend(lane for target in targets[lane] if not np.array_equal(target, sources[lane]))

    workers = [threading.Thread(target=work, args=(lane,)) for lane in range(lanes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    copier.close()
    assert wrong == []


def test_the_threads_end_with_the_copier(library: CopierLibrary) -> None:
    copier = HostCopier(library, 2, 6)
    while helpers_alive() < 6:
        os.sched_yield()
    copier.close()
    assert helpers_alive() == 0
    copier.close()


def test_helpers_that_have_slept_wake_for_the_next_copy(library: CopierLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_copier, "SPIN_US", 0)
    copier = HostCopier(library, 1, 2)
    source, target = data(1 << 20), np.zeros(1 << 20, np.uint8)
    call = copier.call(target, source, 3, streaming=True)
    for _ in range(50):
        target[:] = 0
        call()
        assert np.array_equal(target, source)
    copier.close()


def test_a_ready_call_keeps_its_memory_alive(library: CopierLibrary) -> None:
    copier, source, target = HostCopier(library, 1, 1), data(1000), np.zeros(1000, np.uint8)
    gone = weakref.ref(source)
    call = copier.call(target, source, 2, streaming=False)
    expected = source.copy()
    del source
    gc.collect()
    assert gone() is not None
    call()
    assert np.array_equal(target, expected)
    del call
    gc.collect()
    assert gone() is None
    copier.close()


def test_a_forked_child_copies_without_its_parents_threads(library: CopierLibrary) -> None:
    copier, source, target = HostCopier(library, 1, 2), data(1 << 20), np.zeros(1 << 20, np.uint8)
    call = copier.call(target, source, 3, streaming=False)
    read, write = os.pipe()
    child = fork()
    if child == 0:
        call()
        copier.close()
        os.write(write, b"right" if np.array_equal(target, source) else b"wrong")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 5) == b"right"
    os.close(read)
    os.close(write)
    copier.close()


def fork() -> int:
    with warnings.catch_warnings():
        # Python warns of forks beside threads, which are the very thing that is looked at here.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


# The library


def test_it_is_compiled_once_and_kept_where_only_this_user_can_write(tmp_path: Path, library: CopierLibrary) -> None:
    environment = compiler_that_copies(tmp_path, library)
    assert load_copier(environment) is not None
    folder = tmp_path / ".cache" / "dmalab" / "host"
    (made,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    stamp = made.stat().st_mtime_ns
    assert load_copier(environment) is not None
    assert (folder / made.name).stat().st_mtime_ns == stamp


def test_half_a_file_in_the_cache_is_made_again(tmp_path: Path, library: CopierLibrary) -> None:
    environment = compiler_that_copies(tmp_path, library)
    folder = tmp_path / ".cache" / "dmalab" / "host"
    folder.mkdir(parents=True, mode=0o700)
    half = folder / f"copier-{host_copier._key(environment['NVCC_CCBIN'])}.so"
    half.write_bytes(b"\x7fELF")
    assert load_copier(environment) is not None
    assert half.stat().st_size > 1000


def test_without_a_place_to_keep_it_it_is_made_each_time(tmp_path: Path, library: CopierLibrary) -> None:
    environment = compiler_that_copies(tmp_path, library)
    del environment["HOME"]
    assert load_copier(environment) is not None
    assert not (tmp_path / ".cache").exists()


def test_without_a_compiler_or_with_one_that_fails_there_is_none(tmp_path: Path) -> None:
    assert load_copier({"PATH": str(tmp_path), "HOME": str(tmp_path)}) is None
    broken = tmp_path / "gcc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert load_copier({"PATH": str(tmp_path), "HOME": str(tmp_path)}) is None
    broken.write_text("#!/bin/sh\nexit 0\n")
    assert load_copier({"PATH": str(tmp_path), "HOME": str(tmp_path)}) is None, "a compiler that makes nothing"


# In a session

BUFFERS = (Buffer("input", "pageable", 100_000), Buffer("stager", "pinned", 100_000), Buffer("output", "pageable", 100_000))


def staging(*threads: int) -> Plan:
    lanes = tuple((Barrier(), HostCopy(1, 0, 0, 0, 4, each)) if each else (Barrier(),) for each in threads)
    return Plan(BUFFERS, (), (), lanes)


def test_threads_are_counted_in_each_lane_that_copies(library: CopierLibrary) -> None:
    assert staging(0, 1, 4).copying_threads() == (1, 4)
    assert staging(0, 1, 4).host_threads() == 6, "a lane is a thread itself"
    assert Plan(BUFFERS, (), (), ((HostAccess(0, 0, 4, "read", 8),),)).copying_threads() == ()


def test_one_thread_alone_copies_as_a_program_would(library: CopierLibrary) -> None:
    assert make_copier(library, staging(1)) is None
    assert make_copier(None, staging(4, 4)) is None
    for plan in (staging(2), staging(1, 1)):
        copier = make_copier(library, plan)
        assert copier is not None
        copier.close()


@pytest.mark.parametrize("threads", [(1,), (3,), (2, 2)])
def test_a_session_says_what_copied_and_leaves_no_thread(bench: Bench, library: CopierLibrary, threads: tuple[int, ...]) -> None:
    for copying in (library, None):
        session = bench.open(staged(threads), copying)
        told = session.play(1).host_copier
        assert told == (library.name if copying and sum(threads) > 1 else "numpy")
        assert session.verify() == ()
        session.close()
        assert helpers_alive() == 0


def staged(threads: tuple[int, ...]) -> Plan:
    fields = {"kind": "pipeline", "schedule": "overlapped", "staging": "copy", "total": 100_004, "chunk": 33_000, "streams": 2}
    model = Pipeline.model_validate(fields | {"staging_lanes": len(threads), "staging_threads": threads[0]})
    return model.plan()
