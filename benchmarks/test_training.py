"""What a training costs whose inputs are made once for all epochs, against those made in every step; and shrinking.

Run: OMP_NUM_THREADS=1 pytest benchmarks/test_training.py --benchmark-only
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from roarbench.kernels import held, train
from roarbench.kernels.augment import shrink
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.scoring import predict
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.recipes import find_recipe
from roarbench.store.references import checksum
from roarbench.terms import Unit

IMAGES, SIDE, CLASSES = 1024, 64, 10
NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))
RECIPE = replace(find_recipe("quick@2"), epochs=10.0)


def inputs() -> tuple[DegradedImages, Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)
    removed = torch.randint(0, 256, (IMAGES, 3 * SIDE * SIDE // 8), dtype=torch.uint8, generator=generator)
    images = DegradedImages(pixels, removed, torch.tensor(NORM.mean), Unit.SCALAR)
    return images, torch.randint(0, CLASSES, (IMAGES,), generator=generator)


def trained() -> str:
    model = build("resnet-quick", CLASSES, 3, SIDE, torch.Generator().manual_seed(0))
    fit(model, *inputs(), NORM, RECIPE, seed=0)
    return checksum(model.state_dict())


@pytest.mark.parametrize("most", (held.MOST, 0.0), ids=("once", "every step"))
def test_a_training(benchmark: Any, monkeypatch: pytest.MonkeyPatch, most: float) -> None:
    monkeypatch.setattr(held, "MOST", most)
    benchmark.group = "a training by quick@2 on 1,024 images, CPU seconds"
    benchmark._timer = time.process_time
    found = benchmark.pedantic(trained, rounds=3, warmup_rounds=1)
    monkeypatch.setattr(held, "MOST", 2e9 - most)
    assert found == trained()  # the other way: the same weights, bit for bit


def pooled(images: Tensor, side: int) -> Tensor:
    return interpolate(images, (side, side), mode="area")


@pytest.mark.parametrize("side", (32, 48))
@pytest.mark.parametrize("way", ("shrink", "interpolate"))
def test_shrinking(benchmark: Any, way: str, side: int) -> None:
    images = torch.rand(64, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    benchmark.group = f"64 images from {SIDE} to {side} pixels, CPU seconds"
    benchmark._timer = time.process_time
    ways: dict[str, Callable[[Tensor, int], Tensor]] = {"shrink": shrink, "interpolate": pooled}
    found = benchmark.pedantic(ways[way], (images, side), rounds=20, iterations=10, warmup_rounds=2)
    assert torch.equal(found, pooled(images, side))


@pytest.mark.parametrize("read", (32, 128))
def test_a_test(benchmark: Any, monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    images, _ = inputs()
    model = build("resnet-quick", CLASSES, 3, SIDE, torch.Generator().manual_seed(0))
    monkeypatch.setattr(train, "_READ", read)
    benchmark.group = f"the network of quick tested on {IMAGES} images, in batches of 128, CPU seconds"
    benchmark._timer = time.process_time
    found = benchmark.pedantic(predict, (model, images, NORM, 128), rounds=5, iterations=2, warmup_rounds=1)
    monkeypatch.setattr(train, "_READ", 160 - read)
    assert torch.equal(found, predict(model, images, NORM, 128))
