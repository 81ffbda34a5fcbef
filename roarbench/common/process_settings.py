"""Settings of a whole process: its end on SIGTERM, compiler threads, sorts, and memory. No torch."""

import ctypes
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import ParamSpec

ENDED = 128 + signal.SIGTERM  # exit code that shells report for a process ended by SIGTERM
_stop_requested = threading.Event()
is_stop_requested = _stop_requested.is_set  # a function that returns whether SIGTERM has arrived
_busy = threading.Event()
_P = ParamSpec("_P")
_MALLOC_OPTIONS = {  # glibc's mallopt options by number in malloc.h, values in bytes
    -3: 2**31 - 1,  # mmap threshold: malloc returns the memory of larger tensors as soon as they are freed
    -1: 2**31 - 1,  # trim threshold: malloc returns free memory at the end of the heap only above this size
    -2: 2**26,  # top pad: malloc requests this many additional bytes whenever the heap grows
}


def exit_at_once_on_sigterm() -> None:
    """End this process on SIGTERM from now on, except inside `defer_sigterm_until_checked`."""

    def exit_unless_deferred(number: int, frame: FrameType | None) -> None:
        _stop_requested.set()
        if not _busy.is_set():
            os._exit(ENDED)

    signal.signal(signal.SIGTERM, exit_unless_deferred)


@contextmanager
def convert_exit_to_error() -> Iterator[None]:
    """Turn `sys.exit` in a user's code into an ordinary error, except if the exit was requested by SIGTERM."""
    try:
        yield
    except SystemExit as error:
        if error.code == ENDED:
            raise
        raise RuntimeError(f"sys.exit({error.code!r}) was called") from error


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause the search for garbage in cycles during the block.

    For work that makes many records without cycles: the search would pass through all of them again and again. The
    first search after the block would, too, so the records are counted as old.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()


@contextmanager
def defer_sigterm_until_checked() -> Iterator[None]:
    """Defer SIGTERM in this block, which must check `is_stop_requested` often and raise SystemExit itself."""
    _busy.set()
    try:
        yield
    finally:
        _busy.clear()


def allow_threads_to_overlap(
    change: Callable[_P, AbstractContextManager[object]],
) -> Callable[_P, AbstractContextManager[None]]:
    """Decorate a context manager that changes a process-wide setting, so that threads may overlap in its blocks.

    The setting that was found first is restored when the last of the overlapping blocks is left.
    """
    lock, entered = threading.Lock(), list[list[AbstractContextManager[object]]]()

    @wraps(change)
    @contextmanager
    def enter(*args: _P.args, **options: _P.kwargs) -> Iterator[None]:
        with lock:
            block = [change(*args, **options)]
            block[0].__enter__()
            entered.append(block)
        try:
            yield
        finally:
            with lock:
                later = entered.index(block) + 1
                if later == len(entered):
                    block[0].__exit__(None, None, None)
                else:  # the block that was entered next will restore the setting that this block found
                    entered[later][0] = block[0]
                del entered[later - 1]

    return enter


def limit_compiler_threads(processes: int) -> None:
    """Limit the compiler's threads to a process's share of the cores, unless the environment has a limit already.

    The function must be called before the first compilation.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(1, min(32, cores // processes))))


def disable_slow_avx512_sorts() -> None:
    """Make processes that start from now on sort without AVX-512 on AMD's Zen 4, which is up to 4 times faster.

    NumPy sorts with AVX-512 if the processor has it, but Zen 4 executes the compress instruction of that code slowly
    (AMD, Software Optimization Guide for Zen 4, 2.11.2). NumPy reads the environment variable when it is imported.
    """
    with suppress(OSError):  # other systems than Linux
        processor = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
        if all(re.search(line, processor) for line in ("AuthenticAMD", r"cpu family\s*: 25\n", r"\bavx512f\b")):
            dispatched: list[str] = import_module("numpy._core._multiarray_umath").__cpu_dispatch__
            names = [name for name in dispatched if name == "X86_V4" or name.startswith("AVX512")]
            os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", " ".join(names))


@cache
def keep_freed_cpu_memory() -> None:
    """Make glibc's malloc keep freed memory, because zeroing new pages took up to half of the run time of maps."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        for option, size in _MALLOC_OPTIONS.items():
            mallopt(option, size)


def release_freed_cpu_memory() -> None:
    """Return to the system the freed memory that each thread keeps after `keep_freed_cpu_memory`."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
