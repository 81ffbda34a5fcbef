"""Choose a device and its precision, compute exact float32, read generators and memory, and recognise GPU failures."""

import errno
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.common.enums import Precision
from roarbench.common.errors import CallerError, MachineError
from roarbench.common.process_settings import allow_threads_to_overlap
from roarbench.common.text import fit_on_one_line

SHARING = "ROARBENCH_WORKERS_ON_GPU"  # environment variable with the number of workers that use the worker's GPU
# values of ONEDNN_MAX_CPU_ISA without bfloat16 in hardware (oneDNN's guide, CPU dispatcher control)
_WITHOUT_BF16 = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"}
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "allocate memory")  # messages of CUDA, Windows and Linux
_GPU_FAILURES = ("CUDA error", "cuDNN error", "CUBLAS_STATUS")  # torch's messages about a failing GPU


def choose_device() -> torch.device:
    """Return the first visible GPU, or the CPU if there is none; raise MachineError if a worker has lost its GPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if SHARING in os.environ:
        raise MachineError("the GPU of this process is no longer available; check nvidia-smi")
    return torch.device("cpu")


def choose_processor_or_gpu_clock(device: torch.device) -> Callable[[], float]:
    """Return a clock in seconds: processor time on a CPU; on a GPU wall time, read after all launched work is done."""
    return time.process_time if device.type == "cpu" else _read_time_after_gpu_work


def _read_time_after_gpu_work() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def find_device(model: nn.Module) -> torch.device:
    """Return the device of a network's first parameter, else of its first buffer; the CPU if it has neither."""
    return next(chain(model.parameters(), model.buffers(), [torch.empty(0)])).device


def list_gpu_ids() -> tuple[str, ...]:
    """Return the ids of the GPUs, as in CUDA_VISIBLE_DEVICES; raise CallerError if CUDA cannot use them."""
    count = torch.cuda.device_count()
    if why := describe_cuda_failure():
        seen = f"the driver lists {count} GPU{'s' * (count > 1)}, but CUDA fails: {why}"
        raise CallerError(f"{seen}; see `roarbench doctor`, or set CUDA_VISIBLE_DEVICES= to use the CPU")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(visible.split(",")[:count]) if visible else tuple(map(str, range(count)))


def describe_cuda_failure() -> str:
    """Return CUDA's error message if the driver lists GPUs that CUDA cannot use; otherwise an empty string.

    torch counts GPUs with the driver's library NVML, which finds GPUs even if the driver is too old for torch's CUDA.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exception below has the same message
        if torch.cuda.is_available() or not torch.cuda.device_count():
            return ""
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except (RuntimeError, AssertionError) as error:
            return fit_on_one_line(str(error), 200)
    return "CUDA gives no reason"


def compute_gpu_bytes_per_worker() -> float:
    """Return this process's share of its GPU's memory in bytes; all workers on a GPU have equal shares."""
    _, total = torch.cuda.mem_get_info(choose_device())
    return total / int(os.environ.get(SHARING, "1"))


def count_available_gpu_bytes() -> float:
    """Return the bytes of GPU memory that this process holds or can still allocate, at most its share."""
    free, _ = torch.cuda.mem_get_info(choose_device())
    return min(compute_gpu_bytes_per_worker(), free + torch.cuda.memory_reserved(choose_device()))


def send_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the CPU to a device without waiting for the device.

    A copy from ordinary memory would wait until the GPU has finished all launched work. A copy from pinned memory does
    not wait, and torch keeps the pinned memory until the copy is done.
    """
    is_there = device.type != "cuda" or tensor.device.type == "cuda"
    return tensor if is_there else tensor.pin_memory().to(device, non_blocking=True)


def choose_fastest_float32_layout(device: torch.device) -> torch.memory_format:
    """Return the fastest memory format of float32 without TF32: channels last on a CPU, channels first on a GPU."""
    return torch.contiguous_format if device.type == "cuda" else torch.channels_last


def put_convolutions_in_layout(network: nn.Module, layout: torch.memory_format) -> None:
    """Store the weights of convolutions in a memory format, in place.

    Other weights keep theirs: a network may read them through `view` or `view_as_complex`, which channels last forbids.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            module.to(memory_format=layout)  # type: ignore[call-overload]


def name_device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def list_gpu_library_versions(device: torch.device) -> dict[str, str]:
    """Return a dict with the versions of CUDA and cuDNN if the device is a GPU; for a CPU the dict is empty."""
    versions = {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}  # type: ignore[no-untyped-call]
    return {name: str(version) for name, version in versions.items() if version and device.type == "cuda"}


def choose_precision(wanted: Precision, device: torch.device) -> Precision:
    """Return the precision in which this device computes if `wanted` is requested."""
    return Precision.BF16 if can_use_bf16(wanted, device) else Precision.FLOAT32


def can_use_bf16(precision: Precision, device: torch.device) -> bool:
    """Return whether bfloat16 is requested and the hardware supports it (on x86 processors by AVX512-BF16).

    Instructions that oneDNN is told to leave unused count as missing: torch asks the processor alone, and would request
    operations that oneDNN then does not have, or computes slowly.
    """
    if precision is Precision.FLOAT32:
        return False
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    most = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", "")).upper()
    return bool(torch.cpu._is_avx512_bf16_supported()) and most not in _WITHOUT_BF16


@allow_threads_to_overlap
@contextmanager
def use_exact_float32(benchmark: bool = False) -> Iterator[None]:
    """Compute float32 without TF32 in this process; cuDNN uses repeatable kernels or, with `benchmark`, the fastest.

    By default, cuDNN rounds to TF32, and the rounding of matrix products depends on settings of the caller's program.
    TF32 and unrepeatable sums move features across removal thresholds (docs/decisions/0016). `Precision.BF16` is not
    affected.
    """
    flags, backends, tf32, products = torch.backends.cudnn, list_float32_backends(), True, "highest"

    def write(cudnn: tuple[bool, bool, bool, bool], products: str, precisions: Sequence[str]) -> None:
        """Write two older settings, and the newer setting `fp32_precision` of each backend."""
        flags.enabled, flags.benchmark, flags.deterministic, flags.allow_tf32 = cudnn
        torch.set_float32_matmul_precision(products)
        for backend, precision in zip(backends, precisions, strict=True):
            backend.fp32_precision = precision

    with suppress(RuntimeError):  # torch refuses to read the older settings if the program has set newer ones
        tf32 = flags.allow_tf32
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    before = (flags.enabled, flags.benchmark, flags.deterministic, tf32)
    precisions = [backend.fp32_precision for backend in backends]
    write((True, benchmark, not benchmark, False), "highest", ["ieee"] * len(backends))
    try:
        yield
    finally:
        write(before, products, precisions)


def list_float32_backends() -> list[Any]:
    """Return the parts of `torch.backends` that have the setting `fp32_precision`."""
    backends: Any = torch.backends
    cudnn, mkldnn = backends.cudnn, backends.mkldnn
    return [cudnn.conv, cudnn.rnn, backends.cuda.matmul, mkldnn.conv, mkldnn.matmul]


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory ran out, on a CPU or GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)


def is_gpu_dead() -> bool:
    """Return whether this process has used a GPU and lost it, so that every further CUDA call fails."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.ones(1, device="cuda").add(1).cpu()  # waits for all earlier kernels
    except torch.OutOfMemoryError:
        return False
    except RuntimeError:
        return True
    return False


def is_machine_failure(error: Exception) -> bool:
    """Return whether the machine caused an error, for example by a lost GPU, so that a retry may succeed."""
    lost = isinstance(error, RuntimeError) and any(words in str(error) for words in _GPU_FAILURES)
    return lost or isinstance(error, torch.AcceleratorError) or is_out_of_memory(error)


def read_global_generator_states() -> tuple[Any, ...]:
    """Return the states of the global random generators of torch, NumPy and Python, which a draw changes."""
    gpu = torch.cuda.get_rng_state().numpy().tobytes() if torch.cuda.is_initialized() else b""  # type: ignore[no-untyped-call]
    _, numbers, *position = np.random.get_state()  # noqa: NPY002 (the global one)
    return torch.get_rng_state().numpy().tobytes(), gpu, np.asarray(numbers).tobytes(), position, random.getstate()


@contextmanager
def restore_global_generators() -> Iterator[None]:
    """Restore the states of the global random generators of torch, NumPy and Python at the end."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 (the global one)
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
