"""Where tensors are computed."""

import os

import torch


def device() -> torch.device:
    """The GPU that this process sees first, else the processor; each worker is shown one GPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def gpus() -> tuple[str, ...]:
    """The GPUs of this machine that may be used, as CUDA_VISIBLE_DEVICES names them."""
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(named.split(",")[:count]) if named else tuple(map(str, range(count)))
