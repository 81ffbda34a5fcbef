"""Change settings of the whole process: rounding of float32, threads of the compiler, sorts, and memory of malloc."""

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, ParamSpec

import torch

_P = ParamSpec("_P")
_MALLOC_OPTIONS = {  # glibc's mallopt options by number in malloc.h, values in bytes
    -3: 2**31 - 1,  # mmap threshold: malloc returns the memory of larger tensors as soon as they are freed
    -1: 2**31 - 1,  # trim threshold: malloc returns free memory at the end of the heap only above this size
    -2: 2**26,  # top pad: malloc requests this many additional bytes whenever the heap grows
}


def restore_after_last_exit(
    change: Callable[_P, AbstractContextManager[object]],
) -> Callable[_P, AbstractContextManager[None]]:
    """Decorate a context manager that changes a process-wide setting, so that threads may overlap in its blocks.

    The setting that was found first is restored when the last of the overlapping blocks is left.
    """
    lock, entered = Lock(), list[list[AbstractContextManager[object]]]()

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


@restore_after_last_exit
@contextmanager
def use_exact_float32(benchmark: bool = False) -> Iterator[None]:
    """Compute float32 without TF32 in this process; cuDNN uses repeatable kernels or, with `benchmark`, the fastest.

    By default, cuDNN rounds to TF32, and the rounding of matrix products depends on settings of the caller's program.
    TF32 and unrepeatable sums move features across removal thresholds (docs/decisions/0016). `Precision.BF16` is not
    affected.
    """
    before = _read_float32_settings()
    _set_float32_settings(_Float32((True, benchmark, not benchmark, False), "highest", ("ieee",) * len(before.parts)))
    try:
        yield
    finally:
        _set_float32_settings(before)


class _Float32(NamedTuple):
    """torch's settings for float32: two older settings, and the newer setting `fp32_precision` of each backend."""

    cudnn: tuple[bool, bool, bool, bool]  # enabled, benchmark, deterministic, allow_tf32
    products: str  # argument of `torch.set_float32_matmul_precision`
    parts: tuple[str, ...]  # `fp32_precision` of each backend in `_list_float32_backends`


def _list_float32_backends() -> list[Any]:
    backends: Any = torch.backends
    cudnn, mkldnn = backends.cudnn, backends.mkldnn
    return [cudnn.conv, cudnn.rnn, backends.cuda.matmul, mkldnn.conv, mkldnn.matmul]


def _read_float32_settings() -> _Float32:
    flags, tf32, products = torch.backends.cudnn, True, "highest"
    with suppress(RuntimeError):  # torch refuses to read the older settings if the program has set newer ones
        tf32 = flags.allow_tf32
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    parts = tuple(part.fp32_precision for part in _list_float32_backends())
    return _Float32((flags.enabled, flags.benchmark, flags.deterministic, tf32), products, parts)


def _set_float32_settings(settings: _Float32) -> None:
    flags = torch.backends.cudnn
    flags.enabled, flags.benchmark, flags.deterministic, flags.allow_tf32 = settings.cudnn
    torch.set_float32_matmul_precision(settings.products)
    for part, precision in zip(_list_float32_backends(), settings.parts, strict=True):
        part.fp32_precision = precision


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
