"""Probabilities of the target while features go, most important first, by Quantus' PixelFlipping."""

import importlib
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers.beside import Beside, Figure, core_seconds
from torch import Tensor, nn

from roarbench.kernels.bit_planes import Layout, encode, removed_bits
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.kernels.ranking import sort_keys, tie_order
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.models.build import build
from roarbench.terms import Order, Unit

IMAGES, SHAPE = 256, (3, 64, 64)
STEPS = 12  # Quantus' steps must divide the pixels of a channel: 1,024 of 12,288 features
LEVELS = tuple(round(step / STEPS, 4) for step in range(1, STEPS))  # t = 1, which Quantus has as well, tells nothing
NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))


def test_no_retrain_curves(beside: Beside) -> None:
    rng, layout = np.random.default_rng(0), Layout(SHAPE, Unit.SCALAR, LEVELS)
    pixels = torch.from_numpy(rng.integers(256, size=(IMAGES, *SHAPE), dtype=np.uint8))
    maps = rng.standard_normal((IMAGES, *SHAPE), np.float32)
    model = build("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(0)).eval()
    targets, fill = torch.arange(IMAGES) % 10, torch.tensor(NORM.mean)
    images = normalise(pixels, NORM).contiguous().numpy()
    quantus: Any = importlib.import_module("quantus")
    options = {"abs": False, "normalise": False, "perturb_baseline": 0.0, "disable_warnings": True}
    flipping = quantus.PixelFlipping(features_in_step=layout.features // STEPS, **options)

    def ours() -> NDArray[np.float32]:
        planes = encode(sort_keys(maps.reshape(IMAGES, -1), tie_order(np.arange(IMAGES), layout.features)), layout)
        curves = []
        for t in LEVELS:
            removed = torch.from_numpy(removed_bits(planes, t, Order.MORF, layout))
            inputs = DegradedImages(pixels, removed, fill, Unit.SCALAR)
            said = predict(model, inputs, NORM, scored_at_once(SHAPE[1])).softmax(1)
            curves.append(said.gather(1, targets[:, None])[:, 0].numpy())
        return np.stack(curves, 1)

    def theirs() -> NDArray[np.float32]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = flipping(
                model, images, targets.numpy(), maps, channel_first=True, softmax=True, batch_size=scored_at_once(64)
            )
        return np.array(found)[:, : len(LEVELS)]

    np.testing.assert_allclose(ours(), theirs(), rtol=1e-4, atol=1e-5)  # the same curves, rounded differently
    mine, other = beside.seconds(ours, theirs, rounds=3)
    detail = f"{mine:.2f} against {other:.2f} core-s, {IMAGES} images, {len(LEVELS)} levels"
    beside.keep(Figure("no-retrain curves", "Quantus' PixelFlipping", other / mine, 20, detail))
    passes = bare(model, torch.from_numpy(images))
    detail = f"{mine:.2f} against {passes:.2f} core-s, so that {other / passes:.1f} times Quantus is the most"
    beside.keep(Figure("the same", "the forward passes alone", passes / mine, 1 / 1.15, detail))


def bare(model: nn.Module, images: Tensor) -> float:
    """Return core-seconds of a float32 forward pass for each image and level, and nothing else."""
    images = images.contiguous(memory_format=torch.channels_last)
    start = core_seconds()
    with torch.inference_mode():
        for _ in LEVELS:
            for first in range(0, IMAGES, scored_at_once(SHAPE[1])):
                model(images[first : first + scored_at_once(SHAPE[1])])
    return core_seconds() - start
