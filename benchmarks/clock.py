"""Time as benchmarks of one device take it: by the wall on a GPU, by the processor on a processor."""

import time
from collections.abc import Callable

import torch

from roarbench.devices import choose_device

DEVICE = choose_device()
GPU = DEVICE.type == "cuda"


def seconds(work: Callable[[], object], rounds: int = 1) -> float:
    """Measure the seconds of one round, after one that warms up."""
    work()
    clock = time.perf_counter if GPU else time.process_time
    wait()
    start = clock()
    for _ in range(rounds):
        work()
    wait()
    return (clock() - start) / rounds


def wait() -> None:
    if GPU:
        torch.cuda.synchronize()


def device_name() -> str:
    return torch.cuda.get_device_name() if GPU else "one core"
