"""What a training that begins with small images costs: these made once against made in every step.

Run: OMP_NUM_THREADS=1 pytest benchmarks/test_training.py --benchmark-only
"""

import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from roarbench.kernels import train
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.train import Normalisation, fit
from roarbench.models import build
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


@pytest.mark.parametrize("held", (2e9, 0.0), ids=("once", "every step"))
def test_a_training(benchmark: Any, monkeypatch: pytest.MonkeyPatch, held: float) -> None:
    monkeypatch.setattr(train, "_HELD", held)
    benchmark._timer = time.process_time
    found = benchmark.pedantic(trained, rounds=3, warmup_rounds=1)
    monkeypatch.setattr(train, "_HELD", 2e9 - held)
    assert found == trained()  # the other way: the same weights, bit for bit
