"""Choose the number of workers of this machine, and start them."""

from pathlib import Path

from roarbench.common.device_settings import list_gpu_ids
from roarbench.common.errors import CallerError
from roarbench.common.local_workers import LocalEngine
from roarbench.execution.rates import SMALL
from roarbench.store.run_result import count_cores

PER_CORE = 4  # maximum workers per core; a worker computes on one thread, so more are not faster and need more memory
# default workers per GPU for images up to `SMALL` pixels per side: 8 trained 7 to 8 times as fast as one (docs/gpu.md);
# each worker is assumed to need about 0.5 GB of the GPU
_PER_GPU = 8


def count_default_workers(image_side: int | None = None) -> int:
    """Return the default number of workers: one per core, or with GPUs one per GPU and several for small images."""
    gpus = len(list_gpu_ids())
    if not gpus:
        return count_cores()
    per_gpu = _PER_GPU if image_side and image_side <= SMALL else 1
    return gpus * max(1, min(per_gpu, count_cores() // gpus))


def count_workers(requested: int | None, image_side: int | None = None) -> int:
    """Return the requested or default number of workers; raise CallerError if a request is below 1 or too large."""
    if requested is None:
        return count_default_workers(image_side)
    most = PER_CORE * count_cores()
    if requested < 1:
        raise CallerError(f"--workers is {requested}, expected at least 1; use 1 to {most}")
    if requested > most:
        seen = f"--workers {requested} is more than {PER_CORE} for each core of this machine"
        raise CallerError(f"{seen}; use {most} or less")
    return requested


def start_local_workers(workers: int, logs: Path | None = None) -> LocalEngine:
    """Start processes on this machine; `logs` is a folder for their logs."""
    return LocalEngine(workers, list_gpu_ids(), logs)
