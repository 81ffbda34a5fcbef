"""Choose the number of workers for a machine."""

from roarbench.common.device_settings import list_gpu_ids
from roarbench.common.errors import CallerError
from roarbench.execution.forecast import SMALL
from roarbench.store.run_result import count_cores

# maximum workers per core; a worker computes on one thread, so more are not faster and need more memory
MOST_PER_CORE = 4
# default workers per GPU for images up to `SMALL` pixels per side: 8 trained 7 to 8 times as fast as one (docs/gpu.md);
# each worker is assumed to need about 0.5 GB of the GPU
_PER_GPU = 8


def choose_default_worker_count(image_side: int | None = None) -> int:
    """Return the default number of workers: one per core, or with GPUs one per GPU and several for small images."""
    gpus = len(list_gpu_ids())
    if not gpus:
        return count_cores()
    per_gpu = _PER_GPU if image_side and image_side <= SMALL else 1
    return gpus * max(1, min(per_gpu, count_cores() // gpus))


def choose_worker_count(requested: int | None, image_side: int | None = None) -> int:
    """Return the requested or default number of workers; raise CallerError if a request is below 1 or too large."""
    if requested is None:
        return choose_default_worker_count(image_side)
    most = MOST_PER_CORE * count_cores()
    if not 1 <= requested <= most:
        raise CallerError(f"--workers is {requested}, expected 1 to {most}, at most {MOST_PER_CORE} per core")
    return requested
