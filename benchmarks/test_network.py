"""What the memory layout of one gradient costs: the mean over positions, taken channels last and as it comes.

Run: OMP_NUM_THREADS=1 pytest benchmarks/test_network.py --benchmark-only
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


def as_it_comes(x: Tensor) -> Tensor:
    return x.mean(dim=(2, 3))


def channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).mean(dim=(1, 2))


def gradient(x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient of all means before a ReLU: float (n, c, h, w)."""
    (found,) = torch.autograd.grad(mean(x.relu()).sum(), x)
    return found


@pytest.mark.parametrize("mean", (as_it_comes, channels_last))
def test_the_mean_and_its_gradient(benchmark: Any, mean: Callable[[Tensor], Tensor]) -> None:
    drawn = torch.randn(64, 32, 8, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    x = drawn.contiguous(memory_format=torch.channels_last).requires_grad_()
    benchmark.group = "mean over 8 x 8 positions of 64 images, forward and backward, CPU seconds"
    benchmark._timer = time.process_time
    found = benchmark.pedantic(gradient, (x, mean), rounds=20, iterations=20, warmup_rounds=2)
    assert torch.equal(found, gradient(x, as_it_comes))
