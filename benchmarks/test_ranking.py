"""What a ranking costs: bit-planes by a partition against a full sort. Run: pytest benchmarks --benchmark-only."""

import time
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.ranking import Layout, encode, rank, sort_keys, tie_order
from roarbench.terms import PAPER_LEVELS, Unit

SIZES = {"64x64": (32, (3, 64, 64)), "224x224": (4, (3, 224, 224))}


def drawn(size: str) -> tuple[Layout, NDArray[np.float32], NDArray[np.int32]]:
    n, shape = SIZES[size]
    layout = Layout(shape, Unit.SCALAR, PAPER_LEVELS)
    importance = np.random.default_rng(0).standard_normal((n, layout.features), np.float32)
    return layout, importance, tie_order(np.arange(n), layout.features)


@pytest.mark.parametrize("size", SIZES)
def test_bit_planes(benchmark: Any, size: str) -> None:
    layout, importance, ties = drawn(size)
    benchmark._timer = time.process_time
    benchmark(lambda: encode(sort_keys(importance, ties), layout))


@pytest.mark.parametrize("size", SIZES)
def test_full_ranking(benchmark: Any, size: str) -> None:
    _, importance, ties = drawn(size)
    benchmark._timer = time.process_time
    benchmark(lambda: rank(importance, ties))


@pytest.mark.parametrize("size", SIZES)
def test_tie_order(benchmark: Any, size: str) -> None:
    n, shape = SIZES[size]
    benchmark._timer = time.process_time
    benchmark(lambda: tie_order(np.arange(n), int(np.prod(shape))))


def images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (4096, 3, 64, 64), dtype=torch.uint8, generator=generator)
    removed = torch.randint(0, 256, (4096, 1536), dtype=torch.uint8, generator=generator)
    return pixels, removed, torch.rand(3) * 255, torch.randperm(4096, generator=generator)[:128]


def test_degraded_batch(benchmark: Any) -> None:
    pixels, removed, fill, index = images()
    inputs = DegradedImages(pixels, removed, fill, Unit.SCALAR)
    benchmark._timer = time.process_time
    benchmark(lambda: inputs.batch(index))


def test_degraded_batch_with_where(benchmark: Any) -> None:
    pixels, removed, fill, index = images()
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8)

    def batch() -> Tensor:
        gone = ((removed[index][:, :, None] >> shifts) & 1).bool().view(128, 3, 64, 64)
        return torch.where(gone, fill[:, None, None], pixels[index].float())

    benchmark._timer = time.process_time
    benchmark(batch)
