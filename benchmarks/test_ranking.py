"""What a ranking costs, its keys by a sort and by a partition. Run: pytest benchmarks --benchmark-only."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.kernels.bit_planes import Layout, encode
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.ranking import rank, sort_keys, tie_order
from roarbench.terms import PAPER_LEVELS, Unit

SIZES = {"64x64": (32, (3, 64, 64)), "224x224": (4, (3, 224, 224))}


def drawn(size: str) -> tuple[Layout, NDArray[np.float32], NDArray[np.int32]]:
    n, shape = SIZES[size]
    layout = Layout(shape, Unit.SCALAR, PAPER_LEVELS)
    importance = np.random.default_rng(0).standard_normal((n, layout.features), np.float32)
    return layout, importance, tie_order(np.arange(n), layout.features)


def assert_permutations(found: NDArray[np.integer], shape: tuple[int, ...]) -> None:
    assert found.shape == shape
    assert (np.sort(found, axis=1) == np.arange(shape[1])).all()


@pytest.mark.parametrize("size", SIZES)
def test_bit_planes(benchmark: Any, size: str) -> None:
    layout, importance, ties = drawn(size)
    benchmark._timer = time.process_time
    planes = benchmark(lambda: encode(sort_keys(importance, ties), layout))
    assert (planes.shape, planes.dtype) == ((len(importance), layout.planes, layout.width), np.uint8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ("sort", "partition"))
def test_keys_at_the_boundaries(benchmark: Any, size: str, way: str) -> None:
    layout, importance, ties = drawn(size)
    keys, places = sort_keys(importance, ties), list(layout.boundaries)
    benchmark.group = f"keys at {len(places)} boundaries, {size}, CPU seconds"
    benchmark._timer = time.process_time
    ways = {"sort": lambda: np.sort(keys, axis=1), "partition": lambda: np.partition(keys, places, axis=1)}
    assert (benchmark(ways[way])[:, places] == np.sort(keys, axis=1)[:, places]).all()


@pytest.mark.parametrize("size", SIZES)
def test_full_ranking(benchmark: Any, size: str) -> None:
    _, importance, ties = drawn(size)
    benchmark._timer = time.process_time
    assert_permutations(benchmark(lambda: rank(importance, ties)), importance.shape)


@pytest.mark.parametrize("size", SIZES)
def test_tie_order(benchmark: Any, size: str) -> None:
    n, shape = SIZES[size]
    d = int(np.prod(shape))
    benchmark._timer = time.process_time
    assert_permutations(benchmark(lambda: tie_order(np.arange(n), d)), (n, d))


def images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (4096, 3, 64, 64), dtype=torch.uint8, generator=generator)
    removed = torch.randint(0, 256, (4096, 1536), dtype=torch.uint8, generator=generator)
    return pixels, removed, torch.rand(3) * 255, torch.randperm(4096, generator=generator)[:128]


def kernel(pixels: Tensor, removed: Tensor, fill: Tensor, index: Tensor) -> Tensor:
    return DegradedImages(pixels, removed, fill, Unit.SCALAR).batch(index)


def with_where(pixels: Tensor, removed: Tensor, fill: Tensor, index: Tensor) -> Tensor:
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8)
    gone = ((removed[index][:, :, None] >> shifts) & 1).bool().view(128, 3, 64, 64)
    return torch.where(gone, fill[:, None, None], pixels[index].float())


@pytest.mark.parametrize(("way", "other"), [(kernel, with_where), (with_where, kernel)])
def test_degraded_batch(benchmark: Any, way: Callable[..., Tensor], other: Callable[..., Tensor]) -> None:
    drawn = images()
    benchmark._timer = time.process_time
    torch.testing.assert_close(benchmark(lambda: way(*drawn)), other(*drawn), rtol=0, atol=0)
