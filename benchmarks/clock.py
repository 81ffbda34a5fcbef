"""Measure seconds on the benchmarks' device: wall time on a GPU, processor time on a CPU."""

from collections.abc import Callable

import torch

from roarbench.common.device_settings import choose_device, choose_processor_or_gpu_clock

DEVICE = choose_device()
GPU = DEVICE.type == "cuda"


def time_seconds(work: Callable[[], object], rounds: int = 1) -> float:
    """Measure the mean seconds of a call, after a call that warms up."""
    work()
    clock = choose_processor_or_gpu_clock(DEVICE)
    start = clock()
    for _ in range(rounds):
        work()
    return (clock() - start) / rounds


def describe_device() -> str:
    return torch.cuda.get_device_name() if GPU else "one core"
